"""Locks by the names of their variables: programs in ``tests/locks`` write the name that each thread's lock must get.

A lock on the heap or on a stack must get no name. The name of another lock would be worse.
"""

from __future__ import annotations

from itertools import product

import pytest

from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.static import find_variables
from ompd.binary.types.types import TypeInfo
from ompd.contract.waits import LOCK_TYPES
from ompd.questions import threads
from ompd.session import Session
from tests.support.budget import within
from tests.support.cache import CHECKOUT
from tests.support.made_types import ABBREVIATIONS, built
from tests.support.odd import COMPILERS, MODES, Core, Odd, core_of
from tests.support.products import sample
from tests.support.samples import mapped, survives

FOLDER = CHECKOUT / "tests" / "locks"
DEBUG_FLAGS = ["-gdwarf-5", "-gdwarf-4", "-gdwarf-2", "-O2", "-gz", "-fdebug-types-section"]


def locks(name: str, *flags: str, **environment: str) -> Odd:
    return Odd(name, flags=flags, environment=environment, folder=FOLDER)


def symbols(core: Core) -> tuple[dict[int, str | None], dict[int, str | None]]:
    """Return the lock's name for each waiting thread: by ompd, and by the program."""
    with Session.open_core(core.path) as session:
        answer = threads.ask(session)
    rows = {row.native_thread_id: row for row in answer.rows}
    told: dict[int, str | None] = {}
    for word in (word for word in core.words if "tid" in word):
        row = rows[word["tid"]]
        assert row.wait is not None and row.wait.kind == "lock" and row.wait.object is not None
        told[word["tid"]] = row.wait.symbol
        assert (row.wait.symbol is None) == ("wait.symbol" in row.unavailable)
    return told, {word["tid"]: word["name"] or None for word in core.words if "tid" in word}


@pytest.mark.parametrize(("compiler", "mode"), sample(product(COMPILERS, MODES)))
@pytest.mark.parametrize("flags", [(), ("-DON_HEAP",)], ids=["static", "heap"])
@pytest.mark.quick("heap-gcc-neither", "static-clang-debug")
def test_the_first_lock_is_not_taken_for_a_variable_never_set(compiler: str, mode: str, flags: tuple[str, ...]) -> None:
    told, true = symbols(core_of(locks("first", *flags), compiler, mode))
    assert told == true


@pytest.mark.parametrize(("compiler", "mode"), sample(product(COMPILERS, MODES)))
@pytest.mark.parametrize("name", ["everywhere", "stale"])
@pytest.mark.quick("everywhere-clang-debug", "everywhere-gcc-neither")
def test_locks_are_called_as_in_the_source(name: str, compiler: str, mode: str) -> None:
    told, true = symbols(core_of(locks(name), compiler, mode))
    assert told == true


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.quick("gcc")
def test_locks_of_cplusplus(compiler: str) -> None:
    told, true = symbols(core_of(locks("scopes"), compiler))
    assert told == true


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.quick("clang")
def test_without_debug_information_no_lock_has_a_name(compiler: str) -> None:
    told, _ = symbols(core_of(locks("everywhere", "-g0"), compiler))
    assert set(told.values()) == {None}


@pytest.mark.parametrize(("compiler", "flags"), [*product(COMPILERS, DEBUG_FLAGS), ("gcc", "-flto")])
@pytest.mark.quick("gcc--gz")
def test_all_places_of_locks_are_found_and_no_others(compiler: str, flags: str) -> None:
    core = core_of(locks("everywhere", flags), compiler)
    with Session.open_core(core.path) as session:
        process = session.process
        (program,) = (module for module in process.symbols.modules() if module.is_program)
        found = [(v.expression, f"{v.address:#x}") for v in process.types.variables_of_type(program, LOCK_TYPES)]
    assert sorted(found) == sorted((word["place"], word["address"]) for word in core.words if "place" in word)
    told, true = symbols(core)
    assert told == true


