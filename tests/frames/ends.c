/* Threads at places where their stacks show less than a person knows: behind a jump, in a library without debug
 * information, in a routine of OpenMP's, in a child of fork(). The first word says where, of which the others come. */
#define _GNU_SOURCE
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void library_wait(void);
volatile int sink;
volatile double now;

static void tell(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(71);
}

static void stay(void)
{
    for (;;)
        pause();
}

__attribute__((noinline)) static void at_barrier(void)
{
    #pragma omp parallel num_threads(4) /* region of the barrier */
    {
        if (omp_get_thread_num() == 3)
            stay(); /* the late one */
        #pragma omp barrier /* the barrier */
    }
    sink = 1;
}

__attribute__((noinline)) static void meet(void)
{
    sink = 2;
    #pragma omp barrier /* the orphaned barrier */
}

__attribute__((noinline)) static void at_orphan(void)
{
    #pragma omp parallel num_threads(4) /* region of the orphan */
    {
        if (omp_get_thread_num() == 3)
            stay();
        else
            meet(); /* calls the orphan */
    }
    sink = 1;
}

__attribute__((noinline)) static void in_library(void)
{
    #pragma omp parallel num_threads(4)
    library_wait(); /* calls the library */
    sink = 1;
}

__attribute__((noinline)) static void asking(void)
{
    #pragma omp parallel num_threads(4)
    if (omp_get_thread_num() < 3)
        for (;;)
            sink = omp_get_thread_num(); /* asks */
    else
        for (;;)
            now = omp_get_wtime(); /* asks */
}

__attribute__((noinline)) static void making(void)
{
    #pragma omp parallel num_threads(4)
    for (;;) {
        #pragma omp task
        sink = 1;
        #pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < 8; i++)
            sink = i;
    }
}

__attribute__((noinline)) static void forked(void)
{
    #pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0 && fork() == 0) {
            char text[32];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            snprintf(text, sizeof text, "%d\n", getpid());
            tell(text);
            stay();
        }
        stay();
    }
}

__attribute__((noinline)) static void nested(void)
{
    omp_set_max_active_levels(2);
    #pragma omp parallel num_threads(2) /* outer region */
    {
        sink = 1;
        #pragma omp parallel num_threads(2) /* inner region */
        stay(); /* in the inner region */
    }
    sink = 1;
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*go)(void); } places[] = {
        {"barrier", at_barrier}, {"orphan", at_orphan}, {"library", in_library},
        {"asking", asking}, {"making", making}, {"forked", forked},
        {"nested", nested}};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (strcmp(words[count - 1], "forked"))
        tell("ready\n");
    if (!strcmp(words[count - 1], "serial"))
        library_wait(); /* calls the library outside */
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        if (!strcmp(words[count - 1], places[i].name))
            places[i].go();
    return 0;
}
