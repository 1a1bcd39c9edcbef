#include "odd.h"
#include <dlfcn.h>
/* Built twice with LIBRARY: two libraries have a critical section of the same name, and know nothing of each other. */
#ifdef LIBRARY
void enter(volatile int *entered) {
    if (*entered) odd_words("{\"waits\": %d}\n", odd_gettid());
#pragma omp critical(ledger)
    {
        *entered = 1;
        for (;;) pause();
    }
}
#else
int main(void) {
    odd_start(2);
    void (*enter[2])(volatile int *);
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(i ? "./second.so" : "./first.so", RTLD_NOW | RTLD_LOCAL);
        *(void **)&enter[i] = dlsym(library, "enter");
    }
    static volatile int entered[2];
#pragma omp parallel num_threads(4)
    {
        int thread = omp_get_thread_num();
        if (thread > 1)
            while (!entered[thread % 2]) usleep(1000);
        enter[thread % 2](&entered[thread % 2]);
    }
}
#endif