@pytest.mark.parametrize(
    ("kind", "name", "compiler"),
    sample(
        product(["tas", "futex", "ticket", "drdpa"], ["everywhere", "first", "stale"], COMPILERS),
        lambda kind, name, compiler: ((kind, compiler), (name, compiler)),
    ),
)
@pytest.mark.quick("tas-everywhere-clang", "futex-first-gcc", "ticket-stale-gcc")
def test_locks_of_other_kinds(kind: str, name: str, compiler: str) -> None:
    told, true = symbols(core_of(locks(name, KMP_LOCK_KIND=kind), compiler))
    assert told == true


def test_programs_without_locks_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_of(Odd("loops"), "gcc")
    with Session.open_core(core.path) as session:
        monkeypatch.setattr(session.process.types, "variables_of_type", None)
        assert threads.ask(session).complete


# Contradictory debug information


def test_a_search_is_quick() -> None:
    executable = core_of(locks("everywhere"), "gcc").executable
    elf = ElfFile(executable.read_bytes(), "program")
    with within(0.5):
        assert len(find_variables(TypeInfo(elf), LOCK_TYPES)) == 28


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.quick("gcc")
def test_damaged_debug_information_is_refused_or_read(compiler: str) -> None:
    path = core_of(locks("everywhere"), compiler).executable
    elf = mapped(path)
    names = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_str_offsets", ".debug_addr")
    regions = [(s.sh_offset, s.sh_offset + s.sh_size) for s in map(elf.section, names) if s is not None]
    survives(path.read_bytes(), lambda data: find_variables(TypeInfo(ElfFile(data, "damaged")), LOCK_TYPES), regions)


# The abbreviations of tests.support.made_types, and one for a variable: its name, its type, and its address as
# location.
VARIABLE = ABBREVIATIONS.replace(
    "    .byte 0\n", "    .uleb128 9, 0x34; .byte 0; .uleb128 3, 8, 0x49, 0x13, 2, 0x18, 0, 0\n    .byte 0\n", 1
)
LOCK = (
    '.Llock: .uleb128 2; .string "omp_lock_t"; .long .Lint - .Lunit\n.Lint: .uleb128 3; .string "s"; .byte 4; .byte 0\n'
)


def variable(name: str, label: str) -> str:
    return f'.uleb128 9; .string "{name}"; .long {label} - .Lunit; .byte 9, 3; .quad 0x1000\n'


def nested(depth: int) -> str:
    # Each structure has the next one as its two members, and the last one has locks.
    def level(number: int, inner: str) -> str:
        member = f'.uleb128 8; .string "m"; .long {inner} - .Lunit; .byte 0\n'
        return f'.Ls{number}: .uleb128 3; .string "s"; .byte 8\n{member}{member}.byte 0\n'

    return "".join(level(n, ".Llock" if n == depth - 1 else f".Ls{n + 1}") for n in range(depth)) + variable(
        "v", ".Ls0"
    )


def array(count: int, of: str) -> str:
    return f".uleb128 5; .long {of} - .Lunit; .uleb128 6, {count}; .byte 0\n"


LIES = {
    "structure in itself": '.La: .uleb128 3; .string "a"; .byte 8; .uleb128 4; .long .La - .Lunit; .byte 0; .byte 0\n'
    + variable("v", ".La"),
    "array of itself": ".La: " + array(2, ".La") + variable("v", ".La"),
    "array too large": ".La: " + array(1 << 40, ".Llock") + variable("v", ".La"),
    "arrays too large together": ".La: "
    + array(1 << 12, ".Lb")
    + ".Lb: "
    + array(1 << 12, ".Llock")
    + variable("v", ".La"),
    "doubled too often": nested(40),
    "too deep": nested(70),
    "no such type": '.uleb128 9; .string "v"; .long 0x7fffffff; .byte 9, 3; .quad 0x1000\n',
    "no such operation": '.uleb128 9; .string "v"; .long .Llock - .Lunit; .byte 2, 3, 0\n',
}


@pytest.mark.parametrize("lie", LIES)
def test_what_does_not_end_or_fit_is_left_out(lie: str) -> None:
    honest = variable("honest", ".Llock").replace("0x1000", "0x8000")
    source = VARIABLE + LOCK + LIES[lie] + honest + ".byte 0\n.Lend:\n"
    path = built("gcc", source, link=False)
    with within(2):
        assert find_variables(TypeInfo(mapped(path)), LOCK_TYPES) == [("honest", 0x8000)]
