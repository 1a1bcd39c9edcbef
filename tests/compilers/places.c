/* Constructs whose code ends by calling another function, so that optimisers leave a jump, and one inside of another's
 * lines. Each is met by an initial thread of its own; the last thread to arrive aborts. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef TARGET
enum { ALL = 15 };
#else
enum { ALL = 14 };
#endif

static volatile int never;
static volatile double sink;
static int arrived;

__attribute__((noinline)) void rest(int n)
{
    sink += n;
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == ALL)
        abort();
    while (!never)
        pause();
    sink += 1;
}

static inline void first(int n)
{
    sink += n;
    rest(n); // first
}

__attribute__((noinline)) void second(int n)
{
    sink += 2 * n;
    rest(n); // second
}

__attribute__((noinline)) void third(int n)
{
    sink += 3 * n;
    second(n); // third
}

__attribute__((noinline)) void fourth(int n)
{
    sink += 4 * n;
    rest(n); // fourth
}

/* Which of the two it was nobody can tell. */
__attribute__((noinline)) void either(int n)
{
    sink += 5 * n;
    if (n > 1)
        second(n);
    else
        fourth(n);
}

__attribute__((noinline)) void jumping(int n)
{
    #pragma omp parallel num_threads(2) // jumping
    rest(n); // jumping body
}

__attribute__((noinline)) void inlining(int n)
{
    #pragma omp parallel num_threads(2) // inlining
    first(n); // inlining body
}

__attribute__((noinline)) void chaining(int n)
{
    #pragma omp parallel num_threads(2) // chaining
    third(n); // chaining body
}

__attribute__((noinline)) void choosing(int n)
{
    #pragma omp parallel num_threads(2) // choosing
    either(n); // choosing body
}

__attribute__((noinline)) void tasking(int n)
{
    #pragma omp parallel num_threads(2) // tasking
    {
        #pragma omp task firstprivate(n) // task
        rest(n); // task body
    }
}

__attribute__((noinline)) void nesting(int n)
{
    #pragma omp parallel num_threads(1) // nesting
    {
        sink += n;
        #pragma omp parallel num_threads(2) // nested
        {
            rest(n); // nested body
            sink += n;
        }
    }
}

#ifdef TARGET
__attribute__((noinline)) void targeting(int n)
{
    #pragma omp target firstprivate(n) // target
    {
        rest(n); // target body
        sink += n;
    }
    sink += n;
}
#endif

__attribute__((noinline)) void plain(int n)
{
    third(n); // plain
    sink += n;
}

__attribute__((noinline)) void choice(int n)
{
    either(n); // choice
    sink += n;
}

static void (*const each[])(int) = {
    jumping, inlining, chaining, choosing, tasking, nesting, plain, choice,
#ifdef TARGET
    targeting,
#endif
};

static void *begin(void *number)
{
    each[(long)number]((int)(long)number);
    return NULL;
}

int main(void)
{
    long count = sizeof each / sizeof *each;
    pthread_t threads[16];
    for (long number = 0; number < count; number++)
        pthread_create(&threads[number], NULL, begin, (void *)number);
    for (long number = 0; number < count; number++)
        pthread_join(threads[number], NULL);
    return 0;
}
