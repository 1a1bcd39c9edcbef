/* A program that runs a region; with LOAD it loads a library instead, which does so. */
#include <stdio.h>

#ifdef LOAD
#include <dlfcn.h>

int main(void)
{
    void *library = dlopen(LOAD, RTLD_NOW);
    void (*run)(void);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void **)&run = dlsym(library, "run");
    run();
    return 0;
}
#else
void run(void);
void run(void)
{
    int sum = 0;
    #pragma omp parallel num_threads(3) reduction(+ : sum)
    sum++;
    printf("%d threads\n", sum);
}

#ifndef LIBRARY
int main(void)
{
    run();
    return 0;
}
#endif
#endif
