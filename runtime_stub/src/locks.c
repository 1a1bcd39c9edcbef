/* Mutual exclusion: locks, nest locks, critical constructs, atomic ones that the processor has no instruction for. */
#include "internal.h"

#include <stdlib.h>

/* A user's lock variable holds a number, for which it has room on all machines. */
#define CHUNK 1024
static struct stub_lock **chunks[4096];
static uint32_t number_count; /* all under process.mutex */
static uint32_t *free_numbers;
static uint32_t free_count, free_room;

static struct stub_lock unnamed_critical = {.kind = STUB_CRITICAL_UNNAMED, .mutex = PTHREAD_MUTEX_INITIALIZER};
static struct stub_lock atomic_region = {.kind = STUB_ATOMIC, .mutex = PTHREAD_MUTEX_INITIALIZER};
static bool unnamed_is_listed, atomic_is_listed;

/* process.mutex is locked. */
static void list_lock(struct stub_lock *lock)
{
    lock->id = new_id();
    lock->next = omp_stub_process.locks;
    PUBLISH(omp_stub_process.locks, lock);
}

static struct stub_lock *new_lock(enum stub_lock_kind kind, void *variable)
{
    struct stub_lock *lock = allocate(sizeof *lock);
    lock->kind = kind;
    lock->variable = variable;
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->changed, NULL);
    return lock;
}

static uint32_t take_number(struct stub_lock *lock)
{
    uint32_t number = free_count ? free_numbers[--free_count] : ++number_count;
    uint32_t chunk = number / CHUNK;
    if (chunk >= sizeof chunks / sizeof *chunks)
        fail("more than %zu locks", sizeof chunks / sizeof *chunks * CHUNK);
    if (!chunks[chunk])
        PUBLISH(chunks[chunk], allocate(CHUNK * sizeof **chunks));
    PUBLISH(chunks[chunk][number % CHUNK], lock);
    return number;
}

static void give_number_back(uint32_t number)
{
    PUBLISH(chunks[number / CHUNK][number % CHUNK], NULL);
    if (free_count == free_room) {
        free_room = 2 * free_room + 64;
        free_numbers = realloc(free_numbers, free_room * sizeof *free_numbers);
        if (!free_numbers)
            fail("no memory for the numbers of locks");
    }
    free_numbers[free_count++] = number;
}

static struct stub_lock *lock_of(uint32_t *variable, enum stub_lock_kind kind, const char *routine)
{
    uint32_t number = *variable;
    struct stub_lock *lock = NULL;
    if (number / CHUNK < sizeof chunks / sizeof *chunks) {
        struct stub_lock **chunk = __atomic_load_n(&chunks[number / CHUNK], __ATOMIC_ACQUIRE);
        if (chunk)
            lock = __atomic_load_n(&chunk[number % CHUNK], __ATOMIC_ACQUIRE);
    }
    if (!lock || lock->kind != kind)
        fail("%s: no lock was initialized at %p", routine, (void *)variable);
    return lock;
}

static void init_lock(uint32_t *variable, enum stub_lock_kind kind, unsigned hint, const void *codeptr)
{
    current_thread();
    struct stub_lock *lock = new_lock(kind, variable);
    pthread_mutex_lock(&omp_stub_process.mutex);
    lock->number = take_number(lock);
    list_lock(lock);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    *variable = lock->number;
    TELL(lock_init, (enum mutex_kind)kind, lock, hint, codeptr);
}

static void destroy_lock(uint32_t *variable, enum stub_lock_kind kind, const char *routine, const void *codeptr)
{
    struct stub_lock *lock = lock_of(variable, kind, routine);
    if (lock->count)
        fail("%s: the lock at %p is set", routine, (void *)variable);
    if (told()) {
        current_thread();
        TELL(lock_destroy, (enum mutex_kind)kind, lock, codeptr);
    }
    pthread_mutex_lock(&omp_stub_process.mutex);
    struct stub_lock **place = &omp_stub_process.locks;
    while (*place != lock)
        place = &(*place)->next;
    PUBLISH(*place, lock->next);
    give_number_back(lock->number);
    pthread_mutex_unlock(&omp_stub_process.mutex);
    *variable = 0;
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->changed);
    free(lock);
}

