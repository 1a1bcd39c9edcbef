/* A minimal runtime with frames, in a file named like a package's copy of libgomp. */
#include <pthread.h>

struct work {
    void (*body)(void *);
    void *data;
};

static void *gomp_thread_start(void *work) {
    ((struct work *)work)->body(((struct work *)work)->data);
    return work;
}

static void gomp_run_worker(struct work *work) {
    pthread_t worker;
    pthread_create(&worker, 0, gomp_thread_start, work);
    pthread_join(worker, 0);
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
    struct work work = {body, data};
    if (threads > 1)
        gomp_run_worker(&work);
    else
        body(data);
}
