/* What libomp_stub has besides OpenMP's own routines. */
#ifndef OMP_STUB_H
#define OMP_STUB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the runtime keep what a debugger needs, as OMP_DEBUG=on does. For programs, and for initializers of libraries;
 * before the first construct, later it has no effect. */
void omp_debug_enable(void);

/* Threadprivate variables whose copies the runtime keeps. Each has a place in the storage that every thread has under
 * the POSIX thread key `__omp_stub_tls_key`, `offset` bytes from where the key's value points. In the word before that
 * is how many variables have been given their initial values there: those with numbers below it. */
struct omp_stub_private {
    struct omp_stub_private *next;    /* in process.privates, youngest first */
    void *variable;                   /* the address that debug information tells: of its initial value */
    size_t size;
    size_t offset;
    size_t number;                    /* from 0 on, in the order in which they were registered */
};

/* The key as a number, (uintptr_t)-1 until the first copy is made. */
extern uintptr_t __omp_stub_tls_key;

/* After the definition of a variable: every thread gets a copy of its own, made of the initial value when it is first
 * used. What is between OMP_STUB_THREADPRIVATE(a) and `#define a OMP_STUB_PRIVATE(a)` means the initial value. A library
 * with such variables must not be unloaded. */
#define OMP_STUB_THREADPRIVATE(variable)                                                                               \
    static struct omp_stub_private omp_stub_private_##variable;                                                       \
    __attribute__((constructor)) static void omp_stub_register_##variable(void)                                       \
    {                                                                                                                  \
        omp_stub_register_private(&omp_stub_private_##variable, &variable, sizeof variable,                           \
                                  __alignof__(variable));                                                             \
    }                                                                                                                  \
    OMP_STUB_ASSERT(sizeof variable > 0, "")
#ifdef __cplusplus
#define OMP_STUB_ASSERT(condition, text) static_assert(condition, text)
#else
#define OMP_STUB_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* The calling thread's copy. */
#define OMP_STUB_PRIVATE(variable) (*(__typeof__(variable) *)omp_stub_private(&omp_stub_private_##variable))

/* Names for the variables of a construct in code that a preprocessor writes: `clause` is the one that lists the variable
 * (private, shared, firstprivate, lastprivate, firstlastprivate, reduction, threadprivate, threadshared, copyin). Debuggers
 * are given it and the variable's own name by DMPL_demangle_name. The storage of the second kind holds the address of the
 * variable. */
#define OMP_STUB_VARIABLE(clause, variable) omp_stub_var_##clause##_##variable
#define OMP_STUB_VARIABLE_AT(clause, variable) omp_stub_at_##clause##_##variable

void omp_stub_register_private(struct omp_stub_private *record, void *variable, size_t size, size_t alignment);
void *omp_stub_private(const struct omp_stub_private *record);

/* Makes one thing of the caller's runtime state wrong, for tests of debuggers; the caller is expected to abort() next.
 * Returns 0, or -1 if there is no such word or nothing that could be made wrong. README.md has the words. */
int omp_stub_break(const char *what);

#ifdef __cplusplus
}
#endif

#endif
