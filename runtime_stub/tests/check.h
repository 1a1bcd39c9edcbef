/* What the tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define IS(type, value, expected)                                                                                      \
    do {                                                                                                               \
        type is_ = (value), expected_ = (expected);                                                                    \
        if (is_ != expected_) {                                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #value, (long long)is_,               \
                    (long long)expected_);                                                                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Of the iterations or sections of a construct: who executed them, how often. */
#define COUNT_UP(counts, index) __atomic_add_fetch(&(counts)[index], 1, __ATOMIC_RELAXED)

#endif
