#include "odd.h"
/* Threads wait in constructs that share OMPT's state with others: KIND is doacross or copyprivate. */
static void stay_away(void) {
    odd_words("{\"away\": %d}\n", odd_gettid());
    for (;;) pause();
}

int main(void) {
    int is_doacross = !strcmp(getenv("KIND"), "doacross");
    odd_start(2);
#pragma omp parallel num_threads(2)
    {
        if (is_doacross) {
#pragma omp for ordered(1) schedule(static, 1)
            for (int i = 1; i < 3; i++) {
                if (i == 1) stay_away();
                odd_words("{\"waits\": %d}\n", odd_gettid());
#pragma omp ordered depend(sink : i - 1)
#pragma omp ordered depend(source)
            }
        } else {
            int value;
            odd_words("{\"either\": %d}\n", odd_gettid());
#pragma omp single copyprivate(value)
            {
                value = 1;
                until_settled(1);
                stay_away();
            }
        }
    }
}
