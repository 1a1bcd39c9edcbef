/* A task that two threads create; each copies an object for it, and rests in the constructor. gcc makes a function of
 * the copying. The second one to arrive aborts. */
#include <stdlib.h>
#include <unistd.h>

static volatile int never;
static int arrived;
static double sink;

__attribute__((noinline)) static void rest()
{
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == 2)
        abort();
    while (!never)
        pause();
    sink += 1;
}

struct Copied {
    int value;
    Copied() : value(0) {}
    Copied(const Copied &other) : value(other.value)
    {
        rest(); // copying
        sink += 1;
    }
};

int main()
{
    Copied object;
    #pragma omp parallel num_threads(2) // region
    {
        #pragma omp task firstprivate(object) // task
        sink += object.value;
    }
    return 0;
}
