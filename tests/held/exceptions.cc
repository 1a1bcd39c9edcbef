// Locks around exceptions, and objects that set and unset them.
#include "held.h"
static omp_lock_t l[16];

FUNCTION nothing() { asm volatile(""); }
FUNCTION fail(int does) { if (does) throw does; asm volatile(""); }

struct Guard {
    omp_lock_t *lock;
    explicit Guard(omp_lock_t *it) : lock(it) { omp_set_lock(lock); }
    ~Guard() { omp_unset_lock(lock); }
};

FUNCTION in_guard() { Guard guard(&l[0]); STAND(LOCK(l[0], 0)); }
FUNCTION behind_guard() { { Guard guard(&l[1]); nothing(); } STAND(); }
FUNCTION handled() {
    omp_set_lock(&l[2]);
    try { fail(one); omp_unset_lock(&l[2]); } catch (int) { STAND(LOCK(l[2], 0)); omp_unset_lock(&l[2]); }
}
FUNCTION behind_handler() {
    omp_set_lock(&l[3]);
    try { fail(one); } catch (int) { omp_unset_lock(&l[3]); }
    STAND();
}
FUNCTION behind_no_handler() {
    omp_set_lock(&l[4]);
    try { fail(zero); } catch (int) { omp_unset_lock(&l[4]); }
    STAND(LOCK(l[4], 0));
}
FUNCTION thrown_before() {
    try { fail(one); omp_set_lock(&l[5]); } catch (int) { nothing(); }
    STAND();
}
FUNCTION handler_before() {
    try { fail(one); omp_set_lock(&l[6]); nothing(); omp_unset_lock(&l[6]); } catch (int) { STAND(); }
}
FUNCTION cleaned() { Guard guard(&l[7]); fail(one); }
FUNCTION behind_cleaning() {
    try { cleaned(); } catch (int) { nothing(); }
    STAND();
}
struct Base { virtual ~Base() = default; virtual void act() { asm volatile(""); } };
struct Unsetter : Base { void act() override { omp_unset_lock(&l[8]); } };
static Base *volatile base = new Unsetter;
FUNCTION unset_by_virtual() { omp_set_lock(&l[8]); base->act(); STAND(); }
FUNCTION in_both() {
    omp_set_lock(&l[9]);
    try { fail(one); } catch (int) { nothing(); }
    STAND(LOCK(l[9], 1));
    omp_unset_lock(&l[9]);
}
template <class T> __attribute__((noinline)) static void templated(T *lock) {
    omp_set_lock(lock);
    auto within = [&] { STAND(LOCK(l[10], 1)); };
    within();
    omp_unset_lock(lock);
}
FUNCTION in_template() { templated(&l[10]); nothing(); }
FUNCTION in_critical() {
#pragma omp critical(plus)
    {
        try { fail(one); } catch (int) { STAND({"critical(plus)", 0, 1}); }
    }
}

int main() {
    static const scene scenes[] = {
        in_guard, behind_guard, handled, behind_handler, behind_no_handler, thrown_before, handler_before,
        behind_cleaning, unset_by_virtual, in_both, in_template, in_critical,
    };
    play(scenes, COUNT(scenes), l, COUNT(l));
}
