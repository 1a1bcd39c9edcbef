#include <omp.h>
#include <stdio.h>
int a = 0;

#pragma omp threadprivate(a)
void foo (int i)
{
    printf ("id=%d, i=%d, a= %d\n", omp_get_thread_num(), i, ++a);
    fflush (stdout);
    return;
}

const int tcount = 4;
const int titers = 10;

int main (int argc, char **argv)
{
    int i;
    omp_set_num_threads (tcount);
    omp_set_dynamic (0);
    #pragma omp parallel for
    for (i = 0; i < titers; i++)
        {foo (i);}
    return 0;
}
