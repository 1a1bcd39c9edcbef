/* Threads: those that come from elsewhere, those that the runtime makes, and where these wait for a region. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

EXPORT struct stub_process omp_stub_process = {
    .version = 1, .openmp_version = 201511, .mutex = PTHREAD_MUTEX_INITIALIZER,
};
EXPORT extern const char omp_stub_version[];
const char omp_stub_version[] = "libomp_stub 1.0";

/* In the part of a thread's storage that exists from its beginning: a signal handler must not cause an allocation. */
static __thread struct stub_thread *current __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_of_thread;
static pthread_mutex_t id_mutex = PTHREAD_MUTEX_INITIALIZER; /* 32-bit machines may not count 64 bits at once */
static pthread_cond_t began = PTHREAD_COND_INITIALIZER; /* a worker has come into the pool */
static int32_t beginning;                               /* workers that have been made and are not there yet */
static int32_t ending;                                  /* workers that have left the pool and are there still */

static void say(const char *format, va_list arguments)
{
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "libomp_stub: %s\n", text);
}

void warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    abort();
}

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        fail("no memory for %zu bytes", size);
    return memory;
}

uint64_t new_id(void)
{
    static uint64_t last;
    pthread_mutex_lock(&id_mutex);
    uint64_t id = ++last;
    pthread_mutex_unlock(&id_mutex);
    return id;
}

static struct stub_thread *new_thread(enum stub_thread_type type)
{
    struct stub_thread *thread = allocate(sizeof(struct whole_thread));
    thread->id = new_id();
    thread->type = type;
    thread->pthread = pthread_self();
    thread->native_id = gettid();
    pthread_cond_init(&thread->wake, NULL);
    if (debugging())
        ask_stack(thread);
    return thread;
}

static void list_thread(struct stub_thread *thread)
{
    thread->next = omp_stub_process.threads;
    PUBLISH(omp_stub_process.threads, thread);
    omp_stub_process.thread_count++;
}

static void unlist_thread(struct stub_thread *thread)
{
    struct stub_thread **place = &omp_stub_process.threads;
    while (*place != thread)
        place = &(*place)->next;
    PUBLISH(*place, thread->next);
    omp_stub_process.thread_count--;
}

static void tell_begin(struct stub_thread *thread)
{
    TELL(thread, thread, true);
    TELL(initial_task, thread, true);
}

static void tell_end(struct stub_thread *thread)
{
    TELL(initial_task, thread, false);
    TELL(thread, thread, false);
}

/* Of a thread that is not the runtime's own, when it ends. */
static void forget_thread(void *argument)
{
    struct stub_thread *thread = argument;
    if (thread->team->level)
        return; /* it ends within a region: nothing that can be put in order */
    if (debugging())
        ompd_bp_thread_end();
    tell_end(thread);
    current = NULL; /* a signal handler finds it no more */
    pthread_mutex_lock(&omp_stub_process.mutex);
    unlist_thread(thread);
    unlist_team(thread->team);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    release_team(thread->team);
    pthread_cond_destroy(&thread->wake);
    free(thread);
}

static void begin(void)
{
    read_environment();
    read_debug_environment();
    read_device_environment();
    pthread_key_create(&end_of_thread, forget_thread);
    announce_locations();
    prepare_for_ends();
}

/* A tool is looked for when all is there, and again after this has ended or been forked. What it calls of the runtime
 * meanwhile does not wait for it; the thread that does is told of later. */
void initialize(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static __thread bool is_registering;
    pthread_once(&once, begin);
    if (!__atomic_load_n(&tool_is_due, __ATOMIC_ACQUIRE) || is_registering)
        return;
    is_registering = true;
    pthread_mutex_lock(&mutex);
    if (tool_is_due) {
        find_tool();
        __atomic_store_n(&tool_is_due, false, __ATOMIC_RELEASE);
        if (current)
            tell_begin(current);
    }
    pthread_mutex_unlock(&mutex);
    is_registering = false;
}

struct stub_thread *known_thread(void)
{
    return current;
}

/* What the program has set for a thread lasts when that ends with the runtime, or is that of a child of fork(). */
static __thread struct stub_icvs resumed;
static __thread bool is_resumed;

