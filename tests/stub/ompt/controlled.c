/* A tool that prints the commands that it receives. */
#include "ompt.h"

#include <stdio.h>

static void on_control(uint64_t command, uint64_t modifier)
{
    printf("%lld %lld\n", (long long)command, (long long)modifier);
    fflush(stdout);
}

static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    (void)runtime, (void)version;
    ((ompt_set_callback_t)lookup("ompt_set_callback"))(ompt_event_control, (ompt_callback_t)on_control);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
