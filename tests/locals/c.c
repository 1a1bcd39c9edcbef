/* Variables of regions, loops, tasks and plain functions: each thread says what its own are, and rests. */
#include "truth.h"
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_INT(where, name) note(where ":" #name, &name, "%d", name)

struct pair {
    int x;
    double y;
};
enum color { RED, GREEN = 5 };
union either {
    int number;
    char bytes[4];
};
struct bits {
    unsigned low : 3;
    int high : 9;
    struct pair pairs[2];
};

static pthread_barrier_t arrived;
static int threads;

__attribute__((noinline)) static int stop(int number, double weight)
{
    pthread_barrier_wait(&arrived);
    if (number == 0)
        tell();
    rest();
    return (int)weight;
}

__attribute__((noinline)) static int values(int number, int size, const char *word)
{
    static int calls = 3;
    static __thread int mine = 4;
    int sizes[size + 1];
    char grown[2 * size];
    enum color color = number % 2 ? GREEN : RED;
    union either either = {0x41424344};
    struct bits bits = {5, -7, {{number, 0.5}, {2, -1.25}}};
    float narrow = 1.5f;
    long double wide = 0.1L;
    _Bool yes = 1;
    char letter = 'q', text[8] = "ab\n";
    short table[2][3] = {{1, 2, 3}, {4, 5, 6}};
    int (*function)(int, double) = stop;
    struct pair *pointer = &bits.pairs[1];
    for (int at = 0; at <= size; at++)
        sizes[at] = at * at + number;
    memset(grown, 'z', 2 * size);
    grown[2 * size - 1] = 0;
    mine += number;
    {
        int number_of_inner = number + 1000;
        double narrow = -2.0; /* hides the other */
        NOTE_INT("values", number_of_inner);
        note("values:sizes", sizes, "[%d, %d, %d, %d]", sizes[0], sizes[1], sizes[2], sizes[3]);
        note("values:grown", grown, "\"%s\"", grown);
        NOTE_INT("values", mine);
        note("values:bits", &bits, "{\"low\": 5, \"high\": -7, \"pairs\": [{\"x\": %d, \"y\": 0.5}, {\"x\": 2, \"y\": -1.25}]}",
             number);
        narrow += stop(number, narrow) + calls;
        calls += (int)narrow + (int)wide + yes + letter + text[0] + table[0][0] + (function != 0) + pointer->x;
    }
    return calls + (int)narrow + color + either.number + word[0];
}

__attribute__((noinline)) static int region(int n, double *v)
{
    int together = 7, plain = 8, own = 1, first = 42, last = 0;
    double sum = 0.5;
    struct pair pair = {1, 2.5};
    int list[4] = {1, 2, 3, 4}, firsts[3] = {5, 6, 7};
#pragma omp parallel num_threads(threads) private(own) firstprivate(first, firsts)
    {
        int number = omp_get_thread_num();
        int inside = 100 + number;
#ifdef __clang__
        static int fixed = 11; /* gcc's debug information tells the place of a copy that nothing uses */
#else
        int fixed = 11;
#endif
        own = 10 * number;
        first += number;
        firsts[1] = number;
        note_number(number);
#pragma omp for reduction(+ : sum) lastprivate(last)
        for (int i = 0; i < n; i++) {
            double local = v[i] * 2;
            sum += local;
            last = i;
            plain += list[0] == 9;
            if (i % 4 == 2) {
                NOTE_INT("region", together);
                NOTE_INT("region", own);
                NOTE_INT("region", first);
                NOTE_INT("region", last);
                NOTE_INT("region", inside);
                NOTE_INT("region", i);
                NOTE_INT("region", fixed);
                note("region:plain", NULL, "%d", plain);
                note("region:sum", &sum, "%g", sum);
                note("region:local", &local, "%g", local);
                note("region:pair", &pair, "{\"x\": %d, \"y\": %g}", pair.x, pair.y);
                note("region:firsts", firsts, "[%d, %d, %d]", firsts[0], firsts[1], firsts[2]);
                values(number, 3, "word");
            }
        }
    }
    return together + own + first + last + (int)sum + pair.x + firsts[0] + plain;
}

__attribute__((noinline)) static int loops(void)
{
    int chunk = 1, among = 0;
#pragma omp parallel num_threads(threads)
    {
        int number = omp_get_thread_num();
        note_number(number);
#pragma omp for schedule(static, 8)
        for (int j = 3; j < 35; j += 2) {
            NOTE_INT("loops", j);
            NOTE_INT("loops", chunk);
            note("loops:iteration", NULL, "%d", (j - 3) / 2);
            among += stop(number, j);
        }
    }
    return among;
}

__attribute__((noinline)) static int generate(int n)
{
    int a = n, b = 2 * n, c[3] = {1, 2, n}, unused = 4;
#pragma omp parallel num_threads(threads)
    {
        int k = omp_get_thread_num();
#pragma omp task firstprivate(a, c, k) shared(b)
        {
            int number = omp_get_thread_num(), here = k + 50;
            note_number(number);
            a += k;
            NOTE_INT("generate", a);
            NOTE_INT("generate", b);
            NOTE_INT("generate", k);
            NOTE_INT("generate", here);
            note("generate:c", c, "[%d, %d, %d]", c[0], c[1], c[2]);
            stop(number, b);
        }
#pragma omp taskwait
    }
    return a + b + c[0] + unused;
}

int main(void)
{
    const char *what = getenv("WHAT");
    threads = atoi(getenv("THREADS"));
    pthread_barrier_init(&arrived, NULL, threads);
    double v[2400];
    for (int i = 0; i < 2400; i++)
        v[i] = i / 4.0;
    if (what[0] == 'l')
        return loops();
    if (what[0] == 'g')
        return generate(atoi(what + 1));
    return region(4 * threads, v);
}