static void own(struct stub_lock *lock, struct stub_thread *thread)
{
    lock->count = 1;
    lock->owner = thread;
    if (lock->kind == STUB_NEST_LOCK)
        lock->owner_task = thread->task;
}

static bool try_to_own(struct stub_lock *lock, struct stub_thread *thread)
{
    if (lock->kind == STUB_NEST_LOCK && lock->count && lock->owner_task == thread->task) {
        lock->count++;
        return true;
    }
    if (lock->count)
        return false;
    own(lock, thread);
    return true;
}

static void stand_in_line(struct stub_lock *lock, struct stub_thread *thread)
{
    struct stub_thread **place = &lock->first_waiter;
    while (*place)
        place = &(*place)->next_waiter;
    thread->waits_for = lock;
    thread->next_waiter = NULL;
    PUBLISH(*place, thread);
    lock->waiter_count++;
}

/* The same with a tool, which is told that the thread will have to wait while the lock is not looked at. */
static bool try_again(struct stub_lock *lock, struct stub_thread *thread)
{
    if (!told())
        return false;
    pthread_mutex_unlock(&lock->mutex);
    TELL(mutex_wait, (enum mutex_kind)lock->kind, lock);
    pthread_mutex_lock(&lock->mutex);
    return try_to_own(lock, thread);
}

/* Whoever releases it gives it to the first in line. */
void acquire(struct stub_thread *thread, struct stub_lock *lock, uint32_t state)
{
    TELL(mutex_acquire, (enum mutex_kind)lock->kind, lock, codeptr_of(thread->task));
    pthread_mutex_lock(&lock->mutex);
    if (!try_to_own(lock, thread)) {
        set_state(thread, state, lock);
        if (!try_again(lock, thread)) {
            stand_in_line(lock, thread);
            while (thread->waits_for)
                pthread_cond_wait(&thread->wake, &lock->mutex);
        }
    }
    bool is_again = lock->count > 1;
    pthread_mutex_unlock(&lock->mutex);
    if (told()) {
        set_state(thread, STUB_OVERHEAD, NULL);
        TELL(mutex_acquired, (enum mutex_kind)lock->kind, lock, codeptr_of(thread->task), is_again);
    }
}

void release(struct stub_lock *lock, const void *codeptr)
{
    if (told())
        current_thread(); /* its first callback is not this one */
    pthread_mutex_lock(&lock->mutex);
    if (!lock->count)
        fail("what is released is not set: the lock of %p", lock->variable);
    enum mutex_kind kind = (enum mutex_kind)lock->kind;
    bool is_kept = lock->count > 1;
    if (--lock->count == 0) {
        struct stub_thread *next = lock->first_waiter;
        lock->owner = NULL;
        lock->owner_task = NULL;
        if (next) {
            PUBLISH(lock->first_waiter, next->next_waiter);
            lock->waiter_count--;
            own(lock, next);
            next->next_waiter = NULL;
            next->waits_for = NULL;
            pthread_cond_signal(&next->wake);
        }
    }
    pthread_mutex_unlock(&lock->mutex);
    TELL(mutex_released, kind, lock, codeptr, is_kept); /* where it was; somebody else may own it now */
}

static int test(struct stub_thread *thread, struct stub_lock *lock, const void *codeptr)
{
    enum mutex_kind kind = lock->kind == STUB_LOCK ? MUTEX_TEST_LOCK : MUTEX_TEST_NEST_LOCK;
    TELL(mutex_acquire, kind, lock, codeptr);
    pthread_mutex_lock(&lock->mutex);
    int count = try_to_own(lock, thread) ? lock->count : 0;
    pthread_mutex_unlock(&lock->mutex);
    if (count)
        TELL(mutex_acquired, kind, lock, codeptr, count > 1);
    return count;
}

