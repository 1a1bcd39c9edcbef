/* Threads that wait outside of OpenMP, each in its own way. Every thread writes what it is about to wait for, and main
   pauses once all of them do. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include "settled.h"

#define HOUR 3600
#define COMMA ,

static int own_id(void) { return (int)syscall(SYS_gettid); }

__attribute__((format(printf, 1, 2))) static void words(const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (write(1, text, size) != size)
        _exit(71);
}

/* Says what the thread is about to do: its object, and who holds that. */
static void say(const char *name, const void *object, int owner)
{
    words("{\"tid\": %d, \"name\": \"%s\", \"object\": %lu, \"owner\": %d}\n", own_id(), name,
          (unsigned long)(uintptr_t)object, owner);
}
static void say_file(const char *name, int descriptor)
{
    words("{\"tid\": %d, \"name\": \"%s\", \"descriptor\": %d}\n", own_id(), name, descriptor);
}
static struct timespec in_an_hour(void)
{
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec += HOUR;
    return when;
}

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive, checked, inherits, robust, dead, timed;
static pthread_mutex_t *shared, *far, of_condition = PTHREAD_MUTEX_INITIALIZER, again = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, signalled = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER, was_read = PTHREAD_RWLOCK_INITIALIZER, preferring;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static int word_private, *word_shared;
static volatile int holds, is_dead, spins, waits_again, runs_once;
static int holder_id, dead_id, main_id, sleepers[2], tube[2], listening, pair[2], child;
static pthread_t holder_thread;

static void *holder(void *unused)
{
    (void)unused;
    holder_id = own_id();
    pthread_mutex_lock(&normal);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&checked);
    pthread_mutex_lock(&inherits);
    pthread_mutex_lock(&robust);
    pthread_mutex_lock(&timed);
    pthread_mutex_lock(shared);
    pthread_mutex_lock(far);
    pthread_rwlock_wrlock(&written);
    pthread_rwlock_rdlock(&was_read);
    pthread_rwlock_rdlock(&preferring);
    say("pauses", NULL, 0);
    holds = 1;
    for (;;)
        pause();
    return NULL;
}
static void *dies(void *unused)
{
    (void)unused;
    dead_id = own_id();
    pthread_mutex_lock(&dead);
    return NULL;
}

