/* The stub's OMPD library: its beginning, an address space, and how the target is read. Where members are is known by the
 * table that the runtime publishes, as the DMPL part of the library reads it. */
#include "internal.h"

#include "../dmpl/internal.h"

const ompd_callbacks_t *ompd_callbacks;

EXPORT ompd_rc_t ompd_initialize(ompd_word_t version, const ompd_callbacks_t *callbacks)
{
    if (!callbacks || !callbacks->alloc_memory || !callbacks->free_memory || !callbacks->sizeof_type ||
        !callbacks->symbol_addr_lookup || !callbacks->read_memory || !callbacks->read_string || !callbacks->device_to_host)
        return ompd_rc_bad_input;
    if (version != 201811)
        return ompd_rc_unsupported;
    ompd_callbacks = callbacks;
    return ompd_rc_ok;
}

EXPORT ompd_rc_t ompd_finalize(void)
{
    if (!ompd_callbacks)
        return ompd_rc_unsupported;
    ompd_callbacks = NULL;
    return ompd_rc_ok;
}

EXPORT ompd_rc_t ompd_get_api_version(ompd_word_t *version)
{
    if (!version)
        return ompd_rc_bad_input;
    *version = 201811;
    return ompd_rc_ok;
}

EXPORT ompd_rc_t ompd_get_version_string(const char **text)
{
    if (!text)
        return ompd_rc_bad_input;
    *text = "ompd: OMPD for libomp_stub 1.0";
    return ompd_rc_ok;
}

/* Memory */

ompd_rc_t allocate(size_t size, void **memory)
{
    ompd_rc_t rc = ompd_callbacks ? ompd_callbacks->alloc_memory(size, memory) : ompd_rc_error;
    return rc == ompd_rc_ok && !*memory ? ompd_rc_nomem : rc;
}

ompd_rc_t new_handle(ompd_address_space_handle_t *space, uint64_t address, enum mark mark, struct any_handle **handle)
{
    void *memory = NULL;
    if (!address)
        return ompd_rc_unavailable;
    if (address & (space->pointer_size - 1))
        return ompd_rc_error;
    ompd_rc_t rc = allocate(sizeof **handle, &memory);
    if (rc != ompd_rc_ok)
        return rc;
    *handle = memory;
    (*handle)->mark = mark;
    (*handle)->space = space;
    (*handle)->address = address;
    return ompd_rc_ok;
}

ompd_rc_t check_handle(const void *handle, enum mark mark)
{
    const struct any_handle *any = handle;
    if (!ompd_callbacks)
        return ompd_rc_error;
    if (!any || any->mark != mark)
        return ompd_rc_stale_handle;
    return mark == MARK_SPACE || any->space->mark == MARK_SPACE ? ompd_rc_ok : ompd_rc_stale_handle;
}

/* That the mark is wiped is seen for as long as nobody else gets the memory: a tool's error is then told. */
static ompd_rc_t release(void *handle, enum mark mark)
{
    ompd_rc_t rc = check_handle(handle, mark);
    if (rc != ompd_rc_ok)
        return rc;
    *(volatile uint64_t *)handle = 0;
    return ompd_callbacks->free_memory(handle);
}

EXPORT ompd_rc_t ompd_rel_address_space_handle(ompd_address_space_handle_t *handle) { return release(handle, MARK_SPACE); }
EXPORT ompd_rc_t ompd_rel_thread_handle(ompd_thread_handle_t *handle) { return release(handle, MARK_THREAD); }
EXPORT ompd_rc_t ompd_rel_parallel_handle(ompd_parallel_handle_t *handle) { return release(handle, MARK_REGION); }
EXPORT ompd_rc_t ompd_rel_task_handle(ompd_task_handle_t *handle) { return release(handle, MARK_TASK); }

/* Reading */

static ompd_rc_t read_bytes(ompd_address_space_context_t *context, uint64_t address, size_t size, void *buffer)
{
    ompd_address_t place = {OMPD_SEGMENT_UNSPECIFIED, address};
    return ompd_callbacks->read_memory(context, NULL, &place, size, buffer);
}

static ompd_rc_t host_number(ompd_address_space_context_t *context, const void *raw, size_t size, uint64_t *number)
{
    unsigned char host[8] = {0};
    ompd_rc_t rc = ompd_callbacks->device_to_host(context, raw, size, 1, host);
    if (rc != ompd_rc_ok)
        return rc;
    *number = 0;
    for (size_t at = 0; at < size; at++)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        *number = *number << 8 | host[at];
#else
        *number |= (uint64_t)host[at] << 8 * at;
#endif
    return ompd_rc_ok;
}

ompd_rc_t read_number(ompd_address_space_handle_t *space, uint64_t address, size_t size, uint64_t *number)
{
    unsigned char raw[8];
    ompd_rc_t rc = read_bytes(space->context, address, size, raw);
    return rc == ompd_rc_ok ? host_number(space->context, raw, size, number) : rc;
}

ompd_rc_t read_pointer(ompd_address_space_handle_t *space, uint64_t structure, enum member member, uint64_t *pointer)
{
    return read_number(space, structure + space->offsets[member], space->pointer_size, pointer);
}

ompd_rc_t read_wide(ompd_address_space_handle_t *space, uint64_t structure, enum member member, uint64_t *number)
{
    return read_number(space, structure + space->offsets[member], 8, number);
}

ompd_rc_t read_int(ompd_address_space_handle_t *space, uint64_t structure, enum member member, int32_t *number)
{
    uint64_t wide = 0;
    ompd_rc_t rc = read_number(space, structure + space->offsets[member], 4, &wide);
    *number = (int32_t)(uint32_t)wide;
    return rc;
}

