/* A region on the linked runtime. GNU libgomp is loaded, too, and has a region if the argument is "other". */
#include <dlfcn.h>
#include <string.h>

static int count;

static void body(void *count) {
    __atomic_add_fetch((int *)count, 1, __ATOMIC_SEQ_CST);
}

int main(int given, char **arguments) {
    void *other = dlopen("libgomp.so.1", RTLD_NOW);
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = other ? dlsym(other, "GOMP_parallel") : 0;
#pragma omp parallel num_threads(2)
    body(&count);
    if (given > 1 && !strcmp(arguments[1], "other") && parallel)
        parallel(body, &count, 2, 0);
    return 0;
}
