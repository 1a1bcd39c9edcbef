/* Threads in nested regions and tasks, each of which writes what the runtime's own routines tell it and then waits.
 * The routines below main are for the emulator alone: the program never calls them.
 *
 * program TRUTH_FILE READY_DESCRIPTOR
 */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 6 /* of the regions: 1 + 2 + 2, and the one that does not belong to OpenMP */

static FILE *truth;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static sem_t written, forever;
__thread long own_word = 7;

static void tell(const char *name, long value) { fprintf(truth, ", \"%s\": %ld", name, value); }

static void wait_here(const char *where)
{
    own_word = (long)syscall(SYS_gettid);
    pthread_mutex_lock(&writing);
    fprintf(truth, "%s{\"where\": \"%s\", \"id\": %ld", ftell(truth) > 1 ? ",\n" : "", where, own_word);
    fprintf(truth, ", \"own_word\": %lu, \"calls\": {\"\": 0", (unsigned long)&own_word);
#define TELL(routine) tell(#routine, routine())
    TELL(omp_get_thread_num);
    TELL(omp_get_num_threads);
    TELL(omp_get_level);
    TELL(omp_get_active_level);
    TELL(omp_in_parallel);
    TELL(omp_in_final);
    TELL(omp_get_max_threads);
    TELL(omp_get_dynamic);
    TELL(omp_get_max_active_levels);
    TELL(omp_get_thread_limit);
    TELL(omp_get_cancellation);
    TELL(omp_get_proc_bind);
    TELL(omp_get_default_device);
    TELL(omp_get_team_num);
    TELL(omp_get_num_teams);
    for (int level = -1; level < 4; level++) {
        fprintf(truth, ", \"omp_get_ancestor_thread_num %d\": %d", level, omp_get_ancestor_thread_num(level));
        fprintf(truth, ", \"omp_get_team_size %d\": %d", level, omp_get_team_size(level));
    }
    fprintf(truth, "}}");
    pthread_mutex_unlock(&writing);
    sem_post(&written);
    while (sem_wait(&forever)) {
    }
}

static void *other(void *given)
{
    (void)given;
    wait_here("pthread");
    return NULL;
}

static void inner(void)
{
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp task final(1)
            wait_here("final task");
#pragma omp taskwait
        } else {
            wait_here("inner");
        }
    }
}

static void *regions(void *given)
{
    (void)given;
    omp_set_dynamic(0);
    omp_set_max_active_levels(3);
#pragma omp parallel num_threads(5)
    own_word += omp_get_thread_num(); /* leaves threads in the pool */
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
            omp_set_num_threads(17);
#pragma omp parallel num_threads(1)
            wait_here("serialized");
        } else {
            inner();
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    prctl(PR_SET_PTRACER, -1, 0, 0, 0);
    truth = fopen(arguments[1], "w");
    if (count < 3 || truth == NULL) return 1;
    fputc('[', truth);
    sem_init(&written, 0, 0);
    sem_init(&forever, 0, 0);
    pthread_create(&thread, NULL, other, NULL);
    pthread_create(&thread, NULL, regions, NULL);
    for (int left = THREADS; left; left--)
        while (sem_wait(&written)) {
        }
    fputc(']', truth);
    fclose(truth);
    if (write(atoi(arguments[2]), "r", 1) != 1) return 1;
    while (sem_wait(&forever)) {
    }
    return 0;
}

/* What is asked of the emulator alone. */

struct row {
    long number;
    const char *name;
    struct row *next;
};
static struct row rows[] = {{1, "one", rows + 1}, {20, "twenty", rows + 2}, {300, "three hundred", NULL}};
struct row *first_row = rows;
long changed;
long data_word = 0xc3; /* ret, were it code */
char lines[1 << 16] = {1};

#define CODE(name, text) __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" text "\n.size " #name ",.-" #name "\n")

long sum_six(long a, long b, long c, long d, long e, long f) { return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f; }
int negative(void) { return -5; }
long sum_rows(void)
{
    long sum = 0;
    for (struct row *row = first_row; row; row = row->next) sum += row->number * row->name[0];
    return sum;
}
long word_at(const long *address) { return *address; }
int byte_at(const char *address) { return *address; }
long call(long (*routine)(void)) { return routine() + 1; }
long write_at(long *address) { return *address = 1; }
long add_locked(void) { return __sync_fetch_and_add(&changed, 1); }
long own_of_thread(void) { return own_word; }
long rising(long depth)
{
    volatile char room[1000];
    room[0] = (char)depth;
    return depth ? rising(depth - 1) + room[0] : 0;
}
long reads_much(long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++) sum += ((volatile char *)lines)[i % sizeof lines];
    return sum;
}
long strides(const char *from, long step)
{
    long sum = 0;
    for (long i = 0; i < 1 << 20; i++) sum += *(volatile const char *)(from + i * step);
    return sum;
}
long asks_kernel(void) { return syscall(SYS_getpid); }
CODE(endless, "jmp endless");
CODE(endless_pair, "1: nop\njmp 2f\n2: jmp 1b");
CODE(endless_string, "mov $-1, %rcx\nxor %esi, %esi\nlea lines(%rip), %rdi\n1: mov %rdi, %rsi\nmov $4096, %ecx\nrep lodsb\njmp 1b");
CODE(does_syscall, "mov $39, %eax\nsyscall\nret");
CODE(does_sysenter, "sysenter\nret");
CODE(does_int80, "int $0x80\nret");
CODE(does_int3, "int3\nret");
CODE(does_halt, "hlt\nret");
CODE(does_clock, "rdtsc\nret");
CODE(does_cpuid, "xor %eax, %eax\npush %rbx\ncpuid\npop %rbx\nret");
CODE(does_input, "in %dx, %al\nret");
CODE(does_avx, "vpxor %ymm0, %ymm0, %ymm0\nret");
CODE(does_invalid, "ud2");
CODE(does_divide, "xor %ecx, %ecx\ndiv %ecx\nret");
CODE(does_privileged, "mov %cr3, %rax\nret");
CODE(changes_base, "mov $4096, %edi\nwrfsbase %rdi\nret");
CODE(jumps_to, "jmp *%rdi");
CODE(leaves_stack, "add $64, %rsp\nret");
CODE(keeps_state, "mov %r12, %rax\nmov $77, %r12\nadd %rbx, %rax\nmov $88, %rbx\nstd\nfld1\npush %rax\nmov -64(%rsp), %rdx\nadd %rdx, %rax\nmovq $99, -64(%rsp)\npop %rcx\nret");
CODE(writes_itself, "lea writes_itself(%rip), %rax\nmovb $0xc3, (%rax)\nret");
CODE(misaligned, "mov %rsp, %rax\nand $15, %eax\nret");
