/* The insides of the stub, as a debugger's plugin reads them.
 *
 * Everything that the runtime knows is reached from one object, `omp_stub_process`. Where members lie is published in
 * `omp_stub_layout`, an array of fixed records, so that a plugin needs neither this file nor debug information; the
 * records are made of the list at the end of this file. A plugin may rely on these names, not on their order.
 *
 * What is marked [debug] is kept only while `debug_enabled` is set: OMP_DEBUG=on (OMPD, 2015) or =enabled (OpenMP 5), or
 * omp_debug_enable() before the first construct, or a tool that is registered (OMPT). Without, it stays zero. All else is what the runtime needs to run.
 *
 * Identifiers (`id`) are unique among those of their kind as long as the process lives, and never 0, which stands for
 * "none" (OMPT technical report, 2015). Every list ends with NULL, and every pointer is NULL where there is nothing.
 */
#ifndef OMP_STUB_STRUCTURES_H
#define OMP_STUB_STRUCTURES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "omp_stub.h" /* struct omp_stub_private */

/* ompt_state_t of the report of 2015, appendix "Runtime states". OpenMP 5 numbers them otherwise. */
enum stub_state {
    STUB_WORK_SERIAL = 0x00, STUB_WORK_PARALLEL = 0x01, STUB_WORK_REDUCTION = 0x02,
    STUB_IDLE = 0x10,
    STUB_OVERHEAD = 0x20,
    STUB_WAIT_BARRIER = 0x40, STUB_WAIT_BARRIER_IMPLICIT = 0x41, STUB_WAIT_BARRIER_EXPLICIT = 0x42,
    STUB_WAIT_TASKWAIT = 0x50, STUB_WAIT_TASKGROUP = 0x51,
    STUB_WAIT_LOCK = 0x60, STUB_WAIT_NEST_LOCK = 0x61, STUB_WAIT_CRITICAL = 0x62, STUB_WAIT_ATOMIC = 0x63,
    STUB_WAIT_ORDERED = 0x64,
    STUB_UNDEFINED = 0x80
};

/* ompt_thread_type_t and ompt_task_type_t of the report. Its "serial" task is OpenMP's initial task. "Degenerate" is an
 * explicit task that did not become one: undeferred or included, executed at once by the thread that met it. */
enum stub_thread_type { STUB_THREAD_INITIAL = 1, STUB_THREAD_WORKER = 2, STUB_THREAD_OTHER = 3 };
enum stub_task_type {
    STUB_TASK_SERIAL = 1, STUB_TASK_IMPLICIT = 2, STUB_TASK_EXPLICIT = 3, STUB_TASK_TARGET = 4, STUB_TASK_DEGENERATE = 5
};

enum stub_task_status {
    STUB_CREATED = 1,   /* waits for predecessors, or in a queue */
    STUB_EXECUTING = 2, /* the innermost task of its thread, whatever it waits for */
    STUB_SUSPENDED = 3, /* its thread executes another task meanwhile: one that it scheduled, or a region's implicit one */
    STUB_DETACHED = 4,  /* its code is over, its event is not fulfilled */
    STUB_COMPLETE = 5   /* kept only for its children */
};

/* ompt_frame_t of the report, whose members have these names, with the flags that OpenMP 5 added. An address stands for
 * the frame that contains it: sp <= address < CFA. */
struct stub_frame {
    void *exit_runtime_frame;     /* [debug] frame of the runtime's routine that called the task's code */
    void *reenter_runtime_frame;  /* [debug] frame of the user's function that called the runtime to create a task or
                                   * region, or to wait; NULL while the task executes code of the user's */
    int32_t exit_frame_flags;     /* [debug] ompt_frame_flag_t: runtime | framepointer (0x20) where set, else 0; 0x31 in
                                   * the implicit task of a primary thread whose compiler called GOMP_parallel_start:
                                   * then it is user code that called the region's */
    int32_t reenter_frame_flags;  /* [debug] application | stackaddress (0x31) where set, else 0 */
};

