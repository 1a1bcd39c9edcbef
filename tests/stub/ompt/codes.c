/* A tool that prints what it gets for each event of its generation: REPORT or OpenMP 5. */
#include <stdio.h>

#ifdef REPORT
#include "ompt.h"

static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)runtime, (void)version;
    for (int event = 1; event <= 70; event++)
        printf("%d %d\n", event, set((ompt_event_t)event, NULL));
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
#else
#include "omp-tools.h"

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)device, (void)tool;
    for (int event = 1; event <= 37; event++)
        printf("%d %d\n", event, set((ompt_callbacks_t)event, NULL));
    return 1;
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize, NULL, {0}};
    (void)version, (void)runtime;
    return &result;
}
#endif
