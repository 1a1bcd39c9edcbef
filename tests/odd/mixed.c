#include "odd.h"
/* Ten levels: teams of two and of one, and a false if clause. */
static void down(const struct at *up, int depth) {
    if (depth == 0) STAY(up);
    if (depth % 3 == 0) {
        struct at here = AT(up);
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0 || depth > 5) down(&here, depth - 1); else STAY(&here);
        }
    } else if (depth % 3 == 1) {
        struct at here = AT(up);
#pragma omp parallel num_threads(1)
        down(&here, depth - 1);
    } else {
        struct at here = AT(up);
#pragma omp parallel if(0)
        down(&here, depth - 1);
    }
}
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(4 + 4 + 0);
    down(NULL, 10);
}
