"""Impossible states: a changed word of a core contradicts other words, and ompd concludes nothing from it.

The facts that rest on the word are unknown, a warning names the contradiction, and the answer is not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ompd.contract.process import Process
from ompd.errors import CorruptState
from ompd.model import Answer, TaskRecord, ThreadRecord
from ompd.questions import regions, tasks, threads
from ompd.render.answers.tasks import task_lines
from ompd.session import Session
from tests.support.changed import ODD, Damaged, proofs, wrong
from tests.support.runtimes import INTEL
from tests.support.why import GNU, LLVM, WHYS, hung

# Returns addresses in the core, with the bytes to write there.
Change = Callable[[Session], Mapping[int, bytes]]


def runtime_in(session: Session) -> Any:
    """Return the plugin's view of the runtime, of any kind."""
    return next(runtime.space for runtime in session.runtimes if runtime.space is not None)


def core_of(program: str, compiler: str, runtime: str) -> Damaged:
    path = hung(WHYS[program], compiler, runtime).core
    assert path is not None
    return Damaged(path)


def word(value: int, size: int = 4) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def waiting_for_locks(session: Session) -> list[ThreadRecord]:
    return [row for row in threads.ask(session).rows if row.wait is not None and row.wait.kind == "lock"]


def number_at(session: Session, row: ThreadRecord) -> tuple[int, int]:
    """Return the address of a thread's own number in libomp (``ds_gtid``), and the number."""
    runtime = runtime_in(session)
    start = runtime.details.layout("kmp_base_info_t").field("th_info").offset
    at = (row.address or 0) + start + runtime.details.layout("kmp_desc_base_t").field("ds_gtid").offset
    return at, int.from_bytes(session.process.memory.read(at, 4), "little")


# libomp


def two_threads_with_one_number(session: Session) -> Mapping[int, bytes]:
    first, second = waiting_for_locks(session)[:2]
    return {number_at(session, first)[0]: word(number_at(session, second)[1])}


def a_nest_lock_held_by_its_waiter(session: Session) -> Mapping[int, bytes]:
    row = waiting_for_locks(session)[0]
    assert row.wait is not None and row.wait.owner_address is not None
    return {row.wait.owner_address: word(number_at(session, row)[1] + 1)}


def an_owner_of_a_simple_lock(session: Session) -> Mapping[int, bytes]:
    first, second = waiting_for_locks(session)[:2]
    assert first.wait is not None and first.wait.object is not None
    owner = runtime_in(session).details.view("kmp_base_queuing_lock_t", first.wait.object).address_of("owner_id")
    return {owner: word(number_at(session, second)[1] + 1)}


def a_published_offset(struct: str, member: str, by: int) -> Change:
    def change(session: Session) -> Mapping[int, bytes]:
        at = session.process.symbols.find_symbol(f"ompd_access__{struct}__{member}")
        return {at: word(int.from_bytes(session.process.memory.read(at, 8), "little") + by, 8)}

    return change


def team_at(session: Session) -> tuple[Any, Process]:
    region = next(row for row in regions.ask(session).rows if len(row.threads) != 1)
    return runtime_in(session).team_at(int(region.id, 16)), session.process.contract


def a_team_of_one_less(session: Session) -> Mapping[int, bytes]:
    team, _ = team_at(session)
    return {team._view.address_of("t_nproc"): word(team.t_nproc - 1)}


def a_worker_without_a_team(session: Session) -> Mapping[int, bytes]:
    thread = runtime_in(session).thread_at(waiting_for_locks(session)[1].address)
    return {thread._view.address_of("th_team"): word(0, 8)}


def a_worker_that_no_team_has(session: Session) -> Mapping[int, bytes]:
    team, process = team_at(session)
    address = waiting_for_locks(session)[1].address
    slot = team._view.pointer("t_threads") + process.pointer_size * team.t_threads.index(address)
    return {**a_worker_without_a_team(session), slot: word(0, 8)}


def an_implicit_task_of_the_outer_team(session: Session) -> Mapping[int, bytes]:
    team, _ = team_at(session)
    task = runtime_in(session).task_at(team.implicit_task_at(0))
    return {task.view.address_of("td_team"): word(team.t_parent.address, 8)}


def an_implicit_task_that_is_explicit(session: Session) -> Mapping[int, bytes]:
    row = next(row for row in threads.ask(session).rows if row.wait is not None and row.wait.kind == "barrier")
    runtime = runtime_in(session)
    task = runtime.task_at(int(row.task or "0", 16))
    at, flags = task.view.address_of("td_flags"), task.flags
    return {at: word(flags | runtime.task_flags["tasktype"])}


# libgomp


def owner_of_a_nest_lock(value: int, *, is_added: bool = False) -> Change:
    def change(session: Session) -> Mapping[int, bytes]:
        wait = waiting_for_locks(session)[0].wait
        assert wait is not None and wait.owner_address is not None and wait.owner_value is not None
        return {wait.owner_address: word(value + (wait.owner_value if is_added else 0), 8)}

    return change


def a_worker_at_the_barrier_of_another_team(session: Session) -> Mapping[int, bytes]:
    runtime = runtime_in(session)
    last = next(row for row in threads.ask(session).rows if row.wait is not None and row.wait.kind == "barrier")
    thread = next(known for known in runtime.threads() if known.native == last.native_thread_id)
    return {thread.view.address_of("ts.team"): word(thread.claims[0].team - 8, 8)}


def an_implicit_task_of_another_kind(session: Session) -> Mapping[int, bytes]:
    row = next(row for row in threads.ask(session).rows if row.wait is not None and row.wait.kind == "barrier")
    return {runtime_in(session).task_at(int(row.task or "0", 16)).view.address_of("kind"): word(4)}


