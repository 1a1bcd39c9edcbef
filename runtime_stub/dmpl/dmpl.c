/* The stub's DMPL library, against DMPL's callbacks alone.
 *
 * Its threadprivate variables are in storage that every thread has under a POSIX thread key, as the paper's Figure 10
 * sketches: the key is in __omp_stub_tls_key, its value in a thread points at that thread's storage, and a variable is
 * some distance from there. Debug information gives another address, that of the initial value; the runtime has a
 * record of each variable that leads from the one to the other (struct omp_stub_private).
 *
 * The target may have another width and byte order than this library. What it finds out about a process or a thread it
 * has the debugger keep. */
#include "internal.h"

enum { MAX_VARIABLES = 1 << 16, CAPACITY = 1 << 20 /* of a thread's storage */ };

const DMPL_callbacks_t *dmpl_callbacks;
const DMPL_extension_t *dmpl_extension;

struct _DMPL_process_info_t {
    uint64_t pointer_size;
    uint64_t key, first;                            /* where the key and the first record are noted */
    uint64_t next, variable, size, offset, number;  /* where a record has its members */
};

struct _DMPL_thread_info_t {
    uint64_t base;                                  /* where its storage begins */
};

/* One call of DMPL_get_tls_address. */
struct lookup {
    DMPL_thread_t *thread;
    const DMPL_process_info_t *process;
};

struct variable {
    uint64_t variable, size, offset, number;
};

/* Versions, texts, routines */

static int initialise(const DMPL_callbacks_t *callbacks)
{
    dmpl_callbacks = callbacks;
    dmpl_extension = NULL;
    return DMPL_ok;
}

EXPORT int DMPL_initialise(const DMPL_callbacks_t *callbacks)
{
    return initialise(callbacks);
}

EXPORT int DMPL_initialize(const DMPL_callbacks_t *callbacks)
{
    return initialise(callbacks);
}

EXPORT int DMPL_extend(const DMPL_extension_t *extension)
{
    if (!dmpl_callbacks)
        return STUB_NOT_INITIALISED;
    dmpl_extension = extension;
    return DMPL_ok;
}

EXPORT int DMPL_version_compatibility(void)
{
    return XLD_INTERFACE_COMPATIBILITY;
}

EXPORT const char *DMPL_version_string(void)
{
    return "ompd: DMPL for libomp_stub 1.0";
}

EXPORT const char *DMPL_error_string(int code)
{
    switch (code) {
    case DMPL_ok: return "ok";
    case DMPL_tls_unallocated: return "the thread has no storage for its copy yet";
    case DMPL_name_too_long: return "the name is longer than the buffer";
    case DMPL_name_unchanged: return "no compiler made this name";
    case STUB_NO_MEMORY: return "the debugger gives no memory";
    case STUB_NOT_THREADPRIVATE: return "the runtime keeps no copies of what is there";
    case STUB_DAMAGED: return "the runtime's list of threadprivate variables is damaged";
    case STUB_NOT_INITIALISED: return "the library has not been initialised";
    }
    return dmpl_callbacks ? dmpl_callbacks->DMPL_error_string_fp(code) : "a code that is not this library's";
}

EXPORT const DMPL_rtl_names *DMPL_get_rtl_names(int language)
{
    static const DMPL_rtl_names names = {"GOMP_parallel", "run_implicit"};
    switch (language) { /* all that gcc compiles */
    case DMPL_lang_c: case DMPL_lang_cplusplus: case DMPL_lang_f77: case DMPL_lang_f9x: return &names;
    }
    return NULL;
}

/* What it had the debugger keep */

static int give_back(void *info)
{
    if (!dmpl_callbacks)
        return STUB_NOT_INITIALISED;
    dmpl_callbacks->DMPL_free_fp(info);
    return DMPL_ok;
}

EXPORT int DMPL_destroy_process_info(DMPL_process_info_t *info)
{
    return give_back(info);
}

EXPORT int DMPL_destroy_thread_info(DMPL_thread_info_t *info)
{
    return give_back(info);
}

/* Reading */

static size_t append(char *buffer, size_t used, size_t room, const char *text)
{
    while (*text && used + 1 < room)
        buffer[used++] = *text++;
    buffer[used] = 0;
    return used;
}

/* Has the debugger print what went wrong, if anything did. */
static int check(int code)
{
    if (code != DMPL_ok) {
        char text[256];
        const char *meaning = dmpl_callbacks->DMPL_error_string_fp(code);
        size_t used = append(text, 0, sizeof text, "DMPL for libomp_stub: ");
        append(text, used, sizeof text, meaning ? meaning : "");
        dmpl_callbacks->DMPL_prints_fp(text);
    }
    return code;
}

static int find_symbol(DMPL_process_t *process, const char *name, uint64_t *address)
{
    DMPL_taddr_t found = 0;
    int code = check(dmpl_callbacks->DMPL_find_symbol_fp(process, name, &found));
    *address = found;
    return code;
}

