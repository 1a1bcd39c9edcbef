/* Locks that a thread has set, on some ways or all. */
#include "held.h"
static omp_lock_t l[48];
static omp_nest_lock_t nest;
static struct record { long first; omp_lock_t lock; } record;

FUNCTION set_one(void) { omp_set_lock(&l[0]); STAND(LOCK(l[0], 1)); omp_unset_lock(&l[0]); }
FUNCTION first_unset(void) {
    omp_set_lock(&l[1]);
    omp_set_lock(&l[2]);
    omp_unset_lock(&l[1]);
    STAND(LOCK(l[2], 1));
    omp_unset_lock(&l[2]);
}
FUNCTION inner(void) { omp_set_lock(&l[4]); STAND(LOCK(l[3], 1), LOCK(l[4], 1)); omp_unset_lock(&l[4]); }
FUNCTION two_functions(void) { omp_set_lock(&l[3]); inner(); omp_unset_lock(&l[3]); }
FUNCTION set_it(omp_lock_t *lock) { omp_set_lock(lock); }
FUNCTION unset_it(omp_lock_t *lock) { omp_unset_lock(lock); }
FUNCTION set_by_another(void) { set_it(&l[5]); STAND(LOCK(l[5], 0)); }
FUNCTION element(void) { omp_set_lock(&l[5 + one]); STAND(LOCK(l[6], 1)); omp_unset_lock(&l[5 + one]); }
FUNCTION of_record(struct record *r) { omp_set_lock(&r->lock); STAND({"lock", &r->lock, 1}); omp_unset_lock(&r->lock); }
FUNCTION member(void) { of_record(&record); asm volatile(""); }
FUNCTION after_loop(void) {
    for (int i = 0; i < three; i++) { omp_set_lock(&l[7]); omp_unset_lock(&l[7]); }
    STAND();
}
FUNCTION in_loop(void) {
    for (int i = 0; i < three; i++) {
        omp_set_lock(&l[8]);
        if (i == 2) STAND(LOCK(l[8], 1));
        omp_unset_lock(&l[8]);
    }
}
FUNCTION branch_not_taken(void) { if (zero) omp_set_lock(&l[9]); STAND(); }
FUNCTION branch_taken(void) { if (one) omp_set_lock(&l[10]); STAND(LOCK(l[10], 0)); }
FUNCTION same_condition(void) {
    if (one) omp_set_lock(&l[11]);
    asm volatile("" ::: "memory");
    if (one) omp_unset_lock(&l[11]);
    STAND();
}
FUNCTION tested(void) { if (omp_test_lock(&l[12])) { STAND(LOCK(l[12], 1)); omp_unset_lock(&l[12]); } }
FUNCTION tested_until(void) { while (!omp_test_lock(&l[13])) sched_yield(); STAND(LOCK(l[13], 1)); omp_unset_lock(&l[13]); }
FUNCTION test_failed(void) {
    set_it(&l[14]);
    unset_it(&l[14]);
    if (omp_test_lock(&l[14])) { omp_unset_lock(&l[14]); STAND(); }
    else abort();
}
FUNCTION not_tested(void) {
    while (omp_test_lock(&l[0])) omp_unset_lock(&l[0]);
    int got = omp_test_lock(&l[0]);
    if (!got) STAND();
    else omp_unset_lock(&l[0]);
}
FUNCTION unset_by_another(void) { omp_set_lock(&l[15]); unset_it(&l[15]); STAND(); }
static void (*volatile unset_by)(omp_lock_t *) = unset_it;
FUNCTION unset_by_pointer(void) { omp_set_lock(&l[16]); unset_by(&l[16]); STAND(); }
FUNCTION nothing(void) { asm volatile(""); }
static void (*volatile do_nothing)(void) = nothing;
FUNCTION called_by_pointer(void) { omp_set_lock(&l[17]); do_nothing(); STAND(LOCK(l[17], 0)); omp_unset_lock(&l[17]); }
FUNCTION called(void) { omp_set_lock(&l[18]); nothing(); STAND(LOCK(l[18], 1)); omp_unset_lock(&l[18]); }
FUNCTION by_number(int number) {
    switch (number) {
    case 0: omp_set_lock(&l[19]);  /* falls through */
    case 1: nothing(); STAND(); break;
    case 2: set_it(&l[20]); break;
    case 3: nothing(); nothing(); break;
    case 4: omp_set_lock(&l[21]); nothing(); break;
    case 5: omp_set_lock(&l[22]); break;
    case 6: unset_it(&l[22]); nothing(); break;
    default: omp_unset_lock(&l[19]);
    }
}
FUNCTION jump_table(void) { by_number(one); nothing(); }
FUNCTION inner_unsets(void) { omp_unset_lock(&l[23]); STAND(); }
FUNCTION unset_further_in(void) { omp_set_lock(&l[23]); inner_unsets(); nothing(); }
FUNCTION unset_and_left(void) { omp_unset_lock(&l[24]); tell(__func__, 0, 0); rest(); }
FUNCTION unset_by_who_left(void) { omp_set_lock(&l[24]); unset_and_left(); nothing(); }
static omp_lock_t *volatile global;
FUNCTION by_global(void) { global = &l[25]; omp_set_lock(global); global = &l[26]; STAND(LOCK(l[25], 0)); omp_unset_lock(&l[25]); }
static omp_lock_t *plain_global;
FUNCTION by_plain_global(void) {
    omp_set_lock(plain_global);
    plain_global = &l[28];
    STAND(LOCK(l[27], 0));
    omp_unset_lock(&l[27]);
}
FUNCTION of_changed(omp_lock_t *lock) { omp_set_lock(lock); lock = &l[30 + zero]; STAND(LOCK(l[29], 0)); omp_unset_lock(lock); omp_unset_lock(lock - 1); }
FUNCTION changed(void) { of_changed(&l[29]); nothing(); }
static void change(omp_lock_t **lock) { *lock = &l[32]; }
static void (*volatile change_by)(omp_lock_t **) = change;
FUNCTION changed_by_another(void) {
    omp_lock_t *lock = &l[31];
    change(&lock);
    lock = &l[31 + zero];
    omp_set_lock(lock);
    change_by(&lock);
    STAND(LOCK(l[31], 0));
    omp_unset_lock(lock);
}
FUNCTION nested_twice(void) {
    omp_init_nest_lock(&nest);
    omp_set_nest_lock(&nest);
    omp_set_nest_lock(&nest);
    omp_unset_nest_lock(&nest);
    STAND({"nest_lock", &nest, 1});
    omp_unset_nest_lock(&nest);
}
FUNCTION deeper(int n) {
    if (!n) STAND(LOCK(l[33], 0), LOCK(l[34], 0));
    else {
        if (n == 1) omp_set_lock(&l[33]); else omp_set_lock(&l[34]);
        deeper(n - 1);
        if (n == 1) omp_unset_lock(&l[33]); else omp_unset_lock(&l[34]);
    }
}
FUNCTION recursive(void) { omp_set_lock(&l[35]); omp_unset_lock(&l[35]); deeper(2 * one); nothing(); }
FUNCTION early(void) {
    omp_set_lock(&l[36]);
    if (zero) { omp_unset_lock(&l[36]); return; }
    STAND(LOCK(l[36], 1));
    omp_unset_lock(&l[36]);
}
FUNCTION region_data(void) {
    omp_lock_t local;
    omp_init_lock(&local);
#pragma omp parallel num_threads(1)
    {
        omp_set_lock(&local);
        STAND(LOCK(local, 1));
        omp_unset_lock(&local);
    }
}
FUNCTION in_region(void) {
    omp_set_lock(&l[37]);
#pragma omp parallel num_threads(1)
    STAND(LOCK(l[37], 1));
    omp_unset_lock(&l[37]);
}
FUNCTION aborting(void) {
    omp_set_lock(&l[38]);
    if (zero) abort();
    STAND(LOCK(l[38], 1));
    omp_unset_lock(&l[38]);
}
FUNCTION second_time(void) {
    for (int i = 0; i < 2; i++) {
        if (i == 1) STAND();
        omp_set_lock(&l[39]);
        nothing();
        omp_unset_lock(&l[39]);
    }
}
FUNCTION of_list(omp_lock_t **list) {
    for (; *list; list++) {
        omp_set_lock(*list);
        if (!list[1]) STAND(LOCK(l[40], 0), LOCK(l[41], 0));
    }
}
FUNCTION each_of_list(void) { omp_lock_t *list[] = {&l[40], &l[41], NULL}; of_list(list); nothing(); }

int main(void) {
    static const scene scenes[] = {
        set_one, first_unset, two_functions, set_by_another, element, member, after_loop, in_loop, branch_not_taken,
        branch_taken, same_condition, tested, tested_until, test_failed, not_tested, unset_by_another, unset_by_pointer,
        called_by_pointer, called, jump_table, unset_further_in, unset_by_who_left, by_global, by_plain_global, changed,
        changed_by_another, nested_twice, recursive, early, region_data, in_region, aborting, second_time, each_of_list,
    };
    plain_global = &l[27];
    omp_init_lock(&record.lock);
    play(scenes, COUNT(scenes), l, COUNT(l));
}
