/* Three teams that wait for thread 1: while the tool pauses, while it does not, and after its end. */
#include <omp.h>
#include <time.h>
#include <unistd.h>

#define WORK 0.1 /* seconds of processor time */
enum { START = 1, PAUSE = 2, FLUSH = 3, END = 4 };

int omp_control_tool(int command, int modifier, void *argument);
volatile double total;

static double processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void wait_for_one(void)
{
    int arrived = 0;
    #pragma omp parallel num_threads(2) shared(arrived)
    {
        if (omp_get_thread_num() == 1) {
            while (!__atomic_load_n(&arrived, __ATOMIC_ACQUIRE))
                usleep(100);
            double begin = processor_time();
            while (processor_time() - begin < WORK)
                total += 0.5;
        } else
            __atomic_store_n(&arrived, 1, __ATOMIC_RELEASE);
    }
}

int main(void)
{
    omp_get_max_threads();
    omp_control_tool(PAUSE, 0, NULL);
    wait_for_one();
    omp_control_tool(FLUSH, 0, NULL);
    omp_control_tool(START, 0, NULL);
    wait_for_one();
    omp_control_tool(END, 0, NULL);
    wait_for_one();
    return 0;
}
