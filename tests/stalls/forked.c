#include "odd.h"
#include <sys/wait.h>
/* A child of a process that has used OpenMP: fork() gives it the one thread that called it, and what the runtime knows
   of the others. WHERE it was called is outside of all regions, or in one by its primary thread or by a worker. The
   child begins a region if NEXT is set; its parent ends it when it waits. */
static void child(void) {
    odd_words("{\"child\": %d}\n", odd_gettid());
    if (getenv("NEXT")) {
#pragma omp parallel num_threads(3)
        for (;;) pause();
    }
    for (;;) pause();
}

static int is_waiting(pid_t id) {
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)id);
    int file = open(path, O_RDONLY);
    long number = read(file, text, sizeof text - 1) > 0 && text[0] >= '0' && text[0] <= '9' ? atol(text) : -1;
    close(file);
    return number == SYS_futex || number == SYS_pause;
}

static void parent(pid_t id) {
    int status;
    while (!is_waiting(id)) usleep(1000);
    kill(id, SIGABRT);
    waitpid(id, &status, 0);
    _exit(0);
}

int main(void) {
    const char *where = getenv("WHERE");
    int is_outside = !strcmp(where, "outside"), who = !strcmp(where, "worker");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#pragma omp parallel num_threads(3)
    {
        odd_words("{\"thread\": %d}\n", odd_gettid());
#pragma omp barrier
        if (!is_outside && omp_get_thread_num() == who) {
            pid_t id = fork();
            if (!id) child();
            parent(id);
        }
        if (!is_outside)
            for (;;) pause();
    }
    pid_t id = fork();
    if (!id) child();
    parent(id);
}