static void keep_icvs(const struct stub_thread *thread)
{
    resumed = thread->task->icvs;
    is_resumed = true;
}

static struct stub_thread *new_initial_thread(void)
{
    struct stub_thread *thread = new_thread(STUB_THREAD_INITIAL);
    struct stub_team *team = new_team(NULL, NULL, 1);
    struct stub_task *task = new_task(STUB_TASK_SERIAL, NULL, team);
    task->icvs = is_resumed ? resumed : omp_stub_process.icvs;
    task->thread = thread;
    task->thread_num = 0;
    task->status = STUB_EXECUTING;
    whole_team(team)->root = whole_team(team);
    whole_team(team)->busy = 1;
    team->threads[0] = thread;
    team->implicit[0] = task;
    thread->team = team;
    thread->task = task;
    set_working(thread);
    pthread_mutex_lock(&omp_stub_process.mutex);
    list_team(team);
    list_thread(thread);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    pthread_setspecific(end_of_thread, thread);
    return thread;
}

struct stub_thread *current_thread(void)
{
    if (!current) {
        initialize();
        if (!current) {
            current = new_initial_thread();
            if (debugging())
                ompd_bp_thread_begin();
            tell_begin(current);
        }
    }
    return current;
}

struct stub_thread *enter(void *callers_stack)
{
    if (!__atomic_load_n(&construct_met, __ATOMIC_RELAXED)) {
        initialize();
        __atomic_store_n(&construct_met, true, __ATOMIC_RELAXED);
    }
    struct stub_thread *thread = current_thread();
    set_reenter_frame(thread->task, callers_stack, FRAME_APPLICATION);
    return thread;
}

void leave(struct stub_thread *thread)
{
    set_working(thread);
    set_reenter_frame(thread->task, NULL, 0);
}

/* The pool is in the order of the ids. */
static void put_into_pool(struct stub_thread *thread)
{
    struct stub_thread **place = &omp_stub_process.pool;
    while (*place && (*place)->id < thread->id)
        place = &(*place)->next_idle;
    thread->next_idle = *place;
    PUBLISH(*place, thread);
    omp_stub_process.idle_count++;
}

/* Threadprivate variables last from a region to the next one: it gets the same threads, by the same numbers. */
static struct stub_thread *take_from_pool(const struct stub_thread *primary, int32_t thread_num)
{
    struct stub_thread **best = NULL;
    int best_fit = 0;
    for (struct stub_thread **place = &omp_stub_process.pool; *place; place = &(*place)->next_idle) {
        const struct whole_thread *whole = whole_thread(*place);
        int fit = whole->last_primary == primary && whole->last_num == thread_num ? 3 : whole->last_primary ? 1 : 2;
        if (fit > best_fit) {
            best = place;
            best_fit = fit;
        }
    }
    struct stub_thread *thread = *best;
    PUBLISH(*best, thread->next_idle);
    omp_stub_process.idle_count--;
    thread->next_idle = NULL;
    return thread;
}

static void end_worker(struct stub_thread *thread)
{
    if (debugging())
        ompd_bp_thread_end();
    TELL(thread, thread, false);
    current = NULL;
    pthread_mutex_lock(&omp_stub_process.mutex);
    unlist_thread(thread);
    ending--;
    pthread_cond_broadcast(&began);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    pthread_cond_destroy(&thread->wake);
    free(thread);
}

static void *work_for_teams(void *unused)
{
    (void)unused;
    struct stub_thread *thread = new_thread(STUB_THREAD_WORKER);
    struct whole_thread *whole = whole_thread(thread);
    whole->is_idle = true;
    thread->idle_frame = __builtin_frame_address(0);
    current = thread;
    set_state(thread, STUB_IDLE, NULL);
    pthread_mutex_lock(&omp_stub_process.mutex);
    list_thread(thread);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    if (debugging())
        ompd_bp_thread_begin();
    TELL(thread, thread, true);
    TELL(idle, thread, true);
    pthread_mutex_lock(&omp_stub_process.mutex);
    put_into_pool(thread);
    beginning--;
    pthread_cond_broadcast(&began);
    for (;;) {
        while (!whole->start && !whole->quits)
            pthread_cond_wait(&thread->wake, &omp_stub_process.mutex);
        struct stub_team *team = whole->start;
        whole->start = NULL;
        pthread_mutex_unlock(&omp_stub_process.mutex);
        TELL(idle, thread, false);
        if (!team)
            break;
        whole->is_idle = false;
        run_implicit(thread);
        pass_barrier(thread, STUB_BARRIER_CLOSING);
        release_team(team);
        whole->is_idle = true;
        pthread_mutex_lock(&omp_stub_process.mutex);
    }
    end_worker(thread);
    return NULL;
}

