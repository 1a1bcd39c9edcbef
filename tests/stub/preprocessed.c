/* A region as a preprocessor writes it: a separate function, whose variables have the names of the clauses that list
 * them. The program aborts in the region. */
#include <omp_stub.h>
#include <stdbool.h>
#include <stdlib.h>

void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);

struct shared {
    double *total;
    int *each;
};

static void code(void *data)
{
    struct shared *all = data;
    double *OMP_STUB_VARIABLE_AT(shared, total) = all->total;
    int *OMP_STUB_VARIABLE_AT(reduction, each) = all->each;
    int OMP_STUB_VARIABLE(private, own) = 5;
    long OMP_STUB_VARIABLE(firstprivate, first) = 6;
    short OMP_STUB_VARIABLE(lastprivate, last) = 7;
    char OMP_STUB_VARIABLE(firstlastprivate, both) = 'b';
    float OMP_STUB_VARIABLE(copyin, copied) = 1.5f;
    int *pointer = all->each, plain = 8;
    double *OMP_STUB_VARIABLE_AT(shared, lost) = (double *)16;
    int OMP_STUB_VARIABLE_AT(shared, wrong) = plain;
    if (OMP_STUB_VARIABLE(private, own) + OMP_STUB_VARIABLE(firstprivate, first) + OMP_STUB_VARIABLE(lastprivate, last) +
            OMP_STUB_VARIABLE(firstlastprivate, both) + (int)OMP_STUB_VARIABLE(copyin, copied) +
            (int)*OMP_STUB_VARIABLE_AT(shared, total) + *OMP_STUB_VARIABLE_AT(reduction, each) + *pointer + plain +
            OMP_STUB_VARIABLE_AT(shared, wrong) + (OMP_STUB_VARIABLE_AT(shared, lost) != 0))
        abort();
}

int main(void)
{
    double total = 2.5;
    int each = 3;
    struct shared all = {&total, &each};
    GOMP_parallel(code, &all, 1, 0);
    return 0;
}
