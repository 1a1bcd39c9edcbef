#include "odd.h"
/* One thread is in a single construct, the others wait at its end. */
static volatile int inside;
static void work(const struct at *up) {
#pragma omp single
    { inside = 1; STAY(up); }
}
int main(void) {
    odd_start(4);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(4)
    {
        static int n;
        int mine;
#pragma omp atomic capture
        mine = n++;
        if (mine) { SAY(&one, "barrier"); while (!inside) usleep(1000); }
        work(&one);
    }
}
