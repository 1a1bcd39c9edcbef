/* Internal control variables: the environment, and the routines that ask and set. */
#include "internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define SUPPORTED_LEVELS 255
#define MOST_BINDS 32

static int32_t *nthreads_list; /* of OMP_NUM_THREADS, by level */
static int32_t nthreads_length;
static int32_t bind_list[MOST_BINDS]; /* of OMP_PROC_BIND, likewise */
static int32_t bind_length;
static int32_t teams_count, teams_thread_limit;

int32_t nthreads_of_level(int32_t level, int32_t otherwise)
{
    return level < nthreads_length ? nthreads_list[level] : otherwise;
}

int32_t bind_of_level(int32_t level, int32_t otherwise)
{
    return level < bind_length ? bind_list[level] : otherwise;
}

static const char *skip_space(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Reads a number from `least` to `most` at *text, and moves that behind it. */
static bool read_number(const char **text, long long least, long long most, long long *number)
{
    char *behind;
    errno = 0;
    *number = strtoll(*text, &behind, 10);
    if (behind == *text || errno || *number < least || *number > most)
        return false;
    *text = skip_space(behind);
    return true;
}

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value ? skip_space(value) : NULL;
}

static void refuse(const char *name)
{
    warn("%s=%s is no value that it can have: it is ignored", name, getenv(name));
}

static bool number_of(const char *name, long long least, int32_t *place)
{
    const char *value = value_of(name);
    long long number;
    if (!value)
        return false;
    if (!read_number(&value, least, INT_MAX, &number) || *value) {
        refuse(name);
        return false;
    }
    *place = (int32_t)number;
    return true;
}

static bool word(const char **text, const char *expected)
{
    size_t length = strlen(expected);
    if (strncasecmp(*text, expected, length) || isalpha((unsigned char)(*text)[length]))
        return false;
    *text = skip_space(*text + length);
    return true;
}

static bool truth_of(const char *name, int32_t *place)
{
    const char *value = value_of(name);
    if (!value)
        return false;
    const char *text = value;
    if (word(&text, "true") && !*text) {
        *place = 1;
        return true;
    }
    text = value;
    if (word(&text, "false") && !*text) {
        *place = 0;
        return true;
    }
    refuse(name);
    return false;
}

static void read_num_threads(void)
{
    const char *value = value_of("OMP_NUM_THREADS");
    if (!value)
        return;
    size_t room = 2;
    for (const char *c = value; *c; c++)
        room += *c == ',';
    int32_t *list = allocate(room * sizeof *list);
    int32_t length = 0;
    long long number;
    while (read_number(&value, 1, INT_MAX, &number)) {
        list[length++] = (int32_t)number;
        if (*value != ',')
            break;
        value = skip_space(value + 1);
    }
    if (*value || !length) {
        refuse("OMP_NUM_THREADS");
        free(list);
        return;
    }
    omp_stub_process.icvs.nthreads = list[0];
    nthreads_list = list;
    nthreads_length = length;
}

static void read_schedule(void)
{
    static const char *const kinds[] = {"static", "dynamic", "guided", "auto"};
    const char *value = value_of("OMP_SCHEDULE");
    if (!value)
        return;
    bool is_monotonic = false, is_nonmonotonic = false;
    const char *text = value;
    if (word(&text, "monotonic") && *text == ':')
        is_monotonic = true;
    else if (text = value, word(&text, "nonmonotonic") && *text == ':')
        is_nonmonotonic = true;
    text = is_monotonic || is_nonmonotonic ? skip_space(text + 1) : value;
    uint32_t kind = 0;
    for (uint32_t i = 0; i < 4 && !kind; i++)
        if (word(&text, kinds[i]))
            kind = i + 1;
    long long chunk = kind == 1 ? 0 : 1;
    bool is_right = kind;
    if (is_right && *text == ',') {
        text = skip_space(text + 1);
        is_right = read_number(&text, kind == 1 ? 0 : 1, INT_MAX, &chunk);
    }
    if (!is_right || *text) {
        refuse("OMP_SCHEDULE");
        return;
    }
    if (is_monotonic || (kind == 1 && !is_nonmonotonic))
        kind |= SCHEDULE_MONOTONIC;
    omp_stub_process.icvs.schedule_kind = (int32_t)kind;
    omp_stub_process.icvs.schedule_chunk = (int32_t)chunk;
}

