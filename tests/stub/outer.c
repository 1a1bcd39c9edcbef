/* A program whose second thread calls a library with a different runtime. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>

static volatile int begun;

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void (*inner)(volatile int *) = library ? (void (*)(volatile int *))dlsym(library, "inner") : 0;
    if (!inner)
        return 1;
    #pragma omp parallel num_threads(3)
    {
        __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
        if (omp_get_thread_num() == 1)
            inner(&begun);
        #pragma omp barrier
    }
    return 0;
}
