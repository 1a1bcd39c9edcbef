"""Answers and sessions in scripts: as collections, JSON, dictionaries and tables, in print, and when waited for."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.errors import BadFile, BadInput, NoAnswer, TargetGone, TimeLimit, Unavailable, Unsupported
from ompd.inspection import Inspection
from ompd.model import Answer, Place, RuntimeRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind
from ompd.session.waiting import wait_until
from tests.support import clean_environment, running, stopped
from tests.support.cache import CHECKOUT
from tests.support.machine import wheel_folder


@pytest.fixture(scope="module")
def session() -> Iterator[Inspection]:
    with ompd.open_core(stopped("hang").core) as session:
        yield session


# Answers


def test_answers_are_collections_of_their_rows(session: Inspection) -> None:
    answer = session.ask_threads()
    assert tuple(answer) == answer.rows and len(answer) == len(answer.rows) == 5
    assert [row.native_thread_id for row in answer] == [row.native_thread_id for row in answer.rows]
    assert (answer[0], answer[-1], answer[1:3]) == (answer.rows[0], answer.rows[4], answer.rows[1:3])


@pytest.mark.parametrize(
    ("command", "method", "arguments"),
    [
        *((name, f"ask_{name}", {}) for name in ("runtimes", "threads", "parallel", "tasks", "icvs", "why", "doctor")),
        ("stack", "ask_stacks", {}),
        ("stack --locals", "ask_stacks", {"locals": True}),
        ("var", "ask_var", {"name": "thread_count"}),
    ],
)
@pytest.mark.quick(
    "runtimes-ask_runtimes-arguments0",
    "threads-ask_threads-arguments1",
    "parallel-ask_parallel-arguments2",
    "tasks-ask_tasks-arguments3",
    "icvs-ask_icvs-arguments4",
    "why-ask_why-arguments5",
    "doctor-ask_doctor-arguments6",
    "stack --locals-ask_stacks-arguments8",
    "var-ask_var-arguments9",
)
def test_the_json_of_an_answer_is_that_of_the_command(command: str, method: str, arguments: dict[str, Any]) -> None:
    core = str(stopped("hang").core)
    name, *options = command.split()
    with ompd.open_core(core) as session:
        answer = getattr(session, method)(**arguments)
    words = list(arguments.values()) if name == "var" else []
    printed = CliRunner().invoke(cli, [name, core, *words, *options, "--json"])
    assert answer.to_json() + "\n" == printed.stdout and json.loads(printed.stdout)["schema"] == f"ompd/{name}/1"
    text = CliRunner().invoke(cli, [name, core, *words, *options]).stdout.rstrip("\n")
    assert str(answer).splitlines() == [line for line in text.splitlines() if not line.startswith("ompd: ")]


def test_locals_are_those_that_the_command_shows(session: Inspection) -> None:
    without, shown = session.ask_stacks(), session.ask_stacks(locals=True)
    assert all(frame.locals is None for row in without for frame in row.frames)
    assert "progress" in str([row.to_dict() for row in shown]) and any(f.locals for row in shown for f in row.frames)


def test_an_answer_that_is_none_of_a_command_has_no_json(session: Inspection) -> None:
    answer = session.ask_threads()
    bare: Answer[Any] = Answer(answer.target, (), (), True, ())
    with pytest.raises(BadInput, match="the answer of no command"):
        bare.to_json()
    assert not bare and str(bare) == repr(bare) and repr(bare).startswith("<Answer : 0 rows, ")


def test_records_become_dictionaries(session: Inspection) -> None:
    row = next(row for row in session.ask_threads() if row.wait is not None and row.wait.kind == "barrier")
    told = row.to_dict()
    assert list(told) == list(ThreadRecord.__dataclass_fields__)  # type: ignore[attr-defined]
    assert row.wait is not None and row.where is not None
    assert told["wait"]["missing"] == list(row.wait.missing or ()) and told["address"] == row.address
    assert told["where"]["line"] == row.where.line
    changed = told["unavailable"]
    changed["state"] = "no fact"
    assert "state" not in row.unavailable  # the dictionary is a copy


# For a person


def test_a_record_prints_what_it_knows() -> None:
    wait = Wait(Kind.BARRIER, object=0x7F00, arrived=3, expected=4, missing=tuple(range(1, 40)))
    row = ThreadRecord(
        native_thread_id=7,
        thread_type="worker",
        thread_num=0,
        state=None,
        wait=wait,
        where=Place(0x10, "evil\x1b[2J\u202e", "a.c", 3),
        unavailable={"state": "it is lost"},
    )
    assert repr(row) == (
        "ThreadRecord(thread_num=0, native_thread_id=7, thread_type='worker', state=?, wait=Wait(kind='barrier',"
        " object=0x7f00, arrived=3, expected=4, missing=(1, 2, 3, 4, 5, 6, 7, 8, ... 39 in all)),"
        " where=Place(address=0x10, function='evil\\x1b[2J\\u202e', file='a.c', line=3))"
    )


def test_answers_and_sessions_say_what_they_are(session: Inspection) -> None:
    core = stopped("hang").core
    assert repr(session.ask_threads()) == f"<Answer threads: 5 rows of ThreadRecord, {core}, complete>"
    assert repr(session) == f"<session on {core}>"
    assert session.threads() == session.ask_threads()
    shown = session.why()._repr_html_()
    assert shown.startswith("<pre") and "waits for &amp;progress_lock" in shown
    with ompd.open_core(core) as other:
        pass
    assert repr(other) == f"<session on {core}, closed>"


def test_a_session_lists_what_is_public(session: Inspection) -> None:
    listed = dir(session)
    assert {"ask", "ask_threads", "ask_var", "why", "var", "runtimes", "wait_until", "close"} <= set(listed)
    assert not any(name.startswith("_") for name in listed)
    assert not {"ask_variable", "stop", "target", "begin_stop", "own_runtimes", "shortfalls", "fault"} & set(listed)
    page = (CHECKOUT / "docs" / "api.md").read_text()
    assert all(f"`{name}" in page or f"session.{name}" in page for name in listed)


def test_the_old_name_works_and_says_the_new_one(session: Inspection) -> None:
    with pytest.warns(DeprecationWarning, match=r"ask_variable\(\) is now ask_var\(\)") as warned:
        old = session.ask_variable("thread_count")
    assert warned[0].filename == __file__
    assert old == session.ask_var("thread_count") and old.query == "var"


def test_a_traceback_ends_with_the_hint() -> None:
    with pytest.raises(BadFile) as caught:
        ompd.open_core("/no/such/core")
    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.hint
    if sys.version_info >= (3, 11):
        assert shown.endswith(f"hint: {caught.value.hint}\n")
    assert caught.value.hint not in str(caught.value)


# Tables


def in_python(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(stopped("hang").core)],
        env={**clean_environment(), "PYTHONPATH": ":".join(map(str, (CHECKOUT, *paths)))},
        capture_output=True,
        text=True,
        check=False,
    )


TABLE = """
import dataclasses, ompd, sys
with ompd.open_core(sys.argv[1]) as session:
    answer = session.ask_threads()
    table = answer.to_dataframe()
    assert list(table["native_thread_id"]) == [row.native_thread_id for row in answer]
    assert list(table["where.line"]) == [row.where.line for row in answer], table
    assert [None if value is table["wait.object"].dtype.na_value else int(value) for value in table["wait.object"]] == [
        row.wait.object if row.wait else None for row in answer]
    print(sorted({str(table[name].dtype) for name in ("address", "where.line", "about_to_begin", "state")}))
    waiting = table[table["state"] == "wait_lock"]
    print(len(table), list(waiting["where.function"]), list(waiting["where"]))
    print(*table.columns[:10], table.columns[-1])
    tasks = session.ask_tasks()
    backwards = dataclasses.replace(tasks, rows=tasks.rows[::-1])  # the last row has no function
    assert list(tasks.to_dataframe()) == list(backwards.to_dataframe())
    print(*tasks.to_dataframe().columns[:6])
    print(*session.ask_why().to_dataframe().columns[:6])
