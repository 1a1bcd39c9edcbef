/* The trace of the device: what trace.c keeps, and each generation shows as it has it. */
#ifndef OMP_STUB_TRACE_H
#define OMP_STUB_TRACE_H

#include "../internal.h"

/* A record, of which a buffer has one behind the other, and behind a header. */
enum record_kind { RECORD_TARGET_BEGINS = 1, RECORD_TARGET_ENDS, RECORD_KERNEL, RECORD_CORRELATION, RECORD_NATIVE };
struct trace_record {
    uint32_t kind;                    /* record_kind */
    uint32_t native;                  /* of a native one: its flag */
    uint64_t begin, end;              /* in nanoseconds of the device's clock; TRACE_NO_TIME */
    uint64_t task, parent;            /* the target task, and the one that met the construct */
    uint64_t activity;                /* a number of its own for each execution of a target task */
    uint64_t thread;                  /* that executed it */
    uint64_t processor;               /* on which it began */
    uint32_t target_kind, padding;
    struct stub_frame *parent_frame;
    const void *code, *codeptr;       /* of a region; the address behind the call */
};
#define TRACE_NO_TIME (~(uint64_t)0)

/* What a generation's records can be, and which of them are wanted. */
enum { TRACE_BEGINS = 1, TRACE_ENDS = 2, TRACE_KERNELS = 4 };
enum { NATIVE_INVOCATION = 0x04, NATIVE_EXECUTION = 0x08, NATIVE_ALL = NATIVE_INVOCATION | NATIVE_EXECUTION, NATIVE_KNOWN = 0xff };

typedef void trace_request(int device, void **buffer, size_t *bytes);
typedef void trace_complete(void (*callback)(void), void *buffer, size_t bytes, uint64_t begin, uint64_t end);
struct trace_user {
    trace_request *request;           /* the tool's */
    trace_complete *complete;         /* calls that of the tool, */
    void (*callback)(void);           /* which is this one */
    bool correlates;                  /* there are records for that */
};

bool start_trace(const struct trace_user *user);
bool pause_trace(bool begins);
bool flush_trace(void);
bool stop_trace(void);
void end_trace(void);                 /* with its tool */
void want_records(unsigned kinds, bool wanted);
int want_native(unsigned flags, bool wanted); /* how many of these kinds there are: 0 none, 1 some, 2 all; -1: no such kind */
const struct trace_record *record_at(const void *buffer, uint64_t cursor); /* NULL if there is none */
bool advance_cursor(const void *buffer, uint64_t cursor, uint64_t *next);
uint64_t device_time(void);
const char *native_name(const struct trace_record *record);

extern char the_device;               /* its address is what tools name it by */
extern const char device_type[], device_documentation[];

#endif
