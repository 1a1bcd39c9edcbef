/* What both hosts have: the protocol of docs/dev/hosted-protocol.md, and this process. */
#ifndef OMPD_HOST_H
#define OMPD_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind { BATCH = 1, RESULTS, CALLBACK, ANSWER, WARNING };
enum outcome { CALLED, ABSENT, NOT_CALLED, NO_HANDLE, BAD_HANDLE, BAD_TEXT, ENDLESS, BAD_CODE, BAD_SIZE, UNLOADED };
enum { VERSION = 3, LOAD = 38, RELEASE, FORGET, ADD };
enum { PAGE = 4096, MAX_PAGES = 1 << 14, MAX_MESSAGE = 32 << 20, MAX_TEXT = 1 << 20 };

#define PACKED __attribute__((packed))

struct PACKED call { uint16_t function, count; uint32_t makes; uint64_t words[5]; };
struct PACKED result { int32_t code; uint32_t outcome, rows, begun; uint64_t words[4]; };
struct PACKED callback { uint32_t which, context; uint64_t thread, words[3]; };
struct PACKED answer { int32_t code; uint32_t entries; };
struct PACKED entry { uint32_t what, context; uint64_t first, second; uint32_t size; };

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

/* The bytes of a message's blob to which a word refers; NULL if they are not there. */
const char *in_blob(const struct buffer *blob, uint64_t word, size_t *size);
/* A result with the rows from `start` on. */
struct result with_rows(const struct buffer *rows, size_t start, uint32_t count);

/* Has the host answer a callback. The answer is the caller's to free. */
void ask_host(const struct callback *callback, const void *bytes, size_t size, struct buffer *answer);
void warn(const char *text);

void ready(int64_t version, const char *text, const char *const *functions, const uint32_t *numbers, uint32_t count);
_Noreturn void refuse(enum outcome outcome, int code, const char *text);

/* Around each call of the library: the host sees which one it is, and how many there have been. */
void begin_call(uint32_t function);
void end_call(void);
/* Whether it is the thread that calls the library. */
bool is_own_thread(void);

/* Whether the library has called from another thread than the one that called it. */
extern bool is_elsewhere;

/* An interface: what begins with the loaded library and is ready, what makes a call, and how many blocks there are. Rows
 * of a result are put into `rows`. */
struct host {
    const char *interface;
    void (*start)(void *library);
    struct result (*perform)(const struct call *call, const struct buffer *blob, struct buffer *rows);
    uint32_t (*allocated)(void);
};
extern const struct host ompd_host, dmpl_host;

#endif
