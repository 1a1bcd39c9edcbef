/* Hosts a library for a debugger of another architecture, as for 32-bit libraries and a debugger of 64 bits: speaks the
 * protocol of docs/dev/hosted-protocol.md, and knows nothing else. Arguments: the interface, the descriptors of a socket, of a
 * page and of a pipe, how many bytes the library may have, and what to load: for each file its name, its descriptor, and 1
 * if its symbols are for all.
 *
 * It is confined before it starts (ompd/runtimes/hosted/loading/sandbox.py), and ends as soon as the debugger is gone, or
 * sends what cannot be. Little-endian machines alone. */
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWN_FAULT = 70, MAX_WARNINGS = 100, MAX_WARNING = 2000, MAX_ALL_ROWS = MAX_MESSAGE / 2, RC_ERROR = 4 };

struct PACKED header { uint32_t size, kind; };
struct PACKED row { uint64_t first, second; uint32_t size; };
struct PACKED results { uint32_t count, blocks; };

static int end;                            /* of the socket */
static volatile uint64_t *progress;        /* calls begun, the function that runs */
static uint64_t begun;
static pid_t own_process, own_thread;
static int warnings;
bool is_elsewhere;

_Noreturn void stop(const char *fault)
{
    if (fault)
        dprintf(2, "%s\n", fault);
    _exit(fault ? OWN_FAULT : 0);
}

void *get(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        stop("no memory");
    return memory;
}

/* Messages */

void put(struct buffer *buffer, const void *bytes, size_t size)
{
    if (buffer->size + size > buffer->room) {
        buffer->room = 2 * (buffer->size + size);
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        if (!buffer->bytes)
            stop("no memory");
    }
    if (size)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

void put_row(struct buffer *rows, uint64_t first, uint64_t second, const char *text, size_t size)
{
    struct row row = {first, second, (uint32_t)size};
    put(rows, &row, sizeof row);
    put(rows, text, size);
}

void take(struct buffer *buffer, void *into, size_t size)
{
    if (size > buffer->size - buffer->at)
        stop("a message is too short");
    if (size)
        memcpy(into, buffer->bytes + buffer->at, size);
    buffer->at += size;
}

static void receive_exactly(void *buffer, size_t size)
{
    for (char *at = buffer; size;) {
        ssize_t part = read(end, at, size);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            stop(NULL);
        at += part;
        size -= (size_t)part;
    }
}

static void send_exactly(const void *bytes, size_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t part = write(end, at, size);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            stop(NULL);
        at += part;
        size -= (size_t)part;
    }
}

const char *in_blob(const struct buffer *blob, uint64_t word, size_t *size)
{
    size_t start = (size_t)(word >> 32);
    *size = (size_t)(word & 0xFFFFFFFF);
    return start > blob->size || *size > blob->size - start ? NULL : blob->bytes + start;
}

/* Frees the body. A process that the library has forked sends nothing, and ends. */
static void send_message(enum kind kind, struct buffer *body)
{
    struct header header = {(uint32_t)body->size, kind};
    if (getpid() != own_process)
        stop(NULL);
    send_exactly(&header, sizeof header);
    send_exactly(body->bytes, body->size);
    free(body->bytes);
}

/* The body is the caller's to free. */
static void receive(enum kind wanted, struct buffer *body)
{
    struct header header;
    receive_exactly(&header, sizeof header);
    if (header.size > MAX_MESSAGE)
        stop("a message is too large");
    if (header.kind != wanted)
        stop("a message of the wrong kind");
    *body = (struct buffer){get(header.size), header.size, header.size, 0};
    receive_exactly(body->bytes, header.size);
}

void ask_host(const struct callback *callback, const void *bytes, size_t size, struct buffer *answer)
{
    struct buffer message = {0};
    put(&message, callback, sizeof *callback);
    put(&message, bytes, size);
    send_message(CALLBACK, &message);
    receive(ANSWER, answer);
}

void warn(const char *text)
{
    struct buffer body = {0};
    if (++warnings > MAX_WARNINGS)
        return;
    put(&body, text, strnlen(text, MAX_WARNING));
    send_message(WARNING, &body);
}

struct result with_rows(const struct buffer *rows, size_t start, uint32_t count)
{
    struct result result = {.rows = count};
    result.words[0] = (uint64_t)start << 32 | (rows->size - start);
    return result;
}

static void send_results(uint32_t count, uint32_t blocks, const struct buffer *results, struct buffer *rows)
{
    struct results head = {count, blocks};
    struct buffer message = {0};
    put(&message, &head, sizeof head);
    put(&message, results->bytes, results->size);
    put(&message, rows->bytes, rows->size);
    send_message(RESULTS, &message);
    free(rows->bytes);
}

