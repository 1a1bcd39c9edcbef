/* A team of 4, one of which computes fib(5) by two tasks for each call. Each thread stops in a call that makes none. */
#include "truth.h"
#include <omp.h>

static KEPT int fib(int n)
{
    int a, b;
    if (n < 2) {
        TRUTH_HOLD();
        return n;
    }
    TRUTH_TASK(first);
    #pragma omp task shared(a)
    {
        truth_begins(first);
        a = fib(n - 1);
        truth_ends(first);
    }
    TRUTH_TASK(second);
    #pragma omp task shared(b)
    {
        truth_begins(second);
        b = fib(n - 2);
        truth_ends(second);
    }
    TRUTH_BLOCKS(TRUTH_TASKWAIT, 0);
    #pragma omp taskwait
    TRUTH_PASSED();
    return a + b;
}

int main(void)
{
    int result = 0;
    truth_start(4);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(4)
    {
        truth_enter(region);
        #pragma omp single nowait
        result = fib(5);
        truth_finishes();
    }
    truth_leave(region);
    return result;
}
