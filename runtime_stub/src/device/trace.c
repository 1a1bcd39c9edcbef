/* The trace of the device, into buffers that the tool provides. Threads that execute target tasks write records; a thread of
 * the device's own asks the tool for buffers and gives them back, and meets nothing of OpenMP. */
#include "trace.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

char the_device;
const char device_type[] = "the host as a device, libomp_stub 1.0";
const char device_documentation[] = "The device shares the memory of the host. There are no functions of its own.\n";

/* At the beginning of a buffer. Cursors are offsets into it. */
struct header {
    uint64_t first, end;              /* of the first record, and behind the last */
};
enum { ALIGNMENT = 16 };

/* A buffer that the tool has not back yet; of one that is too small for a record, first and end are 0. */
struct buffer {
    struct buffer *next;
    void *memory;
    size_t bytes;
    uint64_t first, end;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {                       /* all under the mutex */
    struct trace_user user;
    pthread_t server;
    struct buffer *current;           /* that is written to */
    struct buffer *full;              /* that wait for the tool, oldest first */
    bool is_running, is_paused;       /* running: records are written */
    bool is_stopping;                 /* the server is to end */
    bool has_server;
    bool wants_buffer, is_refused;    /* refused: the tool does not provide any more */
    bool is_delivering;
    unsigned kinds, native;           /* that are wanted */
} trace;

uint64_t device_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* as omp_get_wtime() */
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void finish_current(void)
{
    struct buffer *buffer = trace.current, **place = &trace.full;
    if (!buffer)
        return;
    trace.current = NULL;
    if (buffer->first) {
        struct header *header = (struct header *)((char *)buffer->memory + buffer->first) - 1;
        header->first = buffer->first;
        header->end = buffer->end;
    }
    while (*place)
        place = &(*place)->next;
    *place = buffer;
    pthread_cond_broadcast(&changed);
}

/* What the tool has answered. The mutex is locked. */
static void use_buffer(void *memory, size_t bytes)
{
    size_t first = (-(uintptr_t)memory & (ALIGNMENT - 1)) + sizeof(struct header);
    if (!memory || !bytes) {
        trace.is_refused = true;
        return;
    }
    struct buffer *buffer = allocate(sizeof *buffer);
    buffer->memory = memory;
    buffer->bytes = bytes;
    trace.current = buffer;
    if (bytes >= first && bytes - first >= sizeof(struct trace_record)) {
        buffer->first = buffer->end = first;
        return;
    }
    finish_current();
    trace.is_refused = true;
}

static void deliver(void)
{
    struct buffer *buffer = trace.full;
    struct trace_user user = trace.user;
    trace.full = buffer->next;
    trace.is_delivering = true;
    pthread_mutex_unlock(&mutex);
    user.complete(user.callback, buffer->memory, buffer->bytes, buffer->first, buffer->end);
    free(buffer);
    pthread_mutex_lock(&mutex);
    trace.is_delivering = false;
    pthread_cond_broadcast(&changed);
}

static void request(void)
{
    struct trace_user user = trace.user;
    void *memory = NULL;
    size_t bytes = 0;
    pthread_mutex_unlock(&mutex);
    user.request(THE_DEVICE, &memory, &bytes);
    pthread_mutex_lock(&mutex);
    trace.wants_buffer = false;
    use_buffer(memory, bytes);
    if (trace.is_stopping)
        finish_current();             /* nobody writes any more */
    pthread_cond_broadcast(&changed);
}

static void *serve(void *unused)
{
    pthread_mutex_lock(&mutex);
    for (;;) {
        if (trace.full)
            deliver();
        else if (trace.is_stopping)
            break;
        else if (trace.wants_buffer)
            request();
        else
            pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

static bool is_server(void)
{
    return trace.has_server && pthread_equal(trace.server, pthread_self());
}

/* Signals are for the program's threads. */
static bool make_server(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&trace.server, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !error;
}

bool start_trace(const struct trace_user *user)
{
    bool is_started = false;
    pthread_mutex_lock(&mutex);
    if (!trace.has_server && user->request && user->callback) {
        trace.user = *user;
        trace.is_stopping = trace.is_paused = trace.is_refused = trace.wants_buffer = false;
        is_started = trace.is_running = trace.has_server = make_server();
    }
    pthread_mutex_unlock(&mutex);
    return is_started;
}

bool pause_trace(bool begins)
{
    pthread_mutex_lock(&mutex);
    bool is_running = trace.is_running;
    trace.is_paused = begins;
    pthread_mutex_unlock(&mutex);
    return is_running;
}

/* Until the tool has had the records. */
bool flush_trace(void)
{
    pthread_mutex_lock(&mutex);
    bool may = trace.is_running && !is_server();
    if (may) {
        finish_current();
        while (trace.full || trace.is_delivering)
            pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return may;
}

/* Until the tool has all buffers back. The server itself cannot wait for that. */
bool stop_trace(void)
{
    pthread_mutex_lock(&mutex);
    bool may = trace.is_running && !is_server();
    if (may) {
        trace.is_running = false;
        trace.is_stopping = true;
        finish_current();
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        pthread_join(trace.server, NULL);
        pthread_mutex_lock(&mutex);
        trace.has_server = false;
    }
    pthread_mutex_unlock(&mutex);
    return may;
}

void end_trace(void)
{
    stop_trace();
    want_records(~0u, false);
    want_native(NATIVE_ALL, false);
}

/* The server is not in a child of fork(), and whoever had the mutex may not be, either. */
void lose_trace(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t unchanged = PTHREAD_COND_INITIALIZER;
    mutex = unlocked;
    changed = unchanged;
    memset(&trace, 0, sizeof trace);
}

void want_records(unsigned kinds, bool wanted)
{
    pthread_mutex_lock(&mutex);
    trace.kinds = wanted ? trace.kinds | kinds : trace.kinds & ~kinds;
    pthread_mutex_unlock(&mutex);
}

int want_native(unsigned flags, bool wanted)
{
    if (!flags || flags & ~(unsigned)NATIVE_KNOWN)
        return -1;
    pthread_mutex_lock(&mutex);
    trace.native = wanted ? trace.native | (flags & NATIVE_ALL) : trace.native & ~flags;
    pthread_mutex_unlock(&mutex);
    return !(flags & NATIVE_ALL) ? 0 : flags & ~(unsigned)NATIVE_ALL ? 1 : 2;
}

/* A record waits for its buffer, which is the tool's time; where none comes it is dropped. The mutex is locked. */
static void write_record(const struct trace_record *record)
{
    while (trace.is_running && !trace.is_refused) {
        struct buffer *buffer = trace.current;
        if (buffer && buffer->bytes - buffer->end >= sizeof *record) {
            memcpy((char *)buffer->memory + buffer->end, record, sizeof *record);
            buffer->end += sizeof *record;
            return;
        }
        finish_current();
        trace.wants_buffer = true;
        pthread_cond_broadcast(&changed);
        while (trace.is_running && trace.wants_buffer)
            pthread_cond_wait(&changed, &mutex);
    }
}

static void write_if_wanted(struct trace_record record, enum record_kind kind, bool is_wanted)
{
    record.kind = kind;
    if (is_wanted)
        write_record(&record);
}

static bool may_write(void)
{
    return trace.is_running && !trace.is_paused && !is_server();
}

static struct trace_record record_of(struct stub_thread *thread, struct stub_task *task, uint64_t begin, uint64_t end)
{
    bool is_region = whole_task(task)->target_kind == TARGET_REGION;
    return (struct trace_record){
        .begin = begin, .end = end, .task = task->id, .parent = task->generating->id,
        .activity = whole_task(task)->operation, .thread = thread->id, .processor = (uint64_t)sched_getcpu(),
        .target_kind = whole_task(task)->target_kind, .parent_frame = &task->generating->frame,
        .code = is_region ? (const void *)(uintptr_t)task->function : NULL, .codeptr = codeptr_of(task->generating),
    };
}

static void write_native(struct trace_record record, uint32_t flag)
{
    record.native = flag;
    write_if_wanted(record, RECORD_NATIVE, trace.native & flag);
}

uint64_t trace_begins(struct stub_thread *thread, struct stub_task *task)
{
    if (!told())
        return 0;
    struct trace_record record = record_of(thread, task, device_time(), TRACE_NO_TIME);
    pthread_mutex_lock(&mutex);
    if (may_write()) {
        bool is_region = record.target_kind == TARGET_REGION;
        write_if_wanted(record, RECORD_CORRELATION, trace.user.correlates && is_region);
        write_if_wanted(record, RECORD_TARGET_BEGINS, trace.kinds & TRACE_BEGINS);
        if (is_region)
            write_native(record, NATIVE_INVOCATION);
    }
    pthread_mutex_unlock(&mutex);
    return record.begin;
}

void trace_ends(struct stub_thread *thread, struct stub_task *task, uint64_t start)
{
    if (!told() || !start)
        return;
    uint64_t now = device_time();
    struct trace_record record = record_of(thread, task, start, now);
    pthread_mutex_lock(&mutex);
    if (may_write()) {
        if (record.target_kind == TARGET_REGION) {
            write_native(record, NATIVE_EXECUTION);
            write_if_wanted(record, RECORD_KERNEL, trace.kinds & TRACE_KERNELS);
        }
        record.begin = now;           /* of this record, which has one time */
        write_if_wanted(record, RECORD_TARGET_ENDS, trace.kinds & TRACE_ENDS);
    }
    pthread_mutex_unlock(&mutex);
}

const struct trace_record *record_at(const void *buffer, uint64_t cursor)
{
    uint64_t first = (-(uintptr_t)buffer & (ALIGNMENT - 1)) + sizeof(struct header);
    if (!buffer || cursor < first || (cursor - first) % sizeof(struct trace_record))
        return NULL;
    const struct header *header = (const struct header *)((const char *)buffer + first) - 1;
    return header->first == first && cursor < header->end ? (const struct trace_record *)((const char *)buffer + cursor) : NULL;
}

bool advance_cursor(const void *buffer, uint64_t cursor, uint64_t *next)
{
    uint64_t after = cursor + sizeof(struct trace_record);
    if (!record_at(buffer, cursor) || !record_at(buffer, after))
        return false;
    *next = after;
    return true;
}

const char *native_name(const struct trace_record *record)
{
    return record->native == NATIVE_INVOCATION ? "a kernel is invoked" : "a kernel is executed";
}
