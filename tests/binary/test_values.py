"""Values by their DWARF types, compared with gdb on the same core, and damaged types and values."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.formatter import ValueFormatter
from ompd.binary.types.layouts import TypeReader
from ompd.binary.types.parts import Dereference, Field, Index, PartFinder, parse_steps
from ompd.binary.types.scalars import format_string, parse_float, plain_integer
from ompd.binary.types.shown import Options, Shown
from ompd.binary.types.static import NamedVariable, find_named
from ompd.binary.types.type_names import type_name
from ompd.binary.types.types import TypeInfo
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, MemoryFault, OmpdError
from tests.support import clean_environment, require
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.runs import cores_allowed, require_kernel_cores

SOURCES = CHECKOUT / "tests" / "values"
BUILDS = {
    "c-gcc": ("gcc", "gcc", "c.c", ()),
    "c-gcc-O2-dwarf4": ("gcc", "gcc", "c.c", ("-O2", "-gdwarf-4")),
    "c-clang": ("clang", "clang", "c.c", ()),
    "cxx-gcc": ("gcc", "g++", "cxx.cc", ()),
    "cxx-clang": ("clang", "clang++", "cxx.cc", ()),
    "fortran-gfortran": ("gfortran", "gfortran", "fortran.f90", ()),
}
# Differences of gdb 13 without a good reason: types that it spells with more words, and values that it cannot show.
OTHER_TYPES = {"al": "(:)", "al0": "(:)", "al2": "(:,:)", "pp": "(:)"}
NOT_COMPARED = {
    "zz": "gdb stops a run of equal elements at the limit of elements",
    "cd": "gdb does not show the text",
    "cp": "its symbols are of the module's file in gdb",
}


@dataclass(frozen=True)
class Sample:
    """A core of a program, and the program's debug information."""

    program: Path
    core: Path
    process: StoppedProcess
    info: TypeInfo
    bias: int

    def variable(self, name: str) -> NamedVariable:
        found = [v for v in find_named(self.info, name) if v.location.kind in ("address", "tls", "constant")]
        assert len(found) == 1, (name, found)
        return found[0]

    def show(self, name: str, letter: str = "", **options: int) -> Shown:
        variable = self.variable(name)
        assert variable.type is not None and variable.location.kind == "address"
        types = TypeReader(self.info, self.process.memory.read_data, self.bias)
        formatter = ValueFormatter(types, Options(letter=letter, **options), self.process.places.symbolize)
        return formatter.show(variable.type, variable.location.number + self.bias)


_samples: dict[str, Sample] = {}


def sample(name: str) -> Sample:
    if name not in _samples:
        _samples[name] = made(name)
    return _samples[name]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    for taken in _samples.values():
        taken.process.close()
    _samples.clear()


def made(name: str) -> Sample:
    require_kernel_cores()
    tool, driver, source, flags = BUILDS[name]
    used = compiler(tool)
    command = str(used.path.with_name(used.path.name.replace(tool, driver)))
    text = (SOURCES / source).read_text()

    def make(folder: Path) -> None:
        (folder / source).write_text(text)
        words = [command, "-g", "-w", *flags, source, "-o", "program", *(["-fopenmp"] if "fortran" in name else [])]
        subprocess.run(words, cwd=folder, check=True, env=clean_environment())
        with cores_allowed():
            subprocess.run(["./program"], cwd=folder, check=False, stderr=subprocess.DEVNULL)
        next(folder.glob("core*")).rename(folder / "the.core")

    folder = entry("values", key_of(text, used.version, flags, driver), make)
    process = StoppedProcess(CoreTarget(str(folder / "the.core")), FileFinder(), str(folder / "program"))
    module = next(m for m in process.modules if m.record.is_program)
    assert isinstance(module.elf, ElfFile)
    return Sample(folder / "program", folder / "the.core", process, TypeInfo(module.elf), module.bias)


def names_of(taken: Sample, name: str) -> list[str]:
    if name.startswith("c-"):
        names = sorted(set(re.findall(r"\bv_\w+", (SOURCES / "c.c").read_text())))
        return [n for n in names if not (n in ("v_q", "v_qneg") and "clang" in name)]
    if name.startswith("cxx"):
        words = (
            "x rx rrx derived base pbase rbase plain plains scoped none both two flag flags box wide empty references"
        )
        return [*words.split(), *["either", "unnamed", "grid", "rgrid", "text", "bottom"]]
    words = "mi arr2 al0 al2 pp ps tgt p1 p3 ap cp i1 i2 i8 i16 r4 r8 r10 r16 c4 c8 lt l1 l8 ch c1 cd ca cw lb z3 zz"
    return words.split()