CHANGES: Mapping[str, tuple[str, str, str, Change, str]] = {
    "number": ("lock_cycle-nested", "clang", INTEL, two_threads_with_one_number, "ds_gtid of the thread in"),
    "waiter": ("lock_cycle-nested", "clang", INTEL, a_nest_lock_held_by_its_waiter, "the number of the thread that"),
    "simple": ("lock_cycle-two", "clang", INTEL, an_owner_of_a_simple_lock, "does not set it for this lock"),
    "level": (
        *("lock_cycle-two", "clang", INTEL, a_published_offset("kmp_base_team_t", "t_level", 1)),
        "t_level is published as 4 bytes at offset",
    ),
    "team": (
        *("lock_cycle-two", "clang", INTEL, a_published_offset("kmp_base_info_t", "th_team", 64)),
        "kmp_base_info_t.th_team is said to be 8 bytes at offset",
    ),
    "size": ("lock_cycle-two", "clang", INTEL, a_team_of_one_less, "the team of 3 lacks the thread at"),
    "none": ("self_lock-lock", "clang", INTEL, a_worker_that_no_team_has, "in no team, and in the code of a region"),
    "member": ("self_lock-lock", "clang", LLVM, a_worker_without_a_team, "a member of the team at"),
    "outer": (
        *("lock_cycle-two", "clang", LLVM, an_implicit_task_of_the_outer_team),
        "an implicit task of the team at",
    ),
    "implicit": (
        *("event_unfulfilled-barrier", "clang", INTEL, an_implicit_task_that_is_explicit),
        "an implicit task has the td_flags",
    ),
    "kind": (
        *("event_unfulfilled-barrier", "gcc", GNU, an_implicit_task_of_another_kind),
        "an implicit task has the kind 4",
    ),
    "odd": ("lock_cycle-nested", "gcc", GNU, owner_of_a_nest_lock(ODD + 1), "which is no multiple of 8"),
    "nowhere": ("lock_cycle-nested", "gcc", GNU, owner_of_a_nest_lock(ODD), "where no task was: cannot read"),
    "inside": ("lock_cycle-nested", "gcc", GNU, owner_of_a_nest_lock(8, is_added=True), "which is inside of the task"),
    "other-team": (
        "lock_cycle-nested",
        "gcc",
        GNU,
        a_worker_at_the_barrier_of_another_team,
        "it waits at a barrier, and",
    ),
}


@pytest.mark.parametrize(("program", "compiler", "runtime", "change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_contradiction_is_said_and_proves_nothing(
    program: str, compiler: str, runtime: str, change: Change, reason: str
) -> None:
    core = core_of(program, compiler, runtime)
    whole, (idle, _) = core.answer(), core.idle()
    with core.session() as session:
        core.words = dict(change(session))
    with core.session() as session:
        answer, of_tasks = threads.ask(session), tasks.ask(session)
    assert not (answer.complete and of_tasks.complete)
    warnings = (*answer.warnings, *of_tasks.warnings)
    assert any(reason in warning for warning in warnings), warnings
    assert {row.native_thread_id for row in answer.rows if row.state == "idle"} <= idle
    after = core.answer()
    assert list(wrong(after, whole)) == []
    if change in (a_nest_lock_held_by_its_waiter, an_owner_of_a_simple_lock):
        assert not {"self_lock", "lock_abandoned"} & {row.kind for row in proofs(after)}


def test_active_levels_are_no_more_than_levels() -> None:
    core = core_of("lock_cycle-nested", "gcc", GNU)
    with core.session() as session:
        team, _ = team_at(session)
        core.words = {team.view.address_of("prev_ts.active_level"): word(1 << 31)}
    with core.session() as session:
        answer = regions.ask(session)
    assert [row.active_level for row in answer.rows if row.id == team.id] == [None]
    assert any("2147483648 active regions are around it, 0 in all" in warning for warning in answer.warnings)


def test_thread_local_storage_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    with core_of("lock_cycle-nested", "gcc", GNU).session() as session:
        runtime = runtime_in(session)
        monkeypatch.setattr(runtime, "_offset", runtime._offset + 1)
        with pytest.raises(CorruptState, match="is not aligned"):
            runtime.gomp_thread(session.process.threads.ids()[0])


@pytest.mark.parametrize(
    ("program", "compiler", "runtime"), [("laggard-task", "gcc", GNU), ("laggard-task", "clang", INTEL)]
)
def test_a_task_that_generated_itself_is_shown_and_said(program: str, compiler: str, runtime: str) -> None:
    core = core_of(program, compiler, runtime)
    with core.session() as session:
        known = tasks.ask(session).rows
        row = next(row for row in known if row.kind == "explicit")
        space = runtime_in(session)
        parent = "parent" if runtime == GNU else "td_parent"
        core.words = {space.task_at(int(row.id, 16)).view.address_of(parent): word(int(row.id, 16), 8)}
    with core.session() as session:
        answer = tasks.ask(session)
    assert any("a task is said to have generated itself" in warning for warning in answer.warnings)
    (changed,) = (other for other in answer.rows if other.id == row.id)
    assert changed.generating is None and "generated itself" in changed.unavailable["generating"]


def test_a_circle_of_tasks_is_in_the_tree() -> None:
    def task(name: str, generating: str | None) -> TaskRecord:
        return TaskRecord(name, "libgomp", "explicit", None, generating, None, None, None, None, None, "queued")

    rows = (task("0x1", None), task("0x2", "0x3"), task("0x3", "0x2"), task("0x4", "0x4"))
    answer = Answer(rows=rows, target=None, runtimes=(), warnings=(), complete=False)  # type: ignore[arg-type]
    assert [depth for depth, _ in task_lines(answer, unfold=True)] == [0, 0, 1, 0]
