/* OMPD: makes the calls of the host's batches, and serves what the library calls back for. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

enum rc {
    OK, UNAVAILABLE, STALE_HANDLE, BAD_INPUT, ERROR, UNSUPPORTED, NEEDS_STATE_TRACKING, INCOMPATIBLE, DEVICE_READ_ERROR,
    DEVICE_WRITE_ERROR, NOMEM, INCOMPLETE, CALLBACK_ERROR, INCOMPATIBLE_HANDLE, RC_COUNT
};
enum { ASK_SIZES = 1, ASK_SYMBOL, ASK_MEMORY, ASK_STRING, ASK_THREAD };
enum { SIZES = 1, SYMBOL, PAGES, BYTES, THREAD };
enum { MAX_ID = 64, MAX_ROWS = 4096, MAX_ALL_ROWS = MAX_MESSAGE / 2 };
#define MAX_ALLOCATED ((uint64_t)1 << 30)
#define UNWRITTEN (-0x6F6D70645F6E6F6ELL)

struct PACKED batch { uint32_t releases, forgets, adds, calls; };
struct PACKED call { uint16_t function, count; uint32_t makes; uint64_t words[5]; };
struct PACKED results { uint32_t count, blocks, kilobytes; };
struct PACKED result { int32_t code; uint32_t outcome, rows, begun; uint64_t words[4]; };
struct PACKED callback { uint32_t which, context; uint64_t thread, words[3]; };
struct PACKED answer { int32_t code; uint32_t entries; };
struct PACKED entry { uint32_t what, context; uint64_t first, second; uint32_t size; };

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

static bool is_elsewhere; /* whether the library has called from another thread than the one that called it */
static void *entry_points[FUNCTION_COUNT];

/* What the library has allocated */

struct block {
    struct block *next;
    size_t size;
};
enum { BUCKETS = 1024 };
static struct block *blocks[BUCKETS];
static uint32_t block_count;
static uint64_t allocated;

static size_t bucket_of(const void *block)
{
    return (uintptr_t)block / sizeof(void *) % BUCKETS;
}

static void *take_block(uint64_t size)
{
    if (size > MAX_ALLOCATED || allocated + size > MAX_ALLOCATED)
        return NULL;
    struct block *block = calloc(1, sizeof *block + (size_t)size);
    if (!block)
        return NULL;
    block->size = (size_t)size;
    block->next = blocks[bucket_of(block)];
    blocks[bucket_of(block)] = block;
    block_count++;
    allocated += size;
    return block + 1;
}

static bool give_block(void *memory)
{
    struct block *wanted = (struct block *)memory - 1;
    for (struct block **at = &blocks[bucket_of(wanted)]; *at; at = &(*at)->next)
        if (*at == wanted) {
            *at = wanted->next;
            block_count--;
            allocated -= wanted->size;
            free(wanted);
            return true;
        }
    return false;
}

/* What is known of a context */

struct page {
    struct page *next;
    uint64_t address;
    char bytes[PAGE];
};
struct space {
    struct space *next;
    uint32_t context;
    struct page *pages[BUCKETS];
    size_t page_count;
    bool has_sizes, is_swapped;
    uint8_t sizes[6];
};
static struct space *spaces;

static struct space *space_of(const void *context)
{
    uint32_t number = (uint32_t)(uintptr_t)context;
    for (struct space *space = spaces; space; space = space->next)
        if (space->context == number)
            return space;
    return NULL;
}

static void add_space(uint32_t context)
{
    struct space *space = get(sizeof *space);
    space->context = context;
    space->next = spaces;
    spaces = space;
}

static void drop_pages(struct space *space)
{
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct page *page = space->pages[bucket], *next; page; page = next) {
            next = page->next;
            free(page);
        }
        space->pages[bucket] = NULL;
    }
    space->page_count = 0;
}

static void drop_space(uint32_t context)
{
    for (struct space **at = &spaces; *at; at = &(*at)->next)
        if ((*at)->context == context) {
            struct space *space = *at;
            *at = space->next;
            drop_pages(space);
            free(space);
            return;
        }
}

