/* The user's functions and library have names like those of a runtime. */
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
volatile int reached;

void omp_get_ready(void) {
    reached++;
}

void kmp_search(void *data) {
    omp_get_ready();
    reached++;
}

void gomp_solve(unsigned threads) {
    GOMP_parallel(kmp_search, 0, threads, 0);
    reached++;
}
