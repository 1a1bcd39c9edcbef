#include "odd.h"
#include <functional>
#include <vector>
template <class F> static void twice(F f) { f(); f(); }
struct Solver {
    const struct at *up;
    void step() {
        struct at here = {up, "Solver::step", __LINE__ + 1};
#pragma omp parallel num_threads(2)
        { odd_say(&here, "Solver::step", __LINE__, NULL); for (;;) pause(); }
    }
};
namespace deep { namespace er {
template <class T> void generic(T value, const struct at *up) {
    struct at here = {up, "deep::er::generic", __LINE__ + 1};
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) { Solver solver{&here}; solver.step(); }
        else {
            auto lambda = [&] {
                struct at inner = {&here, "deep::er::generic", __LINE__ + 1};
#pragma omp parallel num_threads(2)
                { odd_say(&inner, "deep::er::generic", __LINE__, NULL); for (;;) pause(); }
            };
            std::function<void()> f = lambda;
            f();
        }
    }
}
}}
int main() {
    odd_start(4);
    try { deep::er::generic(1.0, NULL); } catch (...) {}
}
