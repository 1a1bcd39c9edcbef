// Members, references and templates in regions.
#include "truth.h"
#include <omp.h>
#include <pthread.h>
#include <cstdlib>

static pthread_barrier_t arrived;
static int threads;

static void stop(int number)
{
    pthread_barrier_wait(&arrived);
    if (number == 0)
        tell();
    rest();
}

namespace ns {
struct Base {
    int base = 9;
};
template <class T> struct Box : Base {
    T value;
    int count;

    __attribute__((noinline)) int region(int given, T &outer, const int (&fixed)[2])
    {
        int together = given;
        T &alias = outer;
        Box copy = *this;
#pragma omp parallel num_threads(threads) firstprivate(given, copy)
        {
            int number = omp_get_thread_num(), inside = together + count;
            note_number(number);
            given += number;
            copy.value += number;
            note("region:together", &together, "%d", together);
            note("region:given", &given, "%d", given);
            note("region:inside", &inside, "%d", inside);
            note("region:alias", &alias, "%ld", (long)alias);
            note("region:copy", &copy, "{\"<ns::Base>\": {\"base\": 9}, \"value\": %ld, \"count\": %d}", (long)copy.value,
                 copy.count);
            note("region:outer", &outer, "%ld", (long)outer);
            note("region:fixed", fixed, "[%d, %d]", fixed[0], fixed[1]);
            value += fixed[0] == 77;
            stop(number);
        }
        return together + (int)alias;
    }
};
} // namespace ns

int main()
{
    threads = atoi(getenv("THREADS"));
    pthread_barrier_init(&arrived, nullptr, threads);
    ns::Box<long> box{{}, 1, 2};
    long outer = 3;
    const int fixed[2] = {5, 6};
    return box.region(4, outer, fixed);
}
