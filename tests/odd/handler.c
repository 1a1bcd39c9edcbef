#include "odd.h"
/* Signal handlers inside of a region, one of them on a stack of its own. */
static const struct at *place;
static char alternate[65536];
static void handler(int number) {
   
    STAY(place);
}
int main(void) {
    odd_start(3);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
        place = &one;
        if (omp_get_thread_num() == 1) {
            stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
            sigaltstack(&stack, NULL);
            raise(SIGUSR1);
        } else if (omp_get_thread_num() == 2) {
            raise(SIGUSR1);
        }
        STAY(&one);
    }
}
