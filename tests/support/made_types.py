"""Debug information on types, from compilers and written by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import clean_environment
from tests.support.build import compiler
from tests.support.cache import entry, key_of

HEADER = """\
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#define TYPE(type) printf("%s{\\"type\\": \\"%s\\", \\"size\\": %zu", some++ ? "}, " : "", #type, sizeof(type))
#define MEMBER(type, path) \\
    printf(", \\"%s\\": [%zu, %zu]", #path, offsetof(type, path), sizeof ((type *)0)->path)
/* Which bits a bit field takes: as the bytes of a structure that holds nothing else. */
#define BITS(type, path) do { \\
        type object; memset(&object, 0, sizeof object); object.path = ~0; \\
        printf(", \\"%s\\": \\"", #path); \\
        for (size_t i = sizeof object; i--;) printf("%02x", ((unsigned char *)&object)[i]); \\
        printf("\\""); \\
    } while (0)
static int some;
"""


CXX_SOURCE = (
    HEADER
    + """
namespace outer { namespace inner { struct same { char c; long l; }; } struct same { int i[5]; }; }
struct only_here { struct nested { char c; short s; }; nested n; static int shared; int after; };
struct base { long b; int hidden; };
struct derived : base { char own; char hidden; };
struct virtually : virtual base { int v; };
template <typename T, int N> struct box { T items[N]; bool full; void method(int argument) { (void)argument; } };
class closed { public: virtual ~closed() {} int visible; protected: int more; };
enum class scoped : unsigned short { one };
int only_here::shared = 0;
void operator delete(void *, size_t) {}
void operator delete(void *) noexcept {}
outer::inner::same a; outer::same b; only_here c; derived d; virtually v; box<int, 9> e; box<outer::same, 2> f;
closed g; scoped h; only_here::nested n;
#define AT(type, object, path) \\
    printf(", \\"%s\\": [%zu, %zu]", #path, (size_t)((char *)&object.path - (char *)&object), sizeof object.path)
int main()
{
    e.method(1);
    printf("[");
    TYPE(outer::inner::same); AT(outer::inner::same, a, l); TYPE(inner::same); AT(inner::same, a, l);
    TYPE(outer::same); AT(outer::same, b, i);
    TYPE(only_here); AT(only_here, c, n.s); AT(only_here, c, after); TYPE(only_here::nested); AT(nested, n, s);
    TYPE(derived); AT(derived, d, b); AT(derived, d, own); AT(derived, d, hidden);
    TYPE(virtually); AT(virtually, v, v);
    printf("}, {\\"type\\": \\"box<int, 9>\\", \\"size\\": %zu", sizeof e); AT(box, e, items[3]); AT(box, e, full);
    printf("}, {\\"type\\": \\"box<outer::same, 2>\\", \\"size\\": %zu", sizeof f); AT(box, f, full);
    TYPE(closed); AT(closed, g, visible);
    TYPE(scoped);
    printf("}]\\n");
    return 0;
}
""".replace("TYPE(inner::same)", 'printf("}, {\\"type\\": \\"inner::same\\", \\"size\\": %zu", sizeof a)')
)


def built(name: str, source: str, *flags: str, others: Sequence[str] = (), link: bool = True) -> Path:
    """Return the program (or object) that compiler *name* makes of *source* and *others*, each in its own file."""
    used = compiler(name)
    suffix = "cpp" if source is CXX_SOURCE else "c" if not source.lstrip().startswith(".") else "s"
    compiling = [str(used.path), *flags, *(["-x", "c++"] if suffix == "cpp" else [])]

    def make(folder: Path) -> None:
        names = []
        for number, text in enumerate((source, *others)):
            (folder / f"file{number}.{suffix}").write_text(text)
            names.append(f"file{number}.{suffix}")
        command = [*compiling, *names, "-o", "program"] if link else [*compiling, "-c", *names, "-o", "program"]
        subprocess.run(command, cwd=folder, env=clean_environment(), check=True)

    return entry("types", key_of(source, others, used.version, compiling, link), make) / "program"


# Codes of entries: 1 the unit, 2 a typedef, 3 a structure, 4 a member without a name, 5 an array, 6 its range, 7 a
# declaration, 8 a member with a name.
ABBREVIATIONS = """
.section .debug_abbrev,"",@progbits
    .uleb128 1, 0x11; .byte 1; .uleb128 0x13, 0x0b, 0, 0
    .uleb128 2, 0x16; .byte 0; .uleb128 0x03, 0x08, 0x49, 0x13, 0, 0
    .uleb128 3, 0x13; .byte 1; .uleb128 0x03, 0x08, 0x0b, 0x0b, 0, 0
    .uleb128 4, 0x0d; .byte 0; .uleb128 0x49, 0x13, 0x38, 0x0b, 0, 0
    .uleb128 5, 0x01; .byte 1; .uleb128 0x49, 0x13, 0, 0
    .uleb128 6, 0x21; .byte 0; .uleb128 0x37, 0x0f, 0, 0
    .uleb128 7, 0x13; .byte 0; .uleb128 0x03, 0x08, 0x3c, 0x19, 0, 0
    .uleb128 8, 0x0d; .byte 0; .uleb128 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0
    .byte 0
.section .debug_info,"",@progbits
.Lunit: .long .Lend - .Lstart
.Lstart: .short 4; .long 0; .byte 8
    .uleb128 1; .byte 12
"""