#define MUTEX(name, mutex, who) \
    static void *name(void *unused) { (void)unused; say(#name, mutex, who); pthread_mutex_lock(mutex); return NULL; }
MUTEX(mutex_normal, &normal, holder_id)
MUTEX(mutex_recursive, &recursive, holder_id)
MUTEX(mutex_checked, &checked, holder_id)
MUTEX(mutex_inherits, &inherits, holder_id)
MUTEX(mutex_robust, &robust, holder_id)
MUTEX(mutex_dead, &dead, dead_id)
MUTEX(mutex_shared, shared, holder_id)
MUTEX(mutex_far, far, holder_id)

#define THREAD(name, body) \
    static void *name(void *unused) { (void)unused; const char *self = #name; (void)self; body; return NULL; }
THREAD(mutex_timed, struct timespec end = in_an_hour(); say(self, &timed, holder_id); pthread_mutex_timedlock(&timed, &end))
THREAD(cond_wait, pthread_mutex_lock(&of_condition); say(self, &condition, 0); pthread_cond_wait(&condition, &of_condition))
THREAD(cond_timed, struct timespec end = in_an_hour(); pthread_mutex_lock(&of_condition); say(self, &condition, 0);
       pthread_cond_timedwait(&condition, &of_condition, &end))
THREAD(cond_again, pthread_mutex_lock(&again); say(self, &again, main_id); waits_again = 1;
       pthread_cond_wait(&signalled, &again))
THREAD(join, say(self, (void *)holder_thread, holder_id); pthread_join(holder_thread, NULL))
THREAD(sem, say(self, &semaphore, 0); sem_wait(&semaphore))
THREAD(sem_timed, struct timespec end = in_an_hour(); say(self, &semaphore, 0); sem_timedwait(&semaphore, &end))
THREAD(rwlock_reader, say(self, &written, holder_id); pthread_rwlock_rdlock(&written))
THREAD(rwlock_writer, say(self, &written, holder_id); pthread_rwlock_wrlock(&written))
THREAD(rwlock_of_readers, say(self, &was_read, 0); pthread_rwlock_wrlock(&was_read))
THREAD(rwlock_preferred, say(self, &preferring, 0); pthread_rwlock_wrlock(&preferring))
THREAD(rwlock_behind, say(self, &preferring, 0); pthread_rwlock_rdlock(&preferring))
THREAD(at_barrier, say(self, &barrier, 0); pthread_barrier_wait(&barrier))
THREAD(sleeps, struct timespec time = {.tv_sec = HOUR}; sleepers[0] = own_id(); say(self, NULL, 0); nanosleep(&time, NULL))
THREAD(usleeps, sleepers[1] = own_id(); say(self, NULL, 0); usleep(900000000))
THREAD(futex_private, say(self, &word_private, 0);
       syscall(SYS_futex, &word_private, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0))
THREAD(futex_shared, say(self, word_shared, 0); struct timespec time = {.tv_sec = HOUR};
       syscall(SYS_futex, word_shared, FUTEX_WAIT, 0, &time, NULL, 0))
THREAD(reads, char c; say_file(self, tube[0]); if (read(tube[0], &c, 1)) {})
THREAD(polls, struct pollfd one = {.fd = tube[0] COMMA .events = POLLIN}; say_file(self, tube[0]); poll(&one, 1, -1))
THREAD(polls_two, struct pollfd two[] = {{tube[0] COMMA POLLIN COMMA 0} COMMA {pair[0] COMMA POLLIN COMMA 0}};
       say_file(self, -1); poll(two, 2, 1000 * HOUR))
THREAD(polls_none, say_file(self, -1); poll(NULL, 0, 1000 * HOUR))
THREAD(selects, fd_set set; FD_ZERO(&set); FD_SET(tube[0], &set); say_file(self, tube[0]);
       select(tube[0] + 1, &set, NULL, NULL, NULL))
THREAD(epolls, int set = epoll_create1(0); struct epoll_event event = {.events = EPOLLIN};
       epoll_ctl(set, EPOLL_CTL_ADD, tube[0], &event); say_file(self, set); while (epoll_wait(set, &event, 1, -1) < 0) {})
THREAD(accepts, say_file(self, listening); accept(listening, NULL, NULL))
THREAD(receives, char c; say_file(self, pair[0]); recv(pair[0], &c, 1, 0))
THREAD(waits_for_child, say(self, NULL, 0); waitpid(child, NULL, 0))
THREAD(sigwaits, sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); int got; say(self, NULL, 0); sigwait(&set, &got))
THREAD(sigsuspends, sigset_t set; sigfillset(&set); say(self, NULL, 0); sigsuspend(&set))
static void first_time(void)
{
    say("pauses", NULL, 0);
    runs_once = 1;
    for (;;)
        pause();
}
THREAD(initializes, pthread_once(&once, first_time))
THREAD(once_waits, say(self, &once, 0); pthread_once(&once, first_time))
THREAD(user, say(self, NULL, 0); for (;;) spins ^= 1)
__attribute__((noinline)) int MPI_Recv(void)
{
    char c;
    return read(tube[0], &c, 1) + 1;
}
__attribute__((noinline)) int PMPI_Wait(void)
{
    while (spins >= 0) /* for ever: it is 0 or 1 */
        sched_yield();
    return 1;
}
__attribute__((noinline)) int MPI_Wait(void) { return PMPI_Wait() + 1; }
THREAD(mpi_sleeps, say(self, NULL, 0); MPI_Recv())
THREAD(mpi_spins, say(self, NULL, 0); spins = MPI_Wait())

static void make(pthread_mutex_t *mutex, int type, int protocol, int robustness, int sharing)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_settype(&how, type);
    pthread_mutexattr_setprotocol(&how, protocol);
    pthread_mutexattr_setrobust(&how, robustness);
    pthread_mutexattr_setpshared(&how, sharing);
    if (pthread_mutex_init(mutex, &how))
        _exit(72);
}
static void *many[] = {mutex_normal, mutex_recursive, mutex_checked, mutex_inherits, mutex_robust, mutex_dead, mutex_shared, mutex_far, mutex_timed,
                       cond_wait, cond_timed, join, sem, sem_timed, rwlock_reader, rwlock_writer, rwlock_of_readers, rwlock_preferred,
                       at_barrier, futex_private, futex_shared, reads, polls, polls_two, polls_none, selects, epolls, accepts,
                       receives, waits_for_child, sigwaits, sigsuspends, once_waits, sleeps, usleeps};
static int asleep(int id)
{
    char text[512];
    return settled_read(id, "stat", text, sizeof text) && strrchr(text, ')') && !strncmp(strrchr(text, ')'), ") S", 3);
}
static void start(void *(*work)(void *))
{
    pthread_t thread;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, 1 << 17);
    if (pthread_create(&thread, &how, work, NULL))
        _exit(74);
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    main_id = own_id();
    if (pipe(tube) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || (child = fork()) < 0)
        return 70;
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    /* These wait for ever: one for all threads, one for a single thread. */
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    kill(getpid(), SIGUSR2);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct itimerspec hour = {.it_value.tv_sec = HOUR};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &hour, NULL))
        return 76;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&here, sizeof here) || listen(listening, 1))
        return 75;
    word_shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = (pthread_mutex_t *)(word_shared + 64);
    far = (pthread_mutex_t *)((char *)malloc(1 << 22) + (1 << 21)); /* in pages of its own */
    pthread_mutex_init(far, NULL);
    make(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
    make(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
    make(&inherits, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
    make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE);
    make(&dead, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
    make(&timed, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
    make(shared, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED);
    pthread_rwlockattr_t prefers;
    pthread_rwlockattr_init(&prefers);
    pthread_rwlockattr_setkind_np(&prefers, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&preferring, &prefers);
    pthread_barrier_init(&barrier, NULL, 2);
    sem_init(&semaphore, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, dies, NULL);
    pthread_join(thread, NULL);
    pthread_create(&holder_thread, NULL, holder, NULL);
    pthread_kill(holder_thread, SIGALRM);
    start(initializes);
    start(cond_again);
    while (!holds || !waits_again || !runs_once)
        sched_yield();
    int count = 3, most = sizeof many / sizeof *many;
    for (int i = 0; i < most; i++)
        start(many[i]);
    count += most - 2;
    until_settled(count); /* but for those that sleep for some time */
    start(rwlock_behind);
    pthread_mutex_lock(&again);
    pthread_cond_signal(&signalled);
    until_settled(count + 1);
    start(mpi_sleeps);
    start(user);
    start(mpi_spins);
    until_settled(count + 4);
    for (int i = 0; i < 2; i++)
        while (!sleepers[i] || !asleep(sleepers[i]))
            sched_yield();
    say("main", NULL, 0);
    for (;;)
        pause();
}