static struct page *page_at(struct space *space, uint64_t address)
{
    struct page *page = space->pages[address / PAGE % BUCKETS];
    while (page && page->address != address)
        page = page->next;
    return page;
}

static void keep_pages(struct space *space, uint64_t address, const char *bytes, size_t size)
{
    if (space->page_count + size / PAGE > MAX_PAGES)
        drop_pages(space);
    for (; size >= PAGE; address += PAGE, bytes += PAGE, size -= PAGE) {
        struct page *page = page_at(space, address);
        if (!page) {
            page = get(sizeof *page);
            page->address = address;
            page->next = space->pages[address / PAGE % BUCKETS];
            space->pages[address / PAGE % BUCKETS] = page;
            space->page_count++;
        }
        memcpy(page->bytes, bytes, PAGE);
    }
}

static bool known_bytes(struct space *space, uint64_t address, size_t size, char *buffer)
{
    while (size) {
        struct page *page = page_at(space, address - address % PAGE);
        size_t inside = (size_t)(address % PAGE), part = PAGE - inside < size ? PAGE - inside : size;
        if (!page)
            return false;
        memcpy(buffer, page->bytes + inside, part);
        address += part;
        buffer += part;
        size -= part;
    }
    return true;
}

/* Callbacks: the host answers what is not known here. An entry that is wanted is copied. */

struct wanted {
    uint32_t what;
    uint64_t first, second; /* words of the entry */
    char *bytes;            /* room for its bytes, or NULL */
    size_t room, size;
    bool found;
};

static int ask(struct space *space, uint32_t which, uint64_t thread, uint64_t first, uint64_t second, const void *bytes,
               size_t size, struct wanted *wanted)
{
    struct callback question = {which, space->context, thread, {first, second, 0}};
    struct buffer asked = {0}, body;
    put(&asked, &question, sizeof question);
    put(&asked, bytes, size);
    ask_host(&asked, &body);
    struct answer answer;
    take(&body, &answer, sizeof answer);
    for (uint32_t number = 0; number < answer.entries; number++) {
        struct entry entry;
        take(&body, &entry, sizeof entry);
        const char *found = body.bytes + body.at;
        if (entry.size > body.size - body.at)
            stop("an answer is too short");
        body.at += entry.size;
        struct space *of = space_of((void *)(uintptr_t)entry.context);
        if (of && entry.what == PAGES)
            keep_pages(of, entry.first, found, entry.size);
        if (of && entry.what == SIZES && entry.size >= sizeof of->sizes) {
            memcpy(of->sizes, found, sizeof of->sizes);
            of->is_swapped = entry.first != 0;
            of->has_sizes = true;
        }
        bool is_wanted = of == space && entry.what == wanted->what && !wanted->found;
        if (is_wanted && (entry.what == SYMBOL || entry.what == THREAD))
            is_wanted = entry.first == wanted->first && entry.size == size && !memcmp(found, bytes, size);
        if (is_wanted) {
            wanted->first = entry.first;
            wanted->second = entry.second;
            wanted->size = entry.size < wanted->room ? entry.size : wanted->room;
            if (wanted->bytes)
                memcpy(wanted->bytes, found, wanted->size);
            wanted->found = true;
        }
    }
    free(body.bytes);
    return answer.code;
}

/* Whose thread calls back. */
static bool is_own(void)
{
    if (is_own_thread())
        return true;
    is_elsewhere = true;
    return false;
}

#define SPACE(context)                                                                                                 \
    struct space *space;                                                                                               \
    if (!is_own())                                                                                                     \
        return CALLBACK_ERROR;                                                                                         \
    space = space_of(context);                                                                                         \
    if (!space)                                                                                                        \
    return STALE_HANDLE

struct address { uint64_t segment, address; };

static int on_alloc(uint64_t size, void **memory)
{
    if (!is_own() || !memory)
        return CALLBACK_ERROR;
    *memory = take_block(size);
    return *memory ? OK : NOMEM;
}

static int on_free(void *memory)
{
    if (!is_own())
        return CALLBACK_ERROR;
    if (memory && !give_block(memory))
        warn("frees what it has not allocated");
    return OK;
}

