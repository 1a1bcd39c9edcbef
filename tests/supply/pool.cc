// A region, then a pool of two C++ threads that compute: they inherit the processors of the initial thread.
#include <csignal>
#include <cstdio>
#include <sys/prctl.h>
#include <thread>

static void compute(volatile double *sum)
{
    for (;;)
        *sum = *sum + 0.5;
}

int main()
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int members = 0;
    #pragma omp parallel num_threads(2) reduction(+:members)
    members += 1;
    static volatile double sums[16];
    std::thread one(compute, &sums[0]), other(compute, &sums[8]);
    std::puts("ready");
    std::fflush(stdout);
    one.join();
    other.join();
    return members;
}
