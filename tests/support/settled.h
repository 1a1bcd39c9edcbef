/* For programs of tests that end in a state: waits until other threads have come to where they stay, however long a busy
   machine takes for it. */
#ifndef SETTLED_H
#define SETTLED_H
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETTLED_MOST 256
#ifndef SETTLED_SPIN_NS
#define SETTLED_SPIN_NS 20000000ULL
#endif

struct settled_look {
    int id;
    unsigned call;                 /* of the text of its system call: number, arguments, stack pointer, place */
    unsigned long long ran, first; /* nanoseconds on a processor: so far, and when it was first seen */
};

static int settled_read(int id, const char *name, char *text, int size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", id, name);
    int file = open(path, O_RDONLY);
    int length = file < 0 ? -1 : (int)read(file, text, size - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* Returns 0 for a thread that runs, or sleeps for some time, which is how it waits for a flag. */
static unsigned settled_call(int id)
{
    char text[256];
    unsigned hash = 5381;
    if (!settled_read(id, "syscall", text, sizeof text)) { /* not there, or not for us: then any sleep counts */
        if (!settled_read(id, "stat", text, sizeof text) || !strrchr(text, ')'))
            return 0;
        return strncmp(strrchr(text, ')'), ") S", 3) == 0;
    }
    if (text[0] < '0' || text[0] > '9')
        return 0;
    long number = atol(text);
    if (number == SYS_nanosleep || number == SYS_clock_nanosleep)
        return 0;
#ifdef SYS_clock_nanosleep_time64
    if (number == SYS_clock_nanosleep_time64)
        return 0;
#endif
    for (const char *at = text; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    return hash | 1;
}

/* How long a thread has run, in nanoseconds: in steps of a clock tick where the kernel does not count more exactly. */
static int settled_ran(int id, unsigned long long *ran)
{
    char text[512];
    unsigned long user, kernel;
    if (settled_read(id, "schedstat", text, sizeof text)) {
        *ran = strtoull(text, NULL, 10);
        return 1;
    }
    if (!settled_read(id, "stat", text, sizeof text) || !strrchr(text, ')')
        || sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        return 0;
    *ran = (user + kernel) * (1000000000ULL / (unsigned long)sysconf(_SC_CLK_TCK));
    return 1;
}

/* Returns once *count* other threads (0: all of them) stay where they are: each is blocked in a system call in which it was in the look
   before, too, without having run since, or has run for SETTLED_SPIN_NS since the first look, as a thread does that spins. */
static void until_settled(int count)
{
    struct settled_look seen[SETTLED_MOST];
    int known = 0, self = (int)syscall(SYS_gettid);
    for (;;) {
        int stay = 0, others = 0;
        DIR *tasks = opendir("/proc/self/task");
        if (!tasks)
            _exit(73);
        for (struct dirent *entry; (entry = readdir(tasks));) {
            unsigned long long ran;
            int id = atoi(entry->d_name), at = 0;
            if (id <= 0 || id == self)
                continue;
            others++;
            while (at < known && seen[at].id != id)
                at++;
            if (at == SETTLED_MOST || !settled_ran(id, &ran))
                continue;
            unsigned call = settled_call(id);
            if (at == known)
                seen[known++] = (struct settled_look){id, 0, 0, ran};
            stay += (call && call == seen[at].call && ran == seen[at].ran) || ran - seen[at].first >= SETTLED_SPIN_NS;
            seen[at].call = call;
            seen[at].ran = ran;
        }
        closedir(tasks);
        if (stay >= (count ? count : others))
            return;
        usleep(2000);
    }
}
#endif
