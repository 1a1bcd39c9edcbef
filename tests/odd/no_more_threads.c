#include "odd.h"
#include <sys/resource.h>
/* The system refuses a thread while the team of the second level forms: the runtime gives up and aborts. */
int main(void) {
    odd_start(1000);
    while (access("words", F_OK)) usleep(1000);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
            until_settled(2);
            SAY(&one, "fork");
            struct rlimit limit = {700 << 20, 700 << 20};
            setrlimit(RLIMIT_AS, &limit);
#pragma omp parallel num_threads(64)
            for (;;) pause();
        } else {
            STAY(&one);
        }
    }
}
