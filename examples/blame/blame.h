/* A tool that charges waiting to whom is waited for; README.md says how it is used.
 *
 * blame.c hears of events, in the words of three generations of OMPT, and passes them on in one: this header's. accounts.c
 * keeps who waits for whom since when, report.c where the culprits were, and prints it; symbols.c
 * has names for that. */
#ifndef BLAME_H
#define BLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What a thread waits for. IDLE is outside of all regions: for whoever executes the serial code. */
enum kind { WORKING, BARRIER, TASKS, MUTEX, ORDERED, IDLE, KINDS };
extern const char *const kind_names[KINDS];

enum { MAX_LEVELS = 16, MAX_WAITS = 16, MAX_FRAMES = 24 };

struct team {
    struct team *next;
    uint64_t id;                      /* the runtime's, of the report of 2015 */
    struct thread *primary;           /* who met the region, and executes the code outside of it */
    struct thread **members;          /* `size` of them, NULL for who has not come yet, or has left */
    int size, present;
    bool is_over;                     /* whoever is still at its barrier is idle */
    double pending[KINDS];            /* of threads that wait for their team, while a moment is shared out */
};

struct membership {
    struct team *team;
    int number;
};

struct wait {
    enum kind kind;
    struct team *team;
    uint64_t mutex;
    uint64_t task;                    /* that waits; while the thread executes another one, it works */
};

struct path {
    int depth;
    bool is_interrupted;              /* the innermost frame is not where a call returns to */
    void *frames[MAX_FRAMES];         /* innermost first */
};

struct thread {
    struct thread *next;
    pid_t id;
    bool is_worker;                   /* the runtime has made it */
    bool is_over;
    bool is_visited;
    struct membership levels[MAX_LEVELS];
    int level_count;                  /* may be more than MAX_LEVELS; those are not followed */
    struct wait waits[MAX_WAITS];
    int wait_count;
    uint64_t task;
    struct thread *last_primary;
    double charged[KINDS];            /* what others have waited for it, and no place has yet */
    bool is_asked;                    /* a signal is on its way */
    bool has_answered;
    struct path answer;               /* where the signal found it */
};

/* accounts.c. All but start_accounts() are for the thread itself, and do nothing for one that has not begun. */
void start_accounts(void);            /* and forget all that was */
void stop_accounts(bool is_for_ever);
void thread_begins(bool is_worker);
void thread_ends(void);
struct team *region_begins(uint64_t id);
void region_ends(struct team *team);
struct team *team_of_id(uint64_t id); /* NULL if no region has it */
void implicit_task_begins(struct team *team, int number, int size, uint64_t task);
void implicit_task_ends(void);
void task_switches(uint64_t task);
void comes_to_wait(void);             /* it may have to: the work before is over */
void wait_begins(enum kind kind, uint64_t mutex, uint64_t task);
void wait_ends(void);
void mutex_acquired(uint64_t mutex);
void mutex_released(uint64_t mutex);
void print_accounts(void);

/* symbols.c. What is unknown is NULL. */
struct place {
    const void *address;
    const void *base, *start;         /* of the module, and of the function */
    const char *module, *function;
};
struct place find_place(const void *address);

/* report.c */
void prepare_report(const void *code_of_runtime);
void take_path(struct path *path, const void *interrupted); /* of the caller; from where a signal has interrupted it */
void add_charge(const struct thread *thread, const struct path *path, const double *charges);
void forget_charges(void);
void print_report(const double *waited, const double *nobody, int thread_count);
extern const char *runtime_name;      /* for the report: what it calls itself, and how it talks to tools */

#endif
