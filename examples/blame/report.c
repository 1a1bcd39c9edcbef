/* Where the culprits were, and what is printed of it. */
#define _GNU_SOURCE
#include "blame.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ROWS = 10, MAX_ROWS = 4096, SPARE_FRAMES = 8 };
#define SHOWN_SHARE 0.001             /* of all waiting; who is charged with less is among the others */

struct row {
    pid_t thread;
    int number, size;                 /* of its team then; size 0 outside of all regions */
    struct path path;
    double charged[KINDS];
};

/* A row once its path is reduced to the program's functions; `path` is left as it was found first. */
struct line {
    struct row row;
    int count;
    struct place places[MAX_FRAMES];
};

const char *runtime_name = "";
static struct row rows[MAX_ROWS];     /* the last one takes all for which there is no room */
static int row_count;
static const void *of_tool, *of_runtime;

/* The first call of backtrace() loads a library, which a signal handler must not. */
void prepare_report(const void *code_of_runtime)
{
    void *frame;
    backtrace(&frame, 1);
    of_tool = find_place((const void *)prepare_report).base;
    of_runtime = find_place(code_of_runtime).base;
}

void take_path(struct path *path, const void *interrupted)
{
    void *frames[MAX_FRAMES + SPARE_FRAMES];
    int count = backtrace(frames, MAX_FRAMES + SPARE_FRAMES), first = 0;
    while (interrupted && first < count && frames[first] != interrupted)
        first++;
    *path = (struct path){.is_interrupted = interrupted};
    if (first == count)               /* the handler's caller is not found */
        path->frames[path->depth++] = (void *)interrupted;
    for (; first < count && path->depth < MAX_FRAMES; first++)
        path->frames[path->depth++] = frames[first];
}

void add_charge(const struct thread *thread, const struct path *path, const double *charges)
{
    int levels = thread->level_count < MAX_LEVELS ? thread->level_count : MAX_LEVELS;
    struct row new = {.thread = thread->id, .path = *path};
    if (levels) {
        new.number = thread->levels[levels - 1].number;
        new.size = thread->levels[levels - 1].team->size;
    }
    int at = 0;
    while (at < row_count && !(rows[at].thread == new.thread && rows[at].number == new.number && rows[at].size == new.size &&
                               !memcmp(&rows[at].path, &new.path, sizeof new.path)))
        at++;
    if (at == MAX_ROWS)
        at--;
    else if (at == row_count)
        rows[row_count++] = new;
    for (enum kind kind = BARRIER; kind < KINDS; kind++)
        rows[at].charged[kind] += charges[kind];
}

void forget_charges(void)
{
    row_count = 0;
}

static double sum(const double *amounts)
{
    double total = 0;
    for (enum kind kind = BARRIER; kind < KINDS; kind++)
        total += amounts[kind];
    return total;
}

static bool is_of_program(const struct place *place)
{
    static const char *const system[] = {"libc.so", "linux-vdso", "linux-gate", "ld-linux", "libpthread"};
    if (place->base == of_tool || place->base == of_runtime)
        return false;
    for (size_t at = 0; place->module && at < sizeof system / sizeof *system; at++) {
        if (!strncmp(place->module, system[at], strlen(system[at])))
            return false;
    }
    return !(place->function && !strcmp(place->function, "_start"));
}

static void reduce(struct line *line, const struct row *row)
{
    line->row = *row;
    line->count = 0;
    for (int at = 0; at < row->path.depth; at++) {
        /* All but a frame that was interrupted are where a call returns to. */
        bool is_call = at || !row->path.is_interrupted;
        struct place place = find_place((const char *)row->path.frames[at] - is_call);
        if (is_of_program(&place))
            line->places[line->count++] = place;
    }
}

static bool is_same(const struct line *one, const struct line *other)
{
    if (one->row.thread != other->row.thread || one->row.number != other->row.number || one->row.size != other->row.size ||
        one->count != other->count)
        return false;
    for (int at = 0; at < one->count; at++) {
        const struct place *here = &one->places[at], *there = &other->places[at];
        if (here->start != there->start || (!here->start && here->address != there->address))
            return false;
    }
    return true;
}

static int by_charge(const void *left, const void *right)
{
    double one = sum(((const struct line *)left)->row.charged), other = sum(((const struct line *)right)->row.charged);
    return one < other ? 1 : one > other ? -1 : 0;
}

static void print_line(FILE *file, const struct line *line, double total)
{
    const struct row *row = &line->row;
    fprintf(file, "%5.1f %%  %.3f s  for thread ", 100 * sum(row->charged) / total, sum(row->charged));
    if (row->size)
        fprintf(file, "%d/%d (%d)", row->number, row->size, (int)row->thread);
    else
        fprintf(file, "(%d)", (int)row->thread);
    for (enum kind kind = BARRIER; kind < KINDS; kind++) {
        if (row->charged[kind] > 0)
            fprintf(file, "  %s %.3f", kind_names[kind], row->charged[kind]);
    }
    fputs(line->count ? "\n" : "\n           in none of the program's functions\n", file);
    for (int at = 0; at < line->count; at++) {
        const struct place *place = &line->places[at];
        size_t offset = (size_t)((const char *)place->address - (const char *)place->base);
        fprintf(file, "           %-24s %s+0x%zx\n", place->function ? place->function : "?",
                place->module ? place->module : "?", offset);
    }
}

void print_report(const double *waited, const double *nobody, int thread_count)
{
    const char *name = getenv("BLAME_OUTPUT");
    FILE *file = name && *name ? fopen(name, "a") : stderr;
    struct line *lines = calloc((size_t)row_count + 1, sizeof *lines);
    double total = sum(waited), others = 0;
    if (!file || !lines)
        goto end;
    /* What was seen at different instructions of one function is one place. */
    int count = 0;
    for (int at = 0; at < row_count; at++) {
        struct line *line = &lines[count];
        reduce(line, &rows[at]);
        int same = 0;
        while (!is_same(&lines[same], line))
            same++;
        if (same == count) {
            count++;
            continue;
        }
        for (enum kind kind = BARRIER; kind < KINDS; kind++)
            lines[same].row.charged[kind] += rows[at].charged[kind];
    }
    qsort(lines, (size_t)count, sizeof *lines, by_charge);
    fprintf(file, "blame: %d threads have waited for %.3f s in all  (%s)\n", thread_count, total, runtime_name);
    for (int at = 0; at < count; at++) {
        double amount = sum(lines[at].row.charged);
        if (at < SHOWN_ROWS && amount > SHOWN_SHARE * total)
            print_line(file, &lines[at], total);
        else
            others += amount;
    }
    if (others > 0)
        fprintf(file, "%5.1f %%  %.3f s  for others\n", 100 * others / total, others);
    if (sum(nobody) > 0)
        fprintf(file, "%5.1f %%  %.3f s  for nobody who is at work\n", 100 * sum(nobody) / total, sum(nobody));
end:
    free(lines);
    if (file && file != stderr)
        fclose(file);
}
