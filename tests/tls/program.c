/* Threads with thread-local variables of every kind, and POSIX thread keys, which write down where they are.

   Usage: program TRUTH_FILE READY_FD [FIRST SECOND STATIC OTHER], the libraries that it opens when it runs. It does not end by
   itself. STAND_ALONE leaves out the libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 6, KEYS = 40, NAMES = 10 };

__thread int exe_initialised = 41;
__thread char exe_aligned[100] __attribute__((aligned(64)));
static __thread long exe_static;

static int *static_local(void)
{
    static __thread int counted = 7;
    return &counted;
}

#ifndef STAND_ALONE
extern __thread int linked_variable;
int *linked_hidden(void);
#endif

struct truth {
    long id;
    pthread_t pthread;
    const char *names[NAMES];
    void *addresses[NAMES];
    void *keys[KEYS];
} truths[THREADS];

pthread_barrier_t barrier;
pthread_key_t keys[KEYS];
int deleted;
void *(*first_address)(void), *(*second_address)(void), *(*static_address)(void), *(*own_address)(void), *(*other_address)(void);

static void note(struct truth *truth, const char *name, void *address)
{
    int at = 0;
    while (truth->names[at])
        at++;
    truth->names[at] = name;
    truth->addresses[at] = address;
}

static void *run(void *argument)
{
    long number = (long)argument;
    struct truth *truth = &truths[number];
    truth->id = syscall(SYS_gettid);
    truth->pthread = pthread_self();
    exe_initialised = (int)number;
    note(truth, "exe_initialised", &exe_initialised);
    note(truth, "exe_aligned", exe_aligned);
    note(truth, "exe_static", &exe_static);
    note(truth, "counted", static_local());
    pthread_barrier_wait(&barrier); /* the first library is there */
    if (first_address && number != 5)
        first_address();
    if (number != 3)
        for (int i = 0; i < KEYS; i++)
            if (i % 2 == number % 2 || i == 8)
                pthread_setspecific(keys[i], (void *)(0x1000 * (number + 1) + i));
    pthread_barrier_wait(&barrier); /* all have used it */
    pthread_barrier_wait(&barrier); /* it is gone, and others are there */
#ifndef STAND_ALONE
    note(truth, "linked_variable", &linked_variable);
    note(truth, "linked_hidden", linked_hidden());
    note(truth, "second_variable", number % 2 == 0 ? second_address() : NULL);
    note(truth, "static_variable", static_address());
    note(truth, "static_own", own_address());
    note(truth, "other_variable", number == 2 ? other_address() : NULL);
#endif
    pthread_barrier_wait(&barrier); /* one key was deleted, and another made anew */
    for (int i = 0; i < KEYS; i++)
        truth->keys[i] = i == deleted ? NULL : pthread_getspecific(keys[i]);
    pthread_barrier_wait(&barrier);
    if (number)
        pthread_barrier_wait(&barrier); /* for ever */
    return NULL;
}

#ifndef STAND_ALONE
static void *open_library(char *path, void **library, int elsewhere)
{
    /* Elsewhere, with a libc of its own, as tools are that the loader loads by LD_AUDIT. */
    *library = elsewhere ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *function = *library ? dlsym(*library, "address") : NULL;
    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return function;
}
#endif

static void *conduct(void *argument)
{
    char **arguments = argument;
#ifndef STAND_ALONE
    void *library, *other;
    *(void **)&first_address = open_library(arguments[3], &library, 0);
#endif
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
#ifndef STAND_ALONE
    dlclose(library);
    *(void **)&second_address = open_library(arguments[4], &other, 0);
    *(void **)&static_address = open_library(arguments[5], &other, 0);
    *(void **)&own_address = dlsym(other, "own_address");
    *(void **)&other_address = open_library(arguments[6], &other, 1);
#endif
    pthread_barrier_wait(&barrier);
    deleted = 6;
    pthread_key_delete(keys[6]);
    pthread_key_delete(keys[8]);
    pthread_key_delete(keys[39]);
    /* The lowest free numbers are given: the three are made anew, and what was stored under them is gone. */
    for (int i = 0; i < 3; i++) {
        pthread_key_t made;
        pthread_key_create(&made, NULL);
    }
    pthread_key_delete(keys[6]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);

    FILE *file = fopen(arguments[1], "w");
    fprintf(file, "{\"deleted\": %d, \"threads\": [", (int)keys[deleted]);
    for (int number = 0; number < THREADS; number++) {
        struct truth *truth = &truths[number];
        fprintf(file, "%s{\"id\": %ld, \"pthread\": %lu, \"number\": %d, \"variables\": {", number ? ", " : "",
                truth->id, (unsigned long)truth->pthread, number);
        for (int i = 0; i < NAMES && truth->names[i]; i++) {
            fprintf(file, "%s\"%s\": ", i ? ", " : "", truth->names[i]);
            fprintf(file, truth->addresses[i] ? "%lu" : "null", (unsigned long)truth->addresses[i]);
        }
        fprintf(file, "}, \"keys\": {");
        for (int i = 0, some = 0; i < KEYS; i++)
            if (i != deleted) {
                fprintf(file, "%s\"%u\": ", some++ ? ", " : "", keys[i]);
                fprintf(file, truth->keys[i] ? "%lu" : "null", (unsigned long)truth->keys[i]);
            }
        fprintf(file, "}}");
    }
    fprintf(file, "]}\n");
    fclose(file);
    if (write(atoi(arguments[2]), "r", 1) != 1)
        exit(1);
    for (;;)
        pause();
}

int main(int count, char **arguments)
{
    (void)count;
    /* The block that the program was started with is not the one that it has now. */
    setenv("GIVEN", "changed by the program, to something longer", 1);
    setenv("ADDED", "by the program", 1);
    unsetenv("REMOVED");
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < KEYS; i++)
        pthread_key_create(&keys[i], NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, conduct, arguments);
    for (long number = 1; number < THREADS; number++)
        pthread_create(&thread, NULL, run, (void *)number);
    run(NULL);
    for (;;)
        pause();
}