/* One of the two without a variable of the program's; it exists from its first use on. */
static struct stub_lock *lock_of_construct(struct stub_lock *lock, bool *is_listed)
{
    if (__atomic_load_n(is_listed, __ATOMIC_ACQUIRE))
        return lock;
    pthread_mutex_lock(&omp_stub_process.mutex);
    if (!*is_listed) {
        list_lock(lock);
        PUBLISH(*is_listed, true);
    }
    pthread_mutex_unlock(&omp_stub_process.mutex);
    return lock;
}

static struct stub_lock *lock_of_word(void **word)
{
    struct stub_lock *lock = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (lock)
        return lock;
    pthread_mutex_lock(&omp_stub_process.mutex);
    lock = *word;
    if (!lock) {
        lock = new_lock(STUB_CRITICAL, word);
        list_lock(lock);
        PUBLISH(*word, lock);
    }
    pthread_mutex_unlock(&omp_stub_process.mutex);
    return lock;
}

EXPORT void GOMP_critical_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    acquire(thread, lock_of_construct(&unnamed_critical, &unnamed_is_listed), STUB_WAIT_CRITICAL);
    leave(thread);
}

EXPORT void GOMP_critical_end(void)
{
    release(&unnamed_critical, __builtin_return_address(0));
}

EXPORT void GOMP_critical_name_start(void **word)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    acquire(thread, lock_of_word(word), STUB_WAIT_CRITICAL);
    leave(thread);
}

EXPORT void GOMP_critical_name_end(void **word)
{
    release(lock_of_word(word), __builtin_return_address(0));
}

EXPORT void GOMP_atomic_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    acquire(thread, lock_of_construct(&atomic_region, &atomic_is_listed), STUB_WAIT_ATOMIC);
    leave(thread);
}

EXPORT void GOMP_atomic_end(void)
{
    release(&atomic_region, __builtin_return_address(0));
}

/* C's and Fortran's routines differ in their names alone: both pass the address of the variable. */
#define BOTH(result, name, parameters, body)                                                                           \
    EXPORT result name parameters body                                                                                 \
    EXPORT result name##_ parameters body

#define CALLER __builtin_return_address(0)
#define ROUTINES(lock_, kind, waiting)                                                                                 \
    BOTH(void, omp_init_##lock_, (uint32_t *variable), { init_lock(variable, kind, 0, CALLER); })                      \
    EXPORT void omp_init_##lock_##_with_hint(uint32_t *variable, unsigned hint)                                        \
    {                                                                                                                  \
        init_lock(variable, kind, hint, CALLER);                                                                       \
    }                                                                                                                  \
    EXPORT void omp_init_##lock_##_with_hint_(uint32_t *variable, const uint32_t *hint)                                \
    {                                                                                                                  \
        init_lock(variable, kind, *hint, CALLER);                                                                      \
    }                                                                                                                  \
    BOTH(void, omp_destroy_##lock_, (uint32_t *variable), {                                                            \
        destroy_lock(variable, kind, "omp_destroy_" #lock_, CALLER);                                                   \
    })                                                                                                                 \
    BOTH(void, omp_set_##lock_, (uint32_t *variable), {                                                                \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        acquire(thread, lock_of(variable, kind, "omp_set_" #lock_), waiting);                                          \
        leave(thread);                                                                                                 \
    })                                                                                                                 \
    BOTH(void, omp_unset_##lock_, (uint32_t *variable), {                                                              \
        release(lock_of(variable, kind, "omp_unset_" #lock_), CALLER);                                                 \
    })                                                                                                                 \
    BOTH(int, omp_test_##lock_, (uint32_t *variable), {                                                                \
        return test(current_thread(), lock_of(variable, kind, "omp_test_" #lock_), CALLER);                            \
    })

ROUTINES(lock, STUB_LOCK, STUB_WAIT_LOCK)
ROUTINES(nest_lock, STUB_NEST_LOCK, STUB_WAIT_NEST_LOCK)
