/* DMPL: makes the host's calls of a library. ompd/runtimes/hosted/dmpl/protocol.py has the numbers. */
#include "host.h"

#include "Dmpl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum dmpl_function {
    INITIALISE = 1, VERSION_COMPATIBILITY, VERSION_STRING, ERROR_STRING, DESTROY_PROCESS_INFO, DESTROY_THREAD_INFO,
    DEMANGLE_NAME, GET_TLS_ADDRESS, GET_RTL_NAMES, EXTEND, CALLS
};
enum dmpl_callback {
    ON_PUT_PROCESS_INFO = 1, ON_GET_PROCESS_INFO, ON_PUT_THREAD_INFO, ON_GET_THREAD_INFO, ON_GET_PROCESS,
    ON_GET_TYPE_SIZES, ON_FIND_SYMBOL, ON_FIND_TYPE, ON_GET_DATA, ON_GET_PTHREAD_KEY, ON_TARGET_TO_HOST, ON_MALLOC,
    ON_FREE, ON_ERROR_STRING, ON_PRINTS, ON_SIZEOF, ON_FIELD_OFFSET, ON_SOURCE_OF
};
enum { MAX_DATA = 1 << 20, MAX_NAME = 1 << 17 };

/* The callbacks. What the debugger gave a number is a pointer here, and what the library keeps is named by its address. */

static uint64_t of(const void *pointer)
{
    return (uintptr_t)pointer;
}

