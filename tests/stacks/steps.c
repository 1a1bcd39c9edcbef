/* What is run instruction by instruction from begin() to end(): prologues and epilogues of many shapes, calls through
 * the linkage table that are bound when they are first made, a handler of a signal. */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile long sink;
static jmp_buf target;

APART void begin(void) { sink++; }
APART void end(void) { sink++; }

static APART long leaf(long a, long b)
{
    volatile long local[4] = {a, b};
    return local[a & 1] * 3;
}

static APART long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
    long x = leaf(a, b), y = leaf(c, d), z = leaf(e, f), u = leaf(g, h), v = leaf(a, h), w = leaf(x, y);
    return x * y + z * u - v * w + leaf(z, u) * a * b * c * d;
}

static APART long aligned(long depth)
{
    _Alignas(64) volatile char block[128];
    block[depth] = (char)depth;
    return depth > 0 ? aligned(depth - 1) + block[depth] : leaf(1, 2);
}

static APART long sized(long size)
{
    volatile char *block = alloca((size_t)size);
    block[size - 1] = 1;
    return leaf(size, 1) + block[size - 1];
}

static APART long listed(int count, ...)
{
    va_list list;
    long sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += va_arg(list, long);
    va_end(list);
    return sum + leaf(sum, 1);
}

static APART long early(long a)
{
    if (a > 0)
        return a;
    long b = leaf(a, 1), c = leaf(b, a);
    return many(a, b, c, a, b, c, a, b);
}

static APART void far_out(void) { longjmp(target, 1); }

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void handler(int number) { sink = leaf(number, sized(40)); }

int main(void)
{
    signal(SIGUSR1, handler);
    long number_of_process = getpid();
    begin();
    sink = many(1, 2, 3, 4, 5, 6, 7, 8) + aligned(2) + sized(100) + listed(3, 1L, 2L, 3L) + early(0) + early(1);
    long answer = 62; /* kill; the linkage table comes last, since binding takes long */
    __asm__ volatile("syscall" : "+a"(answer) : "D"(number_of_process), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
    int numbers[] = {3, 1, 2};
    if (setjmp(target) == 0)
        far_out();
    qsort(numbers, 3, sizeof *numbers, compare);
    sink += (long)strtol("12", NULL, 10) + (long)strnlen((char *)numbers, 3) + abs((int)sink);
    end();
}
