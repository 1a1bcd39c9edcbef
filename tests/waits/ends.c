/* One thread of a team never reaches the end of a construct, the others wait there. The word names the construct. */
#include <pthread.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
int omp_get_thread_num(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sum;

static void stay(int never_returns)
{
    if (never_returns) {
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&lock);
    }
    sum++;
}

int main(int count, char **words)
{
    const char *which = count > 1 ? words[1] : "";
    #pragma omp parallel num_threads(4)
    {
        if (strcmp(which, "loop") == 0) {
            #pragma omp for schedule(dynamic) // the end of loop
            for (int i = 0; i < 8; i++)
                stay(i == 7);
            stay(0);
        } else if (strcmp(which, "sections") == 0) {
            #pragma omp sections // the end of sections
            {
                #pragma omp section
                stay(1);
                #pragma omp section
                stay(0);
            }
            stay(0);
        } else if (strcmp(which, "single") == 0) {
            #pragma omp single // the end of single
            stay(1);
            stay(0);
        } else if (strcmp(which, "barrier") == 0) {
            stay(omp_get_thread_num() == 2);
            #pragma omp barrier
            stay(0);
        } else {
            stay(omp_get_thread_num() == 2);
        }
    }
    return 0;
}
