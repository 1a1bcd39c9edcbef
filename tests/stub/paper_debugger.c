/* A debugger as the paper on DMPL describes one, in the process that it debugs: paper_debugger LIBRARY. The callback table
 * ends at the end of a page, and the next page cannot be read. */
#include <Dmpl.h>

#include <dlfcn.h>
#include <omp.h>
#include <omp_stub.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int counter = 5;
OMP_STUB_THREADPRIVATE(counter);
static int *const initial = &counter;
#define counter OMP_STUB_PRIVATE(counter)

/* Anything but NULL. */
static int process, thread, type;
#define PROCESS ((DMPL_process_t *)&process)
#define THREAD ((DMPL_thread_t *)&thread)

static DMPL_process_info_t *process_info;
static DMPL_thread_info_t *thread_info;

static void put_process_info(DMPL_process_t *of, DMPL_process_info_t *info) { (void)of, process_info = info; }
static DMPL_process_info_t *get_process_info(DMPL_process_t *of) { return (void)of, process_info; }
static void put_thread_info(DMPL_thread_t *of, DMPL_thread_info_t *info) { (void)of, thread_info = info; }
static DMPL_thread_info_t *get_thread_info(DMPL_thread_t *of) { return (void)of, thread_info; }
static DMPL_process_t *get_process(DMPL_thread_t *of) { return (void)of, PROCESS; }

static int get_type_sizes(DMPL_process_t *of, DMPL_target_type_sizes_t *sizes)
{
    (void)of;
    *sizes = (DMPL_target_type_sizes_t){sizeof(short), sizeof(int), sizeof(long), sizeof(long long), sizeof(void *)};
    return DMPL_ok;
}

static int find_symbol(DMPL_process_t *of, const char *name, DMPL_taddr_t *address)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    (void)of;
    *address = (uintptr_t)symbol;
    return symbol ? DMPL_ok : DMPL_first_user_code;
}

static DMPL_type_t *find_type(DMPL_process_t *of, const char *name, int language)
{
    (void)of, (void)name, (void)language;
    return (DMPL_type_t *)&type; /* it has them all, and the table has no function for their members */
}

static int get_data(DMPL_thread_t *of, DMPL_taddr_t address, void *buffer, int size)
{
    (void)of;
    memcpy(buffer, (void *)(uintptr_t)address, (size_t)size);
    return DMPL_ok;
}

static int get_pthread_key(DMPL_thread_t *of, DMPL_tword_t key, DMPL_taddr_t *value)
{
    (void)of;
    *value = (uintptr_t)pthread_getspecific((pthread_key_t)key);
    return DMPL_ok;
}

static void target_to_host(DMPL_thread_t *of, const void *data, void *result, int size)
{
    (void)of;
    memcpy(result, data, (size_t)size);
}

static const char *error_string(int code) { return (void)code, "an error of the debugger"; }
static void prints(const char *text) { puts(text); }

int main(int count, char **arguments)
{
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library) {
        puts(dlerror());
        return 1;
    }
#define FUNCTION(name) __typeof__(&name) name##_of; *(void **)&name##_of = dlsym(library, #name)
    FUNCTION(DMPL_version_compatibility);
    FUNCTION(DMPL_initialise);
    FUNCTION(DMPL_get_tls_address);
    FUNCTION(DMPL_demangle_name);
    printf("version %d\n", DMPL_version_compatibility_of());

    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + page, page, PROT_NONE);
    DMPL_callbacks_t *table = (DMPL_callbacks_t *)(pages + page - sizeof *table);
    *table = (DMPL_callbacks_t){
        put_process_info, get_process_info, put_thread_info, get_thread_info, get_process, get_type_sizes, find_symbol,
        find_type, get_data, get_pthread_key, target_to_host, malloc, free, error_string, prints,
    };
    printf("initialise %d\n", DMPL_initialise_of(table));

    counter = 99;
    DMPL_taddr_t address = 0;
    int code = DMPL_get_tls_address_of(THREAD, (uintptr_t)initial, &address);
    printf("address %d %d\n", code, code == DMPL_ok && (int *)(uintptr_t)address == &counter);

    char name[20];
    int length, flags, line;
    code = DMPL_demangle_name_of("solve._omp_fn.0", &length, name, sizeof name, &flags, &line);
    printf("name %d %s %d\n", code, name, line);
    return 0;
}
