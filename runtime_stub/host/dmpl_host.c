/* Hosts a DMPL library for a debugger of another architecture, as for 32-bit libraries and a debugger of 64 bits: speaks the
 * protocol of ompd/runtimes/hosted/dmpl/protocol.py, and knows nothing else. Arguments: the descriptor of a socket, how
 * many bytes this process may have, and what to load: for each file its name, its descriptor, and 1 if its symbols are for
 * all. Standard input is a pipe whose other end the debugger alone has.
 *
 * It ends as soon as the debugger is gone, or says what cannot be. */
#include "Dmpl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RESULT = 0 };
enum call {
    HELLO = 1, INITIALISE, ERROR_STRING, DESTROY_PROCESS_INFO, DESTROY_THREAD_INFO, DEMANGLE_NAME, GET_TLS_ADDRESS,
    GET_RTL_NAMES
};
enum callback {
    ON_PUT_PROCESS_INFO = 101, ON_GET_PROCESS_INFO, ON_PUT_THREAD_INFO, ON_GET_THREAD_INFO, ON_GET_PROCESS,
    ON_GET_TYPE_SIZES, ON_FIND_SYMBOL, ON_FIND_TYPE, ON_GET_DATA, ON_GET_PTHREAD_KEY, ON_TARGET_TO_HOST, ON_MALLOC,
    ON_FREE, ON_ERROR_STRING, ON_PRINTS, ON_SIZEOF, ON_FIELD_OFFSET, ON_SOURCE_OF
};
enum { MAX_MESSAGE = 2 << 20, MAX_NAME = 1 << 17 };

static int end; /* of the socket */

/* A message: `at` is where the next field is read, or how much has been written. */
struct message {
    uint32_t number;
    char *fields;
    size_t size, at;
};

/* The debugger is gone, or does not speak this protocol. */
static _Noreturn void stop(void)
{
    _exit(0);
}

static void *get(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory)
        stop();
    return memory;
}

static void receive_exactly(void *buffer, size_t size)
{
    for (char *at = buffer; size;) {
        ssize_t part = read(end, at, size);
        if (part <= 0)
            stop();
        at += part;
        size -= (size_t)part;
    }
}

static struct message receive(void)
{
    uint32_t head[2];
    receive_exactly(head, sizeof head);
    if (head[0] < sizeof *head || head[0] > MAX_MESSAGE)
        stop();
    struct message message = {.number = head[1], .size = head[0] - sizeof *head};
    message.fields = get(message.size);
    receive_exactly(message.fields, message.size);
    return message;
}

static void take(struct message *message, void *into, size_t size)
{
    if (size > message->size - message->at)
        stop();
    memcpy(into, message->fields + message->at, size);
    message->at += size;
}

static int64_t take_number(struct message *message)
{
    int64_t number;
    take(message, &number, sizeof number);
    return number;
}

/* The caller's, with a NUL at its end. */
static char *take_bytes(struct message *message, uint32_t *size)
{
    take(message, size, sizeof *size);
    if (*size > message->size - message->at)
        stop();
    char *bytes = get(*size + 1u);
    take(message, bytes, *size);
    bytes[*size] = 0;
    return bytes;
}

static void finish(struct message *message)
{
    if (message->at != message->size)
        stop();
    free(message->fields);
}

static struct message begin(uint32_t number)
{
    struct message message = {.number = number};
    return message;
}

static void put(struct message *message, const void *bytes, size_t size)
{
    if (message->at + size > message->size) {
        message->size = 2 * (message->at + size);
        message->fields = realloc(message->fields, message->size);
        if (!message->fields)
            stop();
    }
    memcpy(message->fields + message->at, bytes, size);
    message->at += size;
}

static void put_number(struct message *message, int64_t number)
{
    put(message, &number, sizeof number);
}

static void put_bytes(struct message *message, const void *bytes, size_t size)
{
    uint32_t count = (uint32_t)size;
    put(message, &count, sizeof count);
    if (count)
        put(message, bytes, count);
}

