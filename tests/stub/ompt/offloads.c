/* Three target regions and an update; with STOP thread 1 aborts the program in a further target region. */
#include <omp.h>
#include <stdlib.h>

int main(void)
{
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        #pragma omp target map(tofrom : sum)
        sum++;
    }
    #pragma omp target update to(sum)
#ifdef STOP
    #pragma omp target map(tofrom : sum)
    #pragma omp parallel num_threads(2)
    {
        #pragma omp barrier
        if (omp_get_thread_num() == 1)
            abort();
        #pragma omp barrier
    }
#endif
    return sum != 3;
}
