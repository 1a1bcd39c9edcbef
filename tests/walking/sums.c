/* A region and a task to walk through. Its declarations are its own, so that any compiler builds it for any runtime. */
#include <stdio.h>

int omp_get_thread_num(void);

static int total;

__attribute__((noinline)) static int part(int number) {
    int result = 10 * (number + 1);
    return result;
}

__attribute__((noinline)) static int later(int number) {
    int twice = 0;
#pragma omp task shared(twice)
    {
        twice = 2 * number;
        total += twice;
    }
#pragma omp taskwait
    return twice;
}

__attribute__((noinline)) int work(int first) {
    int sum = first;
#pragma omp parallel num_threads(3) shared(sum)
    {
        int mine = part(omp_get_thread_num());
#pragma omp atomic
        sum += mine;
#pragma omp barrier
        if (omp_get_thread_num() == 1)
            total = later(sum);
    }
    printf("sum is %d\n", sum);
    return sum;
}

int main(void) {
    int result = work(1);
    result += work(2);
    printf("%d %d\n", result, total);
    return 0;
}