/* An unsigned number of at most 8 bytes as the target has it. */
static uint64_t number_of(DMPL_thread_t *thread, const void *raw, size_t size)
{
    unsigned char host[8] = {0};
    uint64_t number = 0;
    dmpl_callbacks->DMPL_target_to_host_fp(thread, raw, host, (int)size);
    for (size_t at = 0; at < size; at++)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        number = number << 8 | host[at];
#else
        number |= (uint64_t)host[at] << 8 * at;
#endif
    return number;
}

static int read_word(const struct lookup *lookup, uint64_t address, uint64_t *value)
{
    unsigned char raw[8];
    int size = (int)lookup->process->pointer_size;
    int code = check(dmpl_callbacks->DMPL_get_data_fp(lookup->thread, address, raw, size));
    if (code == DMPL_ok)
        *value = number_of(lookup->thread, raw, (size_t)size);
    return code;
}

/* The table of the runtime, by DMPL's callbacks */

struct of_table {
    DMPL_process_t *process;
    DMPL_thread_t *thread;
};

static int table_symbol(void *of, const char *name, uint64_t *address)
{
    return find_symbol(((struct of_table *)of)->process, name, address);
}

static int table_read(void *of, uint64_t address, void *buffer, size_t size)
{
    return check(dmpl_callbacks->DMPL_get_data_fp(((struct of_table *)of)->thread, address, buffer, (int)size));
}

static int table_number(void *of, const void *raw, size_t size, uint64_t *number)
{
    *number = number_of(((struct of_table *)of)->thread, raw, size); /* DMPL's callback has no code */
    return DMPL_ok;
}

static void *table_memory(size_t size)
{
    return dmpl_callbacks->DMPL_malloc_fp(size);
}

static void table_free(void *memory)
{
    dmpl_callbacks->DMPL_free_fp(memory);
}

static int read_layout(DMPL_process_t *process, DMPL_thread_t *thread, struct layout_query *queries, size_t count)
{
    struct of_table of = {process, thread};
    const struct layout_source source = {
        .of = &of, .symbol = table_symbol, .read = table_read, .number = table_number, .memory = table_memory,
        .free = table_free, .no_memory = STUB_NO_MEMORY, .damaged = STUB_DAMAGED,
    };
    return stub_read_layout(&source, queries, count);
}

/* What is kept of the process */

/* Where a record has its members: by debug information if the debugger has extended the interface, else by the runtime's
 * table. The paper's table alone finds a type, and has no function for its members. */
static int find_members(DMPL_process_t *process, DMPL_thread_t *thread, DMPL_process_info_t *found)
{
    static const char *const names[] = {"next", "variable", "size", "offset", "number"};
    enum { COUNT = sizeof names / sizeof *names };
    uint64_t *const places[COUNT] = {&found->next, &found->variable, &found->size, &found->offset, &found->number};
    uint64_t extent;
    DMPL_type_t *type = NULL;
    if (dmpl_extension)
        type = dmpl_callbacks->DMPL_find_type_fp(process, "struct omp_stub_private", DMPL_lang_c);
    if (type) {
        int size = dmpl_extension->DMPL_sizeof_fp(type);
        extent = size > 0 ? (uint64_t)size : 0;
        for (size_t at = 0; at < COUNT; at++) {
            int offset = dmpl_extension->DMPL_field_offset_fp(type, names[at]);
            *places[at] = offset >= 0 ? (uint64_t)offset : UINT64_MAX;
        }
    } else {
        struct layout_query queries[COUNT + 1];
        for (size_t at = 0; at <= COUNT; at++) {
            queries[at].structure = "omp_stub_private";
            queries[at].member = at < COUNT ? names[at] : "";
            queries[at].value = 0;
            queries[at].found = false;
        }
        int code = read_layout(process, thread, queries, COUNT + 1);
        if (code != DMPL_ok)
            return code;
        extent = queries[COUNT].found ? queries[COUNT].value : 0;
        for (size_t at = 0; at < COUNT; at++)
            *places[at] = queries[at].found ? queries[at].value : UINT64_MAX;
    }
    for (size_t at = 0; at < COUNT; at++)
        if (*places[at] >= extent)
            return STUB_DAMAGED;
    return DMPL_ok;
}

static int ask_process(DMPL_process_t *process, DMPL_thread_t *thread, DMPL_process_info_t *found)
{
    DMPL_target_type_sizes_t sizes;
    uint64_t root = 0;
    int code = check(dmpl_callbacks->DMPL_get_type_sizes_fp(process, &sizes));
    if (code != DMPL_ok)
        return code;
    if (sizes.pointer_size <= 0 || sizes.pointer_size > 8)
        return STUB_DAMAGED;
    found->pointer_size = (uint64_t)sizes.pointer_size;
    code = find_symbol(process, "__omp_stub_tls_key", &found->key);
    if (code == DMPL_ok)
        code = find_symbol(process, "omp_stub_process", &root);
    if (code == DMPL_ok)
        code = find_members(process, thread, found);
    if (code != DMPL_ok)
        return code;
    struct layout_query first = {.structure = "stub_process", .member = "privates"};
    code = read_layout(process, thread, &first, 1);
    if (code != DMPL_ok)
        return code;
    found->first = root + first.value;
    return first.found ? DMPL_ok : STUB_DAMAGED;
}

