/* The initial thread forms teams of all sorts and leaves them. `here` is the level of the region whose code it executes,
 * or has executed last where a construct begins or ends. */
#include <omp.h>

volatile int here;

__attribute__((noinline)) void mark(void) { __asm__ volatile(""); }

#define BEGIN() (omp_get_ancestor_thread_num(1) == 0 ? (void)(here = omp_get_level()) : (void)0)
#define END() (omp_get_ancestor_thread_num(1) == 0 ? (void)(here = omp_get_level() - 1) : (void)0)

static void nested(void)
{
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            BEGIN();
            END();
        }
    }
}

int main(void)
{
    omp_set_max_active_levels(2);
    omp_set_dynamic(0);
    #pragma omp parallel num_threads(2)
    {
    }
    mark();
    for (int round = 0; round < 2; round++) {
        /* The team that is kept for the next region grows and shrinks. */
        #pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num() == 0) {
                BEGIN();
                nested();
                END();
            }
        }
        #pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) {
                BEGIN();
                #pragma omp parallel if(0)
                {
                    BEGIN();
                    #pragma omp parallel if(0)
                    {
                        BEGIN();
                        END();
                    }
                    END();
                }
                #pragma omp task if(0)
                nested();
                END();
            }
        }
    }
    mark();
    return 0;
}
