/* Three threads at level 1. Number 0 is at the barrier, number 1 has a region of two in it, whose threads wait for a
 * lock and work, number 2 executes a task in a task. A thread of no runtime is there, too.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "fable.h"

int lock, arrived;
__thread int own;

#define STAY for (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);;) pause()

static void inner(void *argument)
{
    own = 20 + fable_number();
    if (fable_number())
        fable_set_lock(&lock);
    STAY;
}

static void task_inside(void *argument)
{
    STAY;
}

static void task_outside(void *argument)
{
    fable_task(task_inside, 0);
}

static void outer(void *argument)
{
    own = 10 + fable_number();
    switch (fable_number()) {
    case 0:
        fable_barrier();
        break;
    case 1:
        fable_parallel(inner, 0, 2);
        break;
    default:
        fable_task(task_outside, 0);
    }
}

static void *stranger(void *argument)
{
    STAY;
    return 0;
}

static void *judge(void *argument)
{
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) + __atomic_load_n(&fable_waiting, __ATOMIC_SEQ_CST) < 5)
        usleep(1000);
    if (argument)
        abort();
    write(1, "ready\n", 6);
    for (;;)
        pause();
    return 0;
}

int main(int count, char **words)
{
    pthread_t threads[2];

    pthread_create(&threads[0], 0, stranger, 0);
    pthread_create(&threads[1], 0, judge, count > 1 && words[1][0] == 'a' ? words : 0);
    fable_begin(count > 2);
    fable_parallel(outer, 0, 3);
    return 0;
}
