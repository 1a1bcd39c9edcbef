"""``ompd var``: each thread's value of a variable, for every mechanism and compiler, and gdb's notation of values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ompd
from ompd.errors import BadInput, NoAnswer
from ompd.inspection import Inspection
from ompd.model import VariableAnswer
from tests.support import clean_environment, require
from tests.support.products import sample
from tests.support.runs import cores_allowed, require_kernel_cores
from tests.support.threadprivate import RECIPES, check
from tests.support.variables import running, stopped

ALL = pytest.mark.parametrize("name", RECIPES)


@ALL
@pytest.mark.quick("threads-gcc-O2-flto", "threads-clang-gsplit-dwarf-fnoopenmp-use-tls")
def test_every_thread_has_what_it_says_in_a_core(name: str) -> None:
    told = stopped(RECIPES[name][0], 4)
    with ompd.open_core(told.core) as session:
        check(session, told, name)


@pytest.mark.parametrize(
    ("name", "threads"),
    sample(product(["threads-gcc", "threads-clang-fnoopenmp-use-tls", "threads-clang-femulated-tls"], [1, 2, 64])),
)
@pytest.mark.quick("threads-clang-fnoopenmp-use-tls-2")
def test_every_thread_has_what_it_says_however_many_there_are(name: str, threads: int) -> None:
    told = stopped(RECIPES[name][0], threads)
    with ompd.open_core(told.core) as session:
        check(session, told, name)


@pytest.mark.parametrize(
    "name",
    [
        *("threads-gcc-O2", "threads-clang", "threads-clang-fnoopenmp-use-tls", "threads-clang-femulated-tls"),
        *("members-clang", "fortran-gfortran"),
    ],
)
@pytest.mark.quick("threads-clang-fnoopenmp-use-tls")
def test_every_thread_has_what_it_says_in_a_core_by_gdb(name: str) -> None:
    told = stopped(RECIPES[name][0], 3, "gcore")
    with ompd.open_core(told.core) as session:
        check(session, told, name)


@pytest.mark.parametrize(
    "name",
    [
        "threads-gcc",
        "threads-clang-O2-fnoopenmp-use-tls",
        "threads-clang-femulated-tls",
        "members-gcc",
        "fortran-flang-22",
    ],
)
@pytest.mark.quick("members-gcc")
def test_every_thread_has_what_it_says_alive(name: str, tmp_path: Path) -> None:
    with running(RECIPES[name][0], 4, tmp_path) as told, ompd.attach(told.pid) as session:
        check(session, told, name)


@pytest.mark.parametrize(
    "name", ["threads-gcc", "threads-clang-fnoopenmp-use-tls", "threads-clang-femulated-tls", "fortran-gfortran"]
)
@pytest.mark.quick("threads-clang-femulated-tls")
def test_a_snapshot_tells_the_same_or_why_not(name: str, tmp_path: Path) -> None:
    told = stopped(RECIPES[name][0], 4)
    file = tmp_path / "small.core"
    with ompd.open_core(told.core) as session:
        session.snapshot(file)
    with ompd.open_core(file) as session:
        check(session, told, name, lacking="m::mal")
        if name.startswith("fortran"):  # the snapshot leaves out data on the heap behind a descriptor
            for row in session.ask_var("m::mal").rows:
                assert row.value is None and "leaves out" in row.unavailable["value"]
    with ompd.open_core(told.core) as session:
        session.snapshot(file, data_limit=0)
    with ompd.open_core(file) as session:
        whole = "global" if name.startswith("threads") else "m::shared"
        for row in session.ask_var(whole).rows:
            fact = next(t["variables"][whole] for t in told.threads if whole in t["variables"])
            assert row.address == fact["address"]
            if row.value is None:
                assert "leaves out" in row.unavailable["value"]
            else:
                assert row.value == fact["value"]


def gdb(program: Path, core: Path, *commands: str) -> str:
    words = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]
    words += ["-iex", "set style enabled off"]
    for command in commands:
        words += ["-ex", command]
    environment = {**clean_environment(), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*words, str(program), str(core)], capture_output=True, text=True, env=environment, check=False
    )
    return done.stdout


@pytest.mark.parametrize("name", ["threads-clang-fnoopenmp-use-tls", "fortran-flang-22"])
@pytest.mark.quick("threads-clang-fnoopenmp-use-tls")
def test_where_gdb_shows_the_primary_threads_copy_everywhere(name: str) -> None:
    told = stopped(RECIPES[name][0], 4)
    variable, word = ("tp", "tp") if name.startswith("threads") else ("m::mtp", "'m::mtp'")
    values = {thread["number"]: thread["variables"].get(variable, {}).get("value") for thread in told.threads}
    said = gdb(told.program, told.core, f"thread apply all -q print {word}")
    if name.startswith("threads"):
        shown = {int(value) for value in re.findall(r"^\$\d+ = (-?\d+)$", said, re.MULTILINE)}
        assert shown == {values[0]}, said  # gdb's answer: one value for all threads
    with ompd.open_core(told.core) as session:
        rows = [row for row in session.ask_var(variable).rows if row.thread_num is not None]
    assert {row.thread_num: row.value for row in rows} == {n: v for n, v in values.items() if n >= 0}
    assert len({row.value for row in rows}) == 4


def test_a_variable_in_a_team_that_was_not_touched_has_no_storage_yet() -> None:
    for name in ("threads-clang-fnoopenmp-use-tls", "threads-clang-femulated-tls"):
        told = stopped(RECIPES[name][0], 4)
        with ompd.open_core(told.core) as session:
            rows = {row.thread_num: row for row in session.ask_var("rare").rows if row.runtime is not None}
        assert rows[1].value == 78
        for number in (2, 3):
            assert (rows[number].address, rows[number].value, dict(rows[number].unavailable)) == (None, None, {})
        if name.endswith("use-tls"):  # the initial thread's copy is the variable itself
            assert (rows[0].value, rows[0].mechanism) == (77, "cached")


def test_variables_that_code_initialises_are_said_to_be_so_or_not() -> None:
    for compiler in ("gcc", "clang"):
        told = stopped(RECIPES[f"members-{compiler}"][0], 4)
        with ompd.open_core(told.core) as session:
            for variable, divisor in (("dynamic", 2), ("Class::method::local", 3)):
                rows = session.ask_var(variable).rows
                assert [row.initialized for row in rows] == [row.thread_num % divisor == 0 for row in rows]
            assert {row.initialized for row in session.ask_var("ns::hidden").rows} == {None}


# Names


@pytest.fixture(scope="module")
def threads() -> Iterator[Inspection]:
    with ompd.open_core(stopped(RECIPES["threads-gcc"][0], 4).core) as session:
        yield session


@pytest.fixture(scope="module")
def members() -> Iterator[Inspection]:
    with ompd.open_core(stopped(RECIPES["members-gcc"][0], 4).core) as session:
        yield session


@pytest.fixture(scope="module")
def fortran() -> Iterator[Inspection]:
    with ompd.open_core(stopped(RECIPES["fortran-gfortran"][0], 4).core) as session:
        yield session


def values(answer: VariableAnswer) -> list[Any]:
    return [row.value for row in answer.rows if row.thread_num is not None]


@pytest.mark.parametrize("name", ["tp", "threads.c::tp", "'threads.c'::tp", "::tp", "threads::tp", " tp "])
def test_ways_to_name_a_variable_of_c(threads: Inspection, name: str) -> None:
    assert values(threads.ask_var(name)) == [5, 15, 25, 35]


@pytest.mark.parametrize(
    "name",
    ["ns::Base::shared", "Base::shared", "shared", "members.cc::ns::Base::shared", "members.cc::shared"],
)
def test_ways_to_name_a_member_of_a_class(members: Inspection, name: str) -> None:
    answer = members.ask_var(name)
    assert values(answer) == [10, 11, 12, 13]
    assert answer.rows[0].name == "ns::Base::shared"


@pytest.mark.parametrize("name", ["ns::inlined", "ns::v1::inlined", "ns::hidden", "counted<int>::calls"])
def test_scopes_that_the_source_may_leave_out(members: Inspection, name: str) -> None:
    assert len(values(members.ask_var(name))) == 4


@pytest.mark.parametrize(
    "name", ["/block/first", "/BLOCK/First", "first", "FIRST", "main::first", "fortran.f90::first"]
)
def test_ways_to_name_a_member_of_a_common_block(fortran: Inspection, name: str) -> None:
    if name == "main::first":
        name = "MAIN__::first"
    answer = fortran.ask_var(name)
    assert values(answer) == [1, 101, 201, 301]
    assert answer.rows[0].name == "/block/first"


def test_a_whole_common_block(fortran: Inspection) -> None:
    for name in ("/block/", "block", "/Block/"):
        answer = fortran.ask_var(name)
        assert values(answer)[2] == {"first": 201, "three": [1, -2, 3], "last": 2.25}
        assert answer.rows[2].text == "( first = 201, three = (1, -2, 3), last = 2.25 )"


@pytest.mark.parametrize("name", ["m::mtp", "mtp", "MTP", "M::Mtp"])
def test_ways_to_name_a_variable_of_a_module(fortran: Inspection, name: str) -> None:
    assert values(fortran.ask_var(name)) == [4, 5, 6, 7]


def test_parts_of_variables(threads: Inspection, fortran: Inspection, members: Inspection) -> None:
    whole = threads.ask_var("stp").rows[1]
    assert threads.ask_var("stp[1]").rows[1].address == (whole.address or 0) + 8
    assert values(threads.ask_var("stp[1]")) == [0.0, 0.25, 0.5, 0.75]
    assert values(threads.ask_var("pt.y")) == [0, *(-1000000000000 * n for n in (1, 2, 3))]
    assert values(threads.ask_var("pt.name[1]")) == [ord(str(n)) for n in range(4)]
    assert values(threads.ask_var("*pointer")) == [5, 15, 25, 35]
    assert values(threads.ask_var("pointer[0]")) == [5, 15, 25, 35]
    assert values(fortran.ask_var("mthree(0)")) == [0, 1, 2, 3]
    assert values(fortran.ask_var("mal(1)")) == [0, 1, 2, 3]
    assert values(members.ask_var("dynamic.value"))[::2] == [43, 43]


@pytest.mark.parametrize("name", ["tp.x", "pt.z", "stp[3]", "stp[-1]", "*tp", "pt->x", "tp[0]", "pt.name.x"])
def test_parts_that_there_are_not(threads: Inspection, name: str) -> None:
    with pytest.raises(BadInput):
        threads.ask_var(name)


@pytest.mark.parametrize("name", ["", "  ", "1x", "a b", "x.", "x[", "x[y]", "/block", "x::", "*", "a..b", "\x1b[2J"])
def test_what_is_no_name(threads: Inspection, name: str) -> None:
    with pytest.raises(BadInput):
        threads.ask_var(name)


def test_several_variables_of_a_name_are_listed(threads: Inspection, members: Inspection) -> None:
    with pytest.raises(NoAnswer, match=r"any of 2 variables: count::limit, count_again::limit"):
        threads.ask_var("limit")
    with pytest.raises(NoAnswer, match=r"counted<double>::calls, counted<int>::calls"):
        members.ask_var("counted::calls")
    with pytest.raises(NoAnswer, match="kept") as raised:
        members.ask_var("kept")
    for name in re.findall(r"ns::Box<[^>]+>::kept", str(raised.value)):
        assert len(values(members.ask_var(name))) == 4


def test_of_a_name_that_there_is_not_near_ones_are_told(threads: Inspection) -> None:
    with pytest.raises(NoAnswer, match="no variable natve") as raised:
        threads.ask_var("natve")
    assert "native" in raised.value.hint


def test_without_debug_information_nothing_is_taken_for_a_number(tmp_path: Path) -> None:
    told = stopped(RECIPES["threads-gcc"][0], 4)
    bare = tmp_path / "threads"
    strip = ["objcopy", "--strip-debug", str(told.program), str(bare)]
    subprocess.run(strip, check=True, env=clean_environment())
    with ompd.open_core(told.core, exe=bare) as session:
        rows = {row.native_thread_id: row for row in session.ask_var("tp").rows}
        for thread in told.threads:
            fact = thread["variables"].get("tp")
            row = rows[thread["id"]]
            assert row.mechanism == "tls" and row.type is None and "no debug information" in row.unavailable["type"]
            if fact is not None:
                assert (row.address, row.value) == (fact["address"], f"{fact['value']:#010x}")
        assert session.ask_var("pt").rows[0].value[0] == f"{0:#018x}"
        with pytest.raises(BadInput, match="no debug information"):
            session.ask_var("pt.x")


# Common values, formats, and output


def test_values_that_stand_out_are_marked(threads: Inspection) -> None:
    rows = threads.ask_var("count_again::again").rows
    assert [row.outlier for row in rows] == [row.runtime is None for row in rows]  # 202 in the team, 200 outside
    assert not any(row.outlier for row in threads.ask_var("tp").rows)
    assert not any(row.outlier for row in threads.ask_var("global").rows)


def test_statistics(threads: Inspection) -> None:
    stats = threads.ask_var("tp", stats=True).stats
    assert stats is not None
    numbers = sorted([5, 15, 25, 35, 5])
    assert (stats.count, stats.minimum, stats.maximum, stats.mean) == (5, 5, 35, sum(numbers) / 5)
    assert sorted(len(value.threads) for value in stats.distinct) == [1, 1, 1, 2]
    assert sum(len(value.threads) for value in stats.distinct) == 5
    texts = threads.ask_var("text", stats=True).stats
    assert texts is not None and texts.mean is None and texts.minimum is None
    assert threads.ask_var("tp").stats is None


def test_formats_are_gdbs(threads: Inspection) -> None:
    told = stopped(RECIPES["threads-gcc"][0], 4)
    names = ("tp", "stp", "pt", "text", "big", "native", "small", "global", "zeroed")
    for letter in ("x", "d", "u", "o", "t", "z", "s", ""):
        words = [f"print{'/' + letter if letter else ''} {name}" for name in names]
        said = gdb(told.program, told.core, *words)
        shown = re.findall(r"^\$\d+ = (.*)$", said, re.MULTILINE)
        assert len(shown) == len(names)
        first = told.threads[0] if told.threads[0]["number"] == 0 else next(t for t in told.threads if t["number"] == 0)
        for name, text in zip(names, shown, strict=True):
            row = next(
                row for row in threads.ask_var(name, format=letter or None).rows if row.native_thread_id == first["id"]
            )
            assert row.text == text, (name, letter)


def test_a_part_of_a_long_array_is_enough(threads: Inspection) -> None:
    row = threads.ask_var("text", elements=3).rows[0]
    assert (row.value, row.text, row.truncated) == ("thr", '"thr"...', True)
    with pytest.raises(BadInput):
        threads.ask_var("text", elements=0)
    with pytest.raises(BadInput):
        threads.ask_var("text", format="y")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ompd")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)


def test_the_command_folds_marks_and_says_what_it_knows() -> None:
    told = stopped(RECIPES["threads-gcc"][0], 4)
    done = run("var", str(told.core), "count_again::again", "--stats")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2] == "count_again::again   int   thread-local (tls)   threads.c:49   in threads"
    assert lines[3].split() == ["OMP", "THREADS", "ADDRESS", "VALUE"]
    assert re.match(r"   0-3/4  .*  4 copies  +202", lines[4])
    assert re.match(r"\*  -      \d+ +0x[0-9a-f]+  200", lines[5])
    assert any(line.startswith("5 values, 2 distinct   min 200   max 202   mean 201.6") for line in lines)
    unfolded = run("var", str(told.core), "count_again::again", "--all").stdout
    assert len(re.findall(r"  202 *$", unfolded, re.MULTILINE)) == 4
    done = run("var", str(told.core), "limit")
    assert (done.returncode, done.stdout) == (1, "") and "count::limit" in done.stderr
    assert run("var", str(told.core)).returncode == 2


def test_json_is_what_its_schema_says() -> None:
    told = stopped(RECIPES["threads-gcc"][0], 4)
    schema = json.loads(run("schema", "var").stdout)
    for arguments in (["pt", "--stats"], ["big"], ["opened_variable"], ["zeroed", "--format", "x"]):
        answer = json.loads(run("var", str(told.core), *arguments, "--json").stdout)
        jsonschema.validate(answer, schema)
        assert answer["schema"] == "ompd/var/1"
    keys = {"native_thread_id", "runtime", "parallel", "thread_num", "address", "value", "mechanism"}
    assert all(keys <= row.keys() for row in answer["var"])


def test_a_process_without_openmp_has_variables_too(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("#include <stdlib.h>\n__thread int own = 7; int main(void) { own++; abort(); }\n")
    subprocess.run([str(require("gcc")), "-g", str(source), "-o", str(tmp_path / "plain")], check=True)
    require_kernel_cores()
    with cores_allowed():
        subprocess.run([str(tmp_path / "plain")], cwd=tmp_path, check=False)
    core = next(tmp_path.glob("core*"))
    with ompd.open_core(core) as session:
        answer = session.ask_var("own")
        assert [(row.value, row.runtime, row.mechanism) for row in answer.rows] == [(8, None, "tls")]
        assert answer.complete
