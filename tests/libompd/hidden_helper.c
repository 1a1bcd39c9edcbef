/* A task that the runtime gives to a hidden helper thread, as clang's code does for "target nowait" when there is no
 * device to run it on. Its thread, and that which made it, are written to the file "words". Code of clang without a
 * device's compiler does not get there, so that the routines are called here as such code would. */
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct task { /* the part of kmp_task_t that compilers see */
    void *shareds;
    int (*routine)(int, void *);
    int part_id;
    void *data[2];
};
struct place { /* ident_t */
    int reserved, flags, more[2];
    const char *source;
};
extern int __kmpc_global_thread_num(struct place *);
extern struct task *__kmpc_omp_target_task_alloc(struct place *, int, int, size_t, size_t, int (*)(int, void *), int64_t);
extern int __kmpc_omp_task(struct place *, int, struct task *);

static volatile long helper;

int helped(int thread, void *task)
{
    (void)thread, (void)task;
    helper = syscall(SYS_gettid);
    for (;;)
        pause();
}

int main(void)
{
    static struct place here = {0, 2, {0, 0}, ";hidden_helper.c;main;0;0;;"};
    #pragma omp parallel num_threads(2)
    {
        #pragma omp single nowait
        {
            int thread = __kmpc_global_thread_num(&here);
            struct task *task = __kmpc_omp_target_task_alloc(&here, thread, 1, sizeof *task, 0, helped, -1);
            __kmpc_omp_task(&here, thread, task);
            for (int i = 0; i < 5000 && !helper; i++)
                usleep(1000);
            FILE *file = fopen("words", "w");
            fprintf(file, "{\"helper\": %ld, \"maker\": %ld, \"entry\": \"%p\"}\n", helper, syscall(SYS_gettid),
                    (void *)(uintptr_t)helped);
            fclose(file);
            abort();
        }
        for (;;)
            pause();
    }
}
