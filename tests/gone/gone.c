/* A team that loses threads: `gone HOW NUMBER` has thread NUMBER of three end, or make a copy of the process by fork();
 * the others wait for it at a barrier. HOW is `end` or `fork`; or `first`, where the thread stays, another thread than
 * the process's first one has met the region, and the first one has ended; or `late`, where the thread stays, and the
 * others are at the region's end. Says `ready`, or the copy's number. */
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *how;
static int number;

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        abort();
}

static void stay(void)
{
    for (;;)
        pause();
}

static void leave(void)
{
    if (strcmp(how, "fork") == 0) {
        char text[32];
        if (fork() != 0)
            stay();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        snprintf(text, sizeof text, "%d\n", (int)getpid());
        say(text);
        stay();
    }
    say("ready\n");
    if (strcmp(how, "first") == 0 || strcmp(how, "late") == 0)
        stay();
    pthread_exit(NULL);
}

static void *region(void *unused)
{
    #pragma omp parallel num_threads(3) /* the region */
    {
        if (omp_get_thread_num() == number)
            leave();
        if (strcmp(how, "late") != 0) {
            #pragma omp barrier
        }
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t other;
    how = count > 1 ? words[1] : "";
    number = count > 2 ? atoi(words[2]) : 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (strcmp(how, "first") == 0) {
        if (pthread_create(&other, NULL, region, NULL) != 0)
            abort();
        pthread_exit(NULL);
    }
    region(NULL);
    return 0;
}
