"""``ompd print``: a variable as the code sees it, as in ``stack --locals`` and ``var``, in both debuggers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ompd.errors import BadInput, NoAnswer
from ompd.frontends.commands import PrintCommand
from ompd.frontends.printing import format_printed
from ompd.frontends.prompt import OMPD_LIBRARY, split_options
from ompd.questions import printing, stacks, variables
from ompd.questions.printing import At
from ompd.session import Session
from tests.support import FULL, stopped
from tests.support import variables as told_by
from tests.support.gdb import open_core
from tests.support.gdb import replies as gdb_replies
from tests.support.lldb import VERSIONS, target_create
from tests.support.lldb_replies import replies as lldb_replies
from tests.support.local_variables import recipe
from tests.support.products import each_gdb, each_version
from tests.support.threadprivate import RECIPES

C = ("gcc", "gcc -O2", "clang", "clang -O2")


@pytest.mark.parametrize("compilation", C)
@pytest.mark.quick("gcc -O2")
def test_each_variable_of_a_stack_is_what_the_stack_says(compilation: str) -> None:
    told = told_by.stopped(recipe(compilation), 3)
    compared = 0
    with Session.open_core(told.core) as session:
        for row in stacks.ask(session, locals=True).rows:
            for number, frame in enumerate(row.frames):
                for variable in frame.locals or ():
                    innermost = next(v for v in frame.locals or () if v.name == variable.name)
                    found = printing.ask(session, variable.name, row.native_thread_id or 0, number=number)
                    assert found.local == innermost and found.is_here
                    compared += innermost.text is not None
    assert compared > 60


@pytest.mark.parametrize("compilation", ["gcc", "clang"])
def test_a_part_is_that_of_the_whole(compilation: str) -> None:
    told = told_by.stopped(recipe(compilation), 2)
    with Session.open_core(told.core) as session:
        for thread in told.threads:
            row = next(r for r in stacks.ask(session).rows if r.native_thread_id == thread["id"])
            number = next(n for n, frame in enumerate(row.frames) if frame.function == "values")

            def text(name: str, thread: Any = thread, number: int = number) -> str | None:
                found = printing.ask(session, name, thread["id"], number=number)
                return found.local.text if found.local is not None else None

            assert (text("table[1][2]"), text("bits.high"), text("bits.pairs[1].y")) == ("6", "-7", "-1.25")
            assert (text("pointer->x"), text("*pointer")) == ("2", "{x = 2, y = -1.25}")
            assert text("sizes[3]") == str(9 + int(text("sizes[0]") or -1))
            with pytest.raises(NoAnswer, match="no member 'z'"):
                printing.ask(session, "pointer->z", thread["id"], number=number)


def test_a_pointer_in_a_register_leads_on() -> None:
    told = told_by.stopped(recipe("gcc -O2"), 2)
    followed = 0
    with Session.open_core(told.core) as session:
        for row in stacks.ask(session, locals=True).rows:
            for number, frame in enumerate(row.frames):
                for variable in frame.locals or ():
                    is_pointer = (variable.type or "").endswith("*") and "(" not in (variable.type or "")
                    if not is_pointer or variable.text is None or variable.address is not None:
                        continue
                    try:
                        found = printing.ask(session, f"*{variable.name}", row.native_thread_id or 0, number=number)
                    except (BadInput, NoAnswer):
                        continue  # the target of the pointer has no type, or is not in memory
                    assert found.local is not None and f"{found.local.address:#x}" in str(variable.text)
                    followed += 1
    assert followed > 0


# One program for each way to keep copies. In the last one, the file of the code only declares the variable.
COPIED = ("threads-gcc", "threads-clang-fnoopenmp-use-tls", "threads-clang-femulated-tls", "threads-gcc-O2-flto")


@pytest.mark.parametrize("name", RECIPES if FULL else COPIED)
@pytest.mark.quick("threads-gcc-O2-flto")
def test_a_threads_own_copy_is_that_of_var(name: str) -> None:
    told = told_by.stopped(RECIPES[name][0], 4)
    wanted = next(iter(told.threads[0]["variables"]))
    with Session.open_core(told.core) as session:
        rows = {row.native_thread_id: row for row in variables.ask(session, wanted).rows}
        for thread in told.threads:
            found = printing.ask(session, wanted, thread["id"]).static
            expected = rows[thread["id"]]
            assert found is not None
            assert (found.text, found.address, found.mechanism) == (
                expected.text, expected.address, expected.mechanism
            )  # fmt: skip


def test_code_of_a_region_sees_what_is_around_it() -> None:
    core = stopped("hang")
    team = {t["thread_num"]: t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team"}
    with Session.open_core(core.core) as session:
        outer = printing.ask(session, "__func__", team[2])
        assert outer.frame is not None and outer.local is not None
        assert outer.local.text == '"simulate"' and outer.frame.thread == team[0] and outer.seen and not outer.is_here
        line = format_printed(outer, team[2])
        assert line.endswith(f"(const char [9], of #1 simulate hang.c:50, on the stack of thread {team[0]})"), line
        # The calling function's variable is out of sight, and is marked so.
        called = printing.ask(session, "step", team[1])
        assert not called.seen and "out of sight, of #1 simulate" in format_printed(called, team[1])
        whole = stacks.ask(session, thread=team[1], locals=True).rows[0].frames
        body = next(frame for frame in whole if frame.construct is not None)
        at = printing.ask(session, "step", team[1], At((body.cfa or 0) - 1, body.function))
        assert at.seen and at.is_here and at.local == called.local
        with pytest.raises(NoAnswer, match="no variable nowhere in report_progress"):
            printing.ask(session, "nowhere", team[1])
        with pytest.raises(BadInput, match="no frame 99"):
            printing.ask(session, "step", team[1], number=99)


def test_a_place_in_the_own_file_is_nearer() -> None:
    core = stopped("hang")
    first = next(t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team")
    with Session.open_core(core.core) as session:
        found = printing.ask(session, "last_change", first).static
        assert found is not None and found.text == variables.ask(session, "hang.c::last_change").rows[0].text


def test_words() -> None:
    flags = PrintCommand.flags
    words, options = split_options("print", flags, ["--thread", "3", "-v", "x.y", "--ompd-library=named", "--debug"])
    assert (words, options) == (["x.y"], {"thread": 3, "verbose": True, OMPD_LIBRARY: "named"})
    for wrong, fault in (
        (["--thread"], "needs a number"),
        (["--frame", "a", "x"], "needs a number"),
        (["--ompd-library"], "needs a value: --ompd-library FILE|named"),
        (["--verbose=1", "x"], "no option --verbose=1"),
        (["--bogus", "x"], "no option --bogus"),
    ):
        with pytest.raises(BadInput, match=re.escape(fault)):
            split_options("print", flags, wrong)


ASKED = ("thread", "thread 1", "thread ", "print change", "print step", "print last_change", "print nowhere")


def expected_lines() -> dict[str, str]:
    core = stopped("hang")
    native = next(t["native_thread_id"] for t in core.truth["threads"] if t.get("thread_num") == 1)
    with Session.open_core(core.core) as session:
        return {
            f"print {name}": format_printed(printing.ask(session, name, native), native)
            for name in ("change", "step", "last_change")
        }


def check(told: dict[str, str], name: str) -> None:
    assert "is selected: OpenMP thread " in told["thread"] and f"{name}'s thread " in told["thread"]
    # gdb warns about a core of another machine, whose registers take less room.
    selected = [line for line in told["thread 1"].splitlines() if not line.startswith("warning: Section `.reg-xstate")]
    assert "OpenMP thread 1/4 at level 1 is" in selected[0]
    assert re.search(r"report_progress.*hang\.c:39", selected[1]), "the innermost frame of the user's is selected"
    assert "OpenMP thread 1/4 at level 1" in told["thread "]
    for words, line in expected_lines().items():
        assert told[words] == f"{line}\n"
    assert "ompd: no variable nowhere in report_progress" in told["print nowhere"]


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_gdb_selects_the_users_frame_and_prints_the_same(found: str) -> None:
    core = stopped("hang")
    completing = ("complete omp thread ", "complete omp stack --thread 1", "complete omp print --thread ")
    told = gdb_replies(
        *open_core(core.executable, core.core), *(f"omp {words}" for words in ASKED), "info locals", *completing,
        name=found,
    )  # fmt: skip
    check({words: told[f"omp {words}"] for words in ASKED}, "gdb")
    assert "report_progress" in told["info locals"]
    assert told[completing[0]] == "".join(f"omp thread {number}\n" for number in range(4))
    assert told[completing[1]] == "omp stack --thread 1\n" and told[completing[2]].count("\n") == 4


@pytest.mark.xdist_group("lldb")
@each_version()
@pytest.mark.quick()
def test_lldb_selects_the_users_frame_and_prints_the_same(version: int) -> None:
    core = stopped("hang")
    asked = [words for words in ASKED if words != "thread "]  # LLDB removes the space
    told = lldb_replies(
        version, target_create(core.executable, core.core), *(f"ompd {words}" for words in asked), "ompd  thread",
        "frame variable",
    )  # fmt: skip
    check({**{words: told[f"ompd {words}"] for words in asked}, "thread ": told["ompd  thread"]}, "LLDB")
    assert "change = 0.48" in told["frame variable"]
    assert version in VERSIONS
