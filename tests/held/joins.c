/* Locks of which the way that led here says which one it is: ways that meet, and go on with one register. */
#include "held.h"
static omp_lock_t l[16];

FUNCTION nothing(void) { asm volatile(""); }
FUNCTION one_of_two(int which) {
    omp_lock_t *lock = which ? &l[0] : &l[1];
    omp_set_lock(lock);
    STAND(LOCK(*lock, 0));
    omp_unset_lock(lock);
}
FUNCTION chosen(void) { one_of_two(one); nothing(); }
static inline __attribute__((always_inline)) void set_both(omp_lock_t *first, omp_lock_t *second) {
    omp_set_lock(first);
    sched_yield();
    STAND(LOCK(*first, 0));
    omp_set_lock(second);
    omp_unset_lock(second);
    omp_unset_lock(first);
}
FUNCTION either_way(int which) { if (which) set_both(&l[2], &l[3]); else set_both(&l[3], &l[2]); }
FUNCTION crossed(void) { either_way(one); nothing(); }
FUNCTION changed(int which) {
    omp_lock_t *lock = which ? &l[4] : &l[5];
    omp_set_lock(lock);
    lock = three == which ? &l[4] : &l[5];
    STAND(LOCK(l[4], 0));
    omp_unset_lock(lock);
    omp_unset_lock(lock - 1);
}
FUNCTION chosen_anew(void) { changed(one); nothing(); }
FUNCTION some(int which) {
    omp_lock_t *lock = &l[6];
    if (which) omp_set_lock(lock);
    else lock = &l[7];
    STAND();
    omp_unset_lock(lock);
}
FUNCTION on_one_way(void) { some(zero); nothing(); }
FUNCTION element(omp_lock_t *locks, int number) {
    omp_set_lock(&locks[number]);
    STAND(LOCK(locks[number], 0));
    omp_unset_lock(&locks[number]);
}
FUNCTION of_array(void) { element(l, 8 * one); nothing(); }
FUNCTION moved_on(omp_lock_t *lock) {
    for (int i = 0; i < three; i++) {
        omp_set_lock(lock);
        if (i == 2) STAND(LOCK(l[11], 0));
        omp_unset_lock(lock++);
    }
}
FUNCTION each_in_turn(void) { moved_on(&l[9]); nothing(); }

int main(void) {
    static const scene scenes[] = {chosen, crossed, chosen_anew, on_one_way, of_array, each_in_turn};
    play(scenes, COUNT(scenes), l, COUNT(l));
}
