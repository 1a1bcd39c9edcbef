/* Who waits for whom, and since when. All time that threads spend waiting is shared out: at each event, what has passed
 * since the last one is charged, for each thread that waits, to the threads that it waits for; where these wait themselves,
 * to those whom they wait for. So all charges together are all waiting, down to the last nanosecond. */
#define _GNU_SOURCE
#include "blame.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

const char *const kind_names[KINDS] = {"", "barriers", "tasks", "locks", "ordered", "idle"};
enum { LOCK_BUCKETS = 1024, USUAL_MILLISECONDS = 5 };

struct holder {
    struct holder *next;
    uint64_t mutex;
    struct thread *thread;            /* NULL: nobody */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct thread *threads;
static struct team *teams;
static struct holder *holders[LOCK_BUCKETS];
static double waited[KINDS], nobody[KINDS];
static double last;
static bool is_on, is_ended;
static bool has_sampler;
static volatile sig_atomic_t is_report_wanted;
static __thread struct thread *self;

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        fputs("blame: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct thread **holder_of(uint64_t id)
{
    struct holder **first = &holders[(id >> 4 ^ id >> 14) % LOCK_BUCKETS], *holder = *first;
    while (holder && holder->mutex != id)
        holder = holder->next;
    if (!holder) {
        holder = allocate(sizeof *holder);
        *holder = (struct holder){*first, id, NULL};
        *first = holder;
    }
    return &holder->thread;
}

static struct team *team_of(const struct thread *thread)
{
    int count = thread->level_count < MAX_LEVELS ? thread->level_count : MAX_LEVELS;
    return count ? thread->levels[count - 1].team : NULL;
}

/* What it waits for, NULL if it works: also if it executes a task while another one waits. OpenMP 5 has no event for a
 * worker that has left its team and waits for the next one. */
static const struct wait *wait_of(const struct thread *thread)
{
    static const struct wait idle = {.kind = IDLE};
    if (!thread->wait_count && !thread->level_count && thread->is_worker)
        return &idle;
    if (!thread->wait_count || thread->wait_count > MAX_WAITS)
        return NULL;
    const struct wait *wait = &thread->waits[thread->wait_count - 1];
    return wait->task == thread->task ? wait : NULL;
}

static enum kind kind_of(const struct wait *wait)
{
    if (!wait)
        return WORKING;
    bool is_of_team = wait->kind == BARRIER || wait->kind == TASKS;
    return is_of_team && (!wait->team || wait->team->is_over) ? IDLE : wait->kind;
}

static void charge(struct thread *thread, enum kind kind, double amount);

static void charge_team(struct team *team, enum kind kind, double amount)
{
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int number = 0; team && number < team->size; number++) {
            struct thread *member = team->members[number];
            const struct wait *wait = member ? wait_of(member) : NULL;
            if (!member || (wait && wait->team == team && (wait->kind == BARRIER || wait->kind == TASKS)))
                continue;
            if (!pass)
                count++;
            else
                charge(member, kind, amount / count);
        }
    }
    if (!count)
        nobody[kind] += amount;
}

/* One who is met a second time waits for itself, in the end: nobody is at work for it. */
static void charge(struct thread *thread, enum kind kind, double amount)
{
    if (!thread || thread->is_over || thread->is_visited) {
        nobody[kind] += amount;
        return;
    }
    const struct wait *wait = wait_of(thread);
    thread->is_visited = true;
    switch (kind_of(wait)) {
    case WORKING:
        thread->charged[kind] += amount;
        break;
    case MUTEX:
        charge(*holder_of(wait->mutex), kind, amount);
        break;
    case ORDERED: {
        struct thread *holder = *holder_of(wait->mutex);
        if (holder)
            charge(holder, kind, amount);
        else
            charge_team(wait->team, kind, amount); /* whose turn it is, has not come to it */
        break;
    }
    case IDLE:
        charge(wait->team ? wait->team->primary : thread->last_primary, kind, amount);
        break;
    default:
        charge_team(wait->team, kind, amount);
    }
    thread->is_visited = false;
}

