/* What the runtime tells a tool, and how: where something happens stands TELL(event, ...), which is one test of one word
 * as long as there is no tool. Each generation of OMPT has its own way to tell (struct tool_events), and its own numbers.
 *
 * Nothing is told while a mutex of the runtime is locked, but for dependences between two tasks and for an event that is
 * fulfilled before its task's code is over (team.mutex): these tasks may not end before. */
#ifndef OMP_STUB_TELL_H
#define OMP_STUB_TELL_H

/* Where threads of a team gather or tasks are waited for; the first three are stub_barrier_kind. SYNC_COPY is the wait for
 * the values of a copyprivate clause. */
enum sync_kind { SYNC_BARRIER = 1, SYNC_WORKSHARE = 2, SYNC_CLOSING = 3, SYNC_COPY = 4, SYNC_TASKWAIT = 5, SYNC_TASKGROUP = 6 };
enum work_kind { WORK_LOOP = 1, WORK_SECTIONS = 2, WORK_SINGLE = 3, WORK_SINGLE_OTHERS = 4 };
enum mutex_kind {
    MUTEX_LOCK = STUB_LOCK, MUTEX_NEST_LOCK = STUB_NEST_LOCK, MUTEX_CRITICAL = STUB_CRITICAL,
    MUTEX_CRITICAL_UNNAMED = STUB_CRITICAL_UNNAMED, MUTEX_ATOMIC = STUB_ATOMIC, MUTEX_ORDERED,
    MUTEX_TEST_LOCK, MUTEX_TEST_NEST_LOCK
};
enum { CONTROL_NO_TOOL = -2, CONTROL_NO_CALLBACK = -1, CONTROL_SUCCESS = 0 }; /* omp_control_tool_result_t */
/* What a target construct maps; flags are those of OpenMP 5. */
struct mapped {
    void *address;
    size_t bytes;
    uint32_t flags;
};
enum { MAP_TO = 1, MAP_FROM = 2, MAP_ALLOC = 4, MAP_RELEASE = 8, MAP_DELETE = 16 };
enum task_change { TASK_BEGINS, TASK_ENDS, TASK_DETACHES };

/* codeptr is the address behind a call of the program's, NULL if no call is known. */
struct tool_events {
    void (*thread)(struct stub_thread *thread, bool begins);
    void (*initial_task)(struct stub_thread *thread, bool begins);
    void (*idle)(struct stub_thread *thread, bool begins);
    void (*parallel)(struct stub_thread *thread, struct stub_team *team, unsigned wanted, bool begins);
    void (*implicit_task)(struct stub_thread *thread, bool begins);
    void (*task_create)(struct stub_thread *thread, struct stub_task *task);
    void (*task_switch)(struct stub_task *from, struct stub_task *to, enum task_change change);
    void (*task_end)(struct stub_task *task);                 /* before the switch to another one */
    void (*task_fulfill)(struct stub_task *task, bool is_late);
    void (*dependences)(struct stub_task *task);
    void (*dependence)(struct stub_task *first, struct stub_task *second);
    void (*sync)(struct stub_thread *thread, enum sync_kind kind, bool begins);
    void (*wait)(struct stub_thread *thread, enum sync_kind kind, bool begins);
    void (*work)(struct stub_thread *thread, enum work_kind kind, uint64_t count, const void *codeptr, bool begins);
    void (*lock_init)(enum mutex_kind kind, const void *wait, unsigned hint, const void *codeptr);
    void (*lock_destroy)(enum mutex_kind kind, const void *wait, const void *codeptr);
    void (*mutex_acquire)(enum mutex_kind kind, const void *wait, const void *codeptr); /* it may have to wait */
    void (*mutex_wait)(enum mutex_kind kind, const void *wait);                         /* it has to */
    void (*mutex_acquired)(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_again);
    void (*mutex_released)(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_kept);
    void (*device)(bool begins);      /* where the host is one */
    void (*target)(struct stub_thread *thread, struct stub_task *task, bool begins);
    void (*target_submit)(struct stub_task *task, bool begins);
    void (*target_data)(struct stub_thread *thread, bool begins);
    void (*map)(struct stub_thread *thread, struct stub_task *task, const struct mapped *items, unsigned count, uint64_t id,
                bool begins);         /* by a target task, or NULL: by a target data construct */
    int (*control)(uint64_t command, uint64_t modifier, void *argument, const void *codeptr);
    void (*shutdown)(void);
};

/* device/trace.c: what a target task does on the device, for a tool that traces it. */
#ifdef OMP_STUB_NO_OMPT
static inline void lose_trace(void) {}
static inline uint64_t trace_begins(struct stub_thread *thread, struct stub_task *task) { return (void)thread, (void)task, 0; }
static inline void trace_ends(struct stub_thread *thread, struct stub_task *task, uint64_t start)
{
    (void)thread, (void)task, (void)start;
}
#else
void lose_trace(void);                /* of a process that this one has been forked from */
uint64_t trace_begins(struct stub_thread *thread, struct stub_task *task); /* when it did */
void trace_ends(struct stub_thread *thread, struct stub_task *task, uint64_t start);
#endif

#ifdef OMP_STUB_NO_OMPT
static inline const struct tool_events *told(void) { return NULL; }
static inline void find_tool(void) {}
static inline void end_tool(void) {}
static inline void forget_tool(void) {}
#else
/* Of the tool that is registered; NULL: nobody is told. Hidden, so that it is tested where it is. */
extern const struct tool_events *tool_events __attribute__((visibility("hidden")));
static inline const struct tool_events *told(void) { return __atomic_load_n(&tool_events, __ATOMIC_RELAXED); }

/* registration.c */
void find_tool(void);                 /* registers the program's tool, if it has one */
void end_tool(void);                  /* it is told so, and nothing after it */
void forget_tool(void);               /* of a process that this one has been forked from */
#endif

#define TELL(event, ...)                                                                                               \
    do {                                                                                                               \
        const struct tool_events *told_ = told();                                                                      \
        if (__builtin_expect(told_ != NULL, 0))                                                                        \
            told_->event(__VA_ARGS__);                                                                                 \
    } while (0)

/* The address behind the call by which a task's code has entered the runtime. */
static inline const void *codeptr_of(const struct stub_task *task)
{
#if defined(__x86_64__) || defined(__i386__)
    void *const *stack = task->frame.reenter_runtime_frame;
    return stack ? stack[-1] : NULL;
#else
    return (void)task, NULL;
#endif
}

/* Before a thread falls asleep, with the mutex under which it has seen that it has to. True: the mutex was unlocked
 * meanwhile, and it has to look again. */
static inline bool wait_begins(struct stub_thread *thread, enum sync_kind kind, bool *is_told, pthread_mutex_t *mutex)
{
    const struct tool_events *events = told();
    if (!events || *is_told)
        return false;
    *is_told = true;
    pthread_mutex_unlock(mutex);
    events->wait(thread, kind, true);
    pthread_mutex_lock(mutex);
    return true;
}

/* Of what wait_begins() has told. */
static inline void wait_ends(struct stub_thread *thread, enum sync_kind kind, bool *is_told, pthread_mutex_t *mutex)
{
    if (!*is_told)
        return;
    *is_told = false;
    pthread_mutex_unlock(mutex);
    set_state(thread, STUB_OVERHEAD, NULL);
    TELL(wait, thread, kind, false);
    pthread_mutex_lock(mutex);
}

#endif
