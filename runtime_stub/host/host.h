/* What both hosts have: the protocol of docs/dev/hosted-protocol.md, and this process. */
#ifndef OMPD_HOST_H
#define OMPD_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind { READY = 1, BATCH, RESULTS, CALLBACK, ANSWER, WARNING, FINISH, FINISHED };
enum outcome { CALLED, ABSENT, NOT_CALLED, NO_HANDLE, BAD_HANDLE, BAD_TEXT, ENDLESS, BAD_CODE, BAD_SIZE, UNLOADED };
enum { VERSION = 2, LOAD = 38, PAGE = 4096, MAX_PAGES = 1 << 14, MAX_MESSAGE = 32 << 20, MAX_TEXT = 1 << 20 };

#define PACKED __attribute__((packed))

/* Bytes: `at` is where the next ones are read. A buffer of zeros is empty. */
struct buffer {
    char *bytes;
    size_t size, room, at;
};

/* Ends the process: the host reads the fault, which is NULL where the host itself is gone. */
_Noreturn void stop(const char *fault);
/* Zeros; never NULL. */
void *get(size_t size);

void put(struct buffer *buffer, const void *bytes, size_t size);
void put_row(struct buffer *rows, uint64_t first, uint64_t second, const char *text, size_t size);
void take(struct buffer *buffer, void *into, size_t size);

/* Frees the body. A process that the library has forked sends nothing, and ends. */
void send_message(enum kind kind, struct buffer *body);
/* The body is the caller's to free. */
enum kind receive(struct buffer *body);
/* Has the host answer a callback. */
void ask_host(struct buffer *question, struct buffer *answer);
void warn(const char *text);

void ready(int64_t version, const char *text, const char *const *functions, const uint32_t *numbers, uint32_t count);
_Noreturn void refuse(enum outcome outcome, int code, const char *text, int64_t version);

/* Around each call of the library: the host sees which one it is, and how many there have been. */
void begin_call(uint32_t function);
void end_call(void);
uint32_t calls_begun(void);
/* Whether it is the thread that calls the library. */
bool is_own_thread(void);

/* An interface: what begins with the loaded library and sends READY, what answers a batch, and what ends. */
struct host {
    const char *interface;
    void (*start)(void *library);
    void (*serve)(struct buffer *batch);
    void (*finish)(void);
};
extern const struct host ompd_host, dmpl_host;

#endif