static void *to(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

static size_t length_of(const char *text)
{
    return text ? strnlen(text, MAX_NAME) : 0;
}

struct reply {
    int code;
    uint64_t word;
    size_t size;
    char *bytes; /* the caller's, with a NUL at its end */
};

static struct reply ask_with(enum dmpl_callback which, uint64_t first, uint64_t second, uint64_t third, const void *bytes,
                             size_t size)
{
    const struct callback question = {which, 0, 0, {first, second, third}};
    struct buffer message;
    struct answer answer;
    struct entry entry;
    if (!is_own_thread())
        stop("the library called back from a thread of its own");
    ask_host(&question, bytes, size, &message);
    take(&message, &answer, sizeof answer);
    take(&message, &entry, sizeof entry);
    struct reply reply = {answer.code, entry.first, entry.size, NULL};
    if (answer.entries != 1 || reply.size != message.size - message.at)
        stop("an answer of another size");
    reply.bytes = get(reply.size + 1);
    take(&message, reply.bytes, reply.size);
    free(message.bytes);
    return reply;
}

/* The code; the word as well. */
static int ask(enum dmpl_callback which, uint64_t first, uint64_t second, const char *text, uint64_t *word)
{
    struct reply reply = ask_with(which, first, second, 0, text, length_of(text));
    free(reply.bytes);
    *word = reply.word;
    return reply.code;
}

/* The word, 0 without an answer. */
static uint64_t ask_word(enum dmpl_callback which, uint64_t first, uint64_t second, const char *text)
{
    uint64_t word;
    return ask(which, first, second, text, &word) ? 0 : word;
}

static void put_process_info(DMPL_process_t *process, DMPL_process_info_t *info)
{
    ask_word(ON_PUT_PROCESS_INFO, of(process), of(info), NULL);
}

static DMPL_process_info_t *get_process_info(DMPL_process_t *process)
{
    return to(ask_word(ON_GET_PROCESS_INFO, of(process), 0, NULL));
}

static void put_thread_info(DMPL_thread_t *thread, DMPL_thread_info_t *info)
{
    ask_word(ON_PUT_THREAD_INFO, of(thread), of(info), NULL);
}

static DMPL_thread_info_t *get_thread_info(DMPL_thread_t *thread)
{
    return to(ask_word(ON_GET_THREAD_INFO, of(thread), 0, NULL));
}

static DMPL_process_t *get_process(DMPL_thread_t *thread)
{
    return to(ask_word(ON_GET_PROCESS, of(thread), 0, NULL));
}

static int get_type_sizes(DMPL_process_t *process, DMPL_target_type_sizes_t *sizes)
{
    struct reply reply = ask_with(ON_GET_TYPE_SIZES, of(process), 0, 0, NULL, 0);
    const unsigned char *found = (unsigned char *)reply.bytes;
    if (reply.code == DMPL_ok && reply.size == 5)
        *sizes = (DMPL_target_type_sizes_t){
            .short_size = found[0], .int_size = found[1], .long_size = found[2], .long_long_size = found[3],
            .pointer_size = found[4],
        };
    free(reply.bytes);
    return reply.code;
}

static int ask_address(enum dmpl_callback which, uint64_t first, uint64_t second, const char *text, DMPL_taddr_t *result)
{
    uint64_t address;
    int code = ask(which, first, second, text, &address);
    if (code == DMPL_ok)
        *result = address;
    return code;
}

static int find_symbol(DMPL_process_t *process, const char *name, DMPL_taddr_t *address)
{
    return ask_address(ON_FIND_SYMBOL, of(process), 0, name, address);
}

static DMPL_type_t *find_type(DMPL_process_t *process, const char *name, int language)
{
    return to(ask_word(ON_FIND_TYPE, of(process), (uint64_t)(int64_t)language, name));
}

static int get_data(DMPL_thread_t *thread, DMPL_taddr_t address, void *buffer, int size)
{
    struct reply reply = ask_with(ON_GET_DATA, of(thread), address, (uint64_t)(int64_t)size, NULL, 0);
    if (reply.code == DMPL_ok && size > 0)
        memcpy(buffer, reply.bytes, reply.size < (size_t)size ? reply.size : (size_t)size);
    free(reply.bytes);
    return reply.code;
}

static int get_pthread_key(DMPL_thread_t *thread, DMPL_tword_t key, DMPL_taddr_t *value)
{
    return ask_address(ON_GET_PTHREAD_KEY, of(thread), (uint64_t)key, NULL, value);
}

static void target_to_host(DMPL_thread_t *thread, const void *data, void *result, int size)
{
    if (size <= 0 || size > MAX_DATA)
        return;
    struct reply reply = ask_with(ON_TARGET_TO_HOST, of(thread), 0, 0, data, (size_t)size);
    memcpy(result, reply.bytes, reply.size < (size_t)size ? reply.size : (size_t)size);
    free(reply.bytes);
}

static void *get_storage(size_t size)
{
    void *storage = size <= MAX_DATA ? malloc(size ? size : 1) : NULL;
    if (ask_word(ON_MALLOC, size, of(storage), NULL))
        return storage;
    free(storage);
    return NULL;
}

static void free_storage(void *storage)
{
    if (storage && ask_word(ON_FREE, of(storage), 0, NULL))
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
    char *text = ask_with(ON_ERROR_STRING, (uint64_t)(int64_t)code, 0, 0, NULL, 0).bytes;
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
    ask_word(ON_PRINTS, 0, 0, text);
}

static int size_of(DMPL_type_t *type)
{
    uint64_t size;
    return ask(ON_SIZEOF, of(type), 0, NULL, &size) ? -1 : (int)size;
}

static int field_offset(DMPL_type_t *type, const char *name)
{
    uint64_t offset;
    return ask(ON_FIELD_OFFSET, of(type), 0, name, &offset) ? -1 : (int)offset;
}

static int source_of(const char *mangled, int *length, char *name, int room, int *line)
{
    struct reply reply = ask_with(ON_SOURCE_OF, 0, 0, 0, mangled, length_of(mangled));
    bool is_known = reply.code == DMPL_ok, fits = room > 0 && reply.size < (size_t)room;
    if (line)
        *line = (int)reply.word;
    if (is_known && length)
        *length = (int)reply.size + !fits;
    if (is_known && fits && name)
        memcpy(name, reply.bytes, reply.size + 1);
    free(reply.bytes);
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
        refuse(ABSENT, 0, missing);
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

static struct result with_texts(int code, const char *first, const char *second, struct buffer *rows)
{
    size_t start = rows->size;
    put_row(rows, 0, 0, first, length_of(first));
    if (second)
        put_row(rows, 0, 0, second, length_of(second));
    struct result result = with_rows(rows, start, second ? 2 : 1);
    result.code = code;
    return result;
}

static struct result demangle(const struct call *call, const struct buffer *blob, struct buffer *rows)
{
    size_t size;
    const char *bytes = in_blob(blob, call->words[0], &size);
    if (!bytes)
        stop("a message is too short");
    char *mangled = get(size + 1);
    memcpy(mangled, bytes, size);
    int64_t wanted = (int64_t)call->words[1];
    int room = wanted < 0 ? 0 : wanted > MAX_NAME ? MAX_NAME : (int)wanted;
    char *buffer = get((size_t)room + 1);
    int length = 0, flags = 0, line = 0;
    int code = LIBRARY(DEMANGLE_NAME, DMPL_demangle_name)(mangled, &length, buffer, room, &flags, &line);
    buffer[room] = 0;
    struct result result = with_texts(code, buffer, NULL, rows);
    result.words[1] = (uint64_t)(int64_t)length;
    result.words[2] = (uint64_t)(int64_t)flags;
    result.words[3] = (uint64_t)(int64_t)line;
    free(buffer);
    free(mangled);
    return result;
}

static struct result call_function(const struct call *call, const struct buffer *blob, struct buffer *rows)
{
    const uint64_t words[] = {call->words[0], call->words[1]};
    struct result result = {0};
    DMPL_taddr_t address = 0;
    const DMPL_rtl_names *names;
    switch (call->function) {
    case INITIALISE: result.code = initialise(); break;
    case ERROR_STRING:
        return with_texts(DMPL_ok, LIBRARY(ERROR_STRING, DMPL_error_string)((int)words[0]), NULL, rows);
    case DESTROY_PROCESS_INFO:
        result.code = LIBRARY(DESTROY_PROCESS_INFO, DMPL_destroy_process_info)(to(words[0]));
        break;
    case DESTROY_THREAD_INFO:
        result.code = LIBRARY(DESTROY_THREAD_INFO, DMPL_destroy_thread_info)(to(words[0]));
        break;
    case DEMANGLE_NAME: return demangle(call, blob, rows);
    case GET_TLS_ADDRESS:
        result.code = LIBRARY(GET_TLS_ADDRESS, DMPL_get_tls_address)(to(words[0]), words[1], &address);
        result.words[0] = address;
        break;
    case GET_RTL_NAMES:
        names = LIBRARY(GET_RTL_NAMES, DMPL_get_rtl_names)((int)words[0]);
        if (names)
            return with_texts(DMPL_ok, names->main_task_dispatcher, names->microtask_invoker ? names->microtask_invoker : "",
                              rows);
        break;
    default: stop("a call of an unknown number");
    }
    return result;
}

static struct result perform(const struct call *call, const struct buffer *blob, struct buffer *rows)
{
    struct result result = call_function(call, blob, rows);
    end_call();
    return result;
}

/* The library's storage is the debugger's. */
static uint32_t no_blocks(void)
{
    return 0;
}

const struct host dmpl_host = {"dmpl", start, perform, no_blocks};
