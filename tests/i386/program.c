/* Threads that rest in as many ways as there are, each of which notes who it is, which calls led there and what its
   variables hold. Usage: program TRUTH_FILE READY_FD [LIBRARY], which it opens when it runs. It does not end by itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifndef STAND_ALONE
#include <dlfcn.h>
#endif

#define APART __attribute__((noinline))
#define LAST_LINE 1000
enum { KEYS = 3, DEEP = 12, RESTS = 8, THREADS = RESTS + 1 };

struct pair {
    char first;
    long long second;
    double third;
    short fourth;
    unsigned fifth : 3;
};

int an_int = -5;
long a_long = -123456789;
unsigned long an_unsigned = 4000000000ul;
long long a_long_long = 1ll << 40;
double a_double = 1.5;
long double a_long_double = 2.25L;
struct pair a_pair = {'a', -2, 0.5, 3, 5};
int *a_pointer = &an_int;
static char zeroed[5000];

__thread int own_int = 41;
__thread long long own_long_long = 7;
static __thread double own_static = 0.25;
__thread char own_aligned[3] __attribute__((aligned(64))) = "ab";
__thread int own_zeroed[100];

struct note {
    const char *name;
    int id, depth, lines[DEEP];
    const char *functions[DEEP];
    pthread_t pthread;
    void *addresses[6], *keys[KEYS];
} notes[THREADS];
static __thread struct note *own_note;

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, free_one = PTHREAD_MUTEX_INITIALIZER,
                       another = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;
static pthread_key_t keys[KEYS];
static volatile int arrived, spun;
static int *(*library_address)(void);

/* Notes the line that it is on, and that of a call. */
#define HERE() note_line(__func__, __LINE__)
#define CALL(call) (HERE(), (call))
#define REST(call) (HERE(), arrived_there(), (call))

static APART void note_line(const char *function, int line)
{
    own_note->functions[own_note->depth] = function;
    own_note->lines[own_note->depth++] = line;
    __asm__ volatile("" ::: "memory");
}

static void arrived_there(void) { __sync_fetch_and_add(&arrived, 1); }

static APART int by_mutex(int number)
{
    volatile int local[20] = {number};
    return REST(pthread_mutex_lock(&held)) + local[0];
}

static APART int by_condition(int number)
{
    pthread_mutex_lock(&free_one);
    return REST(pthread_cond_wait(&never, &free_one)) + number;
}

static APART int by_time(int number)
{
    struct timespec until = {time(NULL) + 100000, 0};
    pthread_mutex_lock(&another);
    return REST(pthread_cond_timedwait(&never, &another, &until)) + number;
}

static APART int by_semaphore(int number)
{
    return REST(sem_wait(&none)) + number;
}

static APART int by_yielding(int number)
{
    HERE(), arrived_there(); for (;;) number += sched_yield();
    return number;
}

static APART int by_spinning(int number)
{
    HERE(), arrived_there(); for (;;) spun += number;
    return number;
}

static void handler(int number)
{
    int answer = REST(pause());
    arrived += answer + number;
}

static void informed(int number, siginfo_t *information, void *context)
{
    (void)information, (void)context;
    int answer = REST(pause());
    arrived += answer + number;
}

static APART int by_signal(int number)
{
    return CALL(raise(SIGUSR1)) + number;
}

static APART int by_fault(int number)
{
    volatile int *volatile nowhere = NULL;
    HERE(); *nowhere = number;
    return number + *nowhere;
}

static APART int inner(int number)
{
    int (*const rests[])(int) = {by_mutex, by_condition, by_time, by_semaphore, by_yielding, by_spinning, by_signal, by_fault};
    return CALL(rests[number](number)) + 1;
}

static APART int outer(int number, long long wide, double real)
{
    volatile double kept = real + (double)wide;
    return CALL(inner(number)) + (int)kept;
}

static void note_oneself(int number)
{
    struct note *note = own_note = &notes[number];
    note->id = (int)syscall(SYS_gettid);
    note->pthread = pthread_self();
    own_int = 100 + number;
    own_long_long = -(1ll << 40) - number;
    own_static = number + 0.5;
    own_aligned[0] = (char)('A' + number);
    own_zeroed[99] = number;
    void *addresses[] = {&own_int, &own_long_long, &own_static, own_aligned, own_zeroed, NULL};
    memcpy(note->addresses, addresses, sizeof addresses);
    if (library_address && number % 2 == 0)
        *(int *)(note->addresses[5] = library_address()) = 1000 + number;
    for (int key = 0; key < 2; key++)
        if (key == 0 || number % 2)
            pthread_setspecific(keys[key], note->keys[key] = (void *)(0xf0000000u + 16 * (unsigned)number + (unsigned)key));
}

