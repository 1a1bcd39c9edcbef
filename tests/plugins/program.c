/* Two threads that a runtime knows; a third that it does not. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

void tiny_enter(int number);

static int arrived;

static void *wait_in(void *number)
{
    if (number)
        tiny_enter(1);
    /* Of one line, so that it is where a thread is that has been counted. */
    for (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);;) pause();
}

int main(void)
{
    pthread_t threads[2];
    int one = 1;

    tiny_enter(0);
    pthread_create(&threads[0], 0, wait_in, &one);
    pthread_create(&threads[1], 0, wait_in, 0);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2)
        ;
    abort();
}
