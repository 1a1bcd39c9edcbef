/* OMPD: makes the calls of the host's batches. */
#include "target.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 4096, MAX_VECTOR = 1 << 16, BUCKETS = 1024 };
#define UNWRITTEN (-0x6F6D70645F6E6F6ELL)

static const struct {
    const char *name, *takes, *gives;
} FUNCTIONS[] = {
    {"", "", ""},
    {"ompd_process_initialize", "c", "S"}, {"ompd_device_initialize", "Scub", "S"}, {"ompd_get_omp_version", "S", "w"},
    {"ompd_get_omp_version_string", "S", "s"}, {"ompd_get_thread_in_parallel", "Pi", "T"},
    {"ompd_get_thread_handle", "Sub", "T"}, {"ompd_thread_handle_compare", "TT", "i"}, {"ompd_get_thread_id", "Tuz", "b"},
    {"ompd_get_curr_parallel_handle", "T", "P"}, {"ompd_get_enclosing_parallel_handle", "P", "P"},
    {"ompd_get_task_parallel_handle", "K", "P"}, {"ompd_parallel_handle_compare", "PP", "i"},
    {"ompd_get_curr_task_handle", "T", "K"}, {"ompd_get_generating_task_handle", "K", "K"},
    {"ompd_get_scheduling_task_handle", "K", "K"}, {"ompd_get_task_in_parallel", "Pi", "K"},
    {"ompd_task_handle_compare", "KK", "i"}, {"ompd_get_task_function", "K", "a"}, {"ompd_get_task_frame", "K", "ff"},
    {"ompd_enumerate_states", "S", "r"}, {"ompd_get_state", "T", "wu"}, {"ompd_get_display_control_vars", "S", "r"},
    {"ompd_enumerate_icvs", "S", "r"}, {"ompd_get_icv_from_scope", "*iu", "w"},
    {"ompd_get_icv_string_from_scope", "*iu", "s"}, {"ompd_get_tool_data", "*i", "wa"},
    {"ompd_get_device_thread_id_kinds", "S", "r"}, {"ompd_get_device_from_thread", "T", "d"},
    {"ompd_rel_address_space_handle", "S", ""}, {"ompd_rel_thread_handle", "T", ""},
    {"ompd_rel_parallel_handle", "P", ""}, {"ompd_rel_task_handle", "K", ""}, {"ompd_rel_display_control_vars", "r", ""},
    {"ompd_get_api_version", "", "w"}, {"ompd_get_version_string", "", "t"}, {"ompd_initialize", "wr", ""},
    {"ompd_finalize", "", ""},
};
enum { FUNCTION_COUNT = sizeof FUNCTIONS / sizeof *FUNCTIONS };
enum {
    PROCESS_INITIALIZE = 1, DEVICE_INITIALIZE = 2, ENUMERATE_STATES = 20, DISPLAY_CONTROL_VARS = 22, ENUMERATE_ICVS = 23,
    THREAD_ID_KINDS = 27, REL_SPACE = 29, REL_THREAD, REL_PARALLEL, REL_TASK, REL_DISPLAY, GET_API_VERSION = 34,
    GET_VERSION_STRING, INITIALIZE, FINALIZE
};

static void *entry_points[FUNCTION_COUNT];

/* Handles: by the number that the host gave them */

struct held {
    struct held *next;
    uint32_t number, context;
    void *pointer;
    char letter; /* 0 for one that a call failed to make */
    int code;
};
static struct held *handles[BUCKETS];

static struct held *held_at(uint32_t number)
{
    struct held *held = handles[number % BUCKETS];
    while (held && held->number != number)
        held = held->next;
    return held;
}

static struct held *new_held(uint32_t number)
{
    struct held *held = get(sizeof *held);
    held->number = number;
    held->next = handles[number % BUCKETS];
    handles[number % BUCKETS] = held;
    return held;
}

static void release_held(struct held *held)
{
    for (struct held **at = &handles[held->number % BUCKETS]; *at; at = &(*at)->next)
        if (*at == held) {
            *at = held->next;
            break;
        }
    const char *letters = "STPK", *place = held->letter ? strchr(letters, held->letter) : NULL;
    if (place && entry_points[REL_SPACE + (place - letters)]) {
        begin_call((uint32_t)(REL_SPACE + (place - letters)));
        ((int (*)(void *))entry_points[REL_SPACE + (place - letters)])(held->pointer);
        end_call();
    }
    free(held);
}