static void put_text(struct message *message, const char *text)
{
    put_bytes(message, text, text ? strnlen(text, MAX_NAME) : 0);
}

static void send_exactly(const void *bytes, size_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t part = write(end, at, size);
        if (part <= 0)
            stop();
        at += part;
        size -= (size_t)part;
    }
}

static void send_message(struct message *message)
{
    uint32_t head[2] = {(uint32_t)(sizeof *head + message->at), message->number};
    send_exactly(head, sizeof head);
    send_exactly(message->fields, message->at);
    free(message->fields);
}

static struct message ask(struct message *question)
{
    send_message(question);
    struct message answer = receive();
    if (answer.number != RESULT)
        stop();
    return answer;
}

static int64_t ask_number(struct message *question)
{
    struct message answer = ask(question);
    int64_t number = take_number(&answer);
    finish(&answer);
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
    struct message question = begin(what);
    put_number(&question, of(of_what));
    put_number(&question, of(info));
    struct message answer = ask(&question);
    finish(&answer);
}

static void *get_of(enum callback what, const void *of_what)
{
    struct message question = begin(what);
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
    struct message question = begin(ON_GET_TYPE_SIZES);
    put_number(&question, of(process));
    struct message answer = ask(&question);
    int code = (int)take_number(&answer);
    DMPL_target_type_sizes_t found;
    found.short_size = (int)take_number(&answer);
    found.int_size = (int)take_number(&answer);
    found.long_size = (int)take_number(&answer);
    found.long_long_size = (int)take_number(&answer);
    found.pointer_size = (int)take_number(&answer);
    finish(&answer);
    if (code == DMPL_ok)
        *sizes = found;
    return code;
}

static int ask_address(struct message *question, DMPL_taddr_t *result)
{
    struct message answer = ask(question);
    int code = (int)take_number(&answer);
    DMPL_taddr_t found = (DMPL_taddr_t)take_number(&answer);
    finish(&answer);
    if (code == DMPL_ok)
        *result = found;
    return code;
}

static int find_symbol(DMPL_process_t *process, const char *name, DMPL_taddr_t *address)
{
    struct message question = begin(ON_FIND_SYMBOL);
    put_number(&question, of(process));
    put_text(&question, name);
    return ask_address(&question, address);
}

static DMPL_type_t *find_type(DMPL_process_t *process, const char *name, int language)
{
    struct message question = begin(ON_FIND_TYPE);
    put_number(&question, of(process));
    put_text(&question, name);
    put_number(&question, language);
    return to(ask_number(&question));
}

static int get_data(DMPL_thread_t *thread, DMPL_taddr_t address, void *buffer, int size)
{
    struct message question = begin(ON_GET_DATA);
    uint32_t count;
    put_number(&question, of(thread));
    put_number(&question, (int64_t)address);
    put_number(&question, size);
    struct message answer = ask(&question);
    int code = (int)take_number(&answer);
    char *data = take_bytes(&answer, &count);
    finish(&answer);
    if (code == DMPL_ok && size > 0)
        memcpy(buffer, data, count < (uint32_t)size ? count : (uint32_t)size);
    free(data);
    return code;
}

static int get_pthread_key(DMPL_thread_t *thread, DMPL_tword_t key, DMPL_taddr_t *value)
{
    struct message question = begin(ON_GET_PTHREAD_KEY);
    put_number(&question, of(thread));
    put_number(&question, key);
    return ask_address(&question, value);
}

static void target_to_host(DMPL_thread_t *thread, const void *data, void *result, int size)
{
    if (size <= 0 || size > MAX_MESSAGE / 2)
        return;
    struct message question = begin(ON_TARGET_TO_HOST);
    uint32_t count;
    put_number(&question, of(thread));
    put_bytes(&question, data, (size_t)size);
    struct message answer = ask(&question);
    char *swapped = take_bytes(&answer, &count);
    finish(&answer);
    memcpy(result, swapped, count < (uint32_t)size ? count : (uint32_t)size);
    free(swapped);
}

