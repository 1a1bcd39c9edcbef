"""Writes a finding as a C program of its own.

The program loads the library, answers its callbacks as we did, makes the same calls, and prints the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ompd.conformance.cases import CELL_COUNT
from ompd.conformance.trying import Script, line_of
from ompd.model.conformance import ConformanceFinding
from ompd.runtimes.hosted.protocol import ASK_MEMORY, ASK_SIZES, ASK_STRING, ASK_SYMBOL, ASK_THREAD
from ompd.runtimes.hosted.trial.client import Answers, Step

_KINDS = {ASK_SIZES: "SIZES", ASK_SYMBOL: "SYMBOL", ASK_MEMORY: "MEMORY", ASK_STRING: "STRING", ASK_THREAD: "THREAD"}


def file_name(key: str) -> str:
    """Return the name of the file for a finding."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", key)[:120] + ".c"


def program(finding: ConformanceFinding, script: Script, answers: Mapping[int, Answers]) -> str:
    """Return the program that shows a finding."""
    return "\n".join(_lines(finding, script, answers)) + "\n"


def _lines(finding: ConformanceFinding, script: Script, answers: Mapping[int, Answers]) -> Iterator[str]:
    yield f"/* {_comment(finding.function)}: {_comment(finding.title)}."
    yield f" * {finding.version}, section {finding.section}, {finding.level} {_comment(finding.expected)}:"
    yield f" * {_comment(finding.rule)};"
    yield f" * the library: {_comment(finding.seen)}."
    yield " *"
    yield " *     cc -o reproducer THIS.c -ldl && ./reproducer /path/of/libompd.so"
    yield " */"
    yield _HEAD
    yield f"static unsigned char cells[{CELL_COUNT}][64];"
    yield "static const struct answer answers[] = {"
    for context, question in script.questions:
        which, thread, first, second, raw = question
        code, word, payload = answers[context].kept.get(question, (4, 0, b""))
        if which in _KINDS:
            words = f"{context}, {thread:#x}u, {first:#x}u, {second:#x}u, {len(raw)}, {_bytes(raw)}"
            yield f"    {{{_KINDS[which]}, {words}, {code}, {word:#x}u, {len(payload)}, {_bytes(payload)}}},"
    yield "    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},"
    yield "};"
    yield _CALLBACKS
    yield "int main(int count, char **words)"
    yield "{"
    yield "    load(count, words);"
    for place, step in enumerate(script.steps):
        if place == script.prepared:
            yield '    puts("--");'
        yield from _statements(step)
    yield '    puts("end");'
    yield "    return 0;"
    yield "}"


def _statements(step: Step) -> Iterator[str]:
    do = step["do"]
    if do == "call":
        arguments = [_argument(kind, value) for kind, value in step["arguments"]]
        values = ", ".join(arguments) or "0"
        condition = "if (!last) " if step.get("if_ok") else ""
        yield f'    {condition}call("{step["function"]}", (W[6]){{{values}}}); /* {_comment(line_of(step))} */'
        for kind, value in step["arguments"]:
            if kind == "at":
                yield f"    {condition}show({int(value)});"
    elif do == "fill":
        yield f"    memset(cells[{int(step['cell'])}], {int(step['byte']):#x}, 64);"
    elif do == "fault":
        yield f"    fault({int(step['which'])}, {int(step['nth'])}, {int(step['code'])});"
    elif do == "poison":
        yield f"    poison = {int(step['byte']):#x};"
    elif do == "text":
        yield f"    text({int(step['cell'])});"
    elif do == "texts":
        yield f"    texts({int(step['cell'])});"
    elif do == "free":
        yield f"    free_memory(word({int(step['cell'])}));"
    elif do == "blocks":
        yield '    printf("blocks %ld\\n", live);'


def _argument(kind: str, value: object) -> str:
    if kind == "table":
        return "(W)&nulls" if value else "(W)&callbacks"
    if kind == "raw":
        return f"(W){_bytes(bytes.fromhex(str(value)))}"
    if kind == "n":
        return f"{int(str(value)) & 0xFFFFFFFFFFFFFFFF:#x}u"
    return f"(W)cells[{int(str(value))}]" if kind == "at" else f"word({int(str(value))})"


def _bytes(raw: bytes) -> str:
    # In a C string hexadecimal escapes have no fixed length; octal ones end after three digits.
    return '"' + "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03o}" for byte in raw) + '"'


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text).replace("*/", "* /").replace("/*", "/ *")


_HEAD = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t W;
enum { SIZES = 1, SYMBOL, MEMORY, STRING, THREAD };
/* What a callback was asked, and what it answers: its code, a word, bytes. */
struct answer {
    int which;
    W context, thread, first, second, size;
    const char *asked;
    int code;
    W word, given;
    const char *bytes;
};
"""

_CALLBACKS = """
static void *library;
static int last, poison, fault_which = -2, fault_code;
static long fault_nth, live;
static struct block { char *start; W size; int is_live; } blocks[1 << 16];
static int block_count;

static inline W word(int cell)
{
    W found;
    memcpy(&found, cells[cell], 8);
    return found;
}

static inline void fault(int which, long nth, int code)
{
    fault_which = nth ? which : -2;
    fault_nth = nth;
    fault_code = code;
}

/* Whether this call of a callback is the one that fails. */
static int fails(int which)
{
    if (fault_which != which || --fault_nth)
        return 0;
    fault_which = -2;
    return 1;
}

static const struct answer *find(int which, W context, W thread, W first, W second, const void *asked, W size)
{
    for (const struct answer *at = answers; at->which; at++)
        if (at->which == which && at->context == context && at->thread == thread && at->first == first &&
            at->second == second && at->size == size && !memcmp(at->asked, asked, size))
            return at;
    return NULL;
}

