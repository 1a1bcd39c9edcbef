/* DMPL_demangle_name: what the names say that compilers make of the source's.
 *
 * Functions of constructs: gcc's main._omp_fn.0, clang's main.omp_outlined, .omp_outlined. (before 17, which does not
 * name its function), .omp_task_entry. and __omp_offloading_FILE_FUNCTION_l12. Copies of a function (.isra.0, .cold)
 * follow the name. Variables: what stands for a threadprivate one, and those that OMP_STUB_VARIABLE names. */
#include "internal.h"

enum { MAX_NAME = 1 << 16 };

#define LITERAL(text) text, sizeof(text) - 1

static struct span from(struct span text, size_t at)
{
    return (struct span){text.start + at, text.length - at};
}

static struct span up_to(struct span text, size_t end)
{
    return (struct span){text.start, end};
}

static bool begins(struct span text, const char *with, size_t length)
{
    return text.length >= length && same(text.start, with, length);
}

static bool ends(struct span text, const char *with, size_t length)
{
    return text.length >= length && same(text.start + text.length - length, with, length);
}

/* The last place of a text in another one; its length if there is none. */
static size_t last(struct span text, const char *wanted, size_t length)
{
    for (size_t at = text.length; at-- > 0;)
        if (begins(from(text, at), wanted, length))
            return at;
    return text.length;
}

static bool contains(struct span text, char wanted)
{
    for (size_t at = 0; at < text.length; at++)
        if (text.start[at] == wanted)
            return true;
    return false;
}

/* How many characters of a kind a text begins with. */
static size_t digits(struct span text)
{
    size_t at = 0;
    while (at < text.length && text.start[at] >= '0' && text.start[at] <= '9')
        at++;
    return at;
}

static size_t hexadecimal(struct span text)
{
    size_t at = 0;
    while (at < text.length &&
           ((text.start[at] >= '0' && text.start[at] <= '9') || (text.start[at] >= 'a' && text.start[at] <= 'f')))
        at++;
    return at;
}

static size_t word(struct span text)
{
    size_t at = 0;
    for (; at < text.length; at++) {
        unsigned char c = (unsigned char)text.start[at];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c >= 0x80))
            break;
    }
    return at;
}

/* ".12" at the beginning: its length, 0 if it is not there. */
static size_t numbered(struct span text)
{
    size_t count = begins(text, LITERAL(".")) ? digits(from(text, 1)) : 0;
    return count ? count + 1 : 0;
}

/* Whether a text is what compilers put behind the names of a function's copies, any number of them. */
static bool is_copies(struct span text)
{
    static const char *const kinds[] = {".constprop", ".isra", ".part", ".lto_priv", ".llvm", ".cold", ".clone"};
    while (text.length) {
        size_t length = 0;
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds && !length; kind++)
            if (begins(text, kinds[kind], length_of(kinds[kind])))
                length = length_of(kinds[kind]);
        if (!length)
            return false;
        text = from(text, length);
        text = from(text, numbered(text));
    }
    return true;
}

/* A number, with a point before it or without, that may be there; then copies. */
static bool is_number_and_copies(struct span text)
{
    size_t count = digits(text);
    if (!count)
        count = numbered(text);
    return is_copies(from(text, count)) || is_copies(text);
}

/* Names of clang's */

#define OUTLINED ".omp_outlined"
#define TASK_ENTRY ".omp_task_entry."
#define OFFLOADING "__omp_offloading_"

static bool is_behind_outlined(struct span text)
{
    return is_number_and_copies(text) ||
           (begins(text, LITERAL("_debug__")) && is_number_and_copies(from(text, sizeof "_debug__" - 1))) ||
           (begins(text, LITERAL("._debug__")) && is_number_and_copies(from(text, sizeof "._debug__" - 1))) ||
           (begins(text, LITERAL(".")) && is_number_and_copies(from(text, 1)));
}

