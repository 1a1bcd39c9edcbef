/* Takes the place of fflush() in figure8.c: ends the program once all of the loop's iterations have counted, within its
 * region. */
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