static int on_print(const char *text, int category)
{
    (void)category;
    if (!is_own() || !text)
        return CALLBACK_ERROR;
    warn(text);
    return OK;
}

static int need_sizes(struct space *space)
{
    struct wanted wanted = {.what = SIZES};
    int code = space->has_sizes ? OK : ask(space, ASK_SIZES, 0, 0, 0, NULL, 0, &wanted);
    return code == OK && !space->has_sizes ? ERROR : code;
}

static int on_sizes(void *context, uint8_t *sizes)
{
    SPACE(context);
    int code = need_sizes(space);
    if (code == OK)
        memcpy(sizes, space->sizes, sizeof space->sizes);
    return code;
}

static int on_symbol(void *context, void *thread, const char *name, struct address *address, const char *file)
{
    SPACE(context);
    (void)file;
    if (!name || !address)
        return BAD_INPUT;
    struct wanted wanted = {.what = SYMBOL, .first = (uintptr_t)thread};
    int code = ask(space, ASK_SYMBOL, (uintptr_t)thread, 0, 0, name, strnlen(name, MAX_TEXT), &wanted);
    if (code == OK && !wanted.found)
        code = ERROR;
    if (code == OK)
        *address = (struct address){0, wanted.second};
    return code;
}

static int on_read(void *context, void *thread, const struct address *address, uint64_t size, void *buffer)
{
    SPACE(context);
    (void)thread;
    if (!address || !buffer || size > MAX_MESSAGE / 2)
        return BAD_INPUT;
    if (known_bytes(space, address->address, (size_t)size, buffer))
        return OK;
    struct wanted wanted = {.what = BYTES, .bytes = buffer, .room = (size_t)size};
    int code = ask(space, ASK_MEMORY, 0, address->address, size, NULL, 0, &wanted);
    if (code == OK && !(wanted.found && wanted.size == size) &&
        !known_bytes(space, address->address, (size_t)size, buffer))
        code = ERROR;
    return code;
}

static int on_write(void *context, void *thread, const struct address *address, uint64_t size, const void *buffer)
{
    (void)context, (void)thread, (void)address, (void)size, (void)buffer;
    if (is_own())
        warn("wants to write memory, which is refused");
    return UNSUPPORTED;
}

static int on_string(void *context, void *thread, const struct address *address, uint64_t size, void *buffer)
{
    SPACE(context);
    (void)thread;
    if (!address || !buffer || !size || size > MAX_TEXT)
        return BAD_INPUT;
    struct wanted wanted = {.what = BYTES, .bytes = buffer, .room = (size_t)size};
    int code = ask(space, ASK_STRING, 0, address->address, size, NULL, 0, &wanted);
    return code == OK && !wanted.found ? ERROR : code;
}

static int convert(void *context, const void *from, uint64_t unit, uint64_t count, void *to)
{
    SPACE(context);
    if (!from || !to || !unit || unit > 16 || count > MAX_MESSAGE)
        return BAD_INPUT;
    int code = need_sizes(space);
    if (code != OK)
        return code;
    for (uint64_t at = 0; at < count; at++) {
        char value[16];
        memcpy(value, (const char *)from + at * unit, (size_t)unit);
        for (uint64_t byte = 0; byte < unit; byte++)
            ((char *)to)[at * unit + byte] = value[space->is_swapped ? unit - 1 - byte : byte];
    }
    return OK;
}

static int on_thread(void *context, uint64_t kind, uint64_t size, const void *id, void **thread)
{
    SPACE(context);
    if (!id || !thread || size > MAX_ID)
        return BAD_INPUT;
    struct wanted wanted = {.what = THREAD, .first = kind};
    int code = ask(space, ASK_THREAD, 0, kind, 0, id, (size_t)size, &wanted);
    if (code == OK && !wanted.found)
        code = ERROR;
    if (code == OK)
        *thread = (void *)(uintptr_t)wanted.second;
    return code;
}

