/* What OMPD's libraries call back for: target.c. */
#ifndef OMPD_HOST_TARGET_H
#define OMPD_HOST_TARGET_H

#include "host.h"

enum rc {
    OK, UNAVAILABLE, STALE_HANDLE, BAD_INPUT, ERROR, UNSUPPORTED, NEEDS_STATE_TRACKING, INCOMPATIBLE, DEVICE_READ_ERROR,
    DEVICE_WRITE_ERROR, NOMEM, INCOMPLETE, CALLBACK_ERROR, INCOMPATIBLE_HANDLE, RC_COUNT
};
enum { MAX_ID = 64 };

/* ompd_callbacks_t */
extern void *const callbacks[];
/* What the library has allocated and not freed. */
extern uint32_t block_count;
extern uint64_t allocated;
/* False if it is none of the library's blocks. */
bool give_block(void *memory);

/* Memory of this process that the library has an address of; false if nothing is there. */
bool read_own(const void *address, void *buffer, size_t size);
/* The caller's; NULL if there is no text, or one of 1 MiB. */
char *text_at(const char *address);

/* What is known of the processes and devices that the library reads, by their contexts. */
void add_space(uint32_t context);
void drop_space(uint32_t context);

#endif
