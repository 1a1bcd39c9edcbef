/* The runtime of docs/plugins.md: it knows its threads, and no more. */
#include <pthread.h>

static const char *names[] = {"/opt/tiny/libtiny_debug.so", "tiny-openmp", 0};
const char **ompd_dll_locations;

struct tiny_thread {
    pthread_t handle;
    int number;
};

struct tiny_thread tiny_threads[64];
int tiny_count;

void tiny_enter(int number)
{
    tiny_threads[number] = (struct tiny_thread){pthread_self(), number};
    __atomic_add_fetch(&tiny_count, 1, __ATOMIC_SEQ_CST);
    ompd_dll_locations = names;
}
