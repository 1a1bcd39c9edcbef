/* Both generations in one file: each name has the meaning that ompt_generations.h says. Included after either header of a
 * generation or before it, nothing changes. */
#include "ompt_generations.h"
#include "ompt.h"
#include "omp-tools.h"

#define NUMBER(name, value) _Static_assert((name) == (value), #name)
#define DIFFER(one, other) _Static_assert(_Generic((one)0, other: 0, default: 1), #one)

NUMBER(ompt2015_state_wait_lock, 0x60);
NUMBER(ompt_state_wait_lock, 0x41);
NUMBER(ompt_state_wait_nest_lock, 0x61);
NUMBER(ompt2015_task_explicit, 3);
NUMBER(ompt_task_explicit, 4);
NUMBER(ompt2015_record_ompt, 0);
NUMBER(ompt_record_ompt, 1);
NUMBER(ompt2015_target_map_flag_alloc, 4);
NUMBER(ompt2015_target_map_flag_release, 5);
NUMBER(ompt_target_map_flag_release, 8);
NUMBER(ompt_event_thread_begin, 5);
NUMBER(ompt_callback_thread_begin, 1);
NUMBER(ompt2015_set_always, 4);
NUMBER(ompt_set_always, 5);
NUMBER(ompt2015_hwid_none, -1);
NUMBER(ompt_hwid_none, 0);
NUMBER(ompt2015_time_none, ~0ULL);
NUMBER(ompt_time_none, 0);
NUMBER(ompt_dev_task_none, ~0ULL);

_Static_assert(sizeof(ompt2015_frame_t) == 2 * sizeof(void *), "two pointers");
_Static_assert(sizeof(ompt_frame_t) == 24, "two words of 64 bits, and two numbers");
DIFFER(ompt2015_get_task_info_t, ompt_get_task_info_t);
DIFFER(ompt2015_get_callback_t, ompt_get_callback_t);

/* A tool of all three. */
static void shown(const char *runtime_version, unsigned int ompt_version, ompt_function_lookup_t lookup)
{
    ompt2015_set_callback_t set = (ompt2015_set_callback_t)lookup("ompt_set_callback");
    (void)runtime_version;
    if (ompt_version == ompt2015_version_of_tool)
        set(ompt_event_runtime_shutdown, 0);
}

ompt_initialize_fn_t ompt_tool(void)
{
    return shown;
}

int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime_version, unsigned int ompt_version)
{
    shown(runtime_version, ompt_version, lookup);
    return ompt_version == ompt2015_version_of_initialize;
}

static int started(ompt_function_lookup_t lookup, int initial_device_num, ompt_data_t *tool_data)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)initial_device_num;
    return set(ompt_callback_thread_begin, 0) == ompt_set_always && tool_data->value == 0;
}

static ompt_start_tool_result_t tool = {started, 0, ompt_data_none};

ompt_start_tool_result_t *ompt_start_tool(unsigned int omp_version, const char *runtime_version)
{
    (void)runtime_version;
    return omp_version >= 201811 ? &tool : 0;
}
