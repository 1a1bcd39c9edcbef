/* A library with a threadprivate variable, opened by private.c. */
#include <omp_stub.h>

static int late_one = 100;
OMP_STUB_THREADPRIVATE(late_one);

int *late(void)
{
    return &OMP_STUB_PRIVATE(late_one);
}
