#include "odd.h"
#include <sys/wait.h>
/* The child of a process that has used OpenMP uses none: it has one thread, and no region. */
int main(void) {
#pragma omp parallel num_threads(3)
    getppid();
    int child = fork();
    if (child == 0) {
        /* omp_get_*() would start the runtime anew */
        odd_words("{\"tid\": %d, \"thread_num\": 0, \"team_size\": 1, \"level\": 0, \"active_level\": 0, \"levels\": [], "
                  "\"regions\": [], \"function\": \"main\", \"line\": %d, \"doing\": \"fork\"}\n", odd_gettid(), __LINE__);
        abort();
    }
    waitpid(child, NULL, 0);
    _exit(0);
}
