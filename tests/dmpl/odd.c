/* A DMPL library that does what it should not, or is of another version. */
#include <Dmpl.h>

#ifndef VERSION
#define VERSION XLD_INTERFACE_COMPATIBILITY
#endif

static const DMPL_callbacks_t *callbacks;

int DMPL_initialise(const DMPL_callbacks_t *table)
{
    callbacks = table;
    return DMPL_ok;
}

int DMPL_version_compatibility(void)
{
    return VERSION;
}

const char *DMPL_version_string(void)
{
    return "an odd library";
}

const char *DMPL_error_string(int code)
{
    return code ? "wrong" : "ok";
}

int DMPL_destroy_process_info(DMPL_process_info_t *info)
{
    return info != NULL;
}

int DMPL_destroy_thread_info(DMPL_thread_info_t *info)
{
    return info != NULL;
}

int DMPL_demangle_name(const char *name, int *length, char *buffer, int room, int *flags, int *line)
{
    *length = *flags = *line = room && *name ? *buffer : 0;
    return DMPL_name_unchanged;
}

const DMPL_rtl_names *DMPL_get_rtl_names(int language)
{
    (void)language;
    return NULL;
}

#if defined ODD_exit || defined ODD_print
#include <unistd.h>
#endif

#ifdef ODD_thread
#include <pthread.h>
static void *other(void *thread)
{
    callbacks->DMPL_get_process_fp(thread);
    return NULL;
}
#endif

#ifdef ODD_garbage
static int garbage(DMPL_thread_t *thread)
{
    DMPL_process_t *process = (DMPL_process_t *)0x70000001;
    DMPL_target_type_sizes_t sizes;
    DMPL_taddr_t address;
    char buffer[8];
    int local, failed = 0;
    failed += callbacks->DMPL_get_type_sizes_fp(process, &sizes) >= DMPL_first_user_code;
    failed += callbacks->DMPL_find_symbol_fp(process, "main", &address) >= DMPL_first_user_code;
    failed += callbacks->DMPL_get_data_fp((DMPL_thread_t *)process, 0x6000, buffer, 8) >= DMPL_first_user_code;
    failed += callbacks->DMPL_get_data_fp(thread, 0x6000, buffer, -8) >= DMPL_first_user_code;
    failed += callbacks->DMPL_get_pthread_key_fp((DMPL_thread_t *)process, -1, &address) >= DMPL_first_user_code;
    failed += !callbacks->DMPL_find_type_fp(process, "int", 'c');
    failed += !callbacks->DMPL_get_process_fp((DMPL_thread_t *)process);
    failed += !callbacks->DMPL_malloc_fp((size_t)10 << 30);
    callbacks->DMPL_free_fp(&local);
    callbacks->DMPL_put_process_info_fp(process, (DMPL_process_info_t *)&local);
    callbacks->DMPL_prints_fp("\033[31mred");
    return failed;
}
#endif

int DMPL_get_tls_address(DMPL_thread_t *thread, DMPL_taddr_t address, DMPL_taddr_t *result)
{
    (void)thread, (void)address, (void)callbacks;
#ifdef ODD_crash
    *(volatile int *)8 = 1;
#elif defined ODD_exit
    _exit(3);
#elif defined ODD_loop
    for (volatile int always = 1; always;)
        ;
#elif defined ODD_call
    for (;;)
        callbacks->DMPL_get_process_fp(thread);
#elif defined ODD_thread
    pthread_t made;
    if (pthread_create(&made, NULL, other, thread) || pthread_join(made, NULL))
        return DMPL_first_user_code;
#elif defined ODD_print
    if (write(1, "past the \033[31mdebugger\n", 23) < 0)
        return DMPL_first_user_code;
#elif defined ODD_garbage
    if (garbage(thread) != 8)
        return DMPL_first_user_code;
#endif
    *result = 42;
    return DMPL_ok;
}
