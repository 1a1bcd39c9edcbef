/* Functions that return with a lock on some of their ways. "leaks" marks a return, "from" the branch in front of it. */
#include "held.h"
static omp_lock_t l[9];
static volatile int done;

FUNCTION early(int x) {
    omp_set_lock(&l[0]);
    done += x;
    if (x < 3) /* from &l[0] */
        return; /* leaks &l[0] */
    done *= 2;
    omp_unset_lock(&l[0]);
}
__attribute__((noinline, noclone)) static int in_a_loop(int x) {
    for (int i = 0; i < x; i++) {
        omp_set_lock(&l[1]);
        done += i;
        if (done == 1000) /* from &l[1] */
            return done; /* leaks &l[1] */
        omp_unset_lock(&l[1]);
    }
    return 0;
}
__attribute__((noinline, noclone)) static int of_two(int x) {
    omp_set_lock(&l[2]);
    omp_set_lock(&l[3]);
    done += x;
    omp_unset_lock(&l[3]);
    if (done == 1001) /* from &l[2] */
        return 1; /* leaks &l[2] */
    omp_unset_lock(&l[2]);
    return 0;
}
/* Released on each way, only if it was set, or at the end of all ways. */
__attribute__((noinline, noclone)) static int on_each_way(int x) {
    omp_set_lock(&l[4]);
    if (x == 4) {
        omp_unset_lock(&l[4]);
        return 1;
    }
    done += x;
    omp_unset_lock(&l[4]);
    return 0;
}
FUNCTION tested(int x) {
    if (!omp_test_lock(&l[5]))
        return;
    done += x;
    omp_unset_lock(&l[5]);
}
FUNCTION at_the_end(int x) {
    omp_set_lock(&l[6]);
    if (x == 5)
        goto end;
    done += x;
end:
    omp_unset_lock(&l[6]);
}
/* Set and released on the same ways, by a flag. */
FUNCTION by_a_flag(int x) {
    int got = 0;
    if (x == 6 || done) {
        omp_set_lock(&l[7]);
        got = 1;
    }
    done += x;
    if (got)
        omp_unset_lock(&l[7]);
}
#ifdef HANDED_ON
/* A lock that one function sets and another one releases may be kept on purpose. */
FUNCTION take(int x) {
    omp_set_lock(&l[8]);
    done += x;
    if (x == 7)
        omp_unset_lock(&l[8]);
}
FUNCTION give_back(int x) {
    done += x;
    omp_unset_lock(&l[8]);
}
#endif
FUNCTION all(void) {
    early(three);
    in_a_loop(one);
    of_two(one);
    on_each_way(one);
    tested(one);
    at_the_end(one);
    by_a_flag(one);
#ifdef HANDED_ON
    take(one);
    give_back(one);
#endif
    STAND();
}

int main(void) {
    static const scene scenes[] = {all};
    play(scenes, COUNT(scenes), l, COUNT(l));
}
