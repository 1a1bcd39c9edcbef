/* Names of functions, also of those that only a file's own symbol table has: static ones, and what compilers make of
 * regions. Names of the program are printed, and no code of its files is executed. */
#define _GNU_SOURCE
#include "blame.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 64 };

struct file {
    const void *base;                 /* of the module in memory */
    const char *bytes;                /* NULL: it cannot be read, or has no symbol table */
    const ElfW(Sym) *symbols;
    size_t count;
    const char *names;
    size_t names_size;
};

static struct file files[MAX_FILES];
static int file_count;

static bool is_inside(size_t offset, size_t length, size_t size)
{
    return offset <= size && length <= size - offset;
}

static void read_table(struct file *file, const char *bytes, size_t size)
{
    const ElfW(Ehdr) *header = (const void *)bytes;
    if (size < sizeof *header || memcmp(bytes, ELFMAG, SELFMAG) || header->e_shentsize != sizeof(ElfW(Shdr)) ||
        !is_inside(header->e_shoff, (size_t)header->e_shnum * sizeof(ElfW(Shdr)), size) || header->e_shoff % 8)
        return;
    const ElfW(Shdr) *sections = (const void *)(bytes + header->e_shoff);
    for (int at = 0; at < header->e_shnum; at++) {
        const ElfW(Shdr) *table = &sections[at];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= header->e_shnum || table->sh_offset % 8)
            continue;
        const ElfW(Shdr) *names = &sections[table->sh_link];
        if (!is_inside(table->sh_offset, table->sh_size, size) || !is_inside(names->sh_offset, names->sh_size, size) ||
            !names->sh_size || bytes[names->sh_offset + names->sh_size - 1])
            return;
        file->bytes = bytes;
        file->symbols = (const void *)(bytes + table->sh_offset);
        file->count = table->sh_size / sizeof *file->symbols;
        file->names = bytes + names->sh_offset;
        file->names_size = names->sh_size;
        return;
    }
}

static const struct file *file_of(const Dl_info *information)
{
    for (int at = 0; at < file_count; at++) {
        if (files[at].base == information->dli_fbase)
            return &files[at];
    }
    if (file_count == MAX_FILES)
        return NULL;
    struct file *file = &files[file_count++];
    struct stat status;
    const char *name = *information->dli_fname ? information->dli_fname : "/proc/self/exe";
    file->base = information->dli_fbase;
    int descriptor = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return file;
    if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes != MAP_FAILED)
            read_table(file, bytes, (size_t)status.st_size);
    }
    close(descriptor);
    return file;
}

/* Where addresses of the file's symbols count from: 0 in a program that is not relocated. */
static size_t bias_of(const void *base)
{
    const ElfW(Ehdr) *header = base;
    return header->e_type == ET_EXEC ? 0 : (size_t)base;
}

/* Frames of a runtime, and of the C library, are nothing that the program's author has written. */
struct place find_place(const void *address)
{
    Dl_info information;
    struct place place = {.address = address};
    if (!dladdr(address, &information))
        return place;
    const char *slash = strrchr(information.dli_fname, '/');
    place.module = slash ? slash + 1 : information.dli_fname;
    place.base = information.dli_fbase;
    place.function = information.dli_sname;
    place.start = information.dli_saddr;
    const struct file *file = file_of(&information);
    size_t wanted = (size_t)address - bias_of(information.dli_fbase);
    for (size_t at = 0; file && file->bytes && at < file->count; at++) {
        const ElfW(Sym) *symbol = &file->symbols[at];
        if ((symbol->st_info & 0xf) == STT_FUNC && symbol->st_name < file->names_size && wanted >= symbol->st_value &&
            wanted - symbol->st_value < symbol->st_size) {
            place.function = file->names + symbol->st_name;
            place.start = (const char *)bias_of(information.dli_fbase) + symbol->st_value;
            break;
        }
    }
    return place;
}