static bool is_task(struct span name)
{
    return begins(name, LITERAL(TASK_ENTRY)) && is_number_and_copies(from(name, sizeof TASK_ENTRY - 1));
}

/* "_l12", perhaps "_3", "_debug__" and ".4", then copies. */
static bool is_behind_target(struct span text)
{
    if (!begins(text, LITERAL("_l")))
        return false;
    text = from(text, 2);
    size_t count = digits(text);
    if (!count)
        return false;
    text = from(text, count);
    if (begins(text, LITERAL("_")) && (count = digits(from(text, 1))))
        text = from(text, count + 1);
    if (begins(text, LITERAL("_debug__")))
        text = from(text, sizeof "_debug__" - 1);
    text = from(text, numbered(text));
    return is_copies(text);
}

/* The function in the name of a target construct's code. */
static bool of_target(struct span name, struct span *function)
{
    if (!begins(name, LITERAL(OFFLOADING)))
        return false;
    struct span rest = from(name, sizeof OFFLOADING - 1);
    for (int number = 0; number < 2; number++) {
        size_t count = hexadecimal(rest);
        if (!count || !begins(from(rest, count), LITERAL("_")))
            return false;
        rest = from(rest, count + 1);
    }
    for (size_t at = rest.length; at-- > 1;)
        if (is_behind_target(from(rest, at))) {
            *function = up_to(rest, at);
            return !contains(*function, '\n');
        }
    return false;
}

/* What is left of a name without clang's marks at its end. */
static struct span without_marks(struct span name)
{
    for (;;) {
        size_t at = last(name, LITERAL(OUTLINED));
        if (at == name.length || !is_behind_outlined(from(name, at + sizeof OUTLINED - 1)))
            return name;
        name = up_to(name, at);
    }
}

/* The function of the source in a name whose marks are off: that of a task has none. */
static struct span written(struct span name)
{
    struct span function;
    if (of_target(name, &function))
        return function;
    return is_task(name) ? up_to(name, 0) : name;
}

/* Whether the code of a construct is called so, and the function that the name says it is of: none, or one. */
static bool of_construct(struct span name, struct span *function)
{
    static const char mark[] = "._omp_fn.";
    size_t at = last(name, LITERAL(mark));
    if (at && at < name.length) {
        struct span rest = from(name, at + sizeof mark - 1);
        size_t count = digits(rest);
        if (count && is_copies(from(rest, count))) {
            *function = written(up_to(name, at));
            return true;
        }
    }
    *function = up_to(name, 0);
    if (is_task(name) || of_target(name, function))
        return true;
    struct span parent = without_marks(name);
    if (parent.length == name.length || (begins(parent, LITERAL(".")) && !is_task(parent)))
        return false;
    *function = written(parent);
    return true;
}

/* Names of variables */

static bool of_critical(struct span name, struct span *section)
{
    static const char prefix[] = ".gomp_critical_user_", suffix[] = ".var";
    if (!begins(name, LITERAL(prefix)))
        return false;
    *section = from(name, sizeof prefix - 1);
    if (ends(*section, LITERAL(suffix)))
        *section = up_to(*section, section->length - (sizeof suffix - 1));
    return section->length > 0;
}

/* What stands for a threadprivate variable. */
static bool of_threadprivate(struct span name, struct span *variable)
{
    static const char record[] = "omp_stub_private_";
    if (begins(name, LITERAL("__emutls_v.")) || begins(name, LITERAL("__emutls_t."))) {
        *variable = from(name, sizeof "__emutls_v." - 1);
        if (variable->length && !contains(*variable, '\n'))
            return true;
    }
    struct span cache = ends(name, LITERAL(".")) ? up_to(name, name.length - 1) : name;
    if (ends(cache, LITERAL(".cache"))) {
        *variable = up_to(cache, cache.length - (sizeof ".cache" - 1));
        if (variable->length && !contains(*variable, '.'))
            return true;
    }
    if (!begins(name, LITERAL(record)))
        return false;
    *variable = from(name, sizeof record - 1);
    return variable->length && word(*variable) == variable->length;
}