static void *const callbacks[] = {
    on_alloc, on_free, on_print, on_sizes, on_symbol, on_read, on_write, on_string, convert, convert, on_thread,
};

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

static struct result failed(int code, enum outcome outcome)
{
    struct result result = {.code = code, .outcome = outcome};
    return result;
}

static struct result by_code(int code)
{
    struct result result = {.code = code};
    if (code >= 0 && code < RC_COUNT)
        return result;
    result.words[0] = (uint32_t)code;
    result.code = ERROR;
    result.outcome = BAD_CODE;
    return result;
}

/* A row with a text of the library's, which is freed if it is a block. */
static bool put_text(struct buffer *rows, uint64_t first, uint64_t second, char *text)
{
    size_t size = text ? strnlen(text, MAX_TEXT) : MAX_TEXT;
    if (size >= MAX_TEXT)
        return false;
    put_row(rows, first, second, text, size);
    give_block(text);
    return true;
}

static struct result with_rows(struct buffer *rows, size_t start, uint32_t count)
{
    struct result result = {.rows = count};
    result.words[0] = (uint64_t)start << 32 | (rows->size - start);
    return result;
}

static struct result enumerate(uint32_t function, void *space, struct buffer *rows)
{
    bool is_states = function == ENUMERATE_STATES;
    uint64_t current = is_states ? 0x102 : 0;
    uint64_t *seen = get(MAX_ROWS * sizeof *seen);
    size_t start = rows->size;
    uint32_t count = 0;
    struct result result = failed(ERROR, ENDLESS);
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
            result = failed(ERROR, BAD_TEXT);
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
    for (; vector && vector[count] && count < MAX_ROWS && rows->size - start < MAX_TEXT; count++)
        put_row(rows, 0, 0, vector[count], strnlen(vector[count], MAX_TEXT));
    bool is_whole = vector && !vector[count];
    if (entry_points[REL_DISPLAY]) {
        struct words given = {{(uintptr_t)&vector}, 1};
        run(REL_DISPLAY, &given);
    }
    return is_whole ? with_rows(rows, start, count) : failed(ERROR, BAD_TEXT);
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
    if (count < 0 || count > MAX_ROWS || !kinds || !sizes)
        return failed(ERROR, BAD_SIZE);
    for (int at = 0; at < count; at++)
        put_row(rows, kinds[at], sizes[at], NULL, 0);
    give_block(kinds);
    give_block(sizes);
    return with_rows(rows, start, (uint32_t)count);
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
                return failed(ERROR, NO_HANDLE);
            struct held *held = new_held(call->makes);
            held->context = context;
            held->pointer = pointer;
            held->letter = letter;
        } else if (letter == 's') {
            size_t start = rows->size;
            if (!put_text(rows, 0, 0, pointer))
                return failed(ERROR, BAD_TEXT);
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

static struct result perform(const struct call *call, const char *blob, size_t blob_size, struct buffer *rows)
{
    uint32_t function = call->function, context = 0;
    if (function < PROCESS_INITIALIZE || function >= REL_SPACE || !entry_points[function])
        return failed(UNSUPPORTED, ABSENT);
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
                return failed(BAD_INPUT, BAD_HANDLE);
            if (!held->letter)
                return failed(held->code ? held->code : ERROR, NOT_CALLED);
            if (letter != '*' && letter != held->letter)
                return failed(BAD_INPUT, BAD_HANDLE);
            context = context ? context : held->context;
            push(&words, (uintptr_t)held->pointer, false);
        } else if (letter == 'b') {
            size_t start = (size_t)(word >> 32), size = (size_t)(word & 0xFFFFFFFF);
            if (start > blob_size || size > blob_size - start)
                return failed(BAD_INPUT, BAD_SIZE);
            /* That of a device stays the library's to look at. */
            char *bytes = get(size);
            memcpy(bytes, blob + start, size);
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
        return failed(BAD_INPUT, BAD_SIZE);
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

/* Batches */

static void serve(struct buffer *body)
{
    struct batch batch;
    struct buffer found = {0}, rows = {0}, message = {0};
    take(body, &batch, sizeof batch);
    uint64_t numbers = (uint64_t)batch.releases + batch.forgets + 2 * (uint64_t)batch.adds;
    uint64_t calls_at = sizeof batch + 4 * numbers, blob_at = calls_at + (uint64_t)batch.calls * sizeof(struct call);
    if (blob_at > body->size)
        stop("a batch is too short");
    const char *at = body->bytes + sizeof batch, *adds = at + 4 * ((size_t)batch.releases + batch.forgets);
    uint32_t number;
    for (uint32_t index = 0; index < batch.adds; index++) {
        memcpy(&number, adds + 8 * (size_t)index, sizeof number);
        add_space(number);
    }
    for (uint32_t index = 0; index < batch.releases + batch.forgets; index++) {
        memcpy(&number, at + 4 * (size_t)index, sizeof number);
        struct held *held = index < batch.releases ? held_at(number) : NULL;
        if (index >= batch.releases)
            forget(number);
        else if (held)
            release_held(held);
    }
    for (uint32_t index = 0; index < batch.calls; index++) {
        struct call call;
        memcpy(&call, body->bytes + calls_at + (uint64_t)index * sizeof call, sizeof call);
        size_t start = rows.size;
        struct result result = perform(&call, body->bytes + blob_at, (size_t)(body->size - blob_at), &rows);
        if (call.makes && (result.code || result.outcome) && !held_at(call.makes))
            new_held(call.makes)->code = result.code;
        if (rows.size > MAX_ALL_ROWS) {
            rows.size = start;
            result = failed(ERROR, BAD_SIZE);
        }
        result.begun = calls_begun();
        put(&found, &result, sizeof result);
    }
    if (is_elsewhere) {
        is_elsewhere = false;
        warn("called back from a thread of its own, which is refused");
    }
    struct results head = {batch.calls, block_count, (uint32_t)(allocated >> 10)};
    put(&message, &head, sizeof head);
    put(&message, found.bytes, found.size);
    put(&message, rows.bytes, rows.size);
    send_message(RESULTS, &message);
    free(found.bytes);
    free(rows.bytes);
}

/* Beginning and end */

static void start(void *library)
{
    for (uint32_t function = 1; function < FUNCTION_COUNT; function++)
        entry_points[function] = dlsym(library, FUNCTIONS[function].name);
    static const uint8_t needed[] = {GET_API_VERSION, INITIALIZE, PROCESS_INITIALIZE};
    for (size_t at = 0; at < sizeof needed; at++)
        if (!entry_points[needed[at]])
            refuse(ABSENT, 0, FUNCTIONS[needed[at]].name, 0);
    int64_t version = 201811;
    const char *text = "";
    struct words words = {{(uintptr_t)&version}, 1};
    int code = run(GET_API_VERSION, &words);
    if (code != OK)
        refuse(CALLED, code, FUNCTIONS[GET_API_VERSION].name, 0);
    words.words[0] = (uintptr_t)&text;
    if (entry_points[GET_VERSION_STRING])
        run(GET_VERSION_STRING, &words);
    words.count = 0;
    push(&words, (uint64_t)version, true);
    push(&words, (uintptr_t)callbacks, false);
    code = run(INITIALIZE, &words);
    if (code != OK)
        refuse(CALLED, code, FUNCTIONS[INITIALIZE].name, version);
    const char *names[FUNCTION_COUNT];
    uint32_t numbers[FUNCTION_COUNT], count = 0;
    for (uint32_t function = 1; function < FUNCTION_COUNT; function++)
        if (entry_points[function]) {
            names[count] = FUNCTIONS[function].name;
            numbers[count++] = function;
        }
    ready(version, text, names, numbers, count);
}

static void finish(void)
{
    struct words none = {{0}, 0};
    struct buffer message = {0};
    while (spaces)
        forget(spaces->context);
    int code = entry_points[FINALIZE] ? run(FINALIZE, &none) : OK;
    struct results head = {(uint32_t)code, block_count, 0};
    put(&message, &head, sizeof head);
    send_message(FINISHED, &message);
}

const struct host ompd_host = {"ompd", start, serve, finish};
