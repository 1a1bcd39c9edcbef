/* Executes empty regions of one thread; the argument is their number. */
#include <stdlib.h>

int main(int count, char **arguments)
{
    int regions = count > 1 ? atoi(arguments[1]) : 0;
    for (int i = 0; i < regions; i++) {
        #pragma omp parallel num_threads(1)
        __asm__ volatile("");
    }
    return 0;
}
