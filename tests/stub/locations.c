/* Stops where ompd_dll_locations can be read: before the runtime has begun, or after, as the argument says. A library's
 * initializer asks for debugging if the program is linked with enable.c. */
#include <omp.h>
#include <omp_stub.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "enable"))
        omp_debug_enable();
    if (argc > 1 && !strcmp(argv[1], "before"))
        abort();
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            if (argc > 1 && !strcmp(argv[1], "late"))
                omp_debug_enable();
            abort();
        }
        #pragma omp barrier
    }
    return 0;
}
