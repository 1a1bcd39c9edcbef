/* Who the tool is: the three ways in which one registers, tried in this order, OMP_TOOL and OMP_TOOL_VERBOSE_INIT. */
#include "ask.h"
#include "ompt_generations.h"

#include "openmp5.h"
#include "../device/trace.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { HOST_DEVICE = 0 };             /* whose tool it is: omp_get_initial_device() */

const struct tool_events *tool_events;
static const struct generation *generation;

const struct named lock_types[] = {
    {1, "first come, first served: waiters sleep in a line, and who releases it hands it over"},
    {2, "the same, and counted: its owner is a task, which may set it again"},
    {3, "the same, of a construct: it is made when the construct is first met"},
};
const struct named atomic_types[] = {{1, "one lock for all atomic constructs that the processor has no instruction for"}};

unsigned lock_type(enum mutex_kind kind)
{
    return kind == MUTEX_LOCK || kind == MUTEX_TEST_LOCK ? 1 : kind == MUTEX_NEST_LOCK || kind == MUTEX_TEST_NEST_LOCK ? 2 : 3;
}

/* These stand for a tool where there is none: one in the program, or in a library before this one, takes their place.
 * OpenMP 5 allows its library to be behind this one, too. */
EXPORT __attribute__((weak)) ompt_start_tool_result_t *ompt_start_tool(unsigned int version, const char *name)
{
    ompt_start_tool_result_t *(*next)(unsigned int, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "ompt_start_tool");
    return next ? next(version, name) : NULL;
}

EXPORT __attribute__((weak)) ompt_initialize_fn_t ompt_tool(void)
{
    return NULL;
}

EXPORT __attribute__((weak)) int ompt_initialize(ompt_function_lookup_t lookup, const char *name, unsigned int version)
{
    (void)lookup, (void)name, (void)version;
    return 0;
}

/* Whether a variable's value is a word, in any case and with any spaces around it. */
static bool is_word(const char *value, const char *word)
{
    while (isspace((unsigned char)*value))
        value++;
    size_t length = strlen(value);
    while (length && isspace((unsigned char)value[length - 1]))
        length--;
    return length == strlen(word) && !strncasecmp(value, word, length);
}

/* tool-var. */
static bool is_enabled(void)
{
    const char *value = getenv("OMP_TOOL");
    if (!value || is_word(value, "enabled"))
        return true;
    if (is_word(value, "disabled"))
        return false;
    fail("OMP_TOOL=%s is neither enabled nor disabled", value);
}

/* tool-verbose-init-var: where the steps of the registration are logged, NULL if they are not. */
static FILE *log_file;

/* A file is continued: a child of fork() and a runtime that was paused register anew. */
static void open_log(void)
{
    const char *value = secure_getenv("OMP_TOOL_VERBOSE_INIT");
    if (!value || is_word(value, "") || is_word(value, "disabled"))
        return;
    log_file = is_word(value, "stdout") ? stdout : is_word(value, "stderr") ? stderr : fopen(value, "ae");
    if (!log_file) {
        log_file = stderr;
        warn("OMP_TOOL_VERBOSE_INIT=%s cannot be opened", value);
    }
}

static void close_log(void)
{
    if (log_file && log_file != stdout && log_file != stderr)
        fclose(log_file);
    else if (log_file)
        fflush(log_file);
    log_file = NULL;
}

__attribute__((format(printf, 1, 2))) static void log_step(const char *format, ...)
{
    va_list arguments;
    if (!log_file)
        return;
    va_start(arguments, format);
    fprintf(log_file, "libomp_stub: tool: ");
    vfprintf(log_file, format, arguments);
    fputc('\n', log_file);
    va_end(arguments);
}

/* Logs what a tool's function returned, with the file that defines it. Behind the stub only ompt_start_tool is seen. */
static void log_start(const char *name, bool is_seen_behind, const char *returned)
{
    Dl_info definition, own;
    void *function = log_file ? dlsym(RTLD_DEFAULT, name) : NULL;
    if (!function || !dladdr(function, &definition) || !dladdr(&log_file, &own))
        return;
    if (definition.dli_fbase == own.dli_fbase) {
        function = is_seen_behind ? dlsym(RTLD_NEXT, name) : NULL;
        if (!function || !dladdr(function, &definition)) {
            log_step("there is no %s in the address space", name);
            return;
        }
    }
    log_step("%s of %s returns %s", name, definition.dli_fname, returned);
}