static void *run(void *argument)
{
    int number = (int)(size_t)argument;
    static char stacks[THREADS][65536];
    stack_t stack = {.ss_sp = stacks[number], .ss_size = sizeof stacks[number]};
    sigaltstack(&stack, NULL);
    note_oneself(number);
    return (void *)(size_t)CALL(outer(number, 1ll << 33, 0.5));
}

static int is_asleep(int id)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", id);
    FILE *file = fopen(name, "r");
    if (!file || !fgets(text, sizeof text, file))
        exit(1);
    fclose(file);
    return strrchr(text, ')')[2] == 'S';
}

static void tell(const char *path)
{
    static const char *const names[] = {"mutex", "condition", "time", "semaphore", "yield", "spin", "signal", "fault", "main"};
    static const char *const own[] = {"own_int", "own_long_long", "own_static", "own_aligned", "own_zeroed", "opened"};
    FILE *file = fopen(path, "w");
    fprintf(file, "{\"sizes\": {\"char\": %zu, \"short\": %zu, \"int\": %zu, \"long\": %zu, \"long long\": %zu, "
            "\"pointer\": %zu}, \"pair\": {\"size\": %zu, \"second\": %zu, \"third\": %zu, \"fourth\": %zu}, ",
            sizeof(char), sizeof(short), sizeof(int), sizeof(long), sizeof(long long), sizeof(void *),
            sizeof(struct pair), offsetof(struct pair, second), offsetof(struct pair, third), offsetof(struct pair, fourth));
    fprintf(file, "\"globals\": {\"an_int\": %u, \"a_long\": %u, \"an_unsigned\": %u, \"a_long_long\": %u, \"a_double\": %u, "
            "\"a_long_double\": %u, \"a_pair\": %u, \"a_pointer\": %u, \"zeroed\": %u}, \"keys\": [%u, %u, %u], \"threads\": [",
            (unsigned)&an_int, (unsigned)&a_long, (unsigned)&an_unsigned, (unsigned)&a_long_long, (unsigned)&a_double,
            (unsigned)&a_long_double, (unsigned)&a_pair, (unsigned)&a_pointer, (unsigned)zeroed, keys[0], keys[1], keys[2]);
    for (int number = 0; number < THREADS; number++) {
        struct note *note = &notes[number];
        fprintf(file, "%s\n{\"name\": \"%s\", \"number\": %d, \"id\": %d, \"pthread\": %lu, \"addresses\": {", number ? "," : "",
                names[number], number, note->id, (unsigned long)note->pthread);
        for (int i = 0; i < 6; i++)
            fprintf(file, note->addresses[i] ? "%s\"%s\": %u" : "%s\"%s\": null", i ? ", " : "", own[i], (unsigned)note->addresses[i]);
        fprintf(file, "}, \"keys\": [%u, %u, %u], \"frames\": [", (unsigned)note->keys[0], (unsigned)note->keys[1], (unsigned)note->keys[2]);
        for (int i = note->depth - 1; i >= 0; i--)
            fprintf(file, "%s[\"%s\", %d]", i < note->depth - 1 ? ", " : "", note->functions[i], note->lines[i]);
        fprintf(file, "]}");
    }
    fprintf(file, "]}\n");
    fclose(file);
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
#ifndef STAND_ALONE
    void *library = count > 3 ? dlopen(arguments[3], RTLD_NOW) : NULL;
    if (count > 3 && !(library && (*(void **)&library_address = dlsym(library, "address")))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#endif
    struct sigaction plain = {.sa_handler = handler}, full = {.sa_sigaction = informed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGUSR1, &plain, NULL);
    sigaction(SIGSEGV, &full, NULL);
    sem_init(&none, 0, 0);
    pthread_mutex_lock(&held);
    for (int key = 0; key < KEYS; key++)
        pthread_key_create(&keys[key], NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_t thread;
    for (size_t number = 0; number < RESTS; number++)
        pthread_create(&thread, &attributes, run, (void *)number);
    note_oneself(RESTS);
    while (arrived < RESTS)
        usleep(1000);
    for (int number = 0; number < RESTS; number++)
        while (number != 4 && number != 5 && !is_asleep(notes[number].id))
            usleep(1000);
    HERE();
    own_note->lines[0] = LAST_LINE;
    tell(arguments[1]);
    if (write(atoi(arguments[2]), "r", 1) != 1)
        return 1;
#line LAST_LINE
    for (;;) pause();
}