/* Address spaces last. */
static void forget(uint32_t context)
{
    for (int spaces_too = 0; spaces_too < 2; spaces_too++)
        for (size_t bucket = 0; bucket < BUCKETS; bucket++)
            for (struct held *held = handles[bucket], *next; held; held = next) {
                next = held->next;
                if (held->letter && held->context == context && (spaces_too || held->letter != 'S'))
                    release_held(held);
            }
    drop_space(context);
}

/* Calls. Each argument of the interface is a word of this machine, or two of them where it has 64 bits: so a function is
 * called with as many words as its arguments are. */

struct words {
    uintptr_t words[16];
    size_t count;
};

static void push(struct words *words, uint64_t value, bool is_wide)
{
    words->words[words->count++] = (uintptr_t)value;
    if (is_wide && sizeof(uintptr_t) == 4)
        words->words[words->count++] = (uintptr_t)(value >> 32);
}

static int run(uint32_t function, const struct words *words)
{
    const uintptr_t *w = words->words;
    begin_call(function);
    int code = ((int (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                         uintptr_t, uintptr_t))entry_points[function])(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7],
                                                                       w[8], w[9]);
    end_call();
    return code;
}

static struct result with_outcome(int code, enum outcome outcome)
{
    struct result result = {.code = code, .outcome = outcome};
    return result;
}

static struct result by_code(int code)
{
    struct result result = {.code = code};
    if (code >= 0 && code < RC_COUNT)
        return result;
    result.outcome = BAD_CODE;
    return result;
}

/* A row with a text of the library's, which is freed if it is a block. */
static bool put_text(struct buffer *rows, uint64_t first, uint64_t second, char *text)
{
    char *copy = text_at(text);
    give_block(text);
    if (copy)
        put_row(rows, first, second, copy, strlen(copy));
    free(copy);
    return copy != NULL;
}

static struct result enumerate(uint32_t function, void *space, struct buffer *rows)
{
    bool is_states = function == ENUMERATE_STATES;
    uint64_t current = is_states ? 0x102 : 0;
    uint64_t *seen = get(MAX_ROWS * sizeof *seen);
    size_t start = rows->size;
    uint32_t count = 0;
    struct result result = with_outcome(ERROR, ENDLESS);
    while (count < MAX_ROWS && rows->size - start < MAX_TEXT) {
        uint64_t next = 0;
        int64_t more_states = 0;
        int scope = 0, more_icvs = 0;
        char *name = NULL;
        struct words words = {0};
        push(&words, (uintptr_t)space, false);
        push(&words, current, true);
        push(&words, (uintptr_t)&next, false);
        push(&words, (uintptr_t)&name, false);
        if (!is_states)
            push(&words, (uintptr_t)&scope, false);
        push(&words, is_states ? (uintptr_t)&more_states : (uintptr_t)&more_icvs, false);
        int code = run(function, &words);
        if (code != OK) {
            result = by_code(code);
            break;
        }
        bool is_repeated = false;
        for (uint32_t at = 0; at < count; at++)
            is_repeated = is_repeated || seen[at] == next;
        if (is_repeated)
            break;
        if (!put_text(rows, next, (uint32_t)scope, name)) {
            result = with_outcome(ERROR, BAD_TEXT);
            break;
        }
        seen[count++] = current = next;
        if (!(is_states ? more_states != 0 : more_icvs != 0)) {
            result = with_rows(rows, start, count);
            break;
        }
    }
    free(seen);
    return result;
}

static struct result display(void *space, struct buffer *rows)
{
    const char *const *vector = NULL;
    size_t start = rows->size;
    uint32_t count = 0;
    struct words words = {0};
    push(&words, (uintptr_t)space, false);
    push(&words, (uintptr_t)&vector, false);
    int code = run(DISPLAY_CONTROL_VARS, &words);
    if (code != OK)
        return by_code(code);
    bool is_whole = false;
    for (const char *entry; count < MAX_VECTOR && rows->size - start < MAX_TEXT; count++) {
        if (!read_own(vector + count, &entry, sizeof entry))
            break;
        is_whole = !entry;
        char *text = is_whole ? NULL : text_at(entry);
        if (!text)
            break;
        put_row(rows, 0, 0, text, strlen(text));
        free(text);
    }
    if (entry_points[REL_DISPLAY]) {
        struct words given = {{(uintptr_t)&vector}, 1};
        run(REL_DISPLAY, &given);
    }
    return is_whole ? with_rows(rows, start, count) : with_outcome(ERROR, BAD_TEXT);
}

