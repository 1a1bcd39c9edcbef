/* What the files of the runtime know of one another. */
#ifndef OMP_STUB_INTERNAL_H
#define OMP_STUB_INTERNAL_H

#include "structures.h"

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))
#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noipa))
#endif

/* The structures of structures.h are the beginnings of these. What follows there is nobody's business. */
struct loop_share {                   /* of the loop that a thread is in */
    uint64_t trips;                   /* chunks of a static schedule that it has taken */
    uint64_t first, last;             /* numbers of the iterations of its chunk, the first and the one behind the last */
    bool has_chunk;
};
struct whole_thread {
    struct stub_thread known;
    struct stub_team *start;          /* whose region it shall execute now; under process.mutex */
    bool quits;                       /* a worker that is no longer in the pool, and ends; under process.mutex */
    bool is_idle;                     /* as a tool is told; the thread's own word, while others may already give it work */
    struct loop_share share;
    struct stub_thread *last_primary; /* of the outermost region in which it was before, and its number there */
    int32_t last_num;
};
struct whole_team {
    struct stub_team known;
    int references;                   /* threads that may still look at it */
    int32_t sleepers;                 /* threads that wait for `changed` */
    struct stub_task *last_queued;
    struct whole_team *root;          /* the initial thread's own team */
    int32_t busy;                     /* of a root: threads of its contention group; under process.mutex */
    bool program_invokes;             /* the primary thread's implicit task is called by the program's code */
    bool closes_twice;                /* it was begun with a tool, see tell_barrier() */
    struct {                          /* of the thread that met the region, before it did */
        struct stub_team *team;
        struct stub_task *task;
        int32_t thread_num;
        struct stub_work *work;
        uint64_t work_number;
        struct loop_share share;
    } saved;
};
enum target_kind { TARGET_NONE, TARGET_REGION = 1, TARGET_ENTER_DATA = 2, TARGET_EXIT_DATA = 3, TARGET_UPDATE = 4 };
struct whole_task {
    struct stub_task known;
    struct stub_task *previous_sibling;
    struct stub_task **successors;    /* siblings that wait for it */
    int32_t successor_count, successor_room;
    int32_t references;               /* itself until it is over, and its children that exist */
    bool is_detachable, is_fulfilled;
    size_t data_size;                 /* of what `data` points to, if it is the task's own */
    uint64_t wide_frame[3];           /* a copy of `frame` in the form of OpenMP 5, on machines of 32 bits */
    enum target_kind target_kind;     /* of a target task */
    uint64_t target_word, operation;  /* of its construct: a tool's word, and the number of the region's execution */
    struct target_scope *scopes;      /* of target constructs that its code is in, innermost first */
    bool is_targeted;                 /* it was created in such a scope, of the device */
};
struct whole_work {
    struct stub_work known;
    uint64_t count;                   /* iterations */
    uint64_t taken;                   /* how many have been given away, of schedules that do */
    uint64_t ordered_position;        /* number of the iteration that ordered_next is */
    void *memory;                     /* that the threads share for as long as the construct lasts */
};

static inline struct whole_thread *whole_thread(struct stub_thread *thread) { return (struct whole_thread *)thread; }
static inline struct whole_team *whole_team(struct stub_team *team) { return (struct whole_team *)team; }
static inline struct whole_task *whole_task(struct stub_task *task) { return (struct whole_task *)task; }
static inline struct whole_work *whole_work(struct stub_work *work) { return (struct whole_work *)work; }

/* A node that a debugger may find, once all of it is there. */
#define PUBLISH(place, node) __atomic_store_n(&(place), node, __ATOMIC_RELEASE)

/* The canonical frame address of the function in which this stands: the stack pointer of its caller at the call. */
#if defined(__x86_64__) || defined(__i386__)
#define CALLERS_STACK() ((void *)((char *)__builtin_frame_address(0) + 2 * sizeof(void *)))
#else
#define CALLERS_STACK() __builtin_dwarf_cfa()
#endif

#define FRAME_RUNTIME 0x20            /* ompt_frame_runtime | ompt_frame_framepointer */
#define FRAME_APPLICATION 0x31        /* ompt_frame_application | ompt_frame_stackaddress */

