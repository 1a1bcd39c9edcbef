/* Constructs inside of which threads stand. */
#include "held.h"
static omp_lock_t l[4];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

FUNCTION nothing(void) { asm volatile(""); }
FUNCTION unnamed(void) {
#pragma omp critical
    STAND({"critical", 0, 1});
    nothing();
}
FUNCTION named(void) {
#pragma omp critical(first)
    STAND({"critical(first)", 0, 1});
    nothing();
}
FUNCTION called(void) { STAND({"critical(second)", 0, 1}); nothing(); }
FUNCTION calling(void) {
#pragma omp critical(second)
    called();
    nothing();
}
FUNCTION behind(void) {
#pragma omp critical(third)
    nothing();
    STAND();
}
FUNCTION beside(void) {
    if (zero) {
#pragma omp critical(third)
        nothing();
    } else STAND();
}
FUNCTION two(void) {
#pragma omp critical(fourth)
    {
#pragma omp critical(fifth)
        nothing();
#pragma omp critical(sixth)
        STAND({"critical(fourth)", 0, 1}, {"critical(sixth)", 0, 1});
    }
}
FUNCTION in_single(void) {
#pragma omp parallel num_threads(1)
#pragma omp single
    STAND({"single", 0, 1});
}
FUNCTION behind_single(void) {
#pragma omp parallel num_threads(1)
    {
#pragma omp single nowait
        nothing();
        STAND();
    }
}
FUNCTION copying(void) {
    int x = 0;
#pragma omp parallel num_threads(1) private(x)
    {
#pragma omp single copyprivate(x)
        {
            x = 1;
            STAND({"single", 0, 1});
        }
    }
}
FUNCTION in_ordered(void) {
#pragma omp parallel for ordered num_threads(1)
    for (int i = 0; i < three; i++) {
#pragma omp ordered
        if (i == 1) STAND({"ordered", 0, 1});
        nothing();
    }
}
FUNCTION in_master(void) {
#pragma omp parallel num_threads(1)
    {
#pragma omp master
        STAND({"master", 0, 0});
        nothing();
    }
}
FUNCTION in_mutex(void) { pthread_mutex_lock(&mutex); STAND({"mutex", &mutex, 1}); pthread_mutex_unlock(&mutex); }
FUNCTION waiting(void) {
    pthread_mutex_lock(&other);
    tell(__func__, 0, 0);
    for (;;) pthread_cond_wait(&condition, &other);
}
FUNCTION tried(void) {
    static pthread_mutex_t third = PTHREAD_MUTEX_INITIALIZER;
    if (pthread_mutex_trylock(&third)) abort();
    STAND({"mutex", &third, 1});
    pthread_mutex_unlock(&third);
}
FUNCTION in_task(void) {
#pragma omp parallel num_threads(1)
#pragma omp single
    {
#pragma omp task
        {
#pragma omp critical(task)
            STAND({"critical(task)", 0, 1}, {"single", 0, 0});
        }
#pragma omp taskwait
        nothing();
    }
}
FUNCTION in_section(void) {
#pragma omp parallel sections num_threads(1)
    {
#pragma omp section
        nothing();
#pragma omp section
        STAND({"section", 0, 0});
    }
}

int main(void) {
    static const scene scenes[] = {
        unnamed, named, calling, behind, beside, two, in_single, behind_single, copying, in_ordered, in_master,
        in_mutex, waiting, tried, in_task, in_section,
    };
    play(scenes, COUNT(scenes), l, COUNT(l));
}
