/* The variable of Figure 8, for a compiler that emulates thread-local storage. */
#include <stdio.h>

int omp_get_thread_num(void);
_Thread_local int a = 0;

void foo (int i)
{
    printf ("id=%d, i=%d, a= %d\n", omp_get_thread_num(), i, ++a);
    fflush (stdout);
    return;
}
