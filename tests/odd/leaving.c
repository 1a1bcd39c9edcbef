#include "odd.h"
/* Stopped by a debugger where thread 3 of level 1 leaves the region that it was the primary thread of. */
int main(void) {
    omp_set_max_active_levels(20);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(4)
    if (omp_get_thread_num() == 3) {
        until_settled(3);
        SAY(&one, "leaving");
#pragma omp parallel num_threads(2)
        getppid();
        odd_words("{\"late\": 1}\n");
    } else {
        STAY(&one);
    }
}