/* The result of the library's start. */
static void send_start(struct result result, int64_t version, struct buffer *rows)
{
    struct buffer results = {(char *)&result, sizeof result, sizeof result, 0};
    result.words[1] = VERSION;
    result.words[2] = (uint64_t)version;
    send_results(1, 0, &results, rows);
}

void ready(int64_t version, const char *text, const char *const *functions, const uint32_t *numbers, uint32_t count)
{
    struct buffer rows = {0};
    put_row(&rows, 0, 0, text, text ? strnlen(text, MAX_TEXT) : 0);
    for (uint32_t at = 0; at < count; at++)
        put_row(&rows, numbers[at], 0, functions[at], strlen(functions[at]));
    send_start(with_rows(&rows, 0, count + 1), version, &rows);
}

_Noreturn void refuse(enum outcome outcome, int code, const char *text)
{
    struct buffer rows = {0};
    put_row(&rows, 0, 0, text, strnlen(text, MAX_TEXT));
    struct result result = with_rows(&rows, 0, 1);
    result.outcome = outcome;
    result.code = code;
    send_start(result, 0, &rows);
    stop(NULL);
}

/* Makes the calls of a batch. */
static void serve(const struct host *host, struct buffer *batch)
{
    struct buffer results = {0}, rows = {0};
    uint32_t count;
    take(batch, &count, sizeof count);
    if (count > (batch->size - batch->at) / sizeof(struct call))
        stop("a batch is too short");
    size_t calls_size = count * sizeof(struct call), left = batch->size - batch->at - calls_size;
    const struct buffer blob = {batch->bytes + batch->at + calls_size, left, left, 0};
    for (uint32_t index = 0; index < count; index++) {
        struct call call;
        take(batch, &call, sizeof call);
        size_t start = rows.size;
        struct result result = host->perform(&call, &blob, &rows);
        if (rows.size > MAX_ALL_ROWS) {
            rows.size = start;
            result = (struct result){.code = RC_ERROR, .outcome = BAD_SIZE};
        }
        result.begun = (uint32_t)begun;
        put(&results, &result, sizeof result);
    }
    if (is_elsewhere) {
        is_elsewhere = false;
        warn("called back from a thread of its own, which is refused");
    }
    send_results(count, host->allocated(), &results, &rows);
    free(results.bytes);
}

/* Calls of the library */

void begin_call(uint32_t function)
{
    progress[0] = ++begun;
    progress[1] = function;
}

void end_call(void)
{
    if (getpid() != own_process)
        stop(NULL);
    progress[1] = 0;
}

bool is_own_thread(void)
{
    return syscall(SYS_gettid) == own_thread;
}

/* What is there already stays: a second C library would be another one. */
static void *load(int count, char **steps)
{
    void *library = NULL;
    begin_call(LOAD);
    for (int at = 0; at + 2 < count; at += 3) {
        char path[64], fault[256];
        int mode = RTLD_NOW | (atoi(steps[at + 2]) ? RTLD_GLOBAL : RTLD_LOCAL);
        bool is_file = steps[at + 1][0] != '-', is_last = at + 5 >= count;
        snprintf(path, sizeof path, "/proc/self/fd/%s", steps[at + 1]);
        library = is_last ? NULL : dlopen(steps[at], mode | RTLD_NOLOAD);
        if (!library && is_file)
            library = dlopen(path, mode);
        if (library)
            continue;
        snprintf(fault, sizeof fault, "the library needs %s, which this process does not have", steps[at]);
        const char *reason = is_file ? dlerror() : NULL;
        refuse(UNLOADED, 0, reason ? reason : fault);
    }
    end_call();
    if (!library)
        refuse(UNLOADED, 0, "nothing to load");
    return library;
}

/* The kernel ends this process when the host's end of the pipe is closed, whatever runs here meanwhile. */
static void end_with(int lifeline)
{
    char nothing;
    signal(SIGINT, SIG_IGN);
    fcntl(lifeline, F_SETOWN, getpid());
    fcntl(lifeline, F_SETSIG, SIGKILL);
    fcntl(lifeline, F_SETFL, fcntl(lifeline, F_GETFL) | O_ASYNC | O_NONBLOCK);
    if (read(lifeline, &nothing, 1) == 0)
        stop(NULL);
}

int main(int argc, char **argv)
{
    if (argc < 9)
        return 1;
    const struct host *host = strcmp(argv[1], dmpl_host.interface) ? &ompd_host : &dmpl_host;
    own_process = getpid();
    own_thread = (pid_t)syscall(SYS_gettid);
    end = atoi(argv[2]);
    end_with(atoi(argv[4]));
    progress = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
    if (progress == MAP_FAILED)
        stop("the page cannot be mapped");
    host->start(load(argc - 6, argv + 6));
    for (;;) {
        struct buffer batch;
        receive(BATCH, &batch);
        warnings = 0;
        serve(host, &batch);
        free(batch.bytes);
    }
}
