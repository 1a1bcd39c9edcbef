"""C structures whose layouts a compiler writes down."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import clean_environment, require


def compile_c(folder: Path, text: str, *flags: str, compiler: str = "gcc", name: str = "made.so") -> Path:
    file = folder / f"{name}.c"
    file.write_text(text)
    output = folder / name
    subprocess.run(
        [str(require(compiler)), "-g", "-w", *flags, str(file), "-o", str(output)],
        check=True,
        env=clean_environment(),
        cwd=folder,
    )
    return output


SOURCE = """\
#include <stddef.h>
#include <stdio.h>
#include <string.h>
typedef struct priority_node { struct priority_node *next, *prev; } node_t;
struct priority_list { int priority; node_t *tasks; };
struct gomp_queue { union { struct { void *root; } t; struct priority_list l; }; };
enum kind { implicit, explicit };
struct gomp_thread {
    void (*fn) (void *);
    struct { struct gomp_team *team; unsigned team_id : 7, level : 12; unsigned long wide : 40; short after; } ts;
    struct gomp_task *task;
    volatile const int release;
};
struct gomp_team {
    unsigned nthreads;
    struct gomp_queue queue;
    struct priority_list lists[3][2];
    union { int a_number; struct { char first, second; }; node_t node; };
    struct { long only_pad; int kept; } filled;
    char implicit_task[];
} __attribute__((aligned(64)));
struct __attribute__((packed)) gomp_task { char c; long parent; unsigned bits : 5, more : 9; enum kind kind; };
struct gomp_taskgroup { node_t nodes[2]; struct gomp_queue *queue; };
struct gomp_taskwait { _Bool in_taskwait, in_depend_wait; size_t n_depend; };
struct gomp_thread_pool { struct gomp_thread **threads; unsigned threads_size; };
struct gomp_work_share { long double ld; int ordered[0]; };
typedef struct { int lock; int count; void *owner; } omp_nest_lock_t;
struct gomp_thread thread; struct gomp_team team; struct gomp_task task; struct gomp_taskgroup group;
struct gomp_taskwait wait; struct gomp_thread_pool pool; struct gomp_work_share share; omp_nest_lock_t nest;
static int some;
#define TYPE(type) printf("%s\\"%s\\": {\\"size\\": %zu", some++ ? "}, " : "", #type, sizeof(TAG type))
#define MEMBER(type, path) \\
    printf(", \\"%s\\": [%zu, %zu]", #path, offsetof(TAG type, path), sizeof ((TAG type *)0)->path)
/* The bits that a bit field takes, in the order of the structure's bytes. */
#define BITS(type, path) do { \\
        TAG type object; memset(&object, 0, sizeof object); object.path = ~0; \\
        printf(", \\"%s\\": \\"", #path); \\
        for (size_t i = sizeof object; i--;) printf("%02x", ((unsigned char *)&object)[i]); \\
        printf("\\""); \\
    } while (0)
int main(void)
{
    printf("{");
#define TAG struct
    TYPE(gomp_thread); MEMBER(gomp_thread, fn); MEMBER(gomp_thread, ts); MEMBER(gomp_thread, ts.team);
    BITS(gomp_thread, ts.team_id); BITS(gomp_thread, ts.level); BITS(gomp_thread, ts.wide);
    MEMBER(gomp_thread, ts.after); MEMBER(gomp_thread, task); MEMBER(gomp_thread, release);
    TYPE(gomp_team); MEMBER(gomp_team, nthreads); MEMBER(gomp_team, queue); MEMBER(gomp_team, queue.t);
    MEMBER(gomp_team, queue.t.root); MEMBER(gomp_team, queue.l); MEMBER(gomp_team, queue.l.priority);
    MEMBER(gomp_team, queue.l.tasks); MEMBER(gomp_team, lists); MEMBER(gomp_team, a_number); MEMBER(gomp_team, first);
    MEMBER(gomp_team, second); MEMBER(gomp_team, node); MEMBER(gomp_team, node.next); MEMBER(gomp_team, node.prev);
    MEMBER(gomp_team, filled); MEMBER(gomp_team, filled.kept);
    printf(", \\"implicit_task\\": [%zu, 0]", offsetof(struct gomp_team, implicit_task));
    TYPE(gomp_task); MEMBER(gomp_task, c); MEMBER(gomp_task, parent); BITS(gomp_task, bits); BITS(gomp_task, more);
    MEMBER(gomp_task, kind);
    TYPE(gomp_taskgroup); MEMBER(gomp_taskgroup, nodes); MEMBER(gomp_taskgroup, queue);
    TYPE(gomp_taskwait); MEMBER(gomp_taskwait, in_taskwait); MEMBER(gomp_taskwait, in_depend_wait);
    MEMBER(gomp_taskwait, n_depend);
    TYPE(gomp_thread_pool); MEMBER(gomp_thread_pool, threads); MEMBER(gomp_thread_pool, threads_size);
    TYPE(gomp_work_share); MEMBER(gomp_work_share, ld); MEMBER(gomp_work_share, ordered);
    TYPE(priority_node); MEMBER(priority_node, next); MEMBER(priority_node, prev);
    TYPE(priority_list); MEMBER(priority_list, priority); MEMBER(priority_list, tasks);
#undef TAG
#define TAG
    TYPE(omp_nest_lock_t); MEMBER(omp_nest_lock_t, lock); MEMBER(omp_nest_lock_t, count);
    MEMBER(omp_nest_lock_t, owner);
    printf("}}\\n");
}
"""


DEBUG_FLAGS = ("-gdwarf-5", "-gdwarf-4", "-gdwarf-2", "-gz", "-fdebug-types-section")
