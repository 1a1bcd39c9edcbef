/* A tool by each of the ways in which one registers: START_TOOL, TOOL, INITIALIZE say by which, as what it answers: 1 it is
 * one, 0 it declines, and for START_TOOL 2: its initializer declines. NAME is what it prints of itself. */
#if defined START_TOOL && (defined TOOL || defined INITIALIZE)
#include "ompt_generations.h"
#elif defined START_TOOL
#include "omp-tools.h"
#else
#include "ompt.h"
#endif
#include <stdio.h>

extern const char **ompd_dll_locations;
#pragma weak ompd_dll_locations

static void say(const char *what)
{
    printf("%s %s%s\n", NAME, what, &ompd_dll_locations && !ompd_dll_locations ? " before a debugger can find its library" : "");
    fflush(stdout);
}

#ifdef START_TOOL
static int initialize_5(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    (void)lookup, (void)device, (void)tool;
    say(START_TOOL == 1 ? "start_tool begins" : "start_tool declines");
    return START_TOOL == 1;
}

static void finalize_5(ompt_data_t *tool)
{
    (void)tool;
    say("start_tool ends");
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize_5, finalize_5, {0}};
    (void)version, (void)runtime;
    if (!START_TOOL)
        say("start_tool is none");
    return START_TOOL ? &result : NULL;
}
#endif

#ifdef TOOL
static void end_of_tool(void) { say("tool ends"); }

static void initialize_2015(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    (void)runtime, (void)version;
#ifdef START_TOOL
    ompt2015_set_callback_t set = (ompt2015_set_callback_t)lookup("ompt_set_callback");
#else
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
#endif
    set(ompt_event_runtime_shutdown, end_of_tool);
    say("tool begins");
}

ompt_initialize_fn_t ompt_tool(void)
{
    if (!TOOL)
        say("tool is none");
    return TOOL ? initialize_2015 : NULL;
}
#endif

#ifdef INITIALIZE
int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime, unsigned version)
{
    (void)runtime, (void)version, (void)lookup;
    say(INITIALIZE ? "initialize begins" : "initialize is none");
    return INITIALIZE;
}
#endif
