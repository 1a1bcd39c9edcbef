/* Functions that are built without unwind data, and note what they know of their frames themselves: the canonical frame
 * address and where they return to. Usage: blind WHAT, how it ends inside of them. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct note {
    void *cfa, *returns;
} notes[32];
long note_count;
greg_t interrupted[NGREG];

#define NOTE() (notes[note_count].cfa = __builtin_dwarf_cfa(), notes[note_count++].returns = __builtin_return_address(0))
#define APART __attribute__((noinline, noclone))

static const char *what;
static volatile long sink;
static void (*volatile no_function)(void);
static void (*volatile gone)(void) = (void (*)(void))0x7654321000;

/* The return from a handler as a C library without unwind data for it has it. */
void restorer(void);
__asm__(".pushsection .text\n\t.p2align 4\nrestorer:\n\tmov $15, %eax\n\tsyscall\n\t.popsection");

static APART void handler(int number, siginfo_t *information, void *context)
{
    NOTE();
    (void)information;
    memcpy(interrupted, ((ucontext_t *)context)->uc_mcontext.gregs, sizeof interrupted);
    sink = number;
    abort();
}

static APART void handle(void)
{
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {handler, SA_SIGINFO | 0x04000000, restorer, 0};
    syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
}

static APART void end(long depth)
{
    volatile char local[200];
    NOTE();
    local[depth] = 1;
    if (strcmp(what, "abort") == 0)
        abort();
    else if (strcmp(what, "signal") == 0)
        kill(getpid(), SIGUSR1);
    else
        (strcmp(what, "null") == 0 ? no_function : gone)();
    sink = local[depth];
}

static APART int compare(const void *a, const void *b)
{
    volatile long local[6];
    NOTE();
    local[2] = *(const int *)a;
    end(local[2]);
    return *(const int *)a < *(const int *)b ? -1 : (int)local[2];
}

static APART long middle(long depth)
{
    volatile long local[40];
    NOTE();
    local[depth] = depth;
    if (depth > 0)
        return middle(depth - 1) + local[depth];
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    return local[numbers[0]];
}

int main(int count, char **arguments)
{
    NOTE();
    (void)count;
    what = arguments[1];
    handle();
    return (int)(middle(4) + sink);
}