static int process_info(struct lookup *lookup)
{
    const DMPL_callbacks_t *callbacks = dmpl_callbacks;
    DMPL_process_t *process = callbacks->DMPL_get_process_fp(lookup->thread);
    DMPL_process_info_t *info = callbacks->DMPL_get_process_info_fp(process);
    if (!info) {
        DMPL_process_info_t found;
        int code = ask_process(process, lookup->thread, &found);
        if (code != DMPL_ok)
            return code;
        info = callbacks->DMPL_malloc_fp(sizeof *info);
        if (!info)
            return STUB_NO_MEMORY;
        *info = found;
        callbacks->DMPL_put_process_info_fp(process, info);
    }
    lookup->process = info;
    return DMPL_ok;
}

/* Where a thread has its copy */

static int read_variable(const struct lookup *lookup, uint64_t record, struct variable *variable)
{
    const DMPL_process_info_t *process = lookup->process;
    int code = read_word(lookup, record + process->variable, &variable->variable);
    if (code == DMPL_ok)
        code = read_word(lookup, record + process->size, &variable->size);
    if (code == DMPL_ok)
        code = read_word(lookup, record + process->offset, &variable->offset);
    if (code == DMPL_ok)
        code = read_word(lookup, record + process->number, &variable->number);
    if (code == DMPL_ok && (variable->size > CAPACITY || variable->offset > CAPACITY - variable->size))
        code = STUB_DAMAGED;
    return code;
}

/* The variable that the address is in: that of its initial value, or, if none is there, a distance from the beginning of
 * the storage, as Figure 10 has it. */
static int find_variable(const struct lookup *lookup, uint64_t address, struct variable *found, uint64_t *inside)
{
    struct variable variable;
    uint64_t record, marked = 0;
    size_t count = 0, until = 1;
    bool any = false;
    int code = read_word(lookup, lookup->process->first, &record);
    for (; code == DMPL_ok && record; count++) {
        /* The list has no end if it comes back to a record that was marked, each time one twice as far. */
        if (record == marked || count >= MAX_VARIABLES)
            return STUB_DAMAGED;
        if (count + 1 == until) {
            marked = record;
            until *= 2;
        }
        code = read_variable(lookup, record, &variable);
        if (code != DMPL_ok)
            break;
        if (address >= variable.variable && address - variable.variable < variable.size) {
            *found = variable;
            *inside = address - variable.variable;
            return DMPL_ok;
        }
        if (address >= variable.offset && address - variable.offset < variable.size) {
            *found = variable;
            *inside = address - variable.offset;
            any = true;
        }
        code = read_word(lookup, record + lookup->process->next, &record);
    }
    return code != DMPL_ok || any ? code : STUB_NOT_THREADPRIVATE;
}

static int ask_base(const struct lookup *lookup, uint64_t *base)
{
    uint64_t key, none = UINT64_MAX >> (64 - 8 * lookup->process->pointer_size);
    DMPL_taddr_t value = 0;
    int code = read_word(lookup, lookup->process->key, &key);
    if (code != DMPL_ok)
        return code;
    if (key == none) /* no thread has used any such variable */
        return DMPL_tls_unallocated;
    code = check(dmpl_callbacks->DMPL_get_pthread_key_fp(lookup->thread, (DMPL_tword_t)key, &value));
    *base = value;
    return code == DMPL_ok && !value ? DMPL_tls_unallocated : code;
}

/* A thread keeps its storage as long as it lives. */
static int storage(const struct lookup *lookup, uint64_t *base)
{
    const DMPL_callbacks_t *callbacks = dmpl_callbacks;
    DMPL_thread_info_t *info = callbacks->DMPL_get_thread_info_fp(lookup->thread);
    if (!info) {
        int code = ask_base(lookup, base);
        if (code != DMPL_ok)
            return code;
        info = callbacks->DMPL_malloc_fp(sizeof *info);
        if (!info)
            return STUB_NO_MEMORY;
        info->base = *base;
        callbacks->DMPL_put_thread_info_fp(lookup->thread, info);
    }
    *base = info->base;
    return DMPL_ok;
}

EXPORT int DMPL_get_tls_address(DMPL_thread_t *thread, DMPL_taddr_t address, DMPL_taddr_t *result)
{
    struct lookup lookup = {.thread = thread};
    struct variable variable = {0, 0, 0, 0};
    uint64_t inside = 0, base = 0, copied = 0;
    if (!dmpl_callbacks)
        return STUB_NOT_INITIALISED;
    int code = process_info(&lookup);
    if (code == DMPL_ok)
        code = find_variable(&lookup, address, &variable, &inside);
    if (code == DMPL_ok)
        code = storage(&lookup, &base);
    /* The word before the storage counts the variables that have their initial values in it. */
    if (code == DMPL_ok)
        code = read_word(&lookup, base - lookup.process->pointer_size, &copied);
    if (code != DMPL_ok)
        return code;
    if (variable.number >= copied)
        return DMPL_tls_unallocated;
    *result = base + variable.offset + inside;
    return DMPL_ok;
}
