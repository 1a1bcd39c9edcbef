/* Regions by all entry points of runtimes that compilers call. The thread that meets a region counts it, and the count
 * is written to the named file. Optimised code reaches some entry points by jumps. */
#include <omp.h>
#include <stdio.h>

static int count;
static volatile int sink, yes = 1;

static void met(void) {
#pragma omp atomic
    count++;
}

static void last(void) {
    met();
#pragma omp parallel num_threads(2)
    sink = 1;
}

static void nested_last(void) {
    met();
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            met();
#pragma omp parallel num_threads(2)
            sink = 2;
        }
    }
}

static void by_clause(int several) {
    met();
#pragma omp parallel if (several) num_threads(2)
    sink = several;
}

static void alone(void) {
    met();
#pragma omp parallel num_threads(1)
    sink = 3;
}

static void loops(int n) {
    met();
#pragma omp parallel for schedule(dynamic) num_threads(2)
    for (int i = 0; i < n; i++)
        sink = i;
    met();
#pragma omp parallel for schedule(static) num_threads(2)
    for (int i = 0; i < n; i++)
        sink = i;
    met();
#pragma omp parallel sections num_threads(2)
    {
        sink = 4;
#pragma omp section
        sink = 5;
    }
}

int main(int given, char **arguments) {
    omp_set_max_active_levels(2);
    last();
    nested_last();
    by_clause(!yes);
    by_clause(yes);
    alone();
    loops(4);
    FILE *file = given > 1 ? fopen(arguments[1], "w") : 0;
    if (file) {
        fprintf(file, "%d\n", count);
        fclose(file);
    }
    return 0;
}
