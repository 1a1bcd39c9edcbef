/* What the paper's header declares: each name, number and type has to be there. */
#include <Dmpl.h>

#define NUMBER(name, number) typedef char is_##name[(int)(name) == (number) ? 1 : -1]
NUMBER(XLD_INTERFACE_COMPATIBILITY, 1);
NUMBER(DMPL_ok, 0);
NUMBER(DMPL_tls_unallocated, 1);
NUMBER(DMPL_name_too_long, 2);
NUMBER(DMPL_name_unchanged, 3);
NUMBER(DMPL_first_user_code, 100);
NUMBER(DMPL_lang_unknown, 0);
NUMBER(DMPL_lang_c, 'c');
NUMBER(DMPL_lang_cplusplus, 'C');
NUMBER(DMPL_lang_cplus, 'C');
NUMBER(DMPL_lang_f77, 'f');
NUMBER(DMPL_lang_f9x, 'F');
NUMBER(DMPL_varinfo_needs_dereference, 0x8000);
NUMBER(DMPL_varinfo_none, 0);
NUMBER(DMPL_varinfo_private, 1);
NUMBER(DMPL_varinfo_shared, 2);
NUMBER(DMPL_varinfo_firstprivate, 3);
NUMBER(DMPL_varinfo_lastprivate, 4);
NUMBER(DMPL_varinfo_firstlastprivate, 5);
NUMBER(DMPL_varinfo_reduction, 6);
NUMBER(DMPL_varinfo_threadprivate, 7);
NUMBER(DMPL_varinfo_threadshared, 8);
NUMBER(DMPL_varinfo_copyin, 9);

/* Members in their order, with their types: an initializer that does not fit does not compile. */
static DMPL_target_type_sizes_t sizes = {1, 2, 3, 4, 5};
static DMPL_rtl_names names = {"dispatcher", "invoker"};

static void put_process_info(DMPL_process_t *process, DMPL_process_info_t *info) { (void)process, (void)info; }
static DMPL_process_info_t *get_process_info(DMPL_process_t *process) { (void)process; return NULL; }
static void put_thread_info(DMPL_thread_t *thread, DMPL_thread_info_t *info) { (void)thread, (void)info; }
static DMPL_thread_info_t *get_thread_info(DMPL_thread_t *thread) { (void)thread; return NULL; }
static DMPL_process_t *get_process(DMPL_thread_t *thread) { (void)thread; return NULL; }
static int get_type_sizes(DMPL_process_t *process, DMPL_target_type_sizes_t *found) { return process && found; }
static int find_symbol(DMPL_process_t *process, const char *name, DMPL_taddr_t *at) { return process && name && at; }
static DMPL_type_t *find_type(DMPL_process_t *process, const char *name, int language)
{
    (void)process, (void)name, (void)language;
    return NULL;
}
static int get_data(DMPL_thread_t *thread, DMPL_taddr_t at, void *data, int size) { return thread && at && data && size; }
static int get_pthread_key(DMPL_thread_t *thread, DMPL_tword_t key, DMPL_taddr_t *value) { return thread && key && value; }
static void target_to_host(DMPL_thread_t *thread, const void *from, void *to, int size)
{
    (void)thread, (void)from, (void)to, (void)size;
}
static void *get_memory(size_t size) { (void)size; return NULL; }
static void free_memory(void *memory) { (void)memory; }
static const char *error_string(int code) { return code ? "" : "ok"; }
static void prints(const char *text) { (void)text; }
static int size_of(DMPL_type_t *type) { return type ? 1 : -1; }
static int field_offset(DMPL_type_t *type, const char *name) { return type && name; }
static int source_of(const char *name, int *length, char *buffer, int room, int *line)
{
    return name && length && buffer && room && line;
}

static const DMPL_callbacks_t table = {
    put_process_info, get_process_info, put_thread_info, get_thread_info, get_process, get_type_sizes, find_symbol,
    find_type, get_data, get_pthread_key, target_to_host, get_memory, free_memory, error_string, prints,
};
static const DMPL_extension_t extension = {size_of, field_offset, source_of};

int ask(DMPL_thread_t *thread, DMPL_process_info_t *process_info, DMPL_thread_info_t *thread_info);
int ask(DMPL_thread_t *thread, DMPL_process_info_t *process_info, DMPL_thread_info_t *thread_info)
{
    char buffer[8];
    int length, flags, line;
    DMPL_taddr_t address = ~0ULL;
    const DMPL_rtl_names *routines = DMPL_get_rtl_names(DMPL_lang_c);
    const char *texts[] = {DMPL_version_string(), DMPL_error_string(DMPL_ok), names.main_task_dispatcher,
                           routines->microtask_invoker};
    return DMPL_initialise(&table) + DMPL_initialize(&table) + DMPL_extend(&extension) + DMPL_version_compatibility() +
           DMPL_destroy_process_info(process_info) + DMPL_destroy_thread_info(thread_info) +
           DMPL_demangle_name("a", &length, buffer, 8, &flags, &line) +
           DMPL_get_tls_address(thread, address, &address) + sizes.pointer_size + (texts[0] != 0);
}