/* threads.c */
extern const char omp_stub_version[];
void initialize(void);
struct stub_thread *current_thread(void);      /* makes the caller an initial one if it is not known */
struct stub_thread *known_thread(void);        /* the caller, NULL if it is not known; a signal handler may ask */
struct stub_thread *enter(void *callers_stack); /* of an entry point that begins, ends or waits for something */
void leave(struct stub_thread *thread);
void take_workers(struct stub_thread *primary, struct stub_team *team, int32_t count); /* process.mutex is locked */
void start_workers(struct stub_team *team);
void retire_workers(struct stub_team *team);   /* process.mutex is locked */
void end_pool(void);                           /* its threads, and until they have ended */
bool end_initial_thread(void);
void lock_threads(void);
void unlock_threads(void);
void lose_threads(void);
uint64_t new_id(void);
void *allocate(size_t size);                    /* zeroed; ends the process if there is none */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* teams.c */
struct stub_team *new_team(struct stub_team *parent, struct stub_task *encountering, int32_t size);
void list_team(struct stub_team *team);         /* process.mutex is locked */
void unlist_team(struct stub_team *team);
void release_team(struct stub_team *team);      /* by a thread that will not look at it again */
void run_implicit(struct stub_thread *thread);
void begin_region(struct stub_thread *thread, void (*function)(void *), void *data, unsigned wanted,
                  struct stub_work *work, bool program_invokes);
void end_region(struct stub_thread *thread);
void team_sleep(struct stub_team *team);        /* team.mutex is locked */
void team_wake(struct stub_team *team);

/* barrier.c */
void pass_barrier(struct stub_thread *thread, enum stub_barrier_kind kind);
void open_barrier(struct stub_team *team);

/* tasks.c */
struct stub_task *new_task(enum stub_task_type type, struct stub_task *generating, struct stub_team *team);
void free_task(struct stub_task *task);
struct stub_task *take_task(struct stub_team *team, struct stub_task *ancestor);
void run_task(struct stub_thread *thread, struct stub_task *task); /* team.mutex is locked, before and after */

struct stub_task *new_target_task(struct stub_thread *thread, enum target_kind kind, void (*function)(void *), void *data);
void run_target_task(struct stub_thread *thread, struct stub_task *task); /* until it is over, and it still exists */
void release_task(struct stub_task *task);
void wait_for_dependences(struct stub_thread *thread, void **depend);

/* device/target.c */
extern bool host_is_device;           /* OMP_STUB_DEVICE=host: it is device 0 */
enum { THE_DEVICE = 0 };
void read_device_environment(void);
struct stub_task *target_task_of(struct stub_task *task); /* in whose region its code is, NULL if in none */
bool is_targeted(struct stub_task *task); /* its code is in the scope of a target construct, of any kind */
bool on_device(void);                 /* the caller is in a target region */

/* work.c */
struct stub_work *new_loop(int64_t begin, int64_t end, int64_t step, bool up, uint32_t schedule, int64_t chunk);
struct stub_work *new_parallel_loop(struct stub_thread *thread, long begin, long end, long step, uint32_t schedule,
                                    long chunk);
struct stub_work *new_sections(unsigned count);
void join_work(struct stub_thread *thread, struct stub_work *work); /* that the region began with */
void tell_of_work(struct stub_thread *thread, const struct stub_work *work, const void *codeptr, bool begins);
#define SCHEDULE_RUNTIME 0u
#define SCHEDULE_MONOTONIC 0x80000000u

/* locks.c */
void acquire(struct stub_thread *thread, struct stub_lock *lock, uint32_t state);
void release(struct stub_lock *lock, const void *codeptr);

/* icvs.c */
void read_environment(void);
int32_t nthreads_of_level(int32_t level, int32_t otherwise);
int32_t bind_of_level(int32_t level, int32_t otherwise);

/* life.c */
extern bool tool_is_due;              /* to be found when the runtime is next met */
void prepare_for_ends(void);

/* debug.c */
extern bool debug_wanted;             /* by omp_debug_enable() */
extern bool construct_met;
void read_debug_environment(void);
void announce_locations(void);
void ask_stack(struct stub_thread *thread);
void ask_stacks(void);                /* of all threads that there are */
void ompd_bp_thread_begin(void);
void ompd_bp_thread_end(void);
void ompd_bp_parallel_begin(void);
void ompd_bp_parallel_end(void);
void ompd_bp_task_begin(void);
void ompd_bp_task_end(void);

static inline bool debugging(void) { return omp_stub_process.debug_enabled; }

/* Before it waits, and when it no longer does. */
static inline void set_state(struct stub_thread *thread, uint32_t state, const void *wait)
{
    if (!debugging())
        return;
    if (!wait) /* whoever looks in between sees no wait without what is waited for */
        thread->state = state;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->wait_id = (uintptr_t)wait;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->state = state;
}

static inline void set_working(struct stub_thread *thread)
{
    set_state(thread, thread->team->level ? STUB_WORK_PARALLEL : STUB_WORK_SERIAL, NULL);
}

static inline void set_exit_frame(struct stub_task *task, void *address, int32_t flags)
{
    if (!debugging())
        return;
    task->frame.exit_frame_flags = flags;
    task->frame.exit_runtime_frame = address;
}

static inline void set_reenter_frame(struct stub_task *task, void *address, int32_t flags)
{
    if (!debugging())
        return;
    task->frame.reenter_frame_flags = flags;
    task->frame.reenter_runtime_frame = address;
}

#include "ompt/tell.h"

#endif
