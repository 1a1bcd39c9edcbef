/* DMPL: makes the host's calls of a library, each with fields as ompd/runtimes/hosted/dmpl/protocol.py has them. */
#include "host.h"

#include "Dmpl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum call {
    INITIALISE = 1, VERSION_COMPATIBILITY, VERSION_STRING, ERROR_STRING, DESTROY_PROCESS_INFO, DESTROY_THREAD_INFO,
    DEMANGLE_NAME, GET_TLS_ADDRESS, GET_RTL_NAMES, EXTEND, CALLS
};
enum callback {
    ON_PUT_PROCESS_INFO = 1, ON_GET_PROCESS_INFO, ON_PUT_THREAD_INFO, ON_GET_THREAD_INFO, ON_GET_PROCESS,
    ON_GET_TYPE_SIZES, ON_FIND_SYMBOL, ON_FIND_TYPE, ON_GET_DATA, ON_GET_PTHREAD_KEY, ON_TARGET_TO_HOST, ON_MALLOC,
    ON_FREE, ON_ERROR_STRING, ON_PRINTS, ON_SIZEOF, ON_FIELD_OFFSET, ON_SOURCE_OF
};
enum { MAX_DATA = 1 << 20, MAX_NAME = 1 << 17 };

/* Fields */

static int64_t take_number(struct buffer *message)
{
    int64_t number;
    take(message, &number, sizeof number);
    return number;
}

/* The caller's, with a NUL at its end. */
static char *take_bytes(struct buffer *message, uint32_t *size)
{
    take(message, size, sizeof *size);
    if (*size > message->size - message->at)
        stop("a message is too short");
    char *bytes = get(*size + 1u);
    take(message, bytes, *size);
    return bytes;
}

static void finish_fields(struct buffer *message)
{
    if (message->at != message->size)
        stop("a message is too long");
    free(message->bytes);
}

static void put_number(struct buffer *message, int64_t number)
{
    put(message, &number, sizeof number);
}

static void put_bytes(struct buffer *message, const void *bytes, size_t size)
{
    uint32_t count = (uint32_t)size;
    put(message, &count, sizeof count);
    put(message, bytes, count);
}

static void put_text(struct buffer *message, const char *text)
{
    put_bytes(message, text, text ? strnlen(text, MAX_NAME) : 0);
}

static struct buffer begin(enum callback which)
{
    struct buffer question = {0};
    uint32_t number = which;
    put(&question, &number, sizeof number);
    return question;
}

static struct buffer ask(struct buffer *question)
{
    struct buffer answer;
    if (!is_own_thread())
        stop("the library called back from a thread of its own");
    ask_host(question, &answer);
    return answer;
}

static int64_t ask_number(struct buffer *question)
{
    struct buffer answer = ask(question);
    int64_t number = take_number(&answer);
    finish_fields(&answer);
    return number;
}

/* The callbacks. What the debugger gave a number is a pointer here, and what the library keeps is named by its address. */

static int64_t of(const void *pointer)
{
    return (int64_t)(uintptr_t)pointer;
}

static void *to(int64_t number)
{
    return (void *)(uintptr_t)number;
}

static void put_info(enum callback what, const void *of_what, const void *info)
{
    struct buffer question = begin(what);
    put_number(&question, of(of_what));
    put_number(&question, of(info));
    struct buffer answer = ask(&question);
    finish_fields(&answer);
}

static void *get_of(enum callback what, const void *of_what)
{
    struct buffer question = begin(what);
    put_number(&question, of(of_what));
    return to(ask_number(&question));
}

static void put_process_info(DMPL_process_t *process, DMPL_process_info_t *info)
{
    put_info(ON_PUT_PROCESS_INFO, process, info);
}

static DMPL_process_info_t *get_process_info(DMPL_process_t *process)
{
    return get_of(ON_GET_PROCESS_INFO, process);
}

static void put_thread_info(DMPL_thread_t *thread, DMPL_thread_info_t *info)
{
    put_info(ON_PUT_THREAD_INFO, thread, info);
}

static DMPL_thread_info_t *get_thread_info(DMPL_thread_t *thread)
{
    return get_of(ON_GET_THREAD_INFO, thread);
}

static DMPL_process_t *get_process(DMPL_thread_t *thread)
{
    return get_of(ON_GET_PROCESS, thread);
}

static int get_type_sizes(DMPL_process_t *process, DMPL_target_type_sizes_t *sizes)
{
    struct buffer question = begin(ON_GET_TYPE_SIZES);
    put_number(&question, of(process));
    struct buffer answer = ask(&question);
    int code = (int)take_number(&answer);
    DMPL_target_type_sizes_t found;
    found.short_size = (int)take_number(&answer);
    found.int_size = (int)take_number(&answer);
    found.long_size = (int)take_number(&answer);
    found.long_long_size = (int)take_number(&answer);
    found.pointer_size = (int)take_number(&answer);
    finish_fields(&answer);
    if (code == DMPL_ok)
        *sizes = found;
    return code;
}

