"""OMPT's headers and tables agree with the documents in numbers, members and signatures, and compilers confirm it."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from ompd.contract.ompt import FROM_2015, State, State2015
from tests.ompt import layouts, report
from tests.ompt import openmp_5 as header_5
from tests.ompt.declarations import Declarations, Signature, declared, declared_in
from tests.ompt.rulings import ADDED_BY_52, NAMED, RULINGS, held_5, held_2015
from tests.support import Missing, require
from tests.support.ompt import openmp_5, report_2015
from tests.support.ompt.tables import Enumeration
from tests.support.pages import ROOT
from tests.support.stub import INCLUDE

PAGE = (ROOT / "docs" / "dev" / "ompt.md").read_text()
OMPT = Path(report.__file__).parent
COMPILERS = ("gcc", "clang")
WIDTHS = (64, 32)
# Names in Intel's header that come from OpenMP 6.0 or from Intel itself.
LATER = re.compile(
    r"ompt_(oneapi_\w+|subvolume_t|get_buffer_limits_t|any_record_ompt_t|record_target_\w*emi_t|record_target_submit\w*"
    r"|state_work_(free_agent|induction)|target_data_(memset|transfer|transfer_rect)(_async)?"
    r"|task_(ex|im)porting|work_workdistribute)"
)


def compiled(source: Path, compiler: str, width: int = 64, include: Path = INCLUDE) -> str:
    """Return the compiler's messages about a file, empty if the file is right. The check of its syntax needs no C
    library.
    """
    if width == 32 and platform.machine() != "x86_64":
        raise Missing("gcc-m32", "this machine's compilers have no such processor", forbidden=True)
    language = ["-x", "c++", "-std=c++11"] if compiler.endswith("++") else ["-x", "c", "-std=c11"]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [require(compiler), *language, *warnings, f"-m{width}", "-ffreestanding", "-fsyntax-only", f"-I{include}"]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def enumerators(declarations: Declarations) -> dict[str, int]:
    return dict(chain.from_iterable(numbers.items() for numbers in declarations.enumerations.values()))


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


# Data of the documents


def test_the_data_of_the_report_are_the_reports() -> None:
    paths = [os.environ.get("OMPD_OMPT_REPORT"), os.environ.get("OMPD_OMPT_DRAFT")]
    if not all(paths):
        pytest.skip("OMPD_OMPT_REPORT and OMPD_OMPT_DRAFT do not name the documents")
    texts = [Path(path).read_text() for path in paths if path]
    read = report.parsed(*texts)
    assert json.loads(report.DATA.read_text()) == json.loads(json.dumps(read))
    # A changed number in the document changes the number in the data.
    changed = texts[0].replace("ompt_event_flush                    = 61", "ompt_event_flush = 71")
    assert report.parsed(changed, texts[1])["appendix"]["enumerations"]["ompt_event_t"]["ompt_event_flush"] == 71


def test_the_report_has_seventy_events_from_one_on() -> None:
    read = report.load()
    assert sorted(read.appendix.enumerations["ompt_event_t"].values()) == list(range(1, 71))
    assert len(read.appendix.enumerations["ompt_state_t"]) == 20
    assert read.groups.keys() == read.appendix.enumerations["ompt_event_t"].keys()


def test_each_contradiction_of_the_report_has_a_ruling_and_the_page_names_each() -> None:
    read = report.load()
    shared = read.appendix.functions.keys() & read.text.functions.keys()
    contradictions = {name for name in shared if read.appendix.functions[name] != read.text.functions[name]}
    assert contradictions == {ruling.settles for ruling in RULINGS if ruling.settles}
    # Types that the text defines as well are the same as the appendix's.
    assert read.text.aliases.items() <= read.appendix.aliases.items() and len(read.text.aliases) == 4
    assert read.text.structures == {"ompt_frame_t": read.appendix.structures["ompt_frame_t"]}
    explained = read.callbacks.keys() - read.groups.keys()
    assert explained == {"ompt_event_target_task_end"}
    assert [cell[0].split("`")[1] for cell in rows("Rulings")] == [ruling.subject for ruling in RULINGS]


def test_what_a_type_is_made_of_is_declared() -> None:
    # The report uses one type that it does not define; with the rulings there is none.
    def missing(held: Declarations) -> set[str]:
        known = {"const", "unsigned", "int", "double", "char", "void", "size_t", *held.names()}
        types = [*held.aliases.values(), *(kind for members in held.structures.values() for _, kind in members)]
        for signature in held.functions.values():
            types += [signature.returns, *signature.parameters]
        words = chain.from_iterable(re.findall(r"\w+", kind) for kind in types if isinstance(kind, str))
        return {word for word in words if word not in known and not re.fullmatch(r"u?int\d+_t", word)}

    read = report.load()
    assert missing(held_2015(read)) == set()
    assert missing(held_5(header_5.load())) == set()
    read.appendix.functions |= read.text.functions
    assert missing(read.appendix) == {"ompt_atomic_type_t"}


@pytest.mark.parametrize("runtime", ["libompd-14", "libompd-19", "libompd-22", "intel"])
def test_headers_of_runtimes_declare_the_same(runtime: str) -> None:
    theirs, ours = header_5.parsed(header_5.header_of(runtime)), declared_in(INCLUDE / "omp-tools.h")
    if runtime == header_5.RELEASE:
        assert theirs == header_5.load()
    numbers = enumerators(ours)
    later = {name for name in theirs.names() - ours.names() if LATER.fullmatch(name)}
    assert theirs.names() - ours.names() == later and bool(later) == (runtime == "intel")
    assert {name: number for name, number in enumerators(theirs).items() if numbers.get(name, number) != number} == {}
    different = {
        name
        for table in ("structures", "unions", "aliases", "functions", "constants")
        for name, declaration in getattr(theirs, table).items()
        if getattr(ours, table).get(name, declaration) != declaration
    }
    # In 5.0 the member `work_type` had another name. In 6.0 the union has its own name.
    assert different == {"libompd-14": {"ompt_record_work_t"}, "intel": {"ompt_record_ompt_t"}}.get(runtime, set())
    if runtime == "intel":
        assert ADDED_BY_52.items() <= enumerators(theirs).items()


# The headers


@pytest.mark.parametrize("header", layouts.FILES)
def test_the_headers_declare_what_the_documents_do_and_nothing_else(header: str) -> None:
    ours = declared_in(INCLUDE / header)
    held = held_2015(report.load()) if header == "ompt.h" else held_5(header_5.load())
    for table in ("enumerations", "structures", "unions", "aliases", "functions", "constants"):
        assert getattr(ours, table) == getattr(held, table), table


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", layouts.FILES)
def test_compilers_confirm_numbers_sizes_offsets_and_signatures(header: str, compiler: str, width: int) -> None:
    file = layouts.FILES[header]
    assert file.read_text() == layouts.assertions(header), "write it anew: python -m tests.ompt.layouts"
    assert file.read_text().count("\nOFFSET(") > 60
    assert compiled(file, compiler, width) == ""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_both_generations_fit_in_one_file(compiler: str, width: int) -> None:
    assert compiled(OMPT / "generations.c", compiler, width) == ""


@pytest.mark.parametrize("header", ["ompt.h", "omp-tools.h", "ompt_generations.h"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_headers_are_for_c_plus_plus_too(header: str, compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "tool.cc"
    source.write_text(f'#include "{header}"\n')
    assert compiled(source, compiler) == ""


@pytest.mark.parametrize(
    ("header", "right", "wrong"),
    [
        ("ompt.h", "ompt_state_wait_lock = 0x60", "ompt_state_wait_lock = 0x41"),
        ("ompt.h", "uint64_t ompt_target_buffer_cursor_t", "uint32_t ompt_target_buffer_cursor_t"),
        ("ompt.h", "(int device_id, ompt_target_buffer_t **buffer", "(ompt_target_buffer_t **buffer"),
        ("ompt.h", "uint32_t atomic_type);", "uint64_t atomic_type);"),
        ("ompt_records.h", "    int device_id;\n    void *codeptr_ra;", "    void *codeptr_ra;\n    int device_id;"),
        ("ompt_records.h", "ompt_record_task_begin_t new_task;", "ompt_record_task_t new_task;"),
        ("omp-tools.h", "    int exit_frame_flags;\n", "    long exit_frame_flags;\n"),
        ("omp-tools.h", "ompt_set_impossible = 2", "ompt_set_impossible = 1"),
        ("omp-tools-devices.h", "int buffer_owned);", "unsigned buffer_owned);"),
    ],
)
def test_what_is_wrong_in_a_header_does_not_compile(header: str, right: str, wrong: str, tmp_path: Path) -> None:
    for path in INCLUDE.glob("omp*.h"):
        (tmp_path / path.name).write_text(path.read_text())
    text = (INCLUDE / header).read_text()
    assert text.count(right) == 1
    (tmp_path / header).write_text(text.replace(right, wrong))
    of = "ompt.h" if header.startswith("ompt") else "omp-tools.h"
    assert "static assertion failed" in compiled(layouts.FILES[of], "gcc", include=tmp_path)


def test_both_generations_at_once_rename_what_both_have() -> None:
    one, other = declared_in(INCLUDE / "ompt.h"), declared_in(INCLUDE / "omp-tools.h")
    same = {
        name
        for table in ("aliases", "functions")
        for name, declaration in getattr(one, table).items()
        if getattr(other, table).get(name) == declaration and "_state_" not in name and "_frame_" not in name
    }
    text = (INCLUDE / "ompt_generations.h").read_text()
    renamed = dict(re.findall(r"^#define (ompt_\w+) (ompt2015_\w+)$", text, re.MULTILINE))
    macros = one.constants.keys() & other.constants.keys()
    clashing = (one.names() & other.names()) - same - macros
    assert renamed == {name: name.replace("ompt_", "ompt2015_", 1) for name in clashing}
    assert set(re.findall(r"^#undef (\w+)$", text, re.MULTILINE)) == clashing | macros
    again = dict(re.findall(r"^#define (ompt2015_\w+) ([(\d].*)$", text, re.MULTILINE))
    assert again == {name.replace("ompt_", "ompt2015_", 1): one.constants[name] for name in macros}
    assert all(name in text.split("*/")[0] for name in same)  # its comment lists them
    assert f"names. {len(clashing | macros)} of them are in both" in " ".join(PAGE.split())


def test_the_second_header_of_a_pair_is_refused_where_it_would_clash(tmp_path: Path) -> None:
    source = tmp_path / "tool.c"
    source.write_text('#include "ompt.h"\n#include "ompt_generations.h"\n')
    assert "include ompt_generations.h before ompt.h" in compiled(source, "gcc")


# The tables in Python


@pytest.mark.parametrize(
    ("tables", "header", "elsewhere"),
    [(report_2015.ENUMERATIONS, "ompt.h", {""}), (openmp_5.ENUMERATIONS, "omp-tools.h", set())],
    ids=["2015", "5"],
)
def test_the_tables_have_the_numbers_of_the_headers(
    tables: dict[str, Enumeration], header: str, elsewhere: set[str]
) -> None:
    ours = declared_in(INCLUDE / header).enumerations
    assert tables.keys() == ours.keys() - elsewhere
    # Two states exist only in Intel's header.
    intels = {"ompt_state_work_free_agent": 3, "ompt_state_work_induction": 4}
    for name, table in tables.items():
        extra = intels if table.members is State else {}
        assert table.numbers() == {**ours[name], **extra}, name


def test_what_the_report_does_not_name_has_the_numbers_of_the_header() -> None:
    tables = (
        ("set", report_2015.SetResult),
        ("version_of", report_2015.Version),
        ("control", report_2015.Command),
    )
    named = {f"ompt2015_{prefix}_{each.name.lower()}": each.value for prefix, table in tables for each in table}
    assert named == NAMED


def test_events_have_the_class_and_the_callback_that_the_report_gives_them() -> None:
    read = report.load()
    names = {member: name for name, member in report_2015.Event.__members__.items()}
    assert len(names) == 70
    for event in report_2015.Event:
        c_name = f"ompt_event_{event.name.lower()}"
        mandatory, blame = event in report_2015.MANDATORY, event in report_2015.BLAME_SHIFTING
        assert (mandatory, blame) == tuple(read.groups[c_name] == group for group in ("mandatory", "blame_shifting"))
        told = read.callbacks.get(c_name) or read.callbacks[re.sub("_a?sync$", "", c_name)]
        assert report_2015.CALLBACK_TYPES[event] == told
    assert report_2015.CALLBACK_TYPES.keys() == set(report_2015.Event)
    text = (INCLUDE / "ompt.h").read_text()
    comments = dict(re.findall(r"(ompt_event_\w+) = \d+, +/\* (\w+) \*/", text))
    assert comments == {f"ompt_event_{e.name.lower()}": kind for e, kind in report_2015.CALLBACK_TYPES.items()}


def test_callbacks_of_openmp_5_have_the_types_that_its_header_has_and_llvm_says() -> None:
    ours = declared_in(INCLUDE / "omp-tools.h")
    types = {f"ompt_callback_{each.name.lower()}": openmp_5.callback_type(each) for each in openmp_5.Callback}
    assert set(types.values()) <= ours.functions.keys()
    assert ours.aliases["ompt_callback_master_t"] == "ompt_callback_masked_t"
    # The header's macros for the runtime's own use have each event with its type.
    text = header_5.header_of(header_5.RELEASE).read_text()
    theirs = re.findall(r"^\s+macro \((ompt_callback_\w+)\s*,\s*(\w+),\s*(\d+)\)", text, re.MULTILINE)
    assert {name: kind for name, kind, _ in theirs} == types
    assert {name: int(number) for name, _, number in theirs}.items() <= ours.enumerations["ompt_callbacks_t"].items()


def test_states_of_the_report_have_one_of_openmp_5_each() -> None:
    assert FROM_2015.keys() == set(State2015) - {State2015.FIRST}


# The page


def test_the_page_has_the_states_and_codes_of_the_tables() -> None:
    states = {name: (old, new) for name, old, new in rows("States")}
    names = {**State2015.__members__, **State.__members__}.keys() - {"FIRST", "WORK_FREE_AGENT", "WORK_INDUCTION"}
    assert states == {
        name.lower(): (
            f"{State2015[name]:#04x}" if name in State2015.__members__ else "",
            f"{State[name]:#05x}" if name in State.__members__ else "",
        )
        for name in names
    }
    codes = [row[1:] for row in rows("Codes of ompt_set_callback")]
    assert sorted(int(old) for old, _ in codes if old) == [each.value for each in report_2015.SetResult]
    assert {tuple(new.split()) for _, new in codes} == {
        (str(each.value), f"`ompt_set_{each.name.lower()}`") for each in openmp_5.SetResult
    }


# The reader of declarations


def test_declarations_are_read_as_c_means_them() -> None:
    found = declared(
        """
        #define ompt_none (-1) /* not
                                  this: #define ompt_other 1 */
        extern "C" { typedef enum tag { one, two = 0x10, /* and */ three, four = two, } number_t; };
        typedef struct s { const char *text; unsigned int count; union { number_t a; void *b; } inner; } both_t;
        typedef both_t *(*find_t)(const both_t **where, unsigned int, void *, uint64_t each);
        OMPT_API int look(void); // no parameters
        typedef both_t other_t;
        """
    )
    assert found.constants == {"ompt_none": "(-1)"}
    assert found.enumerations == {"number_t": {"one": 0, "two": 16, "three": 17, "four": 16}}
    inner = [("a", "number_t"), ("b", "void *")]
    assert found.structures == {"both_t": [("text", "const char *"), ("count", "unsigned int"), ("inner", inner)]}
    assert found.functions == {
        "find_t": Signature("both_t *", ["const both_t **", "unsigned int", "void *", "uint64_t"]),
        "look": Signature("int", []),
    }
    assert found.aliases == {"other_t": "both_t"}
    wide, narrow = (layouts.Layouts(found, width).of("both_t") for width in WIDTHS)
    assert (wide.size, wide.offsets) == (24, {"text": 0, "count": 8, "inner": 16})
    assert (narrow.size, narrow.offsets) == (12, {"text": 0, "count": 4, "inner": 8})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("typedef int one_t", "an end without ;"),
        ("int number;", "not understood"),
        ("struct s { int a, b; };", "two members in one"),
        ("typedef int (f)(void);", "no pointer to a function"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declared(text)
