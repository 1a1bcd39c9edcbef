/* Thread 2 of four fails in the way that the argument names, while the others wait for it at a barrier. Before, it writes
 * who it is and the address that the kernel is to give for the fault, or "none", into the file "said". */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int omp_get_thread_num(void);

static const char *way;
static volatile int arrived, zero;
static char *volatile nothing;

static void say(const void *address) {
    FILE *file = fopen("said.part", "w");
    fprintf(file, address == (void *)-1 ? "%ld none\n" : "%ld %#lx\n", (long)syscall(SYS_gettid), (unsigned long)address);
    fclose(file);
    rename("said.part", "said");
}

static int is(const char *name) {
    return !strcmp(way, name);
}

/* As libgfortran's: the signal comes once more, and ends the program, when the handler returns. */
static void raise_again(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

static void give_up(int number) {
    (void)number;
    abort();
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction how = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &how, NULL);
}

__attribute__((noinline)) static void fail(void) {
    if (is("null")) {
        say(nothing);
        *nothing = 1;
    }
    if (is("near-null")) {
        say(nothing + 0x18);
        nothing[0x18] = 1;
    }
    say((void *)-1);
    if (is("raised-again") || is("raised-inside")) {
        handle(SIGABRT, raise_again, is("raised-again") ? 0 : SA_NODEFER);
        kill(getpid(), SIGABRT);
    }
    if (is("handler-aborts")) {
        handle(SIGSEGV, give_up, 0);
        *nothing = 1;
    }
    if (is("division"))
        zero = 100 / zero;
    if (is("abort"))
        abort();
    if (is("not-canonical"))
        *(volatile char *)((1ul << (8 * sizeof(long) - 1)) + (unsigned long)zero) = 1;
    if (is("breakpoint"))
        __asm__ volatile("int3");
    if (is("raise"))
        raise(SIGSEGV);
    if (is("kill"))
        kill(getpid(), SIGABRT);
    for (;;)
        pause();
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    way = count > 1 ? arguments[1] : "null";
    int data = count;
#pragma omp parallel num_threads(4)
    {
        if (omp_get_thread_num() == 2) {
            while (arrived < 3)
                sched_yield();
            fail();
        }
        __atomic_add_fetch(&arrived, data > 0, __ATOMIC_SEQ_CST);
#pragma omp barrier
    }
    return 0;
}
