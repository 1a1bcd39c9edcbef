/* A program whose second thread calls a library that has a runtime of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void (*inner)(void) = library ? (void (*)(void))dlsym(library, "inner") : 0;
    if (!inner)
        return 1;
    #pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1)
            inner();
        #pragma omp barrier
    }
    return 0;
}
