/* Threadprivate variables whose copies lie in storage under a POSIX thread key. */
#include "internal.h"

#include <string.h>
#include <sys/mman.h>

#define CAPACITY ((size_t)1 << 20)    /* of a thread's storage, its first unit included; it is reserved, not used */
#define UNIT ((size_t)64)             /* the first holds the count, and is the greatest alignment that a variable has */

EXPORT uintptr_t __omp_stub_tls_key = (uintptr_t)-1;

static size_t end_of_last = 0;        /* where the next variable may lie; under process.mutex, as the list is */
static size_t count;

EXPORT void omp_stub_register_private(struct omp_stub_private *record, void *variable, size_t size, size_t alignment)
{
    if (alignment > UNIT)
        fail("a threadprivate variable cannot be aligned to %zu bytes", alignment);
    pthread_mutex_lock(&omp_stub_process.mutex);
    record->variable = variable;
    record->size = size;
    record->offset = (end_of_last + alignment - 1) / alignment * alignment;
    if (size > CAPACITY - UNIT || record->offset > CAPACITY - UNIT - size)
        fail("threadprivate variables need more than %zu bytes", CAPACITY - UNIT);
    end_of_last = record->offset + size;
    record->number = count++;
    record->next = omp_stub_process.privates;
    PUBLISH(omp_stub_process.privates, record);
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

static void unmap(void *base)
{
    munmap((char *)base - UNIT, CAPACITY);
}

static void make_key(void)
{
    pthread_key_t key;
    if (pthread_key_create(&key, unmap))
        fail("no POSIX thread key is left");
    __atomic_store_n(&__omp_stub_tls_key, (uintptr_t)key, __ATOMIC_RELEASE);
}

static char *storage(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    char *base = pthread_getspecific((pthread_key_t)__omp_stub_tls_key);
    if (base)
        return base;
    void *mapping = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        fail("no memory for a thread's threadprivate variables");
    base = (char *)mapping + UNIT;
    pthread_setspecific((pthread_key_t)__omp_stub_tls_key, base);
    return base;
}

/* Copies all that are new to the thread, so that the count says which it has. */
static void make_copies(char *base)
{
    uintptr_t *initialized = (uintptr_t *)base - 1;
    pthread_mutex_lock(&omp_stub_process.mutex);
    for (struct omp_stub_private *record = omp_stub_process.privates; record; record = record->next)
        if (record->number >= *initialized)
            memcpy(base + record->offset, record->variable, record->size);
    __atomic_store_n(initialized, count, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

EXPORT void *omp_stub_private(const struct omp_stub_private *record)
{
    char *base = storage();
    if (((uintptr_t *)base)[-1] <= record->number)
        make_copies(base);
    return base + record->offset;
}
