#include "locks.h"
// Locks in namespaces and classes.
namespace outer {
namespace { omp_lock_t hidden; }
struct base { int number; omp_lock_t lock; };
struct derived : base { char name[3]; omp_lock_t own; };
derived objects[2];
class holder {
public:
    static omp_lock_t shared;
    static void wait() {
        static omp_lock_t inner;
        if (omp_get_level() == 0) take(&inner);
        else wait_for(&inner, "&inner");
    }
};
omp_lock_t holder::shared;
}

int main() {
    using namespace outer;
    take(&hidden), take(&objects[1].lock), take(&objects[1].own), take(&holder::shared);
    holder::wait();
    odd_start(5);
#pragma omp parallel num_threads(6)
    {
        switch (omp_get_thread_num()) {
        case 1: wait_for(&hidden, "&outer::hidden"); break;
        case 2: wait_for(&objects[1].lock, "&outer::objects[1].lock"); break;
        case 3: wait_for(&objects[1].own, "&outer::objects[1].own"); break;
        case 4: wait_for(&holder::shared, "&outer::holder::shared"); break;
        case 5: holder::wait(); break;
        }
        HOLD();
    }
}
