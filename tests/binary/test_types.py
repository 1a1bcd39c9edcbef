"""Types by DWARF, compared with what programs print of themselves and with gdb, and damaged types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.types import DwarfType, TypeInfo
from ompd.contract.memory import read_unsigned
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, FieldNotFound, LayoutUnavailable, MalformedFile, TypeNotFound, Unsupported
from tests.support import intel_runtime, require, stopped
from tests.support.made_types import ABBREVIATIONS, CXX_SOURCE, HEADER, built
from tests.support.samples import mapped, run, survives

C_SOURCE = (
    HEADER
    + """
typedef unsigned char byte;
typedef struct pair { byte first; double second; } pair_t;
typedef const volatile pair_t constant_pair;
enum colour { red, green = 70000 };
typedef enum { anonymous_enumerator } unnamed_enum;
struct node {
    struct node *next; pair_t pair; pair_t pairs[3]; pair_t grid[2][5]; enum colour colour; int (*call)(int);
};
union either { long number; char text[24]; struct { short low, high; } halves; };
struct outer {
    char start;
    struct { int x; union { long l; float f; }; } inner;
    union { struct { short a, b; }; int ab; };
    union either either;
    constant_pair constant;
    struct node *nodes[7];
    char rest[];
} __attribute__((aligned(64)));
struct flags {
    int before;
    unsigned one : 1, three : 3, : 4, nine : 9;
    signed negative : 5;
    unsigned long wide : 40;
    int after;
    struct { byte low : 4, high : 4; } nested;
};
struct __attribute__((packed)) packed { char c; int i; unsigned bits : 12; long l; };
typedef struct { int only; } unnamed_t;
typedef int numbers_t[4][2];
struct ab { int ab; };
static struct outer outer; static struct flags flags; static struct packed packed; static unnamed_t unnamed;
static numbers_t numbers; static unnamed_enum unnamed_value; static struct ab ab; static constant_pair constant;
static unsigned long long long_long;
int main(void)
{
    struct outer *volatile keep = &outer; (void)keep; (void)flags; (void)packed; (void)unnamed; (void)numbers;
    (void)unnamed_value; (void)ab; (void)constant; (void)long_long;
    printf("[");
    TYPE(byte); TYPE(unsigned char); TYPE(struct pair); MEMBER(struct pair, first); MEMBER(struct pair, second);
    TYPE(pair_t); MEMBER(pair_t, second);
    TYPE(constant_pair); MEMBER(constant_pair, second);
    TYPE(enum colour); TYPE(unnamed_enum); TYPE(numbers_t);
    TYPE(struct node); MEMBER(struct node, next); MEMBER(struct node, pair.second); MEMBER(struct node, pairs);
    MEMBER(struct node, pairs[2]); MEMBER(struct node, pairs[1].second); MEMBER(struct node, grid[1][3].second);
    MEMBER(struct node, colour); MEMBER(struct node, call);
    TYPE(union either); MEMBER(union either, number); MEMBER(union either, text); MEMBER(union either, text[5]);
    MEMBER(union either, halves.high);
    TYPE(struct outer); MEMBER(struct outer, start); MEMBER(struct outer, inner.x); MEMBER(struct outer, inner.l);
    MEMBER(struct outer, inner.f); MEMBER(struct outer, a); MEMBER(struct outer, b); MEMBER(struct outer, ab);
    MEMBER(struct outer, either.halves.high); MEMBER(struct outer, constant.second); MEMBER(struct outer, nodes);
    MEMBER(struct outer, nodes[6]);
    TYPE(struct flags); MEMBER(struct flags, before); BITS(struct flags, one); BITS(struct flags, three);
    BITS(struct flags, nine); BITS(struct flags, negative); BITS(struct flags, wide); MEMBER(struct flags, after);
    BITS(struct flags, nested.low); BITS(struct flags, nested.high);
    TYPE(struct packed); MEMBER(struct packed, i); BITS(struct packed, bits); MEMBER(struct packed, l);
    TYPE(unnamed_t); MEMBER(unnamed_t, only); TYPE(struct ab); MEMBER(struct ab, ab);
    printf("}]\\n");
    return 0;
}
"""
)


def check(info: TypeInfo, printed: str) -> int:
    told = 0
    for row in json.loads(printed):
        name, size = row.pop("type"), row.pop("size")
        found = info.find(name)
        assert found is not None, name
        assert found.size == size, name
        for path, truth in row.items():
            member = found.member(path)
            if isinstance(truth, str):
                assert member.first_bit is not None and member.bits is not None
                assert ((1 << member.bits) - 1) << member.first_bit == int(truth, 16), (name, path)
                assert member.offset == member.first_bit // 8
            else:
                assert [member.offset, member.size] == truth and member.bits is None, (name, path)
            told += 1
    return told


# Layouts need no C++ library, and some machines lack it.
WITHOUT_LIBRARY = ("-fno-rtti", "-fno-exceptions")
COMPILERS = pytest.mark.parametrize("name", ["gcc", "clang"])
FLAGS = {
    "dwarf2": ("-gdwarf-2", "-gstrict-dwarf"),
    "dwarf3": ("-gdwarf-3",),
    "dwarf4": ("-gdwarf-4",),
    "dwarf5": ("-gdwarf-5",),
    "dwarf4-types": ("-gdwarf-4", "-fdebug-types-section"),
    "dwarf5-types": ("-gdwarf-5", "-fdebug-types-section"),
    "compressed": ("-g", "-gz"),
    "optimised": ("-g", "-O2"),
    "lto": ("-g", "-O1", "-flto"),
    "dwarf64": ("-gdwarf-5", "-gdwarf64"),
}


@COMPILERS
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.quick(
    "dwarf2-gcc",
    "dwarf3-clang",
    "dwarf4-gcc",
    "dwarf4-clang",
    "dwarf5-gcc",
    "dwarf4-types-gcc",
    "dwarf5-types-clang",
    "compressed-gcc",
    "optimised-gcc",
    "lto-clang",
    "dwarf64-clang",
)
def test_sizes_and_members_are_what_the_program_prints(name: str, flags: str) -> None:
    linker = []
    if (name, flags) in (("clang", "lto"), ("clang", "dwarf64")):
        require("lld")
        linker = ["-fuse-ld=lld"]
    program = built(name, C_SOURCE, *FLAGS[flags], *linker)
    assert check(TypeInfo(mapped(program)), run(program)) == 41


@COMPILERS
@pytest.mark.parametrize("flags", ["dwarf2", "dwarf4", "dwarf5", "dwarf4-types", "dwarf5-types", "compressed"])
@pytest.mark.quick(
    "dwarf5-types-clang", "dwarf2-clang", "dwarf4-clang", "compressed-gcc", "dwarf5-gcc", "dwarf4-types-gcc"
)
def test_names_in_scopes_and_base_classes(name: str, flags: str) -> None:
    if (name, flags) == ("gcc", "dwarf2"):
        flags = "dwarf3"  # gcc writes no namespaces in strict DWARF 2
    program = built(name, CXX_SOURCE, *FLAGS[flags], *WITHOUT_LIBRARY)
    assert check(TypeInfo(mapped(program)), run(program)) == 14


@COMPILERS
def test_what_is_not_there_is_told(name: str) -> None:
    info = TypeInfo(mapped(built(name, C_SOURCE, "-g")))
    for missing in (
        "struct pair_t",
        "union node",
        "nodes",
        "ode",
        "enum red",
        "node::next",
        "",
        "struct",
        "::",
        "struct ",
    ):
        assert info.find(missing) is None, missing
    assert info.find("  struct   node ") is not None
    node = info.find("struct node")
    assert node is not None
    for path in ("", ".", "nothing", "pair.third", "pair.", ".pair", "next.next", "pairs[3]", "pairs[0][0]", "pair[0]"):
        with pytest.raises(FieldNotFound):
            node.member(path)
    flags = info.find("struct flags")
    assert flags is not None
    with pytest.raises(FieldNotFound):
        flags.member("one.two")


OPAQUE = ("struct opaque; struct opaque *pointer; typedef struct opaque opaque_t; opaque_t *other;", "int nothing;")
DEFINED = "struct opaque { char c; long l; } opaque; int main(void) { return opaque.c; }"


@COMPILERS
@pytest.mark.parametrize("version", [4, 5])
def test_a_type_that_one_file_declares_is_found_where_another_defines_it(name: str, version: int) -> None:
    info = TypeInfo(mapped(built(name, OPAQUE[0], f"-gdwarf-{version}", others=(OPAQUE[1], DEFINED))))
    for spelling in ("struct opaque", "opaque", "opaque_t"):
        found = info.find(spelling)
        assert found is not None and found.size == 16 and found.member("l").offset == 8


@COMPILERS
@pytest.mark.parametrize("version", [4, 5])
def test_of_two_types_by_one_name_none_is_chosen(name: str, version: int) -> None:
    files = ("struct twice { int a; } one;", "struct twice { int a, b; } two; int main(void) { return two.b; }")
    info = TypeInfo(mapped(built(name, files[0], f"-gdwarf-{version}", others=files[1:])))
    with pytest.raises(TypeNotFound, match="several"):
        info.find("struct twice")


def test_a_file_without_debug_information_defines_no_type() -> None:
    assert TypeInfo(mapped(built("gcc", C_SOURCE, "-g0"))).find("struct node") is None


def test_a_virtual_base_class_has_no_fixed_place() -> None:
    virtually = TypeInfo(mapped(built("gcc", CXX_SOURCE, "-g", *WITHOUT_LIBRARY))).find("virtually")
    assert virtually is not None
    with pytest.raises(FieldNotFound):
        virtually.member("b")


# The runtime's own debug information

KMP = {
    "kmp_base_team_t": ("t_argv", "t_serialized", "t_bar", "t_nproc", "t_parent", "t_threads", "t_pkfn", "t_level"),
    "kmp_base_team": ("t_bar[1].b_arrived", "t_ordered.dt.t_value", "t_argc", "t_task_team", "t_dispatch"),
    "kmp_base_info_t": ("th_info.ds.ds_tid", "th_team", "th_bar[0].bb.b_arrived", "th_current_task"),
    "kmp_taskdata_t": ("td_parent", "td_team", "td_icvs.nproc", "td_flags"),
    "kmp_bstate": ("b_arrived", "b_go", "b_worker_arrived", "team", "nproc"),
    "kmp_base_queuing_lock": ("initialized", "location", "tail_id", "head_id", "owner_id", "depth_locked"),
    "kmp_base_ticket_lock": ("initialized", "now_serving", "owner_id"),
    "kmp_tas_lock": ("lk.poll", "lk.depth_locked"),
    "kmp_info_t": ("th.th_serial_team",),
    "kmp_root_t": ("r.r_root_team",),
    "kmp_task_team": ("tt.tt_threads_data", "tt.tt_nproc"),
    "kmp_base_thread_data": ("td_deque", "td_deque_head", "td_deque_ntasks"),
}


def libiomp5_debug() -> Path:
    return intel_runtime() / "lib" / "libiomp5.dbg"


def test_the_runtimes_structures_are_as_gdb_prints_them() -> None:
    path = libiomp5_debug()
    info = TypeInfo(mapped(path))
    questions: list[tuple[int, str]] = []
    for name, members in KMP.items():
        found = info.find(name)
        assert found is not None, name
        questions.append((found.size, f"sizeof({name})"))
        for member in members:
            where = found.member(member)
            questions.append((where.offset, f"(long)&(({name}*)0)->{member}"))
            questions.append((where.size, f"sizeof((({name}*)0)->{member})"))
    command = [str(require("gdb")), "-nx", "-batch", str(path)]
    for _, expression in questions:
        command += ["-ex", f"print {expression}"]
    answers = re.findall(r"^\$\d+ = (\d+)$", run(*command), re.MULTILINE)
    assert [int(answer) for answer in answers] == [value for value, _ in questions]


def test_few_units_are_walked_for_a_dozen_types() -> None:
    info = TypeInfo(mapped(libiomp5_debug()))
    for name, members in KMP.items():
        found = info.find(name)
        assert found is not None
        for member in members:
            found.member(member)
    # The file has 77 units. A walk over all of them takes about ten times as long as this test.
    assert len(info.index._names) <= 12


def inspected(mode: str = "debug") -> StoppedProcess:
    return StoppedProcess(CoreTarget(str(stopped("nested", mode=mode).core)), FileFinder())


def test_debug_information_agrees_with_all_that_the_runtime_publishes() -> None:
    process = inspected()
    module = next(module for module in process.symbols.modules() if "libiomp5" in module.name)
    symbols = process.symbols.loaded(module).symbols
    assert symbols is not None
    compared = 0
    for prefix in ("ompd_access__", "ompd_sizeof__", "ompd_bitfield__"):
        for symbol in symbols.find_prefix(prefix):
            struct, _, member = symbol.name.removeprefix(prefix).partition("__")
            if not struct or struct.startswith("_") or (prefix != "ompd_sizeof__" and not member):
                continue  # the size of a global variable
            value = read_unsigned(process.memory, symbol.address + module.bias, 8)
            try:
                layout = process.types.layout(module, struct, [member] if member else [])
            except TypeNotFound:
                assert prefix == "ompd_sizeof__", symbol.name  # of a global variable, or of an unused structure
                continue
            if prefix == "ompd_bitfield__":
                assert layout.masks[member] == value, symbol.name
            elif prefix == "ompd_access__":
                assert layout.field(member).offset == value, symbol.name
            else:
                assert (layout.field(member).size if member else layout.size) == value, symbol.name
            compared += 1
    assert compared > 100


def test_the_callbacks_serve_types() -> None:
    process = inspected()
    team = process.types.find("kmp_base_team_t")
    assert process.contract.sizeof(team) == 2048
    layout = process.types.layout(
        next(m for m in process.symbols.modules() if "libiomp5" in m.name), "kmp_base_team", ["t_bar", "t_none"]
    )
    assert layout.source == "dwarf" and list(layout.fields) == ["t_bar"]
    assert process.contract.field_offset(team, "t_bar.b_arrived") == layout.field("t_bar").offset
    for name in ("char", "short", "int", "long"):
        named = {"short": "short", "long": "long"}.get(name, name)
        size = process.contract.sizeof(process.types.find(named))
        assert size == getattr(process.contract.type_sizes(), f"sizeof_{name}")
    assert process.contract.sizeof(process.types.find("long long")) == process.contract.type_sizes().sizeof_long_long
    with pytest.raises(TypeNotFound):
        process.types.find("kmp_no_such_type")
    with pytest.raises(BadInput):
        process.contract.sizeof("kmp_base_team_t")  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="bit field"):
        process.contract.field_offset(process.types.find("kmp_tasking_flags"), "tasktype")
    bare = next(m for m in process.symbols.modules() if "ld-linux" in m.name or "libgcc" in m.name or "[" in m.name)
    with pytest.raises((LayoutUnavailable, TypeNotFound)):
        process.types.layout(bare, "kmp_base_team", [])


# Damaged and contradictory types

LIES = {
    "typedef to itself": ('.La: .uleb128 2; .string "wrong"; .long .La - .Lunit', "size"),
    "typedefs in a ring": (
        '.La: .uleb128 2; .string "wrong"; .long .Lb - .Lunit\n.Lb: .uleb128 2; .string "b"; .long .La - .Lunit',
        "size",
    ),
    "structure in itself": (
        '.La: .uleb128 3; .string "wrong"; .byte 8; .uleb128 4; .long .La - .Lunit; .byte 0; .byte 0',
        "member",
    ),
    "array of itself": (
        '.uleb128 2; .string "wrong"; .long .La - .Lunit\n'
        ".La: .uleb128 5; .long .La - .Lunit; .uleb128 6; .uleb128 3; .byte 0",
        "size",
    ),
    "array too large": (
        '.uleb128 2; .string "wrong"; .long .La - .Lunit\n'
        ".La: .uleb128 5; .long .Lb - .Lunit; .uleb128 6, 0x7fffffffffff; .uleb128 6, 0x7fffffff; .byte 0\n"
        '.Lb: .uleb128 3; .string "s"; .byte 8; .byte 0',
        "size",
    ),
    "reference out of the unit": ('.uleb128 2; .string "wrong"; .long 0x7fffffff', "size"),
    "reference to the header": ('.uleb128 2; .string "wrong"; .long 3', "size"),
    "no such abbreviation": ('.uleb128 2; .string "wrong"; .long .La - .Lunit\n.La: .uleb128 77', "size"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_does_not_end_or_fit_is_malformed(lie: str) -> None:
    entries, what = LIES[lie]
    info = TypeInfo(mapped(built("gcc", ABBREVIATIONS + entries + "\n.byte 0\n.Lend:\n", link=False)))
    use: dict[str, Callable[[DwarfType], object]] = {"size": lambda t: t.size, "member": lambda t: t.member("x")}
    with pytest.raises(MalformedFile):
        found = info.find("wrong")
        assert found is not None
        use[what](found)


def test_a_declaration_alone_is_no_definition() -> None:
    info = TypeInfo(mapped(built("gcc", ABBREVIATIONS + '.uleb128 7; .string "wrong"\n.byte 0\n.Lend:\n', link=False)))
    assert info.find("struct wrong") is None


@pytest.mark.parametrize("version", [4, 5])
@COMPILERS
def test_damaged_debug_information_is_refused_or_read(name: str, version: int) -> None:
    path = built(name, C_SOURCE, f"-gdwarf-{version}")
    elf = mapped(path)
    regions = []
    for section in (".debug_info", ".debug_abbrev", ".debug_str", ".debug_str_offsets"):
        found = elf.section(section)
        if found is not None:
            regions.append((found.sh_offset, found.sh_offset + found.sh_size))

    def use(data: bytes) -> None:
        info = TypeInfo(ElfFile(data, "damaged"))
        for wanted in ("struct outer", "pair_t", "struct flags"):
            try:
                type_ = info.find(wanted)
                if type_ is not None:
                    assert type_.size >= 0
                    type_.member("either.halves.high" if wanted == "struct outer" else "second")
            except (FieldNotFound, TypeNotFound):
                pass
            except Unsupported as error:
                raise MalformedFile(str(error)) from error

    survives(path.read_bytes(), use, regions, examples=300)
