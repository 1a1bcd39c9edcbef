/* Regions, one after the other, of a team whose threads do not all begin at once. */
#include <omp.h>

static volatile int total;

int main(void)
{
    for (int round = 0; round < 100; round++) {
        #pragma omp parallel num_threads(4)
        total += omp_get_thread_num(); /* stop here */
    }
    return 0;
}
