/* Threadprivate variables under a POSIX thread key. */
#include "check.h"
#include "structures.h"

#include <omp.h>

struct pair {
    long double first;
    char second;
};

static int own_number = 7;
OMP_STUB_THREADPRIVATE(own_number);
#define own_number OMP_STUB_PRIVATE(own_number)

static char own_letter = 'a';
OMP_STUB_THREADPRIVATE(own_letter);
#define own_letter OMP_STUB_PRIVATE(own_letter)

static struct pair own_pair = {2.5L, 'p'};
OMP_STUB_THREADPRIVATE(own_pair);
#define own_pair OMP_STUB_PRIVATE(own_pair)

static const struct omp_stub_private *record(size_t wanted)
{
    const struct omp_stub_private *found = omp_stub_process.privates;
    while (found->number != wanted)
        found = found->next;
    return found;
}

int main(void)
{
    CHECK(__omp_stub_tls_key == (uintptr_t)-1);
    own_number = 50;
    CHECK(__omp_stub_tls_key != (uintptr_t)-1);
    for (int round = 0; round < 2; round++) {
        #pragma omp parallel num_threads(4)
        {
            int num = omp_get_thread_num();
            IS(int, own_number, round || num == 0 ? 50 + num : 7);
            own_number = 50 + num;
            CHECK(own_letter == 'a' && own_pair.first == 2.5L && own_pair.second == 'p');
            IS(uintptr_t, (uintptr_t)&own_pair % _Alignof(struct pair), 0);
            char *base = pthread_getspecific((pthread_key_t)__omp_stub_tls_key);
            IS(uintptr_t, ((uintptr_t *)base)[-1], 3);
            CHECK((char *)&own_number == base + record(0)->offset && *(int *)record(0)->variable == 7);
            CHECK((char *)&own_letter == base + record(1)->offset && (char *)&own_pair == base + record(2)->offset);
        }
    }
    IS(size_t, record(2)->size, sizeof(struct pair));
    return 0;
}
