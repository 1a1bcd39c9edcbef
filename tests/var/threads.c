/* Every thread gives its copies values of its own, says where they are, and rests. */
#include "truth.h"
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct point {
    int x;
    long y;
    char name[8];
};

int tp = 5;
#pragma omp threadprivate(tp)
static double stp[3] = {1.5, 2.5, 3.5};
#pragma omp threadprivate(stp)
struct point pt = {1, 2, "ab"};
#pragma omp threadprivate(pt)
char text[16] = "initial";
#pragma omp threadprivate(text)
int *pointer;
#pragma omp threadprivate(pointer)
unsigned long big = 1ul << 60;
#pragma omp threadprivate(big)
int rare = 77;
#pragma omp threadprivate(rare)
__thread int native = 3;
static __thread signed char small = -1;
int global = 9;
static long zeroed[600];
extern __thread int linked_variable;
int *linked_address(void);

static int *count(void)
{
    static int calls = 100, limit = 1000;
#pragma omp threadprivate(calls)
    if (calls < limit--)
        calls++;
    return &calls;
}

static int *count_again(void)
{
    static int again = 200, limit = 2000;
#pragma omp threadprivate(again)
    if (again < limit--)
        again += 2;
    return &again;
}

static pthread_barrier_t started;

static void *not_openmp(void *unused)
{
    (void)unused;
    native = -7;
    small = 'x';
    note("native", &native, "%d", native);
    note("small", &small, "%d", small);
    note("linked_variable", linked_address(), "%d", *linked_address());
    note("opened_variable", NULL, "null");
    pthread_barrier_wait(&started);
    rest();
    return NULL;
}

int main(int count_of_arguments, char **arguments)
{
    int threads = atoi(getenv("THREADS"));
    void *library = count_of_arguments > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    int *(*opened_address)(void) = library != NULL ? (int *(*)(void))dlsym(library, "opened_address") : NULL;
    pthread_t thread;
    pthread_barrier_init(&started, NULL, 2);
    pthread_create(&thread, NULL, not_openmp, NULL);
    pthread_barrier_wait(&started);
#pragma omp parallel num_threads(threads)
    {
        int number = omp_get_thread_num();
        note_number(number);
        tp += 10 * number;
        stp[1] = number / 4.0;
        pt.x = number;
        pt.y = -1000000000000l * number;
        snprintf(pt.name, sizeof pt.name, "t%d", number);
        snprintf(text, sizeof text, "thread %d", number);
        pointer = &tp;
        big += number;
        native += number;
        small -= number;
        *linked_address() = number * number;
        if (number == 1)
            rare++;
        int *calls = number % 3 != 2 ? count() : NULL, *other_local = count_again();
        note("tp", &tp, "%d", tp);
        note("stp", stp, "[%g, %g, %g]", stp[0], stp[1], stp[2]);
        note("pt", &pt, "{\"x\": %d, \"y\": %ld, \"name\": \"%s\"}", pt.x, pt.y, pt.name);
        note("text", text, "\"%s\"", text);
        note("pointer", &pointer, "\"0x%lx\"", (unsigned long)pointer);
        note("big", &big, "\"%lu\"", big);
        note("native", &native, "%d", native);
        note("small", &small, "%d", small);
        note("global", &global, "%d", global);
        note("linked_variable", linked_address(), "%d", *linked_address());
        note("count::calls", calls, "%d", calls != NULL ? *calls : 0);
        note("count_again::again", other_local, "%d", *other_local);
        if (number == 1)
            note("rare", &rare, "%d", rare);
        if (opened_address != NULL && number % 2 == 0) {
            *opened_address() = 500 + number;
            note("opened_variable", opened_address(), "%d", *opened_address());
        } else {
            note("opened_variable", NULL, "null");
        }
#pragma omp barrier
        if (number == 0)
            tell();
        rest();
    }
    return zeroed[0];
}
