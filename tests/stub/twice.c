/* A program and a library that it opens each have a variable of the same name, unknown to the other. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int counted = 1;

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
    int *(*where)(void) = library ? (int *(*)(void))dlsym(library, "where") : 0;
    if (!where)
        return 1;
    printf("%p %p\n", (void *)&counted, (void *)where());
    fflush(stdout);
    abort();
}
