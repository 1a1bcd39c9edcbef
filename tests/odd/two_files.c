#include "odd.h"
/* Built twice, with and without OTHER: both files have a static function of one name with a region in it. */
static void same(const struct at *up) {
#ifdef OTHER
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    STAY(&here);
#else
    void other(const struct at *);
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num()) STAY(&here); else other(&here);
#endif
}
#ifdef OTHER
void other(const struct at *up) { same(up); }
#else
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(3);
    same(NULL);
}
#endif