/* tool-libraries-var: the first library whose tool wants to be one. */
static ompt_start_tool_result_t *start_tool_of_libraries(void)
{
    const char *value = secure_getenv("OMP_TOOL_LIBRARIES");
    char *names = value ? strdup(value) : NULL, *rest = names, *name;
    ompt_start_tool_result_t *result = NULL;
    while (!result && (name = strsep(&rest, ":"))) {
        if (!*name)
            continue;
        void *library = dlopen(name, RTLD_LAZY);
        if (!library) {
            const char *reason = dlerror();
            warn("OMP_TOOL_LIBRARIES: %s", reason);
            log_step("%s cannot be loaded: %s", name, reason);
            continue;
        }
        ompt_start_tool_result_t *(*start)(unsigned int, const char *);
        *(void **)&start = dlsym(library, "ompt_start_tool");
        if (start == ompt_start_tool) /* of another library that this one needs, and it has been called before */
            start = NULL;
        result = start ? start((unsigned)omp_stub_process.openmp_version, omp_stub_version) : NULL;
        if (start)
            log_step("ompt_start_tool of %s returns %s", name, result ? "a tool" : "NULL");
        else
            log_step("%s has no ompt_start_tool", name);
        if (!result)
            dlclose(library);
    }
    free(names);
    return result;
}

/* What the tool wants to know is kept from here on: it may ask while it registers. */
static uint64_t begin_generation(const struct generation *asked)
{
    uint64_t kept = omp_stub_process.debug_enabled;
    omp_stub_process.debug_enabled = 1;
    ask_stacks();
    *asked->may_register = true;
    return kept;
}

/* `version`: 0 if there is no tool after all. */
static void end_generation(const struct generation *asked, uint64_t kept, int version)
{
    *asked->may_register = false;
    if (version) {
        generation = asked;
        omp_stub_process.tool = version;
    } else {
        asked->forget();
        omp_stub_process.debug_enabled = kept;
    }
}

/* A tool that is there and declines is the only one nevertheless. */
static bool find_openmp5(void)
{
    ompt_start_tool_result_t *result = ompt_start_tool((unsigned)omp_stub_process.openmp_version, omp_stub_version);
    log_start("ompt_start_tool", true, result ? "a tool" : "NULL");
    if (!result)
        result = start_tool_of_libraries();
    if (!result)
        return false;
    tool_5 = result;
    uint64_t kept = begin_generation(&generation_5);
    bool is_tool = result->initialize && result->initialize(generation_5.lookup, HOST_DEVICE, &result->tool_data);
    log_step("its initializer %s", is_tool ? "succeeds" : "returns 0");
    end_generation(&generation_5, kept, is_tool ? 5 : 0);
    return true;
}

static bool find_report(void)
{
    ompt_initialize_fn_t initialize = ompt_tool();
    log_start("ompt_tool", false, initialize ? "a tool" : "NULL");
    if (!initialize)
        return false;
    uint64_t kept = begin_generation(&generation_2015);
    initialize(omp_stub_version, ompt2015_version_of_tool, generation_2015.lookup);
    end_generation(&generation_2015, kept, ompt2015_version_of_tool);
    return true;
}

static void find_draft(void)
{
    uint64_t kept = begin_generation(&generation_2015);
    bool is_tool = ompt_initialize(generation_2015.lookup, omp_stub_version, ompt2015_version_of_initialize);
    log_start("ompt_initialize", false, is_tool ? "1" : "0");
    end_generation(&generation_2015, kept, is_tool ? ompt2015_version_of_initialize : 0);
}

void find_tool(void)
{
    open_log();
    if (!is_enabled())
        log_step("tool-var is disabled");
    else if (!find_openmp5() && !find_report())
        find_draft();
    log_step(generation ? "the tool is active" : "no tool is active");
    close_log();
    if (!generation)
        return;
    __atomic_store_n(&tool_events, generation->events, __ATOMIC_RELEASE);
    if (host_is_device)
        TELL(device, true);
}

void forget_tool(void)
{
    __atomic_store_n(&tool_events, NULL, __ATOMIC_RELEASE);
    if (generation)
        generation->forget();
    generation = NULL;
    omp_stub_process.tool = 0;
}

void end_tool(void)
{
    const struct tool_events *events = told();
    if (!events)
        return;
    end_trace();
    if (host_is_device)
        events->device(false);
    __atomic_store_n(&tool_events, NULL, __ATOMIC_RELEASE); /* a tool that ends itself in this is not ended again */
    events->shutdown();
    forget_tool();
}

/* For programs: the report's routine, and OpenMP 5's. Either reaches a tool of either. */
static int control(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    current_thread();
    const struct tool_events *events = told();
    return events ? events->control(command, modifier, argument, codeptr) : CONTROL_NO_TOOL;
}

EXPORT void ompt_control(uint64_t command, uint64_t modifier)
{
    control(command, modifier, NULL, __builtin_return_address(0));
}

EXPORT void ompt_control_(const int64_t *command, const int64_t *modifier);
void ompt_control_(const int64_t *command, const int64_t *modifier)
{
    control((uint64_t)*command, (uint64_t)*modifier, NULL, __builtin_return_address(0));
}

EXPORT int omp_control_tool(int command, int modifier, void *argument);
int omp_control_tool(int command, int modifier, void *argument)
{
    return control((uint64_t)command, (uint64_t)modifier, argument, __builtin_return_address(0));
}

EXPORT int omp_control_tool_(const int32_t *command, const int32_t *modifier);
int omp_control_tool_(const int32_t *command, const int32_t *modifier)
{
    return control((uint64_t)*command, (uint64_t)*modifier, NULL, __builtin_return_address(0));
}
