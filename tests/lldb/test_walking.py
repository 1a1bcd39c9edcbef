"""Walking through a region and a task in gdb and LLDB: breakpoints by OpenMP number, ``step``, ``next``, ``finish``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ompd.frontends.commands import BreakCommand
from ompd.frontends.prompt import split_options
from ompd.frontends.spots import Spot, choose_spots
from ompd.isa.x86.references import X86References
from ompd.questions.walking import body_called
from tests.support import stopped
from tests.support.gdb import LOAD as LOAD_IN_GDB
from tests.support.gdb import NAMES, batch, gdb, open_core, open_program
from tests.support.gdb import Replies as GdbReplies
from tests.support.lldb import LOAD as LOAD_IN_LLDB
from tests.support.lldb import VERSIONS, lldb, target_create
from tests.support.lldb import batch as lldb_batch
from tests.support.lldb_replies import Replies as LldbReplies
from tests.support.products import each_gdb, each_version, sample
from tests.support.walking import ALONE, BUILDS, CALLS, build_alone, build_calls, build_small, build_sums, line_of

PRAGMA, TASK, AFTER = line_of("omp parallel"), line_of("omp task "), line_of("sum is")
FIRST, CALL = line_of("int mine"), line_of("total = later")
NO_REGION = "is in no region or task"
ENDED = f"the region sums.c:{PRAGMA} has ended"


def in_gdb(name: str, *commands: str, program: Path) -> GdbReplies:
    return batch(gdb(name), [LOAD_IN_GDB, open_program(program), *commands], cwd=Path("/tmp"))


def in_lldb(version: int, *commands: str, program: Path) -> LldbReplies:
    quiet = ("settings set stop-line-count-before 0", "settings set stop-line-count-after 0")
    told = lldb_batch(lldb(version), [LOAD_IN_LLDB, *quiet, target_create(program), *commands], cwd=Path("/tmp"))
    return LldbReplies(told)


def line_in(text: str) -> int:
    """Return the line of sums.c that a debugger shows."""
    found = re.findall(r"sums\.c:(\d+)", text) or re.findall(r"^(\d+)\s", text, re.MULTILINE)
    return int(found[-1])


# The pages' session, in each debugger, on each build: stop in one OpenMP thread, print what it shares, walk out.


@pytest.mark.xdist_group("gdb")
@pytest.mark.parametrize(("name", "compiler", "level"), sample([(name, *build) for name in NAMES for build in BUILDS]))
@pytest.mark.quick("gdb-gcc--O0")
def test_a_region_is_walked_through_in_gdb(name: str, compiler: str, level: str) -> None:
    told = in_gdb(
        name,
        *(f"omp break sums.c:{FIRST} --thread 1", "info breakpoints", "run", "omp thread", "omp print sum"),
        *("omp next", "omp next ", "omp finish", "omp print  sum", "omp finish ", "up", "info breakpoints "),
        program=build_sums(compiler, level),
    )
    assert told["info breakpoints"].count(" in ") == 1, "one location"
    assert "OpenMP thread 1/3 at level 1" in told["omp thread"]
    assert re.match(r"sum = \d+   \(int, shared\)\n", told["omp print sum"])
    assert FIRST <= line_in(told["omp next"]) <= CALL
    assert ENDED in told["omp finish"] and line_in(told["omp finish"]) == AFTER
    assert told["omp print  sum"] == "sum = 61   (int)\n" or level == "-O2"
    assert NO_REGION in told["omp finish "]
    assert " main () at " in told["up"]
    # The commands' own breakpoints are gone, and the user's breakpoints are as before.
    after = told["info breakpoints "]
    assert re.sub(r"\tbreakpoint already hit .*\n|0x\w+", "", after) == re.sub("0x\\w+", "", told["info breakpoints"])


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(
    ("version", "compiler", "level"), sample([(version, *build) for version in VERSIONS for build in BUILDS])
)
@pytest.mark.quick("19-clang--O2")
def test_a_region_is_walked_through_in_lldb(version: int, compiler: str, level: str) -> None:
    told = in_lldb(
        version,
        *(f"ompd break sums.c:{FIRST} --thread 1", "breakpoint list", "run", "ompd thread", "ompd print sum"),
        *("ompd next", "ompd finish", "frame variable sum", "ompd finish", "bt", "breakpoint list"),
        program=build_sums(compiler, level),
    )
    before, after = told.all("breakpoint list")
    assert before.count("where = ") == 1, "one location"
    assert "OpenMP thread 1/3 at level 1" in told["ompd thread"]
    assert re.match(r"sum = \d+   \(int, shared\)\n", told["ompd print sum"])
    assert FIRST <= line_in(told["ompd next"]) <= CALL
    over, none = told.all("ompd finish")
    assert ENDED in over and line_in(over) == AFTER and NO_REGION in none
    assert "61" in told["frame variable sum"] or level == "-O2"
    assert "`main at sums.c" in told["bt"]
    strip = re.compile(r"0x\w+|hit count = \d+|(un)?resolved|resolved = \d+")
    assert after.count("where = ") == 1 and strip.sub("", before).split(":")[0] == strip.sub("", after).split(":")[0]
    assert "tid" not in after, "the user's breakpoint is for any thread again"


# Steps into the construct of a line


def check_end(task: str, region: str) -> None:
    # A thread that executed the task at the end of the region is outside of the region then.
    assert NO_REGION in region if line_in(task) == AFTER else ENDED in region and line_in(region) == AFTER


@pytest.mark.xdist_group("gdb")
@pytest.mark.parametrize(("name", "compiler"), sample([(name, c) for name in NAMES for c in ("gcc", "clang")]))
@pytest.mark.quick("gdb-16-clang")
def test_step_goes_into_the_region_and_the_task_in_gdb(name: str, compiler: str) -> None:
    entered = (f"break {line_of('int sum')}", "run", "omp next", "omp step", "omp thread")
    met = (f"tbreak {line_of('int twice')}", "continue", "omp next ", "delete", "omp print  number")
    task = ("omp step ", "omp next  ", "omp print number", "omp print twice", "omp finish", "omp  finish")
    told = in_gdb(name, *entered, *met, *task, program=build_sums(compiler))
    assert line_in(told["omp next"]) == PRAGMA
    assert PRAGMA < line_in(told["omp step"]) <= FIRST and "OpenMP thread 0/3" in told["omp thread"]
    assert line_in(told["omp next "]) == TASK
    assert TASK <= line_in(told["omp step "]) <= line_of("twice = 2")
    assert re.search(r"later\._omp_fn|omp_task_entry|omp_outlined", told["omp step "])
    # clang's debug information has a task's copies without their names.
    if compiler == "gcc":
        before, inside = (told[f"omp print {space}number"].partition("   (")[0] for space in (" ", ""))
        assert before == inside
        assert told["omp print twice"] == "twice = 0   (int, shared)\n"
    assert f"the task sums.c:{TASK} has ended" in told["omp finish"]
    check_end(told["omp finish"], told["omp  finish"])


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(("version", "compiler"), sample([(v, c) for v in VERSIONS for c in ("gcc", "clang")]))
@pytest.mark.quick()
def test_step_goes_into_the_region_and_the_task_in_lldb(version: int, compiler: str) -> None:
    told = in_lldb(
        version,
        *(f"breakpoint set -f sums.c -l {line_of('int sum')}", "run", "ompd next", "ompd step", "ompd thread"),
        *(f"breakpoint set -o true -f sums.c -l {line_of('int twice')}", "continue", "ompd  next", "ompd  step"),
        *("ompd finish", "ompd  finish"),
        program=build_sums(compiler),
    )
    assert line_in(told["ompd next"]) == PRAGMA
    assert PRAGMA < line_in(told["ompd step"]) <= FIRST and "OpenMP thread 0/3" in told["ompd thread"]
    assert line_in(told["ompd  next"]) == TASK
    assert TASK <= line_in(told["ompd  step"]) <= line_of("twice = 2")
    assert re.search(r"later\._omp_fn|omp_task_entry|omp_outlined", told["ompd  step"])
    assert f"the task sums.c:{TASK} has ended" in told["ompd finish"]
    check_end(told["ompd finish"], told["ompd  finish"])


# Lines that call the C library, if it has debug information

CALLING = [line_of(text, CALLS) for text in ("rest(1)", "rest(2)", "rest(3)")]
CALLED = line_of("total += number", CALLS)
INSIDE = [line_of(text, CALLS) for text in ("rest(5)", "rest(6)", "int inside")]
LAST = line_of("return 0", CALLS)


def check_calls(steps: list[str], pattern: str) -> None:
    lines = [int(text) for step in steps[:-1] for text in re.findall(pattern, step, re.MULTILINE)]
    assert lines == [*CALLING[1:], CALLED, *INSIDE[1:], LAST + 1], "each step shows one line, of the user's code"
    assert not re.search(r"rest\.c|libc", "".join(steps))
    assert re.search(r"the program ended( with status 0)? before it came to the next line", steps[-1])


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_steps_never_stop_in_the_c_library_in_gdb(found: str) -> None:
    told = in_gdb(
        found,
        *(f"break {CALLING[0]}", "run", "omp step", "omp step", "omp step", f"tbreak {INSIDE[0]} thread 1"),
        *("continue", "omp step", "omp step", f"tbreak {LAST}", "continue", "omp next", "omp next"),
        program=build_calls(),
    )
    check_calls(told.all("omp step", "omp next"), r"^(\d+)\s")


@pytest.mark.xdist_group("lldb")
@each_version()
def test_steps_never_stop_in_the_c_library_in_lldb(version: int) -> None:
    told = in_lldb(
        version,
        *(f"breakpoint set -f calls.c -l {CALLING[0]}", "run", "ompd step", "ompd step", "ompd step"),
        *(f"breakpoint set -f calls.c -l {INSIDE[0]} -x 1", "continue", "ompd step", "ompd step"),
        *(f"breakpoint set -f calls.c -l {LAST}", "continue", "ompd next", "ompd next"),
        program=build_calls(),
    )
    check_calls(told.all("ompd step", "ompd next"), r" at \w+\.c:(\d+)")


# A 32-bit program, with a libgomp of unknown layouts: commands that need none work, and the others say so


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_a_program_of_32_bits_is_walked_through_in_gdb(found: str) -> None:
    told = in_gdb(
        found,
        *(f"omp break sums.c:{FIRST}", "info breakpoints", "delete", f"break {line_of('int sum')}", "run", "omp next"),
        *("omp step", "bt", "omp print sum", "omp print total", "omp next ", "omp finish", "omp print  sum"),
        *("omp threads", "print $_ompd_thread_num()"),
        program=build_small(),
    )
    assert told["info breakpoints"].count(" in ") == 1, "one location"
    assert line_in(told["omp next"]) == PRAGMA and PRAGMA < line_in(told["omp step"]) <= FIRST
    assert re.match(r"sum = \d+   \(int, shared\)\n", told["omp print sum"])
    assert told["omp print total"].startswith("total = 0   (int, one for all threads, sums.c:")
    assert FIRST <= line_in(told["omp next "]) <= FIRST + 2
    assert ENDED in told["omp finish"] and told["omp print  sum"] == "sum = 61   (int)\n"
    assert f"work [body of parallel sums.c:{PRAGMA}]" in told["bt"] and "libgomp" not in told["bt"]
    for command in ("omp threads", "print $_ompd_thread_num()"):
        assert "there are no layouts of libgomp for i386" in told[command] and "Traceback" not in told[command]


# With --only the other threads stand still

PART, MOVE = line_of("int own = part", ALONE), line_of("own += 2", ALONE) + 1


def check_only(step: str, counts: list[str], freely: str, ended: str) -> None:
    assert "part (number=1)" in step or "`part(number=1)" in step
    before, after, later = ([int(n) for n in re.findall(r"\d+", text.partition("=")[2])] for text in counts)
    assert before == after and len(before) == 2 and min(before) > 0, "the others stand"
    assert later[0] != after[0] and later[1] != after[1], "the others run"
    assert f"alone.c:{MOVE + 1}" in freely or re.match(rf"{MOVE + 1}\s", freely)
    assert "has ended" in ended


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_the_others_stand_in_gdb(found: str) -> None:
    look = 'printf "counts = %ld %ld\\n", counts[0], counts[2]'
    told = in_gdb(
        found,
        *(f"break {PART}", "run", look, "omp step --only", "omp next --only", "omp next  --only", look),
        *("show scheduler-locking", f"break {MOVE}", "continue", "omp next", look, "omp finish"),
        program=build_alone(),
    )
    check_only(told["omp step --only"], told.all(look), told["omp next"], told["omp finish"])
    assert 'is "replay"' in told["show scheduler-locking"]


@pytest.mark.xdist_group("lldb")
@each_version()
def test_the_others_stand_in_lldb(version: int) -> None:
    look = "expression -- counts"
    told = in_lldb(
        version,
        *(f"breakpoint set -f alone.c -l {PART}", "run", look, "ompd step --only", "ompd next --only"),
        *("ompd next --only", look, f"breakpoint set -f alone.c -l {MOVE}", "continue", "ompd next", look),
        "ompd finish",
        program=build_alone(),
    )
    counts = [" = ".join(re.findall(r"\[[02]\] = (\d+)", text)) for text in told.all(look)]
    check_only(told["ompd step --only"], [f"= {text}" for text in counts], told["ompd next"], told["ompd finish"])


# The end of a program leaves nothing behind


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_nothing_is_left_when_the_program_ends_in_gdb(found: str) -> None:
    told = in_gdb(
        found,
        *(f"break {line_of('return 0')}", "break part if number == 99", "info breakpoints", "run", "omp next"),
        *("omp next ", "omp  next", "info breakpoints ", "maint info breakpoints", "omp step"),
        program=build_sums(),
    )
    assert "the program ended with status 0 before it came to the next line" in "".join(
        told[command] for command in ("omp next", "omp next ", "omp  next")
    )
    strip = re.compile(r"\tbreakpoint already hit .*\n|0x\w+")
    assert strip.sub("", told["info breakpoints "]) == strip.sub("", told["info breakpoints"])
    assert "stop only if number == 99\n" in told["info breakpoints "]
    rows = re.findall(r"^(-\d+) .*\bkeep y .*$", told["maint info breakpoints"], re.MULTILINE)
    assert "sums.c" not in "".join(rows)
    assert "there is no process" in told["omp step"]


TERMINATE = "script import os; os.kill(lldb.debugger.GetSelectedTarget().GetProcess().GetProcessID(), 15)"


@pytest.mark.xdist_group("lldb")
@each_version()
def test_nothing_is_left_when_a_signal_ends_the_step_in_lldb(version: int) -> None:
    told = in_lldb(
        version,
        *(f"breakpoint set -f sums.c -l {PRAGMA + 1}", "breakpoint set -f sums.c -l 1000", "run", "breakpoint list"),
        *(TERMINATE, "ompd finish", "breakpoint list"),
        program=build_sums(),
    )
    before, after = told.all("breakpoint list")
    assert before.count("\n") == after.count("\n") and "tid" not in after
    assert "stopped by signal SIGTERM before it came to the end of the region" in told["ompd finish"], told[
        "ompd finish"
    ]


# Commands, and their answers on a core.
ON_CORE = {
    **dict.fromkeys(("step", "next --only", "finish", "break hang.c:39 --level 1"), "a core file does not run"),
    "break": "break needs LOCATION",
    "step --bogus": "step has no option --bogus",
    "finish --only": "finish has no option --only",
    "break 1 --thread x": "--thread of break needs a number",
    "finish now": "finish takes no 'now'",
}


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_where_it_cannot_be_done_words_say_so_in_gdb(found: str) -> None:
    core = stopped("hang")
    asked = [f"omp {words}" for words in ON_CORE]
    started = (open_program(core.executable), "omp break nowhere.c:1")
    told = batch(
        gdb(found), [LOAD_IN_GDB, *started, *open_core(core.executable, core.core)[1:], *asked], cwd=Path("/tmp")
    )
    for words, answer in ON_CORE.items():
        assert told[f"omp {words}"].startswith(f"ompd: {answer}")
    assert "ompd: gdb has no place for 'nowhere.c:1'" in told["omp break nowhere.c:1"]
    assert "Traceback" not in "".join(text for _, text in told.pairs)


@pytest.mark.xdist_group("lldb")
@each_version()
def test_where_it_cannot_be_done_words_say_so_in_lldb(version: int) -> None:
    core = stopped("hang")
    started = (target_create(core.executable), "ompd break nowhere.c:1", target_create(core.executable, core.core))
    asked = [f"ompd {words}" for words in ON_CORE]
    told = LldbReplies(lldb_batch(lldb(version), [LOAD_IN_LLDB, *started, *asked, "breakpoint list"], cwd=Path("/tmp")))
    for words, answer in ON_CORE.items():
        # LLDB 19 and later parse options themselves.
        own = version >= 19 and words in ("step --bogus", "finish --only", "break 1 --thread x", "finish now")
        assert answer in told[f"ompd {words}"] or (own and "error: " in told[f"ompd {words}"]), words
    assert "ompd: LLDB has no place for 'nowhere.c:1'" in told["ompd break nowhere.c:1"]
    assert "No breakpoints currently set" in told["breakpoint list"]
    assert "Traceback" not in "".join(text for _, text in told.pairs)


# Parts that both debuggers share


def test_a_line_of_a_construct_is_in_the_code_of_its_threads() -> None:
    gcc = [Spot(0x10, "work"), Spot(0x30, "work._omp_fn.0"), Spot(0x20, "work._omp_fn.0")]
    assert choose_spots(gcc) == [Spot(0x20, "work._omp_fn.0")]
    clang = [Spot(0x10, "work"), Spot(0x20, ".omp_outlined."), Spot(0x30, ".omp_outlined._debug__")]
    assert choose_spots(clang) == [Spot(0x30, ".omp_outlined._debug__")]
    assert choose_spots([Spot(0x10, "work"), Spot(0x20, "main.omp_outlined")]) == [Spot(0x20, "main.omp_outlined")]
    reduced = Spot(0x40, "main.omp_outlined.omp.reduction.reduction_func")
    assert choose_spots([*clang, reduced]) == [Spot(0x30, ".omp_outlined._debug__")]
    plain = [Spot(0x10, "f<int>"), Spot(0x20, "f<long>")]
    assert choose_spots(plain) == plain


def test_the_code_that_a_function_of_clangs_calls() -> None:
    # mov -0x18(%rbp),%rdi contains a byte that looks like a call.
    code = b"\x55\x48\x8b\x7d\xe8\xe8" + (0x1100 - 0x100A).to_bytes(4, "little") + b"\xc3" + b"\x90" * 21
    calls = list(X86References().calls(code, 0x1000))
    names = {0x1000: ("w", 32), 0x1100: ("x.omp_outlined_debug__", 16)}

    def named_at(address: int) -> tuple[str, int] | None:
        return next(((n, address - a) for a, (n, s) in names.items() if a <= address < a + s), None)

    assert body_called(calls, 0x1000, named_at) == 0x1100
    names[0x1100] = ("printf", 16)
    assert body_called(calls, 0x1000, named_at) is None


def test_words() -> None:
    for words in ("a.c:3 --thread 2 -l 1", "--omp-thread=2 a.c:3 --level 1"):  # and the former name of --thread
        told = split_options("break", BreakCommand.flags, words.split())
        assert told == (["a.c:3"], {"thread": 2, "level": 1})