static void *get_storage(size_t size)
{
    struct message question = begin(ON_MALLOC);
    void *storage = size < MAX_MESSAGE ? malloc(size ? size : 1) : NULL;
    put_number(&question, (int64_t)size);
    put_number(&question, of(storage));
    if (ask_number(&question))
        return storage;
    free(storage);
    return NULL;
}

static void free_storage(void *storage)
{
    struct message question = begin(ON_FREE);
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
    struct message question = begin(ON_ERROR_STRING);
    uint32_t size;
    put_number(&question, code);
    struct message answer = ask(&question);
    char *text = take_bytes(&answer, &size);
    finish(&answer);
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
    struct message question = begin(ON_PRINTS);
    put_text(&question, text);
    struct message answer = ask(&question);
    finish(&answer);
}

static int size_of(DMPL_type_t *type)
{
    struct message question = begin(ON_SIZEOF);
    put_number(&question, of(type));
    return (int)ask_number(&question);
}

static int field_offset(DMPL_type_t *type, const char *name)
{
    struct message question = begin(ON_FIELD_OFFSET);
    put_number(&question, of(type));
    put_text(&question, name);
    return (int)ask_number(&question);
}

static int source_of(const char *mangled, int *length, char *name, int room, int *line)
{
    struct message question = begin(ON_SOURCE_OF);
    uint32_t size;
    put_text(&question, mangled);
    struct message answer = ask(&question);
    int64_t is_known = take_number(&answer);
    char *found = take_bytes(&answer, &size);
    int number = (int)take_number(&answer);
    finish(&answer);
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

static const DMPL_extended_callbacks_t callbacks = {
    {put_process_info, get_process_info, put_thread_info, get_thread_info, get_process, get_type_sizes, find_symbol,
     find_type, get_data, get_pthread_key, target_to_host, get_storage, free_storage, error_string, prints},
    size_of, field_offset, source_of,
};

/* The library */

static struct {
    __typeof__(&DMPL_version_compatibility) version_compatibility;
    __typeof__(&DMPL_version_string) version_string;
    __typeof__(&DMPL_error_string) error_string;
    __typeof__(&DMPL_destroy_process_info) destroy_process_info;
    __typeof__(&DMPL_destroy_thread_info) destroy_thread_info;
    __typeof__(&DMPL_demangle_name) demangle_name;
    __typeof__(&DMPL_get_tls_address) get_tls_address;
    __typeof__(&DMPL_get_rtl_names) get_rtl_names;
    __typeof__(&DMPL_initialise) initialise;
} library;

static const char *const functions[] = {
    "DMPL_version_compatibility", "DMPL_version_string", "DMPL_error_string", "DMPL_destroy_process_info",
    "DMPL_destroy_thread_info", "DMPL_demangle_name", "DMPL_get_tls_address", "DMPL_get_rtl_names",
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* Loads the files; says why not, or which functions are missing. */
static void load(int count, char **steps, struct message *answer)
{
    void *handle = NULL;
    for (int at = 0; at + 2 < count; at += 3) {
        char path[64];
        int mode = RTLD_NOW | (atoi(steps[at + 2]) ? RTLD_GLOBAL : RTLD_LOCAL);
        snprintf(path, sizeof path, "/proc/self/fd/%s", steps[at + 1]);
        /* What is there already stays: a second C library would be another one. */
        handle = at + 3 < count ? dlopen(steps[at], mode | RTLD_NOLOAD) : NULL;
        if (!handle)
            handle = dlopen(path, mode);
        if (!handle)
            break;
    }
    put_number(answer, handle != NULL);
    put_text(answer, handle ? "" : dlerror());
    char missing[512] = "";
    void **places = (void **)&library;
    for (size_t at = 0; handle && at < FUNCTIONS; at++) {
        places[at] = dlsym(handle, functions[at]);
        if (!places[at])
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s ", functions[at]);
    }
    if (handle) {
        void *initialise = dlsym(handle, "DMPL_initialise");
        places[FUNCTIONS] = initialise ? initialise : dlsym(handle, "DMPL_initialize");
        if (!places[FUNCTIONS])
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "DMPL_initialise");
    }
    size_t length = strlen(missing);
    if (length && missing[length - 1] == ' ')
        missing[length - 1] = 0;
    put_text(answer, missing);
    int is_whole = handle && !*missing;
    put_number(answer, is_whole ? library.version_compatibility() : 0);
    put_text(answer, is_whole ? library.version_string() : "");
}

static void demangle(struct message *question, struct message *answer)
{
    uint32_t size;
    char *mangled = take_bytes(question, &size);
    int64_t wanted = take_number(question);
    int room = wanted < 0 ? 0 : wanted > MAX_NAME ? MAX_NAME : (int)wanted;
    char *buffer = get((size_t)room + 1);
    int length = 0, flags = 0, line = 0;
    memset(buffer, 0, (size_t)room + 1);
    put_number(answer, library.demangle_name(mangled, &length, buffer, room, &flags, &line));
    buffer[room] = 0;
    put_number(answer, length);
    put_text(answer, buffer);
    put_number(answer, flags);
    put_number(answer, line);
    free(buffer);
    free(mangled);
}

static void serve(struct message *question, struct message *answer, int count, char **steps)
{
    DMPL_taddr_t address = 0;
    void *thread;
    switch (question->number) {
    case HELLO:
        load(count, steps, answer);
        return;
    case INITIALISE:
        take_number(question);
        put_number(answer, library.initialise(&callbacks.table));
        return;
    case ERROR_STRING:
        put_text(answer, library.error_string((int)take_number(question)));
        return;
    case DESTROY_PROCESS_INFO:
        put_number(answer, library.destroy_process_info(to(take_number(question))));
        return;
    case DESTROY_THREAD_INFO:
        put_number(answer, library.destroy_thread_info(to(take_number(question))));
        return;
    case DEMANGLE_NAME:
        demangle(question, answer);
        return;
    case GET_TLS_ADDRESS:
        thread = to(take_number(question));
        put_number(answer, library.get_tls_address(thread, (DMPL_taddr_t)take_number(question), &address));
        put_number(answer, (int64_t)address);
        return;
    case GET_RTL_NAMES: {
        const DMPL_rtl_names *names = library.get_rtl_names((int)take_number(question));
        put_number(answer, names != NULL);
        put_text(answer, names ? names->main_task_dispatcher : "");
        put_text(answer, names ? names->microtask_invoker : "");
        return;
    }
    default:
        stop();
    }
}

/* The kernel ends this process when the debugger's end of the pipe is closed, whatever runs here meanwhile. */
static void end_with(int lifeline)
{
    char nothing;
    fcntl(lifeline, F_SETOWN, getpid());
    fcntl(lifeline, F_SETSIG, SIGKILL);
    fcntl(lifeline, F_SETFL, fcntl(lifeline, F_GETFL) | O_ASYNC | O_NONBLOCK);
    if (read(lifeline, &nothing, 1) == 0)
        stop();
}

static void confine(uint64_t memory)
{
    struct rlimit none = {0, 0}, most = {(rlim_t)memory, (rlim_t)memory};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    if ((uint64_t)most.rlim_cur == memory)
        setrlimit(RLIMIT_AS, &most);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 1;
    end = atoi(argv[1]);
    end_with(STDIN_FILENO);
    confine(strtoull(argv[2], NULL, 10));
    for (;;) {
        struct message question = receive(), answer = begin(RESULT);
        serve(&question, &answer, argc - 3, argv + 3);
        finish(&question);
        send_message(&answer);
    }
}
