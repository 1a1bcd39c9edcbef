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

enum { OWN_FAULT = 70, MAX_WARNINGS = 100, MAX_WARNING = 2000 };

struct PACKED header { uint32_t size, kind; };
struct PACKED ready { uint32_t version, outcome; int32_t code; uint32_t rows; int64_t api; };
struct PACKED row { uint64_t first, second; uint32_t size; };

static int end;                            /* of the socket */
static volatile uint64_t *progress;        /* calls begun, the function that runs */
static uint64_t begun;
static pid_t own_process, own_thread;
static int warnings;

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

void send_message(enum kind kind, struct buffer *body)
{
    struct header header = {(uint32_t)body->size, kind};
    if (getpid() != own_process)
        stop(NULL);
    send_exactly(&header, sizeof header);
    send_exactly(body->bytes, body->size);
    free(body->bytes);
}

enum kind receive(struct buffer *body)
{
    struct header header;
    receive_exactly(&header, sizeof header);
    if (header.size > MAX_MESSAGE)
        stop("a message is too large");
    *body = (struct buffer){get(header.size), header.size, header.size, 0};
    receive_exactly(body->bytes, header.size);
    return header.kind;
}

void ask_host(struct buffer *question, struct buffer *answer)
{
    send_message(CALLBACK, question);
    if (receive(answer) != ANSWER)
        stop("no answer");
}

void warn(const char *text)
{
    struct buffer body = {0};
    if (++warnings > MAX_WARNINGS)
        return;
    put(&body, text, strnlen(text, MAX_WARNING));
    send_message(WARNING, &body);
}

void ready(int64_t version, const char *text, const char *const *functions, const uint32_t *numbers, uint32_t count)
{
    struct ready head = {VERSION, CALLED, 0, count + 1, version};
    struct buffer message = {0};
    put(&message, &head, sizeof head);
    put_row(&message, 0, 0, text, text ? strnlen(text, MAX_TEXT) : 0);
    for (uint32_t at = 0; at < count; at++)
        put_row(&message, numbers[at], 0, functions[at], strlen(functions[at]));
    send_message(READY, &message);
}

_Noreturn void refuse(enum outcome outcome, int code, const char *text, int64_t version)
{
    struct ready head = {VERSION, outcome, code, 1, version};
    struct buffer message = {0};
    put(&message, &head, sizeof head);
    put_row(&message, 0, 0, text, strnlen(text, MAX_TEXT));
    send_message(READY, &message);
    stop(NULL);
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

uint32_t calls_begun(void)
{
    return (uint32_t)begun;
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
        refuse(UNLOADED, 0, reason ? reason : fault, 0);
    }
    end_call();
    if (!library)
        refuse(UNLOADED, 0, "nothing to load", 0);
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
        struct buffer body;
        enum kind kind = receive(&body);
        warnings = 0;
        if (kind == FINISH) {
            host->finish();
            stop(NULL);
        }
        if (kind != BATCH)
            stop("a message of an unknown kind");
        host->serve(&body);
        free(body.bytes);
    }
}