ompd_rc_t keeps_states(ompd_address_space_handle_t *space)
{
    uint64_t enabled = 0;
    ompd_rc_t rc = read_wide(space, space->root, stub_process_debug_enabled, &enabled);
    if (rc != ompd_rc_ok)
        return rc;
    return enabled == 1 ? ompd_rc_ok : enabled ? ompd_rc_error : ompd_rc_needs_state_tracking;
}

/* The address space */

static ompd_rc_t find_symbol(ompd_address_space_context_t *context, const char *name, uint64_t *address)
{
    ompd_address_t found = {OMPD_SEGMENT_UNSPECIFIED, 0};
    ompd_rc_t rc = ompd_callbacks->symbol_addr_lookup(context, NULL, name, &found, NULL);
    *address = found.address;
    return rc;
}

static int table_symbol(void *context, const char *name, uint64_t *address)
{
    return find_symbol(context, name, address);
}

static int table_read(void *context, uint64_t address, void *buffer, size_t size)
{
    return read_bytes(context, address, size, buffer);
}

static int table_number(void *context, const void *raw, size_t size, uint64_t *number)
{
    return host_number(context, raw, size, number);
}

static void *table_memory(size_t size)
{
    void *memory = NULL;
    return allocate(size, &memory) == ompd_rc_ok ? memory : NULL;
}

static void table_free(void *memory)
{
    ompd_callbacks->free_memory(memory);
}

static const char STRUCTURES[][32] = {
#define STRUCTURE_NAME(structure, member) #structure,
    MEMBERS(STRUCTURE_NAME)
};
static const char NAMES[][32] = {
#define MEMBER_NAME(structure, member) #member,
    MEMBERS(MEMBER_NAME)
};

static ompd_rc_t find_members(ompd_address_space_context_t *context, ompd_address_space_handle_t *space)
{
    const struct layout_source source = {
        .of = context, .symbol = table_symbol, .read = table_read, .number = table_number, .memory = table_memory,
        .free = table_free, .no_memory = ompd_rc_nomem, .damaged = ompd_rc_incompatible,
    };
    struct layout_query queries[MEMBER_COUNT];
    for (size_t at = 0; at < MEMBER_COUNT; at++) {
        queries[at].structure = STRUCTURES[at];
        queries[at].member = NAMES[at];
        queries[at].value = 0;
        queries[at].found = false;
    }
    int code = stub_read_layout(&source, queries, MEMBER_COUNT);
    if (code)
        return (ompd_rc_t)code;
    for (size_t at = 0; at < MEMBER_COUNT; at++) {
        if (!queries[at].found)
            return ompd_rc_incompatible;
        space->offsets[at] = (uint32_t)queries[at].value;
    }
    return ompd_rc_ok;
}

EXPORT ompd_rc_t ompd_process_initialize(ompd_address_space_context_t *context, ompd_address_space_handle_t **handle)
{
    ompd_device_type_sizes_t sizes;
    void *memory = NULL;
    uint64_t initialized = 0;
    if (!context || !handle)
        return ompd_rc_bad_input;
    if (!ompd_callbacks)
        return ompd_rc_error;
    ompd_rc_t rc = ompd_callbacks->sizeof_type(context, &sizes);
    if (rc != ompd_rc_ok)
        return rc;
    if (sizes.sizeof_pointer != 4 && sizes.sizeof_pointer != 8)
        return ompd_rc_incompatible;
    rc = allocate(sizeof **handle, &memory);
    if (rc != ompd_rc_ok)
        return rc;
    ompd_address_space_handle_t *space = memory;
    space->mark = MARK_SPACE;
    space->context = context;
    space->pointer_size = sizes.sizeof_pointer;
    rc = find_symbol(context, "omp_stub_process", &space->root);
    if (rc == ompd_rc_ok)
        rc = find_members(context, space);
    if (rc == ompd_rc_ok)
        rc = read_wide(space, space->root, stub_process_initialized, &initialized);
    if (rc == ompd_rc_ok && !initialized)
        rc = ompd_rc_unavailable;
    if (rc == ompd_rc_ok)
        *handle = space;
    else
        ompd_callbacks->free_memory(space);
    return rc;
}

EXPORT ompd_rc_t ompd_device_initialize(ompd_address_space_handle_t *space, ompd_address_space_context_t *context,
                                        uint64_t kind, ompd_size_t size, void *id, ompd_address_space_handle_t **handle)
{
    (void)space, (void)context, (void)kind, (void)size, (void)id, (void)handle;
    return ompd_rc_unsupported;
}

EXPORT ompd_rc_t ompd_get_omp_version(ompd_address_space_handle_t *space, ompd_word_t *version)
{
    uint64_t number = 0;
    ompd_rc_t rc = check_handle(space, MARK_SPACE);
    if (rc != ompd_rc_ok)
        return rc;
    if (!version)
        return ompd_rc_bad_input;
    rc = read_wide(space, space->root, stub_process_openmp_version, &number);
    *version = (ompd_word_t)number;
    return rc;
}

EXPORT ompd_rc_t ompd_get_omp_version_string(ompd_address_space_handle_t *space, const char **text)
{
    ompd_rc_t rc = check_handle(space, MARK_SPACE);
    if (rc != ompd_rc_ok)
        return rc;
    if (!text)
        return ompd_rc_bad_input;
    return text_copy("libomp_stub 1.0", text);
}