static void read_stack_size(void)
{
    pthread_attr_t attributes;
    size_t size;
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    omp_stub_process.stack_size = size;
    const char *value = value_of("OMP_STACKSIZE");
    if (!value)
        return;
    long long number;
    static const char suffixes[] = "bkmg";
    int shift = 10;
    bool is_right = read_number(&value, 1, LLONG_MAX, &number);
    if (is_right && *value) {
        const char *suffix = strchr(suffixes, tolower((unsigned char)*value));
        shift = suffix ? 10 * (int)(suffix - suffixes) : 0;
        is_right = suffix && !*skip_space(value + 1);
    }
    if (!is_right || number > (long long)(SIZE_MAX >> 1 >> shift)) {
        refuse("OMP_STACKSIZE");
        return;
    }
    size = (size_t)number << shift;
    omp_stub_process.stack_size = size < (size_t)PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : size;
}

/* Returns whether it is a list. */
static bool read_proc_bind(void)
{
    static const struct {
        const char *word;
        int32_t bind;
    } words[] = {{"false", 0}, {"true", 1}, {"master", 2}, {"primary", 2}, {"close", 3}, {"spread", 4}};
    const char *value = value_of("OMP_PROC_BIND");
    while (value && bind_length < MOST_BINDS) {
        int32_t bind = -1;
        for (size_t i = 0; i < sizeof words / sizeof *words && bind < 0; i++)
            if (word(&value, words[i].word))
                bind = words[i].bind;
        if (bind < 0 || (*value && *value != ',')) {
            refuse("OMP_PROC_BIND");
            bind_length = 0;
            return false;
        }
        bind_list[bind_length++] = bind;
        value = *value ? skip_space(value + 1) : NULL;
    }
    omp_stub_process.icvs.proc_bind = bind_list[0];
    return bind_length > 1;
}

static void read_levels(bool has_list)
{
    int32_t nested;
    bool knows_nested = truth_of("OMP_NESTED", &nested);
    omp_stub_process.icvs.max_active_levels = has_list ? SUPPORTED_LEVELS : 1;
    if (knows_nested)
        omp_stub_process.icvs.max_active_levels = nested ? SUPPORTED_LEVELS : 1;
    number_of("OMP_MAX_ACTIVE_LEVELS", 0, &omp_stub_process.icvs.max_active_levels);
    if (omp_stub_process.icvs.max_active_levels > SUPPORTED_LEVELS)
        omp_stub_process.icvs.max_active_levels = SUPPORTED_LEVELS;
}

