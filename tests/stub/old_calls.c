/* A parallel construct as compilers before GCC 4.9 translated it: the encountering function calls the region's code
 * itself, between two calls of the runtime. */
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

void GOMP_parallel_start(void (*function)(void *), void *data, unsigned threads);
void GOMP_parallel_end(void);

static volatile int begun;

static void body(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    if (omp_get_thread_num() == 0) {
        while (begun < 2)
            usleep(1000);
        abort();
    }
    #pragma omp barrier
}

int main(void)
{
    GOMP_parallel_start(body, 0, 2);
    body(0);
    GOMP_parallel_end();
    return 0;
}
