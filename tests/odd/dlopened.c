#include "odd.h"
#include <dlfcn.h>
/* Built with LIBRARY as a shared library that is loaded at run time; it calls back into the program. */
#ifdef LIBRARY
void in_library(const struct at *up, void (*back)(const struct at *)) {
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num()) STAY(&here); else back(&here);
}
#else
static void back(const struct at *up) {
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    STAY(&here);
}
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(3);
    void *library = dlopen("./library.so", RTLD_NOW);
    void (*in_library)(const struct at *, void (*)(const struct at *)) = dlsym(library, "in_library");
    in_library(NULL, back);
}
#endif
