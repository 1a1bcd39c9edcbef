/* Three target regions and an update; with STOP it ends within another one, by an abort. */
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
        #pragma omp single
        abort();
    }
#endif
    return sum != 3;
}
