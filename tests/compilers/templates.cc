/* A region in a template over the type of a lambda, which is inlined where it is called. The last one to arrive aborts. */
#include <stdlib.h>
#include <unistd.h>

static volatile int never;
static int arrived;

template <class T> struct Numbers {
    T of[2];
    template <class F> void each(F change)
    {
        #pragma omp parallel for num_threads(2) // each
        for (int i = 0; i < 2; i++)
            change(of[i]);
    }
};

int main()
{
    Numbers<double> numbers{};
    numbers.each([](double &number) {
        number += 1;
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == 2)
            abort();
        while (!never)
            pause(); // waits
    });
    return 0;
}
