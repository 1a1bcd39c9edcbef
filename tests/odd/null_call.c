#include "odd.h"
/* A handler of the signal that a call of a null pointer raises. */
static void (*volatile nothing)(void);
static const struct at *here;
static void handler(int signal) { STAY(here); }
int main(void) {
    odd_start(2);
    struct at region = AT(NULL);
#pragma omp parallel num_threads(2)
    {
        here = &region;
        signal(SIGSEGV, handler);
        nothing();
    }
    return 0;
}