void end_pool(void)
{
    pthread_mutex_lock(&omp_stub_process.mutex);
    while (omp_stub_process.pool) {
        struct stub_thread *thread = omp_stub_process.pool;
        PUBLISH(omp_stub_process.pool, thread->next_idle);
        omp_stub_process.idle_count--;
        thread->next_idle = NULL;
        whole_thread(thread)->quits = true;
        pthread_cond_signal(&thread->wake);
        ending++;
    }
    while (ending)
        pthread_cond_wait(&began, &omp_stub_process.mutex);
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

/* Of the calling thread, unless it is a worker or within a region: it is one no more, and if it calls again a new one. */
bool end_initial_thread(void)
{
    struct stub_thread *thread = current;
    if (!thread || !thread->team || thread->team->level)
        return false;
    keep_icvs(thread);
    pthread_setspecific(end_of_thread, NULL);
    forget_thread(thread);
    return true;
}

/* Other mutexes are locked while these are, too: fork() leaves their owners behind. */
void lock_threads(void)
{
    pthread_mutex_lock(&omp_stub_process.mutex);
    pthread_mutex_lock(&id_mutex);
}

void unlock_threads(void)
{
    pthread_mutex_unlock(&id_mutex);
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

/* In the child of fork() there is the thread that called it alone, and as one that has met nothing yet. What its parent's
 * threads had is lost: some of it only they could find. */
void lose_threads(void)
{
    unlock_threads();
    pthread_cond_init(&began, NULL);
    beginning = ending = 0;
    omp_stub_process.threads = omp_stub_process.pool = NULL;
    omp_stub_process.teams = NULL;
    omp_stub_process.thread_count = omp_stub_process.idle_count = 0;
    if (current) {
        if (current->task)
            keep_icvs(current);
        pthread_setspecific(end_of_thread, NULL);
    }
    current = NULL;
}

static void make_worker(void)
{
    pthread_attr_t attributes;
    pthread_t ignored;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_attr_setstacksize(&attributes, omp_stub_process.stack_size))
        fail("no thread can have a stack of %llu bytes", (unsigned long long)omp_stub_process.stack_size);
    int error = pthread_create(&ignored, &attributes, work_for_teams, NULL);
    if (error)
        fail("no more threads: %s", strerror(error));
    pthread_attr_destroy(&attributes);
    beginning++;
}

void take_workers(struct stub_thread *primary, struct stub_team *team, int32_t count)
{
    while (omp_stub_process.idle_count < count) {
        while (omp_stub_process.idle_count + beginning < count)
            make_worker();
        pthread_cond_wait(&began, &omp_stub_process.mutex);
    }
    for (int32_t num = 1; num <= count; num++) {
        struct stub_thread *thread = take_from_pool(primary, num);
        if (team->level == 1) {
            whole_thread(thread)->last_primary = primary;
            whole_thread(thread)->last_num = num;
        }
        team->threads[num] = thread;
    }
}

void start_workers(struct stub_team *team)
{
    pthread_mutex_lock(&omp_stub_process.mutex);
    for (int32_t num = 1; num < team->size; num++) {
        whole_thread(team->threads[num])->start = team;
        pthread_cond_signal(&team->threads[num]->wake);
    }
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

void retire_workers(struct stub_team *team)
{
    for (int32_t num = 1; num < team->size; num++) {
        struct stub_thread *thread = team->threads[num];
        set_state(thread, STUB_IDLE, NULL);
        team->implicit[num]->status = STUB_COMPLETE;
        thread->work = NULL;
        PUBLISH(thread->team, NULL); /* one that is in a team has a task */
        PUBLISH(thread->task, NULL);
        put_into_pool(thread);
    }
}
