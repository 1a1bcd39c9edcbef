"""Answers with little content, and answers about real cores, which fit their terminals."""

from __future__ import annotations

import io
import re
from itertools import product

import pytest

import ompd
from ompd.commands.loading import load
from ompd.commands.table import COMMANDS
from ompd.errors import NoAnswer
from ompd.questions import icvs
from ompd.render import terminal
from ompd.render.exchange import format_csv
from tests.support import INTEL, stopped
from tests.support.failing import failed

RUNTIMES_HERE = (INTEL, "libgomp", "libomp-19")


def printed(session: ompd.Session, command: str, width: int | None = None, **given: object) -> str:
    (row,) = (row for row in COMMANDS if row.name == command)
    file = io.StringIO()
    console = terminal.make_console("never", file=file, width=width)
    load(row.printer)(console, row.answer(session, given), unfold=False, verbose=False)
    return file.getvalue()


# Before OpenMP begins, and without differences


@pytest.mark.parametrize("runtime", RUNTIMES_HERE)
def test_before_openmp_begins_there_are_no_tasks_and_variables_yet(runtime: str) -> None:
    with ompd.open_core(stopped("not_initialised", mode="neither", runtime=runtime).core) as session:
        texts = {command: printed(session, command).splitlines()[2:] for command in ("icvs", "tasks")}
        changed = printed(session, "icvs", changed=True).splitlines()[2:]
    assert texts == {
        "icvs": ["no variables yet: OpenMP has not begun in this process"],
        "tasks": ["no tasks yet: OpenMP has not begun in this process"],
    }
    assert changed == texts["icvs"]


@pytest.mark.parametrize("runtime", RUNTIMES_HERE)
def test_changed_variables_are_those_that_differ(runtime: str) -> None:
    core = stopped("hang", mode="neither", runtime=runtime)
    numbers = {str(row["native_thread_id"]): row["thread_num"] for row in core.truth["threads"]}
    with ompd.open_core(core.core) as session:
        every, changed = session.ask_icvs(), icvs.changed(session.ask_icvs())
        text = printed(session, "icvs", changed=True)
    values: dict[str, set[object]] = {}
    for row in every.rows:
        values.setdefault(row.name, set()).add(row.value)
    assert {row.name for row in changed.rows} == {name for name, found in values.items() if len(found) > 1}
    told = {row.handle: row.value for row in changed.rows if row.name == "thread-num-var"}
    assert told == {native: numbers[native] for native in told} and set(told.values()) == {0, 1, 2, 3}
    assert re.search(r"^thread-num-var +thread +3 +\[\d+\]$", text, re.MULTILINE)


# Variables of the loader and of the C library


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.quick("gcc")
def test_a_name_that_the_loader_has_too_is_not_taken_for_its(compiler: str) -> None:
    core = failed("null", "libgomp" if compiler == "gcc" else INTEL, compiler).core
    with ompd.open_core(core) as session:
        # Debian's loader has a static variable of that name, and this program has a local one.
        found = session.ask_var("data").rows
        assert found and {row.mechanism for row in found} == {"local"}
        (row, *_) = session.ask_var("ld-linux-x86-64.so.2::data").rows
        assert row.name == "data" and "ld-linux" in row.module


def test_a_name_of_the_c_library_is_told_qualified() -> None:
    with ompd.open_core(failed("null").core) as session:
        with pytest.raises(NoAnswer, match=r"no variable environ of the program") as caught:
            session.ask_var("environ")
        assert caught.value.hint.endswith("have variables of their own: libc.so.6::environ")
        values = {row.text for row in session.ask_var("libc.so.6::environ").rows}
        with pytest.raises(NoAnswer) as plain:
            session.ask_var("no_such_name")
    assert len(values) == 1 and "0x" in str(values.pop())
    assert "local variable" not in plain.value.hint and "C library" not in plain.value.hint


# Terminals


@pytest.mark.parametrize(("size", "width"), [*product((4, 120), (40, 80, 120))])
def test_answers_of_real_cores_fit(size: int, width: int) -> None:
    program = ("hang", None) if size == 4 else ("many", 120)
    with ompd.open_core(stopped(program[0], mode="neither", runtime="libgomp", threads=program[1]).core) as session:
        for command, given in (("threads", {}), ("parallel", {}), ("tasks", {}), ("stack", {"fold": True})):
            narrow, wide = printed(session, command, width, **given), printed(session, command, **given)
            assert max(map(len, narrow.splitlines())) <= width, command
            # No word of the whole answer is split in the narrow one.
            assert set(re.findall(r"[^\s,]+", narrow)) <= set(re.findall(r"[^\s,]+", wide)), command
        threads = printed(session, "threads", width)
    expected = "missing 1" if size == 4 else "missing 119"
    assert expected in re.sub(r"\s+", " ", threads)


# Equal threads in one row


@pytest.mark.parametrize("runtime", RUNTIMES_HERE)
def test_folded_threads_name_every_thread_once_and_the_text_stays(runtime: str) -> None:
    core = stopped("hang", mode="neither", runtime=runtime).core
    with ompd.open_core(core) as session:
        single, grouped = session.ask_threads(), session.ask_threads(fold=True)
        assert printed(session, "threads", fold=True) == printed(session, "threads")
    assert all(row.threads == row.thread_nums == () for row in single.rows)
    members = [pair for row in grouped.rows for pair in zip(row.threads, row.thread_nums, strict=True)]
    assert sorted(members, key=str) == sorted(((row.native_thread_id, row.thread_num) for row in single.rows), key=str)
    barrier = next(row for row in grouped.rows if row.wait is not None and row.wait.kind == "barrier")
    assert barrier.thread_nums == (0, 2, 3)
    by_native = {row.native_thread_id: row for row in single.rows}
    for row in grouped.rows:
        alike = [by_native[native] for native in row.threads]
        assert {(each.state, each.where and each.where.line, each.level) for each in alike} == {
            (row.state, row.where and row.where.line, row.level)
        }
    lines = format_csv(grouped).splitlines()
    assert len(lines) == 1 + len(grouped.rows) and any(",0 2 3," in line for line in lines)
