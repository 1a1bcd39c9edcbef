/* A region that one thread leaves in a way that nobody who steps expects. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C" int omp_get_thread_num(void);

static volatile int go_on = 1;
static volatile int *volatile nowhere;

__attribute__((noinline)) static void thrown() {
    throw 1;
}

__attribute__((noinline)) static int leave(const char *how) {
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "fault"))
        return *nowhere;
    if (!strcmp(how, "signal"))
        raise(SIGTERM);
    if (!strcmp(how, "abort"))
        thrown();
    if (!strcmp(how, "throw")) {
        try {
            thrown();
        } catch (int caught) {
            return caught;
        }
    }
    while (!strcmp(how, "forever") && go_on && !fclose(fopen("goes_on", "w")))
        usleep(1000);
    return 0;
}

int main(int, char **arguments) {
    int sum = 0;
#pragma omp parallel num_threads(3) shared(sum)
    {
        int mine = 1;
        int number = omp_get_thread_num();
        if (number == 1)
            mine += leave(arguments[1]);
#pragma omp atomic
        sum += mine;
    }
    printf("sum is %d\n", sum);
    return 0;
}
