/* The table in which the stub publishes where its structures have their members (omp_stub_layout). All of it is
 * checked, as whoever reads it through OMPD does: a table with a fault is not half right. */
#include "internal.h"

enum { NAME = 32, VERSION = 1, MAX_RECORDS = 4096, MAX_SIZE = 1 << 16 };

/* As the table has them; numbers are made this machine's once. Names end with a NUL, or fill their places. */
struct record {
    char structure[NAME], member[NAME]; /* of the header: its own name, nothing */
    uint32_t offset, size;              /* of the header: version, count */
};

static int to_host(const struct layout_source *source, struct record *record)
{
    uint64_t offset = 0, size = 0;
    int code = source->number(source->of, &record->offset, sizeof record->offset, &offset);
    if (!code)
        code = source->number(source->of, &record->size, sizeof record->size, &size);
    record->offset = (uint32_t)offset;
    record->size = (uint32_t)size;
    return code;
}

static bool is_name(const char *field, const char *name)
{
    for (size_t at = 0; at < NAME; at++) {
        if (field[at] != name[at])
            return false;
        if (!field[at])
            return true;
    }
    return true;
}

static bool is_same(const struct record *one, const struct record *other)
{
    return is_name(one->structure, other->structure) && is_name(one->member, other->member);
}

/* Of several records of one member the last is meant; the others get no size. */
static void drop_repeated(struct record *records, size_t count)
{
    for (size_t index = 0; index < count; index++)
        for (size_t other = index + 1; other < count && records[index].size; other++)
            if (is_same(&records[index], &records[other]))
                records[index].size = 0;
}

/* No member reaches into another one or out of its structure. */
static bool fits(const struct record *records, size_t count, const struct record *member)
{
    uint32_t end = member->offset + member->size;
    for (const struct record *other = records; other < records + count; other++) {
        if (other == member || !other->size || !is_name(member->structure, other->structure))
            continue;
        bool is_whole = !*other->member;
        if (is_whole ? end > other->size : member->offset < other->offset + other->size && other->offset < end)
            return false;
    }
    return true;
}

static bool is_sound(struct record *records, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (!records[index].size || records[index].size > MAX_SIZE ||
            records[index].offset > MAX_SIZE - records[index].size)
            return false;
    drop_repeated(records, count);
    for (size_t index = 0; index < count; index++)
        if (records[index].size && *records[index].member && !fits(records, count, &records[index]))
            return false;
    return true;
}

static void answer(const struct record *records, size_t count, struct layout_query *query)
{
    for (size_t index = 0; index < count; index++)
        if (records[index].size && is_name(records[index].structure, query->structure) &&
            is_name(records[index].member, query->member)) {
            query->value = *query->member ? records[index].offset : records[index].size;
            query->found = true;
        }
}

int stub_read_layout(const struct layout_source *source, struct layout_query *queries, size_t count)
{
    static const char magic[] = "omp_stub_layout";
    struct record header;
    uint64_t address;
    int code = source->symbol(source->of, "omp_stub_layout", &address);
    if (!code)
        code = source->read(source->of, address, &header, sizeof header);
    if (!code)
        code = to_host(source, &header);
    if (code)
        return code;
    if (!same(header.structure, magic, sizeof magic) || header.offset != VERSION || !header.size ||
        header.size > MAX_RECORDS)
        return source->damaged;
    size_t bytes = header.size * sizeof(struct record);
    struct record *records = source->memory(bytes);
    if (!records)
        return source->no_memory;
    code = source->read(source->of, address + sizeof header, records, bytes);
    for (size_t at = 0; !code && at < header.size; at++)
        code = to_host(source, &records[at]);
    if (!code) {
        if (is_sound(records, header.size))
            for (size_t at = 0; at < count; at++)
                answer(records, header.size, &queries[at]);
        else
            code = source->damaged;
    }
    source->free(records);
    return code;
}