/* With the mutex, before anything changes. Threads that wait for their team are taken together. */
static void settle(void)
{
    double time = now(), passed = time - last;
    last = time;
    if (!is_on)
        return;
    for (struct thread *thread = threads; thread; thread = thread->next) {
        const struct wait *wait = thread->is_over ? NULL : wait_of(thread);
        enum kind kind = kind_of(wait);
        if (kind == WORKING)
            continue;
        waited[kind] += passed;
        if (kind == BARRIER || kind == TASKS)
            wait->team->pending[kind] += passed;
        else
            charge(thread, kind, passed);
    }
    for (struct team *team = teams; team; team = team->next) {
        for (enum kind kind = BARRIER; kind <= TASKS; kind++) {
            double pending = team->pending[kind];
            team->pending[kind] = 0;
            if (pending > 0)
                charge_team(team, kind, pending);
        }
    }
}

static bool is_charged(const struct thread *thread)
{
    for (enum kind kind = BARRIER; kind < KINDS; kind++) {
        if (thread->charged[kind] > 0)
            return true;
    }
    return false;
}

static void place(struct thread *thread, const struct path *path)
{
    add_charge(thread, path, thread->charged);
    memset(thread->charged, 0, sizeof thread->charged);
    thread->is_asked = false;
    __atomic_store_n(&thread->has_answered, false, __ATOMIC_RELEASE);
}

/* The caller's work ends here. If a signal has found it at work, that is the better place. */
static void place_here(struct thread *thread)
{
    if (!is_charged(thread)) {
        __atomic_store_n(&thread->has_answered, false, __ATOMIC_RELEASE);
        return;
    }
    struct path path;
    if (__atomic_load_n(&thread->has_answered, __ATOMIC_ACQUIRE))
        path = thread->answer;
    else
        take_path(&path, NULL);
    place(thread, &path);
}

static bool enter(void)
{
    if (!self)
        return false;
    pthread_mutex_lock(&mutex);
    settle();
    return true;
}

static void leave(void)
{
    pthread_mutex_unlock(&mutex);
}

static void forget_team(struct team *gone)
{
    for (struct team **team = &teams; *team; team = &(*team)->next) {
        if (*team == gone) {
            *team = gone->next;
            break;
        }
    }
    for (struct thread *thread = threads; thread; thread = thread->next) {
        for (int at = 0; at < thread->wait_count && at < MAX_WAITS; at++) {
            if (thread->waits[at].team == gone)
                thread->waits[at].team = NULL;
        }
    }
    free(gone->members);
    free(gone);
}

static struct team *make_team(uint64_t id)
{
    struct team *team = allocate(sizeof *team);
    *team = (struct team){.next = teams, .id = id, .primary = self};
    return teams = team;
}

void thread_begins(bool is_worker)
{
    if (self)
        return;
    struct thread *thread = allocate(sizeof *thread);
    thread->id = (pid_t)syscall(SYS_gettid);
    thread->is_worker = is_worker;
    pthread_mutex_lock(&mutex);
    settle();
    thread->next = threads;
    threads = thread;
    self = thread;
    leave();
}

/* Its record stays: others may have it as the one that they have waited for. */
void thread_ends(void)
{
    if (!enter())
        return;
    place_here(self);
    for (; self->level_count > 0; self->level_count--) {
        if (self->level_count <= MAX_LEVELS) {
            struct membership *level = &self->levels[self->level_count - 1];
            if (level->team->members[level->number] == self)
                level->team->members[level->number] = NULL;
            if (!--level->team->present && level->team->is_over)
                forget_team(level->team);
        }
    }
    self->is_over = true;
    self = NULL;
    leave();
}

struct team *region_begins(uint64_t id)
{
    if (!enter())
        return NULL;
    struct team *team = make_team(id);
    leave();
    return team;
}

void region_ends(struct team *team)
{
    if (!team || !enter())
        return;
    team->is_over = true;
    team->id = 0;
    if (!team->present)
        forget_team(team);
    leave();
}

