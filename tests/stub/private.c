/* Threadprivate variables whose copies the runtime keeps, of the program and of a library that it opens while it runs.
 * Each thread writes down where its copies are and what they hold; then the program ends. A thread of the team uses the
 * library's variable and no other one, another thread none at all: it has no storage. A thread that is not OpenMP's uses
 * one, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <omp_stub.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct point { double x, y; char name[8]; };

int counter = 5;
OMP_STUB_THREADPRIVATE(counter);
static struct point place = {1, 2, "here"};
OMP_STUB_THREADPRIVATE(place);
static long table[3] = {7, 8, 9};
OMP_STUB_THREADPRIVATE(table);
long shared = 4711;

static FILE *out;
static int written;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_written;

static void put(const char *name, const void *address, const char *format, ...) __attribute__((format(printf, 3, 4)));
#include <stdarg.h>
static void put(const char *name, const void *address, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&output);
    {
        fprintf(out, "%s{\"native\": %d, \"name\": \"%s\", \"address\": %llu, \"value\": \"", written++ ? ",\n " : "",
                gettid(), name, (unsigned long long)(uintptr_t)address);
        vfprintf(out, format, arguments);
        fprintf(out, "\"}");
    }
    pthread_mutex_unlock(&output);
    va_end(arguments);
}

static void *idle(void *unused)
{
    OMP_STUB_PRIVATE(counter) = 77;
    put("counter", &OMP_STUB_PRIVATE(counter), "%d", OMP_STUB_PRIVATE(counter));
    pthread_barrier_wait(&all_written); /* before there is a library */
    for (;;)
        pause();
    return unused;
}

#define counter OMP_STUB_PRIVATE(counter)
#define place OMP_STUB_PRIVATE(place)
#define table OMP_STUB_PRIVATE(table)

int main(int argc, char **argv)
{
    pthread_t other;
    out = fopen("private.json", "we");
    fprintf(out, "[");
    pthread_barrier_init(&all_written, 0, 2);
    pthread_create(&other, 0, idle, 0);
    pthread_barrier_wait(&all_written);
    int *(*late)(void) = 0;
    if (!out || argc < 2)
        return 1;
    #pragma omp parallel num_threads(4)
    {
        int num = omp_get_thread_num();
        if (num < 2) {
            counter += num;
            place.x = num + 0.5;
            place.name[0] = 'A' + num;
            table[num] = -num;
        }
        #pragma omp barrier
        #pragma omp single
        {
            void *library = dlopen(argv[1], RTLD_NOW);
            if (!library || !(late = (int *(*)(void))dlsym(library, "late")))
                abort();
        }
        if (num == 1 || num == 2)
            *late() += num;
        if (num < 2) {
            put("counter", &counter, "%d", counter);
            put("place.x", &place.x, "%g", place.x);
            put("place.name", &place.name, "%s", place.name);
            put("table[0]", &table[0], "%ld", table[0]);
            put("table[1]", &table[1], "%ld", table[1]);
        }
        if (num == 1 || num == 2)
            put("late_one", late(), "%d", *late());
        #pragma omp barrier
        if (!num) {
            fprintf(out, "]\n");
            fclose(out);
            abort();
        }
        #pragma omp barrier
    }
    return 0;
}
