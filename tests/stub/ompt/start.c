/* The standard's example of ompt_start_tool, which compares versions and declines. */
#include <omp-tools.h>
#include <omp.h>
#include <stdio.h>

ompt_start_tool_result_t *ompt_start_tool(unsigned int omp_version, const char *runtime_version)
{
    if (omp_version != _OPENMP)
        printf("runtime %s is of version %u, not %u\n", runtime_version, omp_version, _OPENMP);
    return NULL;
}

int main(void)
{
    printf("%d threads\n", omp_get_max_threads());
    return 0;
}
