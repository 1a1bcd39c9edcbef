/* Loads libregions.so, which is regions.c as a library, at run time. No OpenMP runtime is loaded before. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *library = dlopen("./libregions.so", RTLD_NOW);
    double (*work)(int) = library ? (double (*)(int))dlsym(library, "work") : 0;
    printf("%g\n", work ? work(3) : -1);
    return 0;
}