"""
FIRST_COLUMNS = """\
thread_num team_size level state wait.kind wait.symbol wait.owner where where.function native_thread_id unavailable
kind status function function.function thread id
kind stuck confidence summary place place.function
"""


def test_rows_become_a_table() -> None:
    done = in_python(TABLE, wheel_folder("pandas"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"['Int64', 'boolean', 'object']\n5 ['report_progress'] ['hang.c:39']\n{FIRST_COLUMNS}"


def test_without_pandas_that_is_said(session: Inspection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    with pytest.raises(Unsupported, match="needs pandas, which is not installed") as caught:
        session.ask_threads().to_dataframe()
    assert caught.value.hint.startswith("pip install pandas")


# Waiting


class Told:
    """A session with prepared answers, whose clock advances only while the process runs."""

    def __init__(self, *looks: object, kind: str = "live") -> None:
        self.looks, self.kind, self.now, self.runs = list(looks), kind, 0.0, list[float]()

    @property
    def target(self) -> Told:
        return self

    def ask(self, _predicate: object) -> object:
        found = self.looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def let_run(self, seconds: float) -> None:
        self.runs.append(seconds)
        self.now += seconds

    def wait(self, *, stable: int = 3, interval: float = 1, seconds: float = 60) -> object:
        given: Any = self
        return wait_until(
            given, bool, self.let_run, stable=stable, interval=interval, seconds=seconds, clock=lambda: self.now
        )


def test_what_is_waited_for_has_to_stay_so() -> None:
    told = Told("a", "b", "", "c", "d", "e", "never")
    assert told.wait() == "e" and told.runs == [1] * 5 and told.looks == ["never"]
    assert Told("a", "b").wait(stable=1) == "a"


def test_no_answer_yet_is_no_answer_that_counts() -> None:
    told = Told(NoAnswer("no runtime"), 1, 2, NoAnswer("no runtime"), 3, 4, 5)
    assert told.wait() == 5
    with pytest.raises(TargetGone):
        Told(1, TargetGone("ended")).wait()


def test_waiting_ends() -> None:
    told = Told(*([0] * 3 + [1] * 2))
    with pytest.raises(TimeLimit, match=r"not so within 3\.5 seconds and 5 looks: it was so 2 times in a row, 3 are"):
        told.wait(seconds=3.5)
    assert told.runs == [1, 1, 1, 0.5]
    with pytest.raises(TimeLimit, match=r"1 looks: no runtime") as caught:
        Told(NoAnswer("no runtime")).wait(seconds=0)
    assert isinstance(caught.value.__cause__, NoAnswer)
    for wrong in ({"stable": 0}, {"interval": 0.0}, {"interval": float("inf")}, {"seconds": float("nan")}):
        with pytest.raises(BadInput):
            Told(1).wait(**wrong)  # type: ignore[arg-type]


def test_a_core_does_not_change(session: Inspection) -> None:
    assert session.wait_until(lambda session: len(session.ask_threads())) == 5
    with pytest.raises(Unavailable, match="a core file does not change"):
        session.wait_until(lambda session: False)


def test_a_live_program_is_waited_for(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live, ompd.attach(live.pid) as session:
        seen: list[tuple[RuntimeRecord, ...]] = []

        def is_at_work(session: Inspection) -> Answer[ThreadRecord]:
            answer = session.ask_threads()
            seen.append(answer.runtimes)
            return answer

        answer = session.wait_until(is_at_work, stable=2, interval=0.01)
        written = {thread["native_thread_id"] for thread in live.truth["threads"]}
        assert {row.native_thread_id for row in answer} >= written
        assert len(seen) >= 2