static struct result thread_id_kinds(void *space, struct buffer *rows)
{
    uint64_t *kinds = NULL, *sizes = NULL;
    int count = 0;
    size_t start = rows->size;
    struct words words = {0};
    push(&words, (uintptr_t)space, false);
    push(&words, (uintptr_t)&kinds, false);
    push(&words, (uintptr_t)&sizes, false);
    push(&words, (uintptr_t)&count, false);
    int code = run(THREAD_ID_KINDS, &words);
    if (code != OK)
        return by_code(code);
    if (count < 0 || count > MAX_ROWS)
        return with_outcome(ERROR, BAD_SIZE);
    bool is_whole = true;
    for (int at = 0; at < count && is_whole; at++) {
        uint64_t kind, size;
        is_whole = read_own(kinds + at, &kind, sizeof kind) && read_own(sizes + at, &size, sizeof size);
        if (is_whole)
            put_row(rows, kind, size, NULL, 0);
    }
    give_block(kinds);
    give_block(sizes);
    return is_whole ? with_rows(rows, start, (uint32_t)count) : with_outcome(ERROR, BAD_TEXT);
}

static bool is_space(const void *pointer)
{
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        for (struct held *held = handles[bucket]; held; held = held->next)
            if (held->letter == 'S' && held->pointer == pointer)
                return true;
    return false;
}

/* What the function has put into its places. */
static struct result given(uint32_t function, int code, const struct call *call, uint32_t context, size_t room,
                           char places[][64], struct buffer *rows)
{
    struct result result = {.code = code};
    size_t word = 0;
    for (size_t place = 0; FUNCTIONS[function].gives[place]; place++) {
        char letter = FUNCTIONS[function].gives[place];
        void *pointer;
        int narrow;
        int64_t flag;
        memcpy(&pointer, places[place], sizeof pointer);
        memcpy(&narrow, places[place], sizeof narrow);
        if (strchr("STPK", letter)) {
            if (!pointer)
                return with_outcome(ERROR, NO_HANDLE);
            struct held *held = new_held(call->makes);
            held->context = context;
            held->pointer = pointer;
            held->letter = letter;
        } else if (letter == 's') {
            size_t start = rows->size;
            if (!put_text(rows, 0, 0, pointer))
                return with_outcome(ERROR, BAD_TEXT);
            result = with_rows(rows, start, 1);
            result.code = code;
        } else if (letter == 'i') {
            result.words[word++] = (uint64_t)(int64_t)narrow;
        } else if (letter == 'd') {
            result.words[word++] = is_space(pointer);
        } else if (letter == 'a' || letter == 'f') {
            memcpy(&result.words[word++], places[place] + 8, 8);
            memcpy(&flag, places[place] + 16, sizeof flag);
            if (letter == 'f')
                result.words[word++] = (uint64_t)flag;
        } else {
            memcpy(&result.words[word++], places[place], letter == 'b' && room < 8 ? room : 8);
        }
    }
    return result;
}

