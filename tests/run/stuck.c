/* $CASE says what the program does:
 *     deadlock   two threads hold a lock each and wait for the other's
 *     compute    both threads compute for about $SECONDS seconds
 *     input      the primary thread reads standard input; the others wait for it at the region's end
 *     sleep      all threads sleep for $SECONDS seconds in one call */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static omp_lock_t a, b;
static volatile double sum;

static void deadlock(int number)
{
    omp_lock_t *mine = number ? &a : &b, *others = number ? &b : &a;
    omp_set_lock(mine);
    #pragma omp barrier
    omp_set_lock(others);
}

static void compute(double seconds)
{
    for (double end = omp_get_wtime() + seconds; omp_get_wtime() < end;)
        for (int i = 1; i < 1000000; i++)
            sum = 1.0 / i;
}

int main(void)
{
    const char *name = getenv("CASE");
    double seconds = atof(getenv("SECONDS") ? getenv("SECONDS") : "1");
    char line[16] = "";
    omp_init_lock(&a);
    omp_init_lock(&b);
    puts("begins");
    fflush(stdout);
    #pragma omp parallel num_threads(2)
    {
        int number = omp_get_thread_num();
        if (!strcmp(name, "deadlock"))
            deadlock(number);
        else if (!strcmp(name, "compute"))
            compute(seconds);
        else if (!strcmp(name, "sleep"))
            usleep((useconds_t)(seconds * 1e6));
        else if (number == 0 && !fgets(line, sizeof line, stdin))
            line[0] = 0;
    }
    printf("ends %s", line);
    return 3;
}