struct team *team_of_id(uint64_t id)
{
    pthread_mutex_lock(&mutex);
    struct team *team = teams;
    while (team && (team->is_over || team->id != id))
        team = team->next;
    pthread_mutex_unlock(&mutex);
    return team;
}

/* Without a team: an initial thread's own. */
void implicit_task_begins(struct team *team, int number, int size, uint64_t task)
{
    if (!enter())
        return;
    if (!team) {
        team = make_team(0);
        team->is_over = true;         /* it has no region that could end */
    }
    if (number < 0 || number >= size)
        size = number = 0;
    if (team->size < size) {
        struct thread **members = allocate((size_t)size * sizeof *members);
        if (team->size)
            memcpy(members, team->members, (size_t)team->size * sizeof *members);
        free(team->members);
        team->members = members;
        team->size = size;
    }
    if (!size) {                      /* a runtime that says neither */
        team->members = allocate(sizeof *team->members);
        team->size = 1;
    }
    if (self->level_count++ < MAX_LEVELS) {
        self->levels[self->level_count - 1] = (struct membership){team, number};
        team->members[number] = self;
        team->present++;
    }
    self->last_primary = team->primary;
    self->task = task;
    leave();
}

void implicit_task_ends(void)
{
    if (!enter())
        return;
    place_here(self);
    if (self->level_count && self->level_count-- <= MAX_LEVELS) {
        struct membership *level = &self->levels[self->level_count];
        if (level->team->members[level->number] == self)
            level->team->members[level->number] = NULL;
        if (!--level->team->present && level->team->is_over)
            forget_team(level->team);
    }
    leave();
}

void task_switches(uint64_t task)
{
    if (!enter())
        return;
    place_here(self);
    self->task = task;
    leave();
}

/* Whoever is the last at a barrier does not wait, and is to blame nevertheless. */
void comes_to_wait(void)
{
    if (!enter())
        return;
    place_here(self);
    leave();
}

void wait_begins(enum kind kind, uint64_t id, uint64_t task)
{
    if (!enter())
        return;
    place_here(self);
    if (task)
        self->task = task;
    struct team *team = team_of(self);
    if ((kind == BARRIER || kind == TASKS) && !team)
        kind = IDLE;
    if (self->wait_count++ < MAX_WAITS)
        self->waits[self->wait_count - 1] = (struct wait){kind, kind == IDLE ? NULL : team, id, self->task};
    leave();
}

void wait_ends(void)
{
    if (!enter())
        return;
    if (self->wait_count && self->wait_count-- <= MAX_WAITS)
        self->task = self->waits[self->wait_count].task;
    leave();
}

static bool is_mutex(const struct wait *wait, uint64_t id)
{
    return (wait->kind == MUTEX || wait->kind == ORDERED) && wait->mutex == id;
}

void mutex_acquired(uint64_t id)
{
    if (!enter())
        return;
    if (self->wait_count && self->wait_count <= MAX_WAITS && is_mutex(&self->waits[self->wait_count - 1], id))
        self->wait_count--;
    *holder_of(id) = self;
    leave();
}

void mutex_released(uint64_t id)
{
    if (!enter())
        return;
    place_here(self);
    *holder_of(id) = NULL;
    leave();
}

/* The interrupted thread writes where it is; the sampler reads that once it is there. */
static void answer(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information;
    int error = errno;
    const ucontext_t *interrupted = context;
    struct thread *thread = self;
    if (thread && !wait_of(thread) && !__atomic_load_n(&thread->has_answered, __ATOMIC_ACQUIRE)) {
#if defined(__x86_64__)
        take_path(&thread->answer, (const void *)interrupted->uc_mcontext.gregs[REG_RIP]);
#elif defined(__i386__)
        take_path(&thread->answer, (const void *)interrupted->uc_mcontext.gregs[REG_EIP]);
#else
        take_path(&thread->answer, NULL);
        (void)interrupted;
#endif
        __atomic_store_n(&thread->has_answered, true, __ATOMIC_RELEASE);
    }
    errno = error;
}