/* omp_stub_var_CLAUSE_NAME, or omp_stub_at_CLAUSE_NAME for a variable whose storage holds its address. */
static bool of_clause(struct span name, struct span *variable, int *flags)
{
    static const struct {
        const char *word;
        int flags;
    } clauses[] = {
        {"private_", DMPL_varinfo_private}, {"shared_", DMPL_varinfo_shared},
        {"firstprivate_", DMPL_varinfo_firstprivate}, {"lastprivate_", DMPL_varinfo_lastprivate},
        {"firstlastprivate_", DMPL_varinfo_firstlastprivate}, {"reduction_", DMPL_varinfo_reduction},
        {"threadprivate_", DMPL_varinfo_threadprivate}, {"threadshared_", DMPL_varinfo_threadshared},
        {"copyin_", DMPL_varinfo_copyin},
    };
    bool is_address = begins(name, LITERAL("omp_stub_at_"));
    if (!is_address && !begins(name, LITERAL("omp_stub_var_")))
        return false;
    struct span rest = from(name, is_address ? sizeof "omp_stub_at_" - 1 : sizeof "omp_stub_var_" - 1);
    for (size_t at = 0; at < sizeof clauses / sizeof *clauses; at++) {
        size_t length = length_of(clauses[at].word);
        if (!begins(rest, clauses[at].word, length))
            continue;
        *variable = from(rest, length);
        *flags = clauses[at].flags | (is_address ? DMPL_varinfo_needs_dereference : 0);
        return variable->length && word(*variable) == variable->length;
    }
    return false;
}

/* The answer */

struct result {
    int *length;
    char *buffer;
    int room;
};

static int put(const struct result *result, struct span name, int code)
{
    bool fits = result->room > 0 && name.length < (size_t)result->room;
    if (result->length)
        *result->length = (int)name.length + !fits;
    if (fits)
        for (size_t at = 0; at < name.length; at++)
            result->buffer[at] = name.start[at];
    if (result->room > 0)
        result->buffer[fits ? name.length : 0] = 0;
    return fits ? code : DMPL_name_too_long;
}

/* A function's name, or the debugger's by debug information where there is none, and its line. */
static int put_function(const struct result *result, const char *mangled, struct span name, int *line)
{
    struct span whole = {mangled, length_of(mangled)};
    int length = 0, code = DMPL_name_unchanged, own = 0;
    if (dmpl_extension) {
        if (name.length)
            code = dmpl_extension->DMPL_source_of_fp(mangled, &length, NULL, 0, &own);
        else
            code = dmpl_extension->DMPL_source_of_fp(mangled, &length, result->buffer, result->room, &own);
    }
    bool is_known = name.length || code == DMPL_ok || code == DMPL_name_too_long;
    if (line && is_known && own > 0)
        *line = own;
    if (name.length)
        return put(result, name, DMPL_ok);
    if (!is_known)
        return put(result, whole, DMPL_name_unchanged);
    if (result->length)
        *result->length = length;
    return code;
}

EXPORT int DMPL_demangle_name(const char *mangled, int *length, char *buffer, int room, int *flags, int *line)
{
    struct result result = {length, buffer, buffer ? room : 0};
    struct span name = {mangled, length_of(mangled)}, found;
    int info = DMPL_varinfo_none;
    if (flags)
        *flags = DMPL_varinfo_none;
    if (line)
        *line = 0;
    if (name.length > MAX_NAME)
        return put(&result, name, DMPL_name_unchanged);
    if (of_construct(name, &found))
        return put_function(&result, mangled, found, line);
    if (of_critical(name, &found))
        return put(&result, found, DMPL_ok);
    if (of_threadprivate(name, &found))
        info = DMPL_varinfo_threadprivate;
    else if (!of_clause(name, &found, &info))
        return put(&result, name, DMPL_name_unchanged);
    if (flags)
        *flags = info;
    return put(&result, found, DMPL_ok);
}