def ask_gdb(taken: Sample, name: str, words: list[str]) -> list[str]:
    """Return gdb's answer to each of *words*."""
    up = (
        ["-ex", "up", "-ex", "up", "-ex", "up", "-ex", "up", "-ex", "up", "-ex", "up"]
        if not name.startswith("c-")
        else []
    )
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]
    command += ["-iex", "set style enabled off", *up]
    for word in words:
        command += ["-ex", "echo @@", "-ex", word]
    environment = {**clean_environment(), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*command, str(taken.program), str(taken.core)], capture_output=True, text=True, env=environment, check=False
    )
    return [text.strip() for text in done.stdout.split("@@")[1:]]


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.quick("c-gcc-O2-dwarf4", "cxx-clang", "fortran-gfortran")
def test_values_and_types_read_as_gdb_prints_them(name: str) -> None:
    taken = sample(name)
    names = names_of(taken, name)
    said = ask_gdb(taken, name, [word for n in names for word in (f"print {n}", f"whatis {n}")])
    different = {}
    for number, variable in enumerate(names):
        value = re.sub(r"^\$\d+ = ", "", said[2 * number])
        type_ = said[2 * number + 1].removeprefix("type = ")
        shown = taken.show(variable)
        place = taken.variable(variable).type
        assert place is not None
        own = type_name(taken.info, place)
        if variable not in NOT_COMPARED and shown.text != value:
            different[variable] = shown.text, value
        if variable in OTHER_TYPES:
            assert own.endswith(OTHER_TYPES[variable])
        elif variable not in NOT_COMPARED and own != type_:
            different[f"whatis {variable}"] = own, type_
    assert not different
    assert len(names) > 20


LETTERED = "v_i v_u v_c v_d v_f v_a v_a2 v_pt v_p v_b v_e v_l v_s v_uc v_str v_sc v_uca v_two v_rep v_ca v_inner v_n"


@pytest.mark.parametrize("letter", ["x", "d", "u", "o", "t", "z", "c", "f", "s", "a"])
@pytest.mark.quick("f", "d")
def test_letters_mean_what_they_mean_to_gdb(letter: str) -> None:
    taken = sample("c-gcc")
    names = [*LETTERED.split(), *([] if letter in "caf" else ["v_i128"])]
    said = ask_gdb(taken, "c-gcc", [f"print/{letter} {n}" for n in names])
    for name, text in zip(names, said, strict=True):
        assert taken.show(name, letter).text == re.sub(r"^\$\d+ = ", "", text), (name, letter)


def test_values_are_what_json_can_hold() -> None:
    taken = sample("c-gcc")
    expected = {
        "v_i": -42,
        "v_ul": str((1 << 64) - 1),
        "v_l": -(1 << 40),
        "v_i128": -5,
        "v_b": True,
        "v_b0": False,
        "v_c": 97,
        "v_d": 0.1,
        "v_nan": "NaN",
        "v_inf": "Infinity",
        "v_ninf": "-Infinity",
        "v_ld": "0.100000000000000000001",
        "v_ldneg": -1.5,
        "v_ldbig": "9.99999999999999999997e+3999",
        "v_qneg": -2.0,
        "v_cf": {"real": 1.5, "imag": 2.5},
        "v_e": "BLUE",
        "v_eu": 5,
        "v_fl": "FA | FC",
        "v_flx": 65,
        "v_a2": [[1, 2, 3], [4, 5, 6]],
        "v_ca": "abc",
        "v_full": "abc",
        "v_bad": "\\xff\\xfeab",
        "v_utf": "h\u00e9llo",
        "v_uca": [1, 2, 3, 4],
        "v_i8": [1, -1, 0],
        "v_ws": "wide",
        "v_pt": {"x": 1, "y": 2},
        "v_pn": "0x0",
        "v_strn": "0x0",
        "v_ba": [True, False, True],
        "v_empty": {},
    }
    for name, value in expected.items():
        assert taken.show(name).value == value, name
    big = taken.show("v_big").value
    assert isinstance(big, dict)
    assert [big[key] for key in ("a", "b", "in1", "in2", "name", "col", "flag")] == [
        -1,
        17,
        5,
        6,
        "name",
        "GREEN",
        True,
    ]
    string = taken.show("v_str").value
    assert isinstance(string, dict) and string["string"] == 'hello "world"\n\t\x01x'
    wild = taken.show("v_wild").value
    assert wild == {"address": "0x1234", "string": None}
    assert taken.show("v_z").value == [0] * 200 and taken.show("v_z").truncated
    assert not taken.show("v_a").truncated and taken.show("v_a", elements=2).truncated
    fortran = sample("fortran-gfortran")
    assert fortran.show("arr2").value == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert fortran.show("al0").value is None and fortran.show("al0").text == "<not allocated>"
    assert fortran.show("pp").value == [1, 3, 5, 7, 9]
    assert fortran.show("c8").value == {"real": 0.1, "imag": -1.0}
    assert (fortran.show("lt").value, fortran.show("ch").value) == (True, "hello")
    deferred = fortran.show("cd")
    assert deferred.value is not None and deferred.text.endswith(" 'deferred'")
    cxx = sample("cxx-gcc")
    assert cxx.show("derived").value["<ns::Base>"] == {"b": 1, "overridden": 3}  # type: ignore[index, call-overload]
    assert cxx.show("bottom").text.count("t = 9") == 1
    assert cxx.show("scoped").value == "ns::Scoped::Y"