static void want_report(int number)
{
    (void)number;
    is_report_wanted = 1;
}

/* Looks at those who are waited for, and at nobody else: a signal makes sleeping system calls of the program's end early. */
static void *sample(void *interval)
{
    enum { PATIENCE = 20 };
    for (int turns = 0;;) {
        bool is_somebody_asked = false;
        nanosleep(interval, NULL);
        pthread_mutex_lock(&mutex);
        settle();
        for (struct thread *thread = threads; thread; thread = thread->next) {
            if (thread->is_over || !is_on || !is_charged(thread))
                continue;
            if (__atomic_load_n(&thread->has_answered, __ATOMIC_ACQUIRE)) {
                place(thread, &thread->answer);
            } else {
                is_somebody_asked = true;
                if (!thread->is_asked)
                    syscall(SYS_tgkill, getpid(), thread->id, SIGPROF);
                thread->is_asked = true;
            }
        }
        pthread_mutex_unlock(&mutex);
        /* Whoever is charged comes to say where it is first, if it gets a processor soon. */
        if (is_report_wanted && (!is_somebody_asked || ++turns > PATIENCE)) {
            is_report_wanted = 0;
            turns = 0;
            print_accounts();
        }
    }
    return NULL;
}

static void start_sampler(void)
{
    static struct timespec interval;
    const char *wanted = getenv("BLAME_INTERVAL"), *number = getenv("BLAME_SIGNAL");
    long milliseconds = wanted ? strtol(wanted, NULL, 10) : USUAL_MILLISECONDS;
    struct sigaction old, action = {.sa_flags = SA_RESTART | SA_SIGINFO, .sa_sigaction = answer};
    if (milliseconds <= 0 || sigaction(SIGPROF, NULL, &old) || old.sa_handler != SIG_DFL || sigaction(SIGPROF, &action, NULL))
        return;                       /* the program's own handler stays */
    interval = (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (number) {
        struct sigaction report = {.sa_flags = SA_RESTART, .sa_handler = want_report};
        sigaction((int)strtol(number, NULL, 10), &report, NULL);
    }
    sigset_t all, before;             /* none of the program's signals is for the sampler */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t sampler;
    if (!pthread_create(&sampler, NULL, sample, &interval)) {
        pthread_detach(sampler);
        has_sampler = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Nobody else is left, and the mutex may be one's who is not there. */
static void forget_parent(void)
{
    pthread_mutex_init(&mutex, NULL);
    threads = NULL;
    teams = NULL;
    self = NULL;
    memset(holders, 0, sizeof holders);
    memset(waited, 0, sizeof waited);
    memset(nobody, 0, sizeof nobody);
    forget_charges();
    is_on = has_sampler = false;
}

void start_accounts(void)
{
    static bool is_known;
    pthread_mutex_lock(&mutex);
    if (!is_on)
        last = now();
    is_on = true;
    is_ended = false;
    if (!is_known)
        pthread_atfork(NULL, NULL, forget_parent);
    is_known = true;
    bool has_none = !has_sampler;
    pthread_mutex_unlock(&mutex);
    if (has_none)
        start_sampler();
}

void stop_accounts(bool is_for_ever)
{
    pthread_mutex_lock(&mutex);
    settle();
    is_on = false;
    if (is_for_ever) {
        is_ended = true;
        memset(waited, 0, sizeof waited);
        memset(nobody, 0, sizeof nobody);
        forget_charges();
    }
    pthread_mutex_unlock(&mutex);
}

void print_accounts(void)
{
    pthread_mutex_lock(&mutex);
    settle();
    int count = 0;
    for (struct thread *thread = threads; thread; thread = thread->next) {
        count++;
        if (is_charged(thread)) {
            struct path path = {0};
            if (thread == self)
                take_path(&path, NULL);
            else if (__atomic_load_n(&thread->has_answered, __ATOMIC_ACQUIRE))
                path = thread->answer;
            place(thread, &path);
        }
    }
    if (count && !is_ended)
        print_report(waited, nobody, count);
    pthread_mutex_unlock(&mutex);
}
