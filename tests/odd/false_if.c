#include "odd.h"
/* Serialized regions of all kinds in a row. */
static void leaf(const struct at *up) { STAY(up); }
static void middle(const struct at *up) {
    struct at here = AT(up);
#pragma omp parallel if (0)
    leaf(&here);
}
int main(void) {
    odd_start(2);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
    {
        struct at two = AT(&one);
#pragma omp parallel if (0)
        {
            struct at three = AT(&two);
#pragma omp parallel num_threads(1)
            middle(&three);
        }
    }
}
