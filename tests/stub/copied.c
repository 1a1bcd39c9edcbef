/* A program that refers to variables of the runtime: the linker reserves space for copies of them in the program, and
 * the runtime uses these copies, too. Their values are complete. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

extern const char **ompd_dll_locations;
extern char omp_stub_process[];

int main(void)
{
    printf("before: %d\n", ompd_dll_locations != 0);
    #pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
            for (int i = 0; ompd_dll_locations[i]; i++)
                printf("%s\n", ompd_dll_locations[i]);
            printf("at %p\n", (void *)omp_stub_process);
            fflush(stdout);
            abort();
        }
        #pragma omp barrier
    }
    return 0;
}
