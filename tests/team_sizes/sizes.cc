#include "sizes.h"

#include <vector>

struct Solver {
    int count;
    std::vector<double> values;

    APART void member() {
#pragma omp parallel num_threads(count)
        WAIT(3);
    }

    template <int Count> APART void constant() {
#pragma omp parallel num_threads(Count)
        {
            values[0] += 0;
            WAIT(Count);
        }
    }
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    Solver solver{argc > 2 ? atoi(argv[2]) : 3, std::vector<double>(8)};
    if (!strcmp(name, "member"))
        solver.member();
    if (!strcmp(name, "constant"))
        solver.constant<3>();
    if (!strcmp(name, "lambda"))
        [&](int threads) {
#pragma omp parallel num_threads(threads)
            WAIT(3);
        }(solver.count);
    return 1;
}