static int ask_address(struct buffer *question, DMPL_taddr_t *result)
{
    struct buffer answer = ask(question);
    int code = (int)take_number(&answer);
    DMPL_taddr_t found = (DMPL_taddr_t)take_number(&answer);
    finish_fields(&answer);
    if (code == DMPL_ok)
        *result = found;
    return code;
}

static int find_symbol(DMPL_process_t *process, const char *name, DMPL_taddr_t *address)
{
    struct buffer question = begin(ON_FIND_SYMBOL);
    put_number(&question, of(process));
    put_text(&question, name);
    return ask_address(&question, address);
}

static DMPL_type_t *find_type(DMPL_process_t *process, const char *name, int language)
{
    struct buffer question = begin(ON_FIND_TYPE);
    put_number(&question, of(process));
    put_text(&question, name);
    put_number(&question, language);
    return to(ask_number(&question));
}

static int get_data(DMPL_thread_t *thread, DMPL_taddr_t address, void *buffer, int size)
{
    struct buffer question = begin(ON_GET_DATA);
    uint32_t count;
    put_number(&question, of(thread));
    put_number(&question, (int64_t)address);
    put_number(&question, size);
    struct buffer answer = ask(&question);
    int code = (int)take_number(&answer);
    char *data = take_bytes(&answer, &count);
    finish_fields(&answer);
    if (code == DMPL_ok && size > 0)
        memcpy(buffer, data, count < (uint32_t)size ? count : (uint32_t)size);
    free(data);
    return code;
}

static int get_pthread_key(DMPL_thread_t *thread, DMPL_tword_t key, DMPL_taddr_t *value)
{
    struct buffer question = begin(ON_GET_PTHREAD_KEY);
    put_number(&question, of(thread));
    put_number(&question, key);
    return ask_address(&question, value);
}

static void target_to_host(DMPL_thread_t *thread, const void *data, void *result, int size)
{
    if (size <= 0 || size > MAX_DATA)
        return;
    struct buffer question = begin(ON_TARGET_TO_HOST);
    uint32_t count;
    put_number(&question, of(thread));
    put_bytes(&question, data, (size_t)size);
    struct buffer answer = ask(&question);
    char *swapped = take_bytes(&answer, &count);
    finish_fields(&answer);
    memcpy(result, swapped, count < (uint32_t)size ? count : (uint32_t)size);
    free(swapped);
}

static void *get_storage(size_t size)
{
    struct buffer question = begin(ON_MALLOC);
    void *storage = size <= MAX_DATA ? malloc(size ? size : 1) : NULL;
    put_number(&question, (int64_t)size);
    put_number(&question, of(storage));
    if (ask_number(&question))
        return storage;
    free(storage);
    return NULL;
}

static void free_storage(void *storage)
{
    struct buffer question = begin(ON_FREE);
    if (!storage)
        return;
    put_number(&question, of(storage));
    if (ask_number(&question))
        free(storage);
}

/* A library may go on reading a text: each is kept. */
static const char *error_string(int code)
{
    static struct text {
        struct text *next;
        int code;
        char *text;
    } *texts;
    struct buffer question = begin(ON_ERROR_STRING);
    uint32_t size;
    put_number(&question, code);
    struct buffer answer = ask(&question);
    char *text = take_bytes(&answer, &size);
    finish_fields(&answer);
    for (struct text *known = texts; known; known = known->next)
        if (known->code == code && !strcmp(known->text, text)) {
            free(text);
            return known->text;
        }
    struct text *kept = get(sizeof *kept);
    *kept = (struct text){texts, code, text};
    texts = kept;
    return text;
}

static void prints(const char *text)
{
    struct buffer question = begin(ON_PRINTS);
    put_text(&question, text);
    struct buffer answer = ask(&question);
    finish_fields(&answer);
}

static int size_of(DMPL_type_t *type)
{
    struct buffer question = begin(ON_SIZEOF);
    put_number(&question, of(type));
    return (int)ask_number(&question);
}

static int field_offset(DMPL_type_t *type, const char *name)
{
    struct buffer question = begin(ON_FIELD_OFFSET);
    put_number(&question, of(type));
    put_text(&question, name);
    return (int)ask_number(&question);
}

static int source_of(const char *mangled, int *length, char *name, int room, int *line)
{
    struct buffer question = begin(ON_SOURCE_OF);
    uint32_t size;
    put_text(&question, mangled);
    struct buffer answer = ask(&question);
    int64_t is_known = take_number(&answer);
    char *found = take_bytes(&answer, &size);
    int number = (int)take_number(&answer);
    finish_fields(&answer);
    if (line)
        *line = number;
    int fits = room > 0 && size < (uint32_t)room;
    if (is_known && length)
        *length = (int)size + !fits;
    if (is_known && fits && name)
        memcpy(name, found, size + 1);
    free(found);
    return !is_known ? DMPL_name_unchanged : fits ? DMPL_ok : DMPL_name_too_long;
}