static struct result call_function(const struct call *call, const struct buffer *blob, struct buffer *rows)
{
    uint32_t function = call->function, context = 0;
    bool is_callable = (function >= PROCESS_INITIALIZE && function < REL_SPACE) || function == FINALIZE;
    if (!is_callable || !entry_points[function])
        return with_outcome(UNSUPPORTED, ABSENT);
    char places[4][64];
    struct words words = {0};
    size_t room = 0;
    memset(places, 0, sizeof places);
    for (size_t at = 0; FUNCTIONS[function].takes[at]; at++) {
        char letter = FUNCTIONS[function].takes[at];
        uint64_t word = at < 5 ? call->words[at] : 0;
        if (strchr("STPK*", letter)) {
            struct held *held = held_at((uint32_t)word);
            if (!held)
                return with_outcome(BAD_INPUT, BAD_HANDLE);
            if (!held->letter)
                return with_outcome(held->code ? held->code : ERROR, NOT_CALLED);
            if (letter != '*' && letter != held->letter)
                return with_outcome(BAD_INPUT, BAD_HANDLE);
            context = context ? context : held->context;
            push(&words, (uintptr_t)held->pointer, false);
        } else if (letter == 'b') {
            size_t size;
            const char *given_bytes = in_blob(blob, word, &size);
            if (!given_bytes)
                return with_outcome(BAD_INPUT, BAD_SIZE);
            /* That of a device stays the library's to look at. */
            char *bytes = get(size);
            memcpy(bytes, given_bytes, size);
            push(&words, size, true);
            push(&words, (uintptr_t)bytes, false);
        } else if (letter == 'c' || letter == 'i') {
            context = letter == 'c' && !context ? (uint32_t)word : context;
            push(&words, (uint32_t)word, false);
        } else {
            if (letter == 'z')
                room = (size_t)word;
            push(&words, word, true);
        }
    }
    if (room > MAX_ID)
        return with_outcome(BAD_INPUT, BAD_SIZE);
    if (function == DEVICE_INITIALIZE)
        context = (uint32_t)call->words[1];
    switch (function) {
    case ENUMERATE_STATES:
    case ENUMERATE_ICVS: return enumerate(function, (void *)words.words[0], rows);
    case DISPLAY_CONTROL_VARS: return display((void *)words.words[0], rows);
    case THREAD_ID_KINDS: return thread_id_kinds((void *)words.words[0], rows);
    }
    for (size_t place = 0; FUNCTIONS[function].gives[place]; place++) {
        int64_t unwritten = UNWRITTEN;
        if (FUNCTIONS[function].gives[place] == 'f')
            memcpy(places[place] + 16, &unwritten, sizeof unwritten);
        push(&words, (uintptr_t)places[place], false);
    }
    int code = run(function, &words);
    return code == OK || code == INCOMPLETE ? given(function, code, call, context, room, places, rows) : by_code(code);
}

/* Releases handles, or all of contexts: the numbers are in the blob. */
static struct result release_all(const struct call *call, const struct buffer *blob)
{
    size_t size;
    const char *numbers = in_blob(blob, call->words[0], &size);
    if (!numbers)
        return with_outcome(BAD_INPUT, BAD_SIZE);
    for (size_t at = 0; at + sizeof(uint32_t) <= size; at += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, numbers + at, sizeof number);
        struct held *held = call->function == RELEASE ? held_at(number) : NULL;
        if (call->function == FORGET)
            forget(number);
        else if (held)
            release_held(held);
    }
    return with_outcome(OK, CALLED);
}

static struct result perform(const struct call *call, const struct buffer *blob, struct buffer *rows)
{
    if (call->function == ADD) {
        add_space((uint32_t)call->words[0]);
        return with_outcome(OK, CALLED);
    }
    if (call->function == RELEASE || call->function == FORGET)
        return release_all(call, blob);
    struct result result = call_function(call, blob, rows);
    if (call->makes && (result.code || result.outcome) && !held_at(call->makes))
        new_held(call->makes)->code = result.code;
    return result;
}

static uint32_t allocated_blocks(void)
{
    return block_count;
}

/* Beginning */

static void start(void *library)
{
    for (uint32_t function = 1; function < FUNCTION_COUNT; function++)
        entry_points[function] = dlsym(library, FUNCTIONS[function].name);
    static const uint8_t needed[] = {GET_API_VERSION, INITIALIZE, PROCESS_INITIALIZE};
    for (size_t at = 0; at < sizeof needed; at++)
        if (!entry_points[needed[at]])
            refuse(ABSENT, 0, FUNCTIONS[needed[at]].name);
    int64_t version = 201811;
    const char *text = "";
    struct words words = {{(uintptr_t)&version}, 1};
    int code = run(GET_API_VERSION, &words);
    if (code != OK)
        refuse(CALLED, code, FUNCTIONS[GET_API_VERSION].name);
    words.words[0] = (uintptr_t)&text;
    if (entry_points[GET_VERSION_STRING])
        run(GET_VERSION_STRING, &words);
    words.count = 0;
    push(&words, (uint64_t)version, true);
    push(&words, (uintptr_t)callbacks, false);
    code = run(INITIALIZE, &words);
    if (code != OK)
        refuse(CALLED, code, FUNCTIONS[INITIALIZE].name);
    const char *names[FUNCTION_COUNT];
    uint32_t numbers[FUNCTION_COUNT], count = 0;
    for (uint32_t function = 1; function < FUNCTION_COUNT; function++)
        if (entry_points[function]) {
            names[count] = FUNCTIONS[function].name;
            numbers[count++] = function;
        }
    ready(version, text, names, numbers, count);
}

const struct host ompd_host = {"ompd", start, perform, allocated_blocks};