static int32_t count_procs(void)
{
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return CPU_COUNT(&set);
    return (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

void read_environment(void)
{
    int32_t refused = 0;
    omp_stub_process.num_procs = count_procs();
    omp_stub_process.icvs.nthreads = omp_stub_process.num_procs;
    omp_stub_process.icvs.schedule_kind = 2;
    omp_stub_process.icvs.schedule_chunk = 1;
    omp_stub_process.icvs.thread_limit = INT_MAX;
    read_num_threads();
    truth_of("OMP_DYNAMIC", &omp_stub_process.icvs.dynamic);
    bool has_list = read_proc_bind();
    read_levels(has_list || nthreads_length > 1);
    number_of("OMP_THREAD_LIMIT", 1, &omp_stub_process.icvs.thread_limit);
    read_schedule();
    read_stack_size();
    number_of("OMP_DEFAULT_DEVICE", 0, &omp_stub_process.icvs.default_device);
    number_of("OMP_MAX_TASK_PRIORITY", 0, &omp_stub_process.max_task_priority);
    number_of("OMP_NUM_TEAMS", 1, &teams_count);
    number_of("OMP_TEAMS_THREAD_LIMIT", 1, &teams_thread_limit);
    if (truth_of("OMP_CANCELLATION", &refused) && refused)
        warn("OMP_CANCELLATION=true: cancellation is not supported, cancel constructs are ignored");
}

static struct stub_icvs *icvs(void)
{
    return &current_thread()->task->icvs;
}

/* Each routine begins with initialize(): the first one that a program calls starts its tool, whatever the routine does. */

/* Fortran's name of a routine without arguments. */
#define QUERY(type, name, value)                                                                                       \
    EXPORT type name(void)                                                                                             \
    {                                                                                                                  \
        initialize();                                                                                                  \
        return value;                                                                                                  \
    }                                                                                                                  \
    EXPORT type name##_(void)                                                                                          \
    {                                                                                                                  \
        initialize();                                                                                                  \
        return value;                                                                                                  \
    }

static int32_t clamp(int64_t value)
{
    return value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : (int32_t)value;
}

/* A routine that sets one value, with Fortran's two names, for integer(4) and integer(8). */
#define SETTER(name)                                                                                                   \
    EXPORT void name(int value)                                                                                        \
    {                                                                                                                  \
        initialize();                                                                                                  \
        name##_to(value);                                                                                              \
    }                                                                                                                  \
    EXPORT void name##_(const int32_t *value)                                                                          \
    {                                                                                                                  \
        initialize();                                                                                                  \
        name##_to(*value);                                                                                             \
    }                                                                                                                  \
    EXPORT void name##_8_(const int64_t *value)                                                                        \
    {                                                                                                                  \
        initialize();                                                                                                  \
        name##_to(clamp(*value));                                                                                      \
    }

/* A routine of one number. */
#define FUNCTION(name)                                                                                                 \
    EXPORT int name(int value)                                                                                         \
    {                                                                                                                  \
        initialize();                                                                                                  \
        return name##_of(value);                                                                                       \
    }                                                                                                                  \
    EXPORT int32_t name##_(const int32_t *value)                                                                       \
    {                                                                                                                  \
        initialize();                                                                                                  \
        return name##_of(*value);                                                                                      \
    }                                                                                                                  \
    EXPORT int32_t name##_8_(const int64_t *value)                                                                     \
    {                                                                                                                  \
        initialize();                                                                                                  \
        return name##_of(clamp(*value));                                                                               \
    }

QUERY(int, omp_get_num_threads, current_thread()->team->size)
QUERY(int, omp_get_thread_num, current_thread()->thread_num)
QUERY(int, omp_get_max_threads, icvs()->nthreads)
QUERY(int, omp_in_parallel, current_thread()->team->active_level > 0)
QUERY(int, omp_get_dynamic, icvs()->dynamic)
QUERY(int, omp_get_thread_limit, icvs()->thread_limit)
QUERY(int, omp_get_max_active_levels, icvs()->max_active_levels)
QUERY(int, omp_get_level, current_thread()->team->level)
QUERY(int, omp_get_active_level, current_thread()->team->active_level)
QUERY(int, omp_in_final, current_thread()->task->is_final)
QUERY(int, omp_get_proc_bind, icvs()->proc_bind)
QUERY(int, omp_get_default_device, icvs()->default_device)
QUERY(int, omp_get_num_procs, omp_stub_process.num_procs)
QUERY(int, omp_get_max_task_priority, omp_stub_process.max_task_priority)
QUERY(int, omp_get_supported_active_levels, SUPPORTED_LEVELS)
QUERY(int, omp_get_cancellation, 0)
QUERY(int, omp_get_num_places, 0)
QUERY(int, omp_get_place_num, -1)
QUERY(int, omp_get_partition_num_places, 0)
QUERY(int, omp_get_num_devices, host_is_device)
QUERY(int, omp_get_device_num, on_device() ? THE_DEVICE : host_is_device)
QUERY(int, omp_get_initial_device, host_is_device) /* the number behind those of devices */
QUERY(int, omp_is_initial_device, !on_device())
QUERY(int, omp_get_num_teams, 1)
QUERY(int, omp_get_team_num, 0)
QUERY(int, omp_get_max_teams, teams_count)
QUERY(int, omp_get_teams_thread_limit, teams_thread_limit)

static int nested(void)
{
    struct stub_thread *thread = current_thread();
    int32_t levels = thread->task->icvs.max_active_levels;
    return levels > 1 && levels > thread->team->active_level;
}
QUERY(int, omp_get_nested, nested())

static double seconds(const struct timespec *time)
{
    return (double)time->tv_sec + (double)time->tv_nsec * 1e-9;
}

static double wtime(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return seconds(&time);
}
QUERY(double, omp_get_wtime, wtime())

static double wtick(void)
{
    struct timespec time;
    clock_getres(CLOCK_MONOTONIC, &time);
    return seconds(&time);
}
QUERY(double, omp_get_wtick, wtick())

static void omp_set_num_threads_to(int value)
{
    icvs()->nthreads = value > 0 ? value : 1;
}
SETTER(omp_set_num_threads)

static void omp_set_dynamic_to(int value)
{
    icvs()->dynamic = value != 0;
}
SETTER(omp_set_dynamic)

static void omp_set_nested_to(int value)
{
    int32_t *levels = &icvs()->max_active_levels;
    if (value)
        *levels = SUPPORTED_LEVELS;
    else if (*levels > 1)
        *levels = 1;
}
SETTER(omp_set_nested)

static void omp_set_max_active_levels_to(int value)
{
    if (value >= 0)
        icvs()->max_active_levels = value < SUPPORTED_LEVELS ? value : SUPPORTED_LEVELS;
}
SETTER(omp_set_max_active_levels)

static void omp_set_default_device_to(int value)
{
    icvs()->default_device = value >= 0 ? value : 0;
}
SETTER(omp_set_default_device)

static void omp_set_num_teams_to(int value)
{
    if (value >= 0)
        teams_count = value;
}
SETTER(omp_set_num_teams)

static void omp_set_teams_thread_limit_to(int value)
{
    if (value >= 0)
        teams_thread_limit = value;
}
SETTER(omp_set_teams_thread_limit)

/* The team of the caller's thread, or of those it comes from, at a level; and the thread's number in it. */
static const struct stub_team *team_at(int level, int *thread_num)
{
    const struct stub_thread *thread = current_thread();
    struct stub_team *team = thread->team;
    *thread_num = thread->thread_num;
    if (level < 0 || level > team->level)
        return NULL;
    while (team->level > level) {
        *thread_num = whole_team(team)->saved.thread_num;
        team = team->parent;
    }
    return team;
}

static int omp_get_ancestor_thread_num_of(int level)
{
    int thread_num;
    return team_at(level, &thread_num) ? thread_num : -1;
}
FUNCTION(omp_get_ancestor_thread_num)

static int omp_get_team_size_of(int level)
{
    int thread_num;
    const struct stub_team *team = team_at(level, &thread_num);
    return team ? team->size : -1;
}
FUNCTION(omp_get_team_size)

static int omp_get_place_num_procs_of(int place)
{
    (void)place;
    return 0;
}
FUNCTION(omp_get_place_num_procs)

EXPORT void omp_get_place_proc_ids(int place, int *ids) { (void)place, (void)ids, initialize(); }
EXPORT void omp_get_place_proc_ids_(const int32_t *place, int32_t *ids) { (void)place, (void)ids, initialize(); }
EXPORT void omp_get_place_proc_ids_8_(const int64_t *place, int64_t *ids) { (void)place, (void)ids, initialize(); }
EXPORT void omp_get_partition_place_nums(int *nums) { (void)nums, initialize(); }
EXPORT void omp_get_partition_place_nums_(int32_t *nums) { (void)nums, initialize(); }
EXPORT void omp_get_partition_place_nums_8_(int64_t *nums) { (void)nums, initialize(); }

static void set_schedule(uint32_t kind, int64_t chunk)
{
    uint32_t plain = kind & ~SCHEDULE_MONOTONIC;
    if (plain < 1 || plain > 4)
        return;
    struct stub_icvs *own = icvs();
    own->schedule_kind = (int32_t)kind;
    if (plain != 4)
        own->schedule_chunk = chunk < 1 ? plain != 1 : clamp(chunk);
}

EXPORT void omp_set_schedule(uint32_t kind, int chunk)
{
    set_schedule(kind, chunk);
}

EXPORT void omp_set_schedule_(const int32_t *kind, const int32_t *chunk)
{
    set_schedule((uint32_t)*kind, *chunk);
}

EXPORT void omp_set_schedule_8_(const int32_t *kind, const int64_t *chunk)
{
    set_schedule((uint32_t)*kind, *chunk);
}

EXPORT void omp_get_schedule(uint32_t *kind, int *chunk)
{
    *kind = (uint32_t)icvs()->schedule_kind;
    *chunk = icvs()->schedule_chunk;
}

EXPORT void omp_get_schedule_(int32_t *kind, int32_t *chunk)
{
    *kind = icvs()->schedule_kind;
    *chunk = icvs()->schedule_chunk;
}

EXPORT void omp_get_schedule_8_(int32_t *kind, int64_t *chunk)
{
    *kind = icvs()->schedule_kind;
    *chunk = icvs()->schedule_chunk;
}

/* Nothing is given back. */

static void display_env(void)
{
    const struct stub_icvs *own = icvs();
    fprintf(stderr,
            "OPENMP DISPLAY ENVIRONMENT BEGIN\n  _OPENMP = '%llu'\n  OMP_NUM_THREADS = '%d'\n  OMP_DYNAMIC = '%s'\n"
            "  OMP_MAX_ACTIVE_LEVELS = '%d'\n  OMP_THREAD_LIMIT = '%d'\n  OMP_STACKSIZE = '%lluB'\n"
            "  OMP_MAX_TASK_PRIORITY = '%d'\n  OMP_CANCELLATION = 'FALSE'\nOPENMP DISPLAY ENVIRONMENT END\n",
            (unsigned long long)omp_stub_process.openmp_version, own->nthreads, own->dynamic ? "TRUE" : "FALSE",
            own->max_active_levels, own->thread_limit, (unsigned long long)omp_stub_process.stack_size,
            omp_stub_process.max_task_priority);
}
EXPORT void omp_display_env(int verbose) { (void)verbose, display_env(); }
EXPORT void omp_display_env_(const int32_t *verbose) { (void)verbose, display_env(); }
EXPORT void omp_display_env_8_(const int64_t *verbose) { (void)verbose, display_env(); }
