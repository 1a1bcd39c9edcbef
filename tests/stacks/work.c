/* Threads that each do one kind of work over and over, until the process is stopped wherever they are by then: system
 * calls, the vDSO, the linkage table, jumps out of functions, stacks of their own, code that a library writer wrote by
 * hand. Usage: work COUNT, the number of threads. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <wchar.h>

static volatile long sink;

static __attribute__((noinline)) void clocks(unsigned seed)
{
    struct timespec now;
    struct timeval day;
    for (int i = 0; i < 100; i++) {
        clock_gettime(seed % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &now);
        gettimeofday(&day, NULL);
        sink = now.tv_nsec + day.tv_usec + time(NULL);
    }
}

static __attribute__((noinline)) void linked(unsigned seed)
{
    for (int i = 0; i < 200; i++)
        sink = rand_r(&seed) + a64l("z") + (toupper)(i) + (isalpha)(i) + sched_getcpu();
}

static jmp_buf *target(void)
{
    static __thread jmp_buf buffer;
    return &buffer;
}

static __attribute__((noinline)) int jump(int depth)
{
    volatile int local = depth;
    if (local == 0)
        longjmp(*target(), 1);
    return jump(depth - 1) + local;
}

static __attribute__((noinline)) void jumping(unsigned seed)
{
    if (setjmp(*target()) == 0)
        sink = jump(3 + (int)(seed % 20));
}

static __thread ucontext_t outer, inner;

static void coroutine(void)
{
    for (;;) {
        sink++;
        swapcontext(&inner, &outer);
    }
}

static __attribute__((noinline)) void switching(unsigned seed)
{
    static __thread char *stack;
    if (stack == NULL) {
        stack = malloc(1 << 16);
        getcontext(&inner);
        inner.uc_stack.ss_sp = stack;
        inner.uc_stack.ss_size = 1 << 16;
        inner.uc_link = &outer;
        makecontext(&inner, coroutine, 0);
    }
    for (unsigned i = 0; i < 50 + seed % 2; i++)
        swapcontext(&outer, &inner);
}

static __attribute__((noinline)) void strings(unsigned seed)
{
    static __thread char from[5000], to[5000];
    static __thread wchar_t wide[500];
    memset(from, 'a' + (int)(seed % 20), sizeof from - 1);
    memcpy(to, from, sizeof to);
    memmove(to + 3, to, 4000);
    to[4990] = 0;
    sink = (long)strlen(to) + strcmp(from, to) + (strstr(to, "zz") != NULL) + (memchr(from, 'z', 4000) != NULL);
    wmemset(wide, L'x', 499);
    sink += (long)wcslen(wide) + strtol("12345", NULL, 10) + (long)strtod("1.5e10", NULL);
}

static __attribute__((noinline)) void loading(unsigned seed)
{
    void *library = dlopen("libm.so.6", RTLD_LAZY);
    sink = (long)dlsym(library, seed % 2 ? "cos" : "nothing like this");
    Dl_info info;
    dladdr((void *)loading, &info);
    dlclose(library);
}

static __attribute__((noinline)) void sleeping(unsigned seed)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct timespec pause = {0, 1000 + seed % 1000};
    pthread_mutex_lock(&lock);
    nanosleep(&pause, NULL);
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void numbers(unsigned seed)
{
    double x = seed % 1000 / 10.0 + 0.1;
    long double y = x;
    __float128 z = x;
    for (int i = 0; i < 50; i++) {
        x = sin(x) + pow(x + 2, 1.3) + exp(-x) + lgamma(x + 1) + fma(x, x, x);
        y = sqrtl(y) + logl(y + 3) + powl(y, 0.3L);
        z = z * z / (z + 1) + 1;
    }
    sink = (long)x + (long)y + (long)z;
}

static void (*const interrupted[])(unsigned) = {clocks, linked, strings, numbers};

static void handler(int number)
{
    static __thread unsigned seed = 17;
    for (int i = 0; i < 400; i++, seed++)
        interrupted[seed % 4](seed + (unsigned)number);
}

static __attribute__((noinline)) void signalled(unsigned seed)
{
    static __thread timer_t timer;
    static __thread int made;
    if (!made) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
        event._sigev_un._tid = gettid();
        stack_t alternate = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        struct itimerspec often = {{0, 300000}, {0, 300000}};
        sigaltstack(&alternate, NULL);
        made = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
        timer_settime(timer, 0, &often, NULL);
    }
    interrupted[seed / 64 % 4](seed);
}

static void (*const kinds[])(unsigned) = {
    clocks, linked, jumping, switching, strings, loading, sleeping, numbers, signalled, signalled, signalled,
};

static void *worker(void *number)
{
    unsigned kind = (unsigned)(uintptr_t)number;
    for (unsigned seed = kind * 7919;; seed++)
        kinds[kind % (sizeof kinds / sizeof *kinds)](seed);
    return NULL;
}

int main(int count, char **arguments)
{
    (void)count;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    for (long i = 0; i < atoi(arguments[1]); i++)
        pthread_create(&thread, NULL, worker, (void *)i);
    puts("ready");
    fflush(stdout);
    pthread_join(thread, NULL);
}
