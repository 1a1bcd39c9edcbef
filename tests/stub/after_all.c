/* Replaces fflush() in figure8.c: it ends the program inside the region once all iterations of the loop have been
 * counted. */
#include <stdio.h>
#include <stdlib.h>

int stop_after_all(FILE *file)
{
    static int count;
    int result = fflush(file);
    if (__atomic_add_fetch(&count, 1, __ATOMIC_ACQ_REL) == 10)
        abort();
    return result;
}
