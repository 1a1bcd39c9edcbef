/* The picture of the OMPT report (2015, "Task Frame Management and Inspection"): code A meets an outer region with code
 * B, of which the second thread meets an inner one with code C. There it stops. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *out;
static volatile int come;

static void note(const char *what, const void *frame)
{
    fprintf(out, "\"%s\": [%d, %llu],\n", what, gettid(), (unsigned long long)(size_t)frame);
}

__attribute__((noinline)) static void code_c(void)
{
    note("C", __builtin_frame_address(0));
    fprintf(out, "\"end\": 0}\n");
    fclose(out);
    abort();
}

__attribute__((noinline)) static void code_b(void)
{
    int thread = omp_get_thread_num();
    #pragma omp critical
    {
        note(thread ? "B on 2" : "B on 1", __builtin_frame_address(0));
        come++;
    }
    while (come < 2 || !thread)
        usleep(1000);
    #pragma omp parallel num_threads(1)
    code_c();
    come++;
}

__attribute__((noinline)) static void code_a(void)
{
    note("A", __builtin_frame_address(0));
    #pragma omp parallel num_threads(2)
    code_b();
    come++;
}

int main(void)
{
    out = fopen("picture.json", "we");
    fprintf(out, "{");
    omp_set_max_active_levels(2);
    code_a();
    return 0;
}
