/* What every odd program shares: threads tell what OpenMP tells them and where they are, then stay there. */
#ifndef ODD_H
#define ODD_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "settled.h"

/* Where a parallel construct is: the region's place in the source, and the one that encloses it. */
struct at {
    const struct at *up;
    const char *function;
    int line;
};

static int odd_gettid(void) { return (int)syscall(SYS_gettid); }

/* Appends one line to the file of words; O_APPEND keeps threads apart. */
__attribute__((format(printf, 1, 2))) static void odd_words(const char *format, ...) {
    static char path[] = "words";
    char text[16384];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (write(fd, text, size) != size) _exit(71);
    close(fd);
}

/* The calling thread's words. *doing* is what it is about to do, NULL to be found nowhere else than here. */
static void odd_say(const struct at *at, const char *function, int line, const char *doing) {
    char regions[12000] = "", levels[3000] = "";
    int n = 0, m = 0;
    for (const struct at *a = at; a; a = a->up)
        n += snprintf(regions + n, sizeof regions - n, "%s[\"%s\", %d]", n ? ", " : "", a->function, a->line);
    for (int i = omp_get_level(); i > 0; i--)
        m += snprintf(levels + m, sizeof levels - m, "%s[%d, %d]", m ? ", " : "", omp_get_ancestor_thread_num(i), omp_get_team_size(i));
    odd_words("{\"tid\": %d, \"thread_num\": %d, \"team_size\": %d, \"level\": %d, \"active_level\": %d, \"levels\": [%s], "
              "\"regions\": [%s], \"function\": \"%s\", \"line\": %d, \"doing\": \"%s\"}\n",
              odd_gettid(), omp_get_thread_num(), omp_get_num_threads(), omp_get_level(), omp_get_active_level(), levels,
              regions, function, line, doing ? doing : "stay");
}
#define SAY(at, doing) odd_say(at, __func__, __LINE__, doing)
#define STAY(at) do { odd_say(at, __func__, __LINE__, NULL); for (;;) pause(); } while (0)
#define AT(up) {up, __func__, __LINE__ + 1}

/* A thread that OpenMP knows nothing of ends the program once so many threads have said their words and rest. */
static int odd_expected;
static void *odd_watch(void *unused) {
    (void)unused;
    odd_words("{\"watch\": %d}\n", odd_gettid());
    for (int round = 0; round < 2000; round++) {
        char text[65536];
        int lines = 0, fd = open("words", O_RDONLY);
        ssize_t size;
        while ((size = read(fd, text, sizeof text)) > 0)
            for (ssize_t i = 0; i < size; i++) lines += text[i] == '\n';
        close(fd);
        if (lines >= odd_expected + 1) {
            until_settled(0);
            int ready = open("ready", O_WRONLY | O_CREAT, 0644);
            close(ready);
            if (getenv("ODD_WAIT")) for (;;) pause();
            abort();
        }
        usleep(5000);
    }
    _exit(70);
}
static void odd_start(int expected) {
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    odd_expected = expected;
    pthread_create(&thread, NULL, odd_watch, NULL);
    pthread_detach(thread);
}
#endif