static int alloc_memory(W size, void **memory)
{
    if (fails(0))
        return fault_code;
    if (!memory)
        return 3;
    if (block_count == sizeof blocks / sizeof *blocks)
        return 10;
    char *start = malloc(size ? size : 1);
    memset(start, poison, size);
    blocks[block_count++] = (struct block){start, size, 1};
    live++;
    *memory = start;
    return 0;
}

/* Freed blocks stay, filled with a pattern, so that nothing depends on the C library's memory. */
static int free_memory(W memory)
{
    if (fails(1))
        return fault_code;
    if (!memory)
        return 0;
    for (int at = 0; at < block_count; at++)
        if ((W)blocks[at].start == memory && blocks[at].is_live) {
            memset(blocks[at].start, 0xdd, blocks[at].size);
            blocks[at].is_live = 0;
            live--;
            return 0;
        }
    return 3;
}

static int print_string(const char *string, int category)
{
    return (void)string, (void)category, fails(2) ? fault_code : 0;
}

static int sizeof_type(W context, void *sizes)
{
    if (fails(3))
        return fault_code;
    const struct answer *found = find(SIZES, context, 0, 0, 0, "", 0);
    if (!found || found->code || !sizes)
        return !found ? 2 : found->code ? found->code : 3;
    memcpy(sizes, found->bytes, 6);
    return 0;
}

static int symbol_addr_lookup(W context, W thread, const char *name, W *address, const char *file)
{
    (void)file;
    if (fails(4))
        return fault_code;
    if (!name || !address)
        return 3;
    const struct answer *found = find(SYMBOL, context, thread, 0, 0, name, strlen(name));
    if (!found || found->code)
        return found ? found->code : 2; /* of a context that the tool has not */
    address[0] = 0;
    address[1] = found->word;
    return 0;
}

static int read_bytes(int which, W context, const W *address, W size, void *buffer)
{
    if (!address || !buffer)
        return 3;
    if (!size)
        return 0;
    const struct answer *found = find(which, context, 0, address[1], size, "", 0);
    if (!found || found->code)
        return found ? found->code : 2; /* of a context that the tool has not */
    memcpy(buffer, found->bytes, found->given);
    return 0;
}

static int read_memory(W context, W thread, const W *address, W size, void *buffer)
{
    (void)thread;
    if (fails(5)) {
        read_bytes(MEMORY, context, address, size / 2, buffer); /* a short read */
        return fault_code;
    }
    return read_bytes(MEMORY, context, address, size, buffer);
}

static int write_memory(void) { return 9; }

static int read_string(W context, W thread, const W *address, W size, void *buffer)
{
    (void)thread;
    return fails(7) ? fault_code : read_bytes(STRING, context, address, size, buffer);
}

static int convert(int which, const void *from, W unit, W count, void *to)
{
    if (fails(which))
        return fault_code;
    if (!from || !to)
        return 3;
    memmove(to, from, unit * count);
    return 0;
}

static int device_to_host(W context, const void *from, W unit, W count, void *to)
{
    return (void)context, convert(8, from, unit, count, to);
}

static int host_to_device(W context, const void *from, W unit, W count, void *to)
{
    return (void)context, convert(9, from, unit, count, to);
}

static int get_thread_context(W context, W kind, W size, const void *id, W *thread)
{
    if (fails(10))
        return fault_code;
    if (!id || !thread || size > 64)
        return 3;
    const struct answer *found = find(THREAD, context, 0, kind, 0, id, size);
    if (!found || found->code)
        return found ? found->code : 2; /* of a context that the tool has not */
    *thread = found->word;
    return 0;
}

/* In the order of ompd_callbacks_t. */
static void *const callbacks[11] = {
    (void *)alloc_memory, (void *)free_memory, (void *)print_string, (void *)sizeof_type, (void *)symbol_addr_lookup,
    (void *)read_memory, (void *)write_memory, (void *)read_string, (void *)device_to_host, (void *)host_to_device,
    (void *)get_thread_context,
};
static void *const nulls[11];

static void load(int count, char **words)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    library = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
    /* A library of C++ that does not name what it needs: debuggers have it. */
    if (count == 2 && !library && dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL))
        library = dlopen(words[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "usage: %s LIBRARY (%s)\\n", words[0], count == 2 ? dlerror() : "none is named");
        exit(2);
    }
    (void)callbacks, (void)nulls;
}

static inline void call(const char *name, const W *a)
{
    int (*function)(W, W, W, W, W, W) = (int (*)(W, W, W, W, W, W))dlsym(library, name);
    printf("%s ", name);
    if (!function) {
        puts("is missing");
        return;
    }
    last = function(a[0], a[1], a[2], a[3], a[4], a[5]);
    printf("returned %d\\n", last);
}

/* Pointers differ from run to run: a word is shown in full, and that it is unwritten if it is. */
static inline void show(int cell)
{
    const W *words = (const W *)cells[cell];
    for (int at = 0; at < 3; at++)
        printf(" %s", words[at] == 0x5a5a5a5a5a5a5a5au ? "unwritten" : words[at] ? "set" : "0");
    printf("   0x%llx\\n", (unsigned long long)words[0]);
}

static inline void text(int cell)
{
    const char *found = (const char *)word(cell);
    int is_owned = 0;
    for (int at = 0; at < block_count; at++)
        is_owned |= blocks[at].is_live && found >= blocks[at].start && found < blocks[at].start + blocks[at].size;
    printf(" text \\"%s\\" %s\\n", found ? found : "", is_owned ? "of the tool's memory" : "of the library's memory");
}

static inline void texts(int cell)
{
    for (char **at = (char **)word(cell); at && *at; at++)
        printf(" text \\"%s\\"\\n", *at);
}
"""