def test_bytes_need_not_come_from_memory() -> None:
    taken = sample("c-gcc")
    place = taken.variable("v_pt").type
    assert place is not None

    def nothing(address: int, size: int) -> bytes:
        raise MemoryFault(address, size)

    shown = ValueFormatter(TypeReader(taken.info, nothing)).show(place, struct.pack("<ii", 7, -8))
    assert (shown.text, shown.value) == ("{x = 7, y = -8}", {"x": 7, "y": -8})
    with pytest.raises(OmpdError):
        ValueFormatter(TypeReader(taken.info, nothing)).show(place, b"\0\0\0")  # three bytes of eight are no value
    with pytest.raises(MemoryFault):
        ValueFormatter(TypeReader(taken.info, nothing)).show(place, 0x1000)


def test_references_are_followed_to_what_they_refer_to() -> None:
    taken = sample("cxx-gcc")
    variable = taken.variable("rx")
    assert variable.type is not None
    reader = TypeReader(taken.info, taken.process.memory.read_data, taken.bias)
    place, source = reader.follow(variable.type, variable.location.number + taken.bias)
    assert source == taken.variable("x").location.number + taken.bias
    assert ValueFormatter(reader).show(place, source).text == "5"


def test_what_has_no_end_is_shown_as_far_as_it_is_worth() -> None:
    taken = sample("c-gcc")
    reads: list[tuple[int, int]] = []

    def letters(address: int, size: int) -> bytes:
        reads.append((address, size))
        return bytes(0x41 + (address + index) % 50 for index in range(size))

    reader = TypeReader(taken.info, letters)
    formatter = ValueFormatter(reader)
    place = taken.variable("v_within").type
    assert place is not None
    for steps in (".huge", ".self->self->self->self", ""):
        part = PartFinder(reader).select(place, 0x1000, parse_steps(steps))
        assert formatter.show_part(part).text
    shown = formatter.show_part(PartFinder(reader).select(place, 0x1000, (Field("huge"), Dereference())))
    assert shown.truncated and isinstance(shown.value, str) and len(shown.value) == 200
    shown = formatter.show_part(PartFinder(reader).select(place, 0x1000, (Field("wide"), Dereference())))
    assert shown.truncated and len(shown.text) < 1 << 17
    text = taken.variable("v_str").type
    assert text is not None
    shown = formatter.show(text, 0x2000)
    assert shown.truncated and shown.text.endswith('"...')
    assert sum(size for _, size in reads) < 1 << 24


def test_no_memory_is_no_value() -> None:
    taken = sample("c-gcc")

    def nothing(address: int, size: int) -> bytes:
        raise MemoryFault(address, size)

    for name in names_of(taken, "c-gcc"):
        place = taken.variable(name).type
        assert place is not None
        if name not in ("v_empty",):
            with pytest.raises(MemoryFault):
                ValueFormatter(TypeReader(taken.info, nothing)).show(place, 0x1000)


# Numbers


@given(st.floats())
def test_doubles_are_themselves(number: float) -> None:
    parsed = parse_float(struct.pack("<d", number), "double", "little")
    assert parsed == parse_float(struct.pack(">d", number), "double", "big")
    if number == number and abs(number) != float("inf"):
        assert parsed.value == Fraction(number) and parsed.text == f"{number:.17g}"
        assert parsed.plain == number


@given(st.integers(0, (1 << 80) - 1), st.sampled_from(["x87", "quad", "half", "bfloat", "single", "double"]))
def test_any_bits_are_some_number(bits: int, kind: str) -> None:
    parsed = parse_float((bits << 48 | bits).to_bytes(16, "little"), kind, "little")
    assert parsed.text and (parsed.value is None) == any(word in parsed.text for word in ("nan", "inf"))
    assert isinstance(parsed.plain, (int, float, str))


def test_whole_numbers_that_not_every_reader_holds_are_text() -> None:
    for number in (0, 1 << 53, -(1 << 53)):
        assert plain_integer(number) == number
    assert plain_integer((1 << 53) + 1) == str((1 << 53) + 1)
    assert plain_integer(-(1 << 100)) == str(-(1 << 100))


@given(st.binary(max_size=300))
def test_no_string_has_what_a_terminal_acts_on(raw: bytes) -> None:
    text = format_string(raw)
    assert text.isprintable()


# Parts


def test_steps_to_parts() -> None:
    assert parse_steps(".a->b[2][3].c") == (Field("a"), Field("b", True), Index((2, 3)), Field("c"))
    assert parse_steps("%x(1,-2)") == (Field("x"), Index((1, -2)))
    assert parse_steps("") == () and isinstance(Dereference(), tuple)
    for wrong in (".", "a", "[", "[x]", "(", "()", "[1", "->", ".1", "[1,2]", "[99999999999999999999]"):
        with pytest.raises(BadInput):
            parse_steps(wrong)
