/* OMPD: what the library calls back for, and what is known of the processes and devices that it reads. */
#define _FILE_OFFSET_BITS 64 /* addresses of 32 bits, too, may be above half of them */
#include "target.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_SIZES = 1, ASK_SYMBOL, ASK_MEMORY, ASK_STRING, ASK_THREAD };
enum { SIZES = 1, SYMBOL, PAGES, BYTES, THREAD };
enum { BUCKETS = 1024, MAX_UNIT = 64, LOWEST = 4096 };
#define MAX_ALLOCATED ((uint64_t)1 << 30)
#define MAX_READ ((uint64_t)1 << 28)

/* This process's own memory */

bool read_own(const void *address, void *buffer, size_t size)
{
    static int memory = -1;
    if (memory < 0)
        memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    return memory >= 0 && pread(memory, buffer, size, (off_t)(uintptr_t)address) == (ssize_t)size;
}

char *text_at(const char *address)
{
    struct buffer text = {0};
    for (char piece[PAGE]; (uintptr_t)address >= LOWEST && text.size < MAX_TEXT;) {
        size_t size = PAGE - (uintptr_t)address % PAGE;
        if (!read_own(address, piece, size))
            break;
        size_t part = strnlen(piece, size);
        put(&text, piece, part);
        if (part < size) {
            put(&text, "", 1);
            return text.bytes;
        }
        address += size;
    }
    free(text.bytes);
    return NULL;
}

/* What the library has allocated */

struct block {
    struct block *next;
    size_t size;
};
static struct block *blocks[BUCKETS];
uint32_t block_count;
uint64_t allocated;

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

bool give_block(void *memory)
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

void add_space(uint32_t context)
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

void drop_space(uint32_t context)
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
    struct buffer body;
    ask_host(&question, bytes, size, &body);
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
    return BAD_INPUT

struct address { uint64_t segment, address; };

static int on_alloc(uint64_t size, void **memory)
{
    if (!is_own())
        return CALLBACK_ERROR;
    if (!memory)
        return BAD_INPUT;
    *memory = take_block(size);
    return *memory ? OK : NOMEM;
}

static int on_free(void *memory)
{
    if (!is_own())
        return CALLBACK_ERROR;
    return !memory || give_block(memory) ? OK : BAD_INPUT;
}

static int on_print(const char *text, int category)
{
    (void)category;
    if (!is_own())
        return CALLBACK_ERROR;
    char *copy = text_at(text);
    if (!copy)
        return BAD_INPUT;
    warn(copy);
    free(copy);
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
    if (!sizes)
        return BAD_INPUT;
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
    if (!address || !buffer)
        return BAD_INPUT;
    if (size > MAX_READ || address->address + size < address->address)
        return DEVICE_READ_ERROR;
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
    if (!is_own())
        return CALLBACK_ERROR;
    warn("wanted to write to the target, which is refused");
    return DEVICE_WRITE_ERROR;
}

static int on_string(void *context, void *thread, const struct address *address, uint64_t size, void *buffer)
{
    SPACE(context);
    (void)thread;
    if (!address || !buffer)
        return BAD_INPUT;
    if (!size)
        return OK;
    size = size < MAX_READ ? size : MAX_READ;
    struct wanted wanted = {.what = BYTES, .bytes = buffer, .room = (size_t)size};
    int code = ask(space, ASK_STRING, 0, address->address, size, NULL, 0, &wanted);
    return code == OK && !wanted.found ? ERROR : code;
}

static int convert(void *context, const void *from, uint64_t unit, uint64_t count, void *to)
{
    SPACE(context);
    if (!from || !to || unit > MAX_UNIT || count > MAX_READ || unit * count > MAX_READ)
        return BAD_INPUT;
    int code = need_sizes(space);
    if (code != OK)
        return code;
    for (uint64_t at = 0; at < count; at++) {
        char value[MAX_UNIT];
        memcpy(value, (const char *)from + at * unit, (size_t)unit);
        for (uint64_t byte = 0; byte < unit; byte++)
            ((char *)to)[at * unit + byte] = value[space->is_swapped ? unit - 1 - byte : byte];
    }
    return OK;
}

static int on_thread(void *context, uint64_t kind, uint64_t size, const void *id, void **thread)
{
    SPACE(context);
    if (!id || !thread || !size || size > MAX_ID)
        return BAD_INPUT;
    struct wanted wanted = {.what = THREAD, .first = kind};
    int code = ask(space, ASK_THREAD, 0, kind, 0, id, (size_t)size, &wanted);
    if (code == OK && !(wanted.found && wanted.second))
        code = ERROR;
    if (code == OK)
        *thread = (void *)(uintptr_t)wanted.second;
    return code;
}

void *const callbacks[] = {
    on_alloc, on_free, on_print, on_sizes, on_symbol, on_read, on_write, on_string, convert, convert, on_thread,
};
