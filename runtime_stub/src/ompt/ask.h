/* What inquiry functions of all generations ask. All of it is by the thread itself, of words that no other thread changes
 * meanwhile, and takes no lock: a signal handler may. */
#ifndef OMP_STUB_ASK_H
#define OMP_STUB_ASK_H

#include "../internal.h"

#include <string.h>

/* The caller, unless it is not the runtime's, or has nothing to do. */
static inline struct stub_thread *asking_thread(void)
{
    struct stub_thread *thread = known_thread();
    return thread && !whole_thread(thread)->is_idle ? thread : NULL;
}

/* A task's ancestor: the one below on the stack, and below an implicit task the one that met the region. */
static inline struct stub_task *ancestor(struct stub_task *task, int level)
{
    if (level < 0)
        return NULL;
    for (; task && level; level--)
        task = task->type == STUB_TASK_EXPLICIT || task->type == STUB_TASK_DEGENERATE ? task->scheduling : task->generating;
    return task;
}

static inline struct stub_team *enclosing(struct stub_team *team, int level)
{
    if (level < 0)
        return NULL;
    for (; team && level; level--)
        team = team->parent;
    return team;
}

static inline bool is_waiting(uint32_t state) { return state >= STUB_WAIT_BARRIER && state < STUB_UNDEFINED; }

/* One of a list of numbers and names, the one behind `current`; of the first if that is `first`. */
struct named {
    int number;
    const char *name;
};
static inline int next_of(const struct named *list, size_t count, int first, int current, int *next, const char **name)
{
    size_t at = 0;
    if (current != first) {
        while (at < count && list[at].number != current)
            at++;
        at++;
    }
    if (at >= count)
        return 0;
    *next = list[at].number;
    *name = list[at].name;
    return 1;
}

/* What a lookup finds. */
struct entry_point {
    const char *name;
    void (*function)(void);
};
#define ENTRY(name) {#name, (void (*)(void))name}
static inline void (*find_entry(const struct entry_point *list, size_t count, const char *name))(void)
{
    for (size_t at = 0; name && at < count; at++)
        if (!strcmp(list[at].name, name))
            return list[at].function;
    return NULL;
}

/* What a tool has registered: a thread may read it that does not know yet that another has ended the tool. */
#define REGISTERED(list, number) __atomic_load_n(&(list)[number], __ATOMIC_RELAXED)
#define REGISTER(list, number, callback) __atomic_store_n(&(list)[number], callback, __ATOMIC_RELAXED)
#define FORGET(list)                                                                                                   \
    do                                                                                                                 \
        for (size_t at_ = 0; at_ < sizeof(list) / sizeof *(list); at_++)                                               \
            REGISTER(list, at_, NULL);                                                                                 \
    while (0)

/* A generation of OMPT, as registration.c needs it. */
struct generation {
    const struct tool_events *events;
    void (*(*lookup)(const char *name))(void);
    void (*forget)(void);             /* what a tool has registered */
    bool *may_register;               /* only a tool's initializer may */
};
extern const struct generation generation_2015, generation_5;
extern const struct named lock_types[], atomic_types[];
enum { LOCK_TYPES = 3, ATOMIC_TYPES = 1 };
unsigned lock_type(enum mutex_kind kind);

#endif
