/* Threads that each stand somewhere, and write inside of which constructs and locks they are. */
#ifndef HELD_H
#define HELD_H
#include "odd.h"

#define FUNCTION __attribute__((noinline, noclone)) static void
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static volatile int zero = 0, one = 1, three = 3;

/* What a thread is inside of: a kind, the object's address or NULL, and whether its own code shows it. */
struct truth { const char *kind; const void *object; int is_seen; };

__attribute__((noinline)) static void tell(const char *name, int count, const struct truth *truths) {
    char text[2048] = "";
    int n = 0;
    for (int i = 0; i < count; i++)
        n += snprintf(text + n, sizeof text - n, "%s[\"%s\", \"%p\", %d]", i ? ", " : "", truths[i].kind, truths[i].object, truths[i].is_seen);
    odd_words("{\"tid\": %d, \"name\": \"%s\", \"held\": [%s]}\n", odd_gettid(), name, text);
}
__attribute__((noinline)) static void rest(void) {
    for (;;) pause();
}
/* What is before it in the source is before it in the code. */
#define STAND(...) do { \
        const struct truth truths[] = {{"", 0, 0}, __VA_ARGS__}; \
        tell(__func__, COUNT(truths) - 1, truths + 1); \
        rest(); \
        asm volatile("" ::: "memory"); \
    } while (0)
#define LOCK(lock, seen) {"lock", &(lock), seen}

typedef void (*scene)(void);
static void play(const scene *scenes, int count, omp_lock_t *locks, int lock_count) {
    for (int i = 0; i < lock_count; i++) omp_init_lock(&locks[i]);
    omp_set_max_active_levels(4);
    odd_start(count);
#pragma omp parallel num_threads(count)
    scenes[omp_get_thread_num()]();
}
#endif
