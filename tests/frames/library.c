/* A library without debug information, and of whose functions but one none has a name, that waits for ever. */
#include <poll.h>

void library_wait(void);

static int __attribute__((noinline)) progress(int rounds)
{
    for (int i = 0; i < rounds; i++)
        poll(0, 0, -1);
    return rounds;
}

static int (*volatile hidden)(int) = progress;

void library_wait(void)
{
    while (hidden(1000))
        ;
}
