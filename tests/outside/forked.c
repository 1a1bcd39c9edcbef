/* A mutex that a thread holds when another one forks: the child has the mutex and not the thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int holder;

static void *holds(void *unused)
{
    pthread_mutex_lock(&mutex);
    holder = (int)syscall(SYS_gettid);
    for (;;)
        pause();
    return unused;
}
static void say(const char *name, int owner)
{
    char text[256];
    int size = snprintf(text, sizeof text, "{\"tid\": %d, \"name\": \"%s\", \"object\": %lu, \"owner\": %d}\n",
                        (int)syscall(SYS_gettid), name, (unsigned long)&mutex, owner);
    if (write(1, text, size) != size)
        _exit(71);
}
static int is_asleep(int process)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY);
    int size = file < 0 ? 0 : (int)read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    return size > 0 && strstr(text, ") S ");
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t thread;
    pthread_create(&thread, NULL, holds, NULL);
    while (!holder)
        sched_yield();
    int child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        say("child", holder);
        pthread_mutex_lock(&mutex);
        _exit(0);
    }
    while (!is_asleep(child))
        sched_yield();
    say("main", 0);
    waitpid(child, NULL, 0);
    return 0;
}
