/* What the files of the library share. It is linked without a C library: it needs nothing of one. */
#ifndef DMPL_INTERNAL_H
#define DMPL_INTERNAL_H

#include "Dmpl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Codes of this library's own. */
enum {
    STUB_NO_MEMORY = DMPL_first_user_code,
    STUB_NOT_THREADPRIVATE,
    STUB_DAMAGED,
    STUB_NOT_INITIALISED
};

/* The arguments of DMPL_initialise and of DMPL_extend; the latter is NULL if the debugger knows only the paper. This
 * part of the library keeps nothing else. */
extern const DMPL_callbacks_t *dmpl_callbacks;
extern const DMPL_extension_t *dmpl_extension;

/* A part of a text. */
struct span {
    const char *start;
    size_t length;
};

static inline size_t length_of(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

static inline bool same(const char *one, const char *other, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (one[at] != other[at])
            return false;
    return true;
}

/* layout.c: where the stub's structures have their members, by what the runtime publishes. */
struct layout_query {
    const char *structure, *member; /* "" for the structure's own size */
    uint64_t value;                 /* the member's offset, or the size */
    bool found;
};
/* How it reads: by DMPL's callbacks or OMPD's. All return 0 or a code, which is returned. */
struct layout_source {
    void *of;
    int (*symbol)(void *of, const char *name, uint64_t *address);
    int (*read)(void *of, uint64_t address, void *buffer, size_t size);
    int (*number)(void *of, const void *raw, size_t size, uint64_t *number);
    void *(*memory)(size_t size);
    void (*free)(void *memory);
    int no_memory, damaged;
};
int stub_read_layout(const struct layout_source *source, struct layout_query *queries, size_t count);

#endif