static const DMPL_callbacks_t callbacks = {
    put_process_info, get_process_info, put_thread_info, get_thread_info, get_process, get_type_sizes, find_symbol,
    find_type, get_data, get_pthread_key, target_to_host, get_storage, free_storage, error_string, prints,
};
static const DMPL_extension_t extension = {size_of, field_offset, source_of};

/* The library */

static const char *const NAMES[CALLS] = {
    "", "DMPL_initialise", "DMPL_version_compatibility", "DMPL_version_string", "DMPL_error_string",
    "DMPL_destroy_process_info", "DMPL_destroy_thread_info", "DMPL_demangle_name", "DMPL_get_tls_address",
    "DMPL_get_rtl_names", "DMPL_extend",
};
static void *functions[CALLS];

/* One of these is called after another. */
#define LIBRARY(call, name) (begin_call(call), (__typeof__(&name))functions[call])

static void start(void *library)
{
    char missing[512] = "";
    uint32_t numbers[CALLS];
    for (uint32_t call = INITIALISE; call < CALLS; call++) {
        numbers[call] = call;
        functions[call] = dlsym(library, NAMES[call]);
        if (!functions[call] && call == INITIALISE)
            functions[call] = dlsym(library, "DMPL_initialize");
        if (!functions[call] && call != EXTEND)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s", *missing ? " " : "",
                     NAMES[call]);
    }
    if (*missing)
        refuse(ABSENT, 0, missing, 0);
    int version = LIBRARY(VERSION_COMPATIBILITY, DMPL_version_compatibility)();
    const char *text = LIBRARY(VERSION_STRING, DMPL_version_string)();
    end_call();
    ready(version, text, NAMES + INITIALISE, numbers + INITIALISE, (functions[EXTEND] ? CALLS : EXTEND) - INITIALISE);
}

static int initialise(void)
{
    int code = LIBRARY(INITIALISE, DMPL_initialise)(&callbacks);
    return code == DMPL_ok && functions[EXTEND] ? LIBRARY(EXTEND, DMPL_extend)(&extension) : code;
}

static void demangle(struct buffer *question, struct buffer *answer)
{
    uint32_t size;
    char *mangled = take_bytes(question, &size);
    int64_t wanted = take_number(question);
    int room = wanted < 0 ? 0 : wanted > MAX_NAME ? MAX_NAME : (int)wanted;
    char *buffer = get((size_t)room + 1);
    int length = 0, flags = 0, line = 0;
    memset(buffer, 0, (size_t)room + 1);
    put_number(answer, LIBRARY(DEMANGLE_NAME, DMPL_demangle_name)(mangled, &length, buffer, room, &flags, &line));
    buffer[room] = 0;
    put_number(answer, length);
    put_text(answer, buffer);
    put_number(answer, flags);
    put_number(answer, line);
    free(buffer);
    free(mangled);
}

static void call(uint32_t number, struct buffer *question, struct buffer *answer)
{
    DMPL_taddr_t address = 0;
    void *thread;
    switch (number) {
    case INITIALISE:
        put_number(answer, initialise());
        return;
    case ERROR_STRING:
        put_text(answer, LIBRARY(ERROR_STRING, DMPL_error_string)((int)take_number(question)));
        return;
    case DESTROY_PROCESS_INFO:
        put_number(answer, LIBRARY(DESTROY_PROCESS_INFO, DMPL_destroy_process_info)(to(take_number(question))));
        return;
    case DESTROY_THREAD_INFO:
        put_number(answer, LIBRARY(DESTROY_THREAD_INFO, DMPL_destroy_thread_info)(to(take_number(question))));
        return;
    case DEMANGLE_NAME:
        demangle(question, answer);
        return;
    case GET_TLS_ADDRESS:
        thread = to(take_number(question));
        put_number(answer, LIBRARY(GET_TLS_ADDRESS, DMPL_get_tls_address)(thread, (DMPL_taddr_t)take_number(question),
                                                                         &address));
        put_number(answer, (int64_t)address);
        return;
    case GET_RTL_NAMES: {
        const DMPL_rtl_names *names = LIBRARY(GET_RTL_NAMES, DMPL_get_rtl_names)((int)take_number(question));
        put_number(answer, names != NULL);
        put_text(answer, names ? names->main_task_dispatcher : "");
        put_text(answer, names ? names->microtask_invoker : "");
        return;
    }
    default:
        stop("a call of an unknown number");
    }
}

static void serve(struct buffer *question)
{
    struct buffer answer = {0};
    uint32_t number;
    take(question, &number, sizeof number);
    call(number, question, &answer);
    end_call();
    if (question->at != question->size)
        stop("a message is too long");
    send_message(RESULTS, &answer);
}

static void finish(void)
{
}

const struct host dmpl_host = {"dmpl", start, serve, finish};