/* What OpenMP calls data environment ICVs: a task has its own, and hands them on to those that it generates. */
struct stub_icvs {
    int32_t nthreads;             /* nthreads-var, for the next level */
    int32_t dynamic;              /* dyn-var */
    int32_t max_active_levels;    /* max-active-levels-var */
    int32_t schedule_kind;        /* run-sched-var: omp_sched_t, with omp_sched_monotonic as the highest bit */
    int32_t schedule_chunk;
    int32_t default_device;       /* default-device-var */
    int32_t thread_limit;         /* thread-limit-var */
    int32_t proc_bind;            /* bind-var: omp_proc_bind_t */
};

enum stub_lock_kind { /* of what a stub_lock is */
    STUB_LOCK = 1, STUB_NEST_LOCK = 2, STUB_CRITICAL = 3, STUB_CRITICAL_UNNAMED = 4, STUB_ATOMIC = 5
};

struct stub_thread;
struct stub_task;

/* Whatever excludes others: a user's lock, a critical construct's, the one behind atomic constructs. A lock variable of
 * the user's holds its number in `locks`, a critical construct's word its address. */
struct stub_lock {
    uint64_t id;
    struct stub_lock *next;           /* of all that exist, in process.locks */
    uint32_t kind;                    /* stub_lock_kind */
    uint32_t number;                  /* of locks and nest locks: what the user's variable holds; from 1 on, else 0 */
    void *variable;                   /* the user's lock variable, or the word of the critical construct; NULL for others */
    struct stub_thread *owner;        /* who holds it; of a nest lock, who executes owner_task */
    struct stub_task *owner_task;     /* the task that holds a nest lock */
    int32_t count;                    /* how often it is held: 0, 1, more of a nest lock */
    int32_t waiter_count;
    struct stub_thread *first_waiter; /* first in line, who gets it next; linked by thread.next_waiter */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

/* The end of waiting for tasks that a construct has generated. */
struct stub_taskgroup {
    struct stub_taskgroup *enclosing;
    struct stub_task *task;           /* that met the construct */
    int32_t count;                    /* tasks of it that are not over */
};

/* What a depend clause says. gcc tells `out` from `inout` only where a depobj construct stands between. */
enum stub_depend { STUB_DEPEND_IN = 1, STUB_DEPEND_OUT = 2, STUB_DEPEND_INOUT = 3, STUB_DEPEND_MUTEXINOUTSET = 4 };

/* An item of a task's depend clauses, outputs first; what is inout or mutexinoutset is an output too. */
struct stub_dependence {
    void *address;
    int32_t is_out;
    uint32_t kind;                    /* stub_depend */
};

/* A task of any kind. */
struct stub_task {
    uint64_t id;
    uint32_t type;                    /* stub_task_type */
    uint32_t status;                  /* stub_task_status */
    struct stub_task *generating;     /* whose code created it; of an implicit one, whose code met the region */
    struct stub_task *scheduling;     /* [debug] of an explicit one: the task that its thread left for it */
    struct stub_team *team;           /* that executes its region; of a serial one, the initial thread's own team */
    struct stub_thread *thread;       /* that executes it, or on which it is suspended; NULL before it begins */
    void (*function)(void *);         /* what the compiler made of its code; NULL for serial tasks */
    void *data;                       /* its argument */
    struct stub_frame frame;          /* [debug] */
    uint64_t tool_data;               /* [debug] the word of a tool */
    int32_t is_final;
    int32_t is_tied;
    int32_t is_undeferred;
    int32_t priority;
    int32_t child_count;              /* children that are not over */
    int32_t predecessor_count;        /* siblings that have to be over before it may begin */
    struct stub_task *first_child;    /* those that are not complete, explicit ones, youngest first; by next_sibling */
    struct stub_task *next_sibling;
    struct stub_task *next_queued;    /* in the queue of its team */
    struct stub_taskgroup *taskgroup; /* innermost one that it belongs to */
    struct stub_dependence *dependences;
    int32_t dependence_count;
    int32_t thread_num;               /* of serial and implicit ones: that of its thread; -1 */
    int32_t at_barrier;               /* of implicit ones: stub_barrier_kind that its thread came for, while it counts as arrived */
    struct stub_icvs icvs;
};

enum stub_barrier_kind { STUB_BARRIER_NONE = 0, STUB_BARRIER_EXPLICIT = 1, STUB_BARRIER_IMPLICIT = 2, STUB_BARRIER_CLOSING = 3 };

/* Where the threads of a team gather. */
struct stub_barrier {
    uint64_t generation;              /* how often all have passed */
    int32_t arrived;                  /* threads that have arrived and may not yet go on */
    int32_t expected;                 /* = team.size */
    uint32_t kind;                    /* stub_barrier_kind: what the last one who has arrived came for; 0 if none has */
    int32_t padding;
};

/* A worksharing construct, of those that a team has not yet left with all of its threads. */
struct stub_work {
    uint64_t number;                  /* the how many-th of its team, from 1 on */
    struct stub_work *next;
    uint32_t kind;                    /* 1 loop, 2 sections, 3 single */
    int32_t ordered;                  /* 1 if it has an ordered clause */
    int64_t begin, end, step;         /* of a loop; of sections 1, count + 1, 1; unsigned loops as their bits */
    int64_t next_iteration;           /* that no thread has taken yet; of static schedules, which need none, = begin */
    int64_t chunk;
    uint32_t schedule;                /* omp_sched_t */
    int32_t arrived, left;            /* threads that have met it, and that are done with it */
    int64_t ordered_next;             /* of one with ordered: first iteration of the chunk whose turn it is */
    struct stub_thread *ordered_owner;/* who is in it */
    void *copied;                     /* copyprivate */
};

/* Those who execute a parallel region; of an initial thread outside of all regions, itself alone, at level 0. A region
 * of one thread has a team of its own too. */
struct stub_team {
    uint64_t id;
    struct stub_team *next;           /* of all that exist, in process.teams */
    struct stub_team *parent;         /* the team of the thread that met the region; NULL at level 0 */
    struct stub_task *encountering;   /* the task that met the region; NULL at level 0 */
    int32_t size;
    int32_t level;
    int32_t active_level;
    int32_t padding;
    void (*function)(void *);         /* what the compiler made of the region's code; NULL at level 0 */
    void *data;
    struct stub_thread **threads;     /* `size` of them, by thread number */
    struct stub_task **implicit;      /* their implicit tasks, by thread number; at level 0 the serial one */
    struct stub_barrier barrier;
    struct stub_task *first_queued;   /* explicit tasks that may begin, next to begin first; by next_queued */
    int32_t queued_count;
    int32_t task_count;               /* explicit tasks that are not over */
    struct stub_work *works;          /* linked by next, youngest first */
    uint64_t work_count;              /* worksharing constructs that any of its threads has met */
    uint64_t tool_data;               /* [debug] */
    pthread_mutex_t mutex;            /* guards the team, its tasks and its constructs */
    pthread_cond_t changed;           /* one of these has changed */
};

/* A thread that the runtime knows: an initial one (any that meets OpenMP outside of a team), or one that it has created. */
struct stub_thread {
    uint64_t id;
    struct stub_thread *next;         /* of all that exist, in process.threads, youngest first */
    uint32_t type;                    /* stub_thread_type */
    uint32_t state;                   /* [debug] stub_state */
    uint64_t wait_id;                 /* [debug] while the state is one of waiting: of mutexes the stub_lock (of ordered
                                       * the stub_work), of barriers the stub_barrier, of taskwait the stub_task that
                                       * waits, of taskgroup the stub_taskgroup; else 0. Who waits for the values of a
                                       * copyprivate clause is in wait_barrier_implicit, but has not arrived there. Who
                                       * waits to begin or end an undeferred task is in wait_taskwait */
    pthread_t pthread;
    int32_t native_id;                /* gettid() */
    int32_t thread_num;               /* in its team */
    struct stub_team *team;           /* whose region it executes; NULL in the pool */
    struct stub_task *task;           /* its innermost one; NULL in the pool */
    struct stub_thread *next_idle;    /* in process.pool */
    struct stub_thread *next_waiter;  /* in the line for a lock */
    struct stub_lock *waits_for;      /* the lock in whose line it stands */
    struct stub_work *work;           /* innermost worksharing construct that it is in; a thread does not say when it
                                       * leaves a single construct, and so is in none, but for one with copyprivate */
    struct stub_work *waits_for_turn; /* the construct in whose ordered region it waits for its turn, else NULL */
    uint64_t work_number;             /* worksharing constructs of its team that it has met */
    void *stack_low, *stack_high;     /* [debug] bounds of its stack */
    void *idle_frame;                 /* of a worker: frame of the routine in which it waits for work and executes it, the
                                       * outermost one of the runtime's on its stack; NULL of other threads */
    uint64_t tool_data;               /* [debug] */
    pthread_cond_t wake;              /* it has got a team, or a lock */
};

struct stub_process {
    uint64_t version;                 /* of these structures: 1 */
    uint64_t openmp_version;          /* as _OPENMP has it: 201511 */
    uint64_t debug_enabled;           /* debug-var: 1 if what is marked [debug] is kept; a tool sets it, too */
    uint64_t initialized;             /* 1 once ompd_dll_locations is there, and all that follows may be read */
    struct stub_thread *threads;      /* all, by next */
    int32_t thread_count;
    int32_t idle_count;
    struct stub_thread *pool;         /* those that have no team, by next_idle */
    struct stub_team *teams;          /* all whose region is not over, by next */
    struct stub_lock *locks;          /* all, by next */
    struct omp_stub_private *privates;/* all, by next */
    int32_t max_task_priority;        /* max-task-priority-var */
    int32_t cancellation;             /* cancel-var: always 0, this runtime refuses it */
    uint64_t stack_size;              /* stacksize-var, in bytes */
    int32_t num_procs;                /* num-procs-var */
    int32_t wait_policy;              /* wait-policy-var: 0 passive */
    int32_t tool;                     /* OMPT's generation of the tool that is registered: 1 draft of 2015, 2 report of
                                       * 2015, 5 OpenMP 5; 0 if there is none */
    int32_t padding;
    struct stub_icvs icvs;            /* of a new initial task, by the environment */
    pthread_mutex_t mutex;            /* guards the lists */
};

extern struct stub_process omp_stub_process;

/* The published layout: `count` records behind a header of the same size. */
struct omp_stub_layout_record {
    char structure[32];               /* NUL-terminated */
    char member[32];                  /* "" for the structure itself */
    uint32_t offset;                  /* of the member, in bytes */
    uint32_t size;                    /* of it, or of the structure */
};
struct omp_stub_layout_header {
    char magic[32];                   /* "omp_stub_layout" */
    char reserved[32];
    uint32_t version;                 /* 1 */
    uint32_t count;
};

#define STUB_LAYOUT(record, member)                                                                                    \
    member(stub_process, version) member(stub_process, openmp_version) member(stub_process, debug_enabled)             \
    member(stub_process, initialized) member(stub_process, threads) member(stub_process, thread_count)                 \
    member(stub_process, idle_count) member(stub_process, pool) member(stub_process, teams)                            \
    member(stub_process, locks) member(stub_process, privates) member(stub_process, max_task_priority)                 \
    member(stub_process, cancellation) member(stub_process, stack_size) member(stub_process, num_procs)                \
    member(stub_process, wait_policy) member(stub_process, tool) member(stub_process, icvs) record(stub_process)       \
    member(stub_thread, id) member(stub_thread, next) member(stub_thread, type) member(stub_thread, state)             \
    member(stub_thread, wait_id) member(stub_thread, pthread) member(stub_thread, native_id)                           \
    member(stub_thread, thread_num) member(stub_thread, team) member(stub_thread, task)                                \
    member(stub_thread, next_idle) member(stub_thread, next_waiter) member(stub_thread, waits_for)                     \
    member(stub_thread, work) member(stub_thread, waits_for_turn) member(stub_thread, work_number) member(stub_thread, stack_low)                          \
    member(stub_thread, stack_high) member(stub_thread, idle_frame) member(stub_thread, tool_data) record(stub_thread)                                 \
    member(stub_team, id) member(stub_team, next) member(stub_team, parent) member(stub_team, encountering)            \
    member(stub_team, size) member(stub_team, level) member(stub_team, active_level) member(stub_team, function)       \
    member(stub_team, data) member(stub_team, threads) member(stub_team, implicit) member(stub_team, barrier)          \
    member(stub_team, first_queued) member(stub_team, queued_count) member(stub_team, task_count)                      \
    member(stub_team, works) member(stub_team, work_count) member(stub_team, tool_data) record(stub_team)              \
    member(stub_barrier, generation) member(stub_barrier, arrived) member(stub_barrier, expected)                      \
    member(stub_barrier, kind) record(stub_barrier)                                                                    \
    member(stub_task, id) member(stub_task, type) member(stub_task, status) member(stub_task, generating)              \
    member(stub_task, scheduling) member(stub_task, team) member(stub_task, thread) member(stub_task, function)        \
    member(stub_task, data) member(stub_task, frame) member(stub_task, tool_data) member(stub_task, is_final)          \
    member(stub_task, is_tied) member(stub_task, is_undeferred) member(stub_task, priority)                            \
    member(stub_task, child_count) member(stub_task, predecessor_count) member(stub_task, first_child)                 \
    member(stub_task, next_sibling) member(stub_task, next_queued) member(stub_task, taskgroup)                        \
    member(stub_task, dependences) member(stub_task, dependence_count) member(stub_task, thread_num)                   \
    member(stub_task, at_barrier) member(stub_task, icvs) record(stub_task)                                                                          \
    member(stub_dependence, address) member(stub_dependence, is_out) record(stub_dependence)                           \
    member(stub_frame, exit_runtime_frame) member(stub_frame, reenter_runtime_frame)                                   \
    member(stub_frame, exit_frame_flags) member(stub_frame, reenter_frame_flags) record(stub_frame)                    \
    member(stub_icvs, nthreads) member(stub_icvs, dynamic) member(stub_icvs, max_active_levels)                        \
    member(stub_icvs, schedule_kind) member(stub_icvs, schedule_chunk) member(stub_icvs, default_device)               \
    member(stub_icvs, thread_limit) member(stub_icvs, proc_bind) record(stub_icvs)                                     \
    member(stub_lock, id) member(stub_lock, next) member(stub_lock, kind) member(stub_lock, number)                    \
    member(stub_lock, variable) member(stub_lock, owner) member(stub_lock, owner_task) member(stub_lock, count)        \
    member(stub_lock, waiter_count) member(stub_lock, first_waiter) record(stub_lock)                                  \
    member(stub_taskgroup, enclosing) member(stub_taskgroup, task) member(stub_taskgroup, count)                       \
    record(stub_taskgroup)                                                                                             \
    member(stub_work, number) member(stub_work, next) member(stub_work, kind) member(stub_work, ordered)               \
    member(stub_work, begin) member(stub_work, end) member(stub_work, step) member(stub_work, next_iteration)          \
    member(stub_work, chunk) member(stub_work, schedule) member(stub_work, arrived) member(stub_work, left)            \
    member(stub_work, ordered_next) member(stub_work, ordered_owner) record(stub_work)                                 \
    member(omp_stub_private, next) member(omp_stub_private, variable) member(omp_stub_private, size)                   \
    member(omp_stub_private, offset) member(omp_stub_private, number) record(omp_stub_private)

#endif
