#include "odd.h"
/* Threads that had regions of their own have ended. */
static void *root(void *unused) {
    (void)unused;
#pragma omp parallel num_threads(3)
    getppid();
    return NULL;
}
static void *stays(void *unused) {
    (void)unused;
    STAY(NULL);
}
int main(void) {
    odd_start(3);
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, root, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    pthread_create(&threads[3], NULL, stays, NULL);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
    STAY(&one);
}
