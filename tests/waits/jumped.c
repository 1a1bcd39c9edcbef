/* Threads of a team wait for ever, and optimised code has left the stack by jumps to the routines in which they do:
 *     barrier   thread 2 of 4 does not come to the barrier       primary   so does thread 0
 *     locks     threads 0 and 1 wait for each other's locks      section   thread 1 waits to enter a critical section
 *     taskwait  thread 0 waits for a task that it executes; the others are at the barrier
 *     tasks     all are at the barrier, where one of them executes a task
 *     ending    all are at the region's end, where one executes a task that waits for another, and that for a lock
 *     outer     thread 0 of 3 waits at the end of an inner region, thread 1 at the barrier of the outer one
 * or, with "passing", they do not wait for ever: regions and barriers follow each other as fast as they can. */
#include <omp.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

static omp_lock_t first, second;
static volatile int has_first, has_second, held = 1, created;

static KEPT void want_first(void) { omp_set_lock(&first); }
static KEPT void want_second(void) { omp_set_lock(&second); }
static KEPT void hold(void) { while (held) pause(); }
static KEPT void begin_and_hold(void) { created = 1; hold(); }

static KEPT void meet(void)
{
    #pragma omp barrier
}

static KEPT void enter(void)
{
    #pragma omp critical(one)
    {
        has_first = 1;
        hold();
    }
}

static KEPT void wait_for_task(void)
{
    #pragma omp task
    begin_and_hold();
    #pragma omp taskwait
}

static KEPT void create(void)
{
    #pragma omp task
    hold();
    created = 1;
}

static KEPT void pass(int times)
{
    static volatile double sum;
    double part = 0;
    #pragma omp parallel num_threads(4)
    {
        for (int time = 0; time < times; time++)
            meet();
        #pragma omp for schedule(static, 1) reduction(+: part)
        for (int i = 0; i < 4; i++)
            part += i;
        #pragma omp single
        sum = part;
        #pragma omp sections nowait
        {
            sum += 1;
        }
    }
}

static KEPT void inner(void)
{
    #pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1)
        hold();
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    omp_init_lock(&first);
    omp_init_lock(&second);
    if (!strcmp(how, "barrier") || !strcmp(how, "primary")) {
        int late = !strcmp(how, "barrier") ? 2 : 0;
        #pragma omp parallel num_threads(4)
        if (omp_get_thread_num() != late)
            meet();
    } else if (!strcmp(how, "locks")) {
        #pragma omp parallel num_threads(4)
        {
            if (omp_get_thread_num() == 0) {
                omp_set_lock(&first);
                for (has_first = 1; !has_second;)
                    usleep(1000);
                want_second();
            } else if (omp_get_thread_num() == 1) {
                omp_set_lock(&second);
                for (has_second = 1; !has_first;)
                    usleep(1000);
                want_first();
            } else
                meet();
        }
    } else if (!strcmp(how, "section")) {
        #pragma omp parallel num_threads(4)
        if (omp_get_thread_num() < 2)
            enter();
        else
            meet();
    } else if (!strcmp(how, "taskwait")) {
        #pragma omp parallel num_threads(4)
        if (omp_get_thread_num() == 0)
            wait_for_task();
        else {
            while (!created) /* at the barrier they would execute the task */
                usleep(1000);
            meet();
        }
    } else if (!strcmp(how, "tasks")) {
        #pragma omp parallel num_threads(4)
        {
            if (omp_get_thread_num() == 1)
                create();
            while (!created)
                usleep(1000);
            meet();
        }
    } else if (!strcmp(how, "ending")) {
        omp_set_lock(&first);
        #pragma omp parallel num_threads(4)
        if (omp_get_thread_num() == 1) {
            #pragma omp task
            {
                #pragma omp task
                {
                    want_first();
                    created = 1;
                }
                #pragma omp taskwait
                has_first = 1;
            }
        }
    } else if (!strcmp(how, "outer")) {
        #pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num() == 0)
                inner();
            else if (omp_get_thread_num() == 2)
                hold();
            meet();
        }
    }
    for (int round = 0; !strcmp(how, "passing"); round++)
        pass(round % 5);
    return 0;
}
