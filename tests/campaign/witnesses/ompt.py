"""An OMPT tool within the program as a witness for its threads, on libomp and Intel's runtime; libgomp has no OMPT.

The runtime loads ``tool.c``, unless the program has a tool of its own. On a signal each thread enters a handler. Once
all threads are in it, each writes down the answers of the runtime's own routines, and stays until it is released. So
their records and the answers that ``ompd`` gives meanwhile are about one moment.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ompd.contract.ompt import State, is_wait, state_name
from ompd.runtimes.libomp.plugin import Runtime
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment, intel_runtime, require

Answer = Mapping[str, Any]
Row = Mapping[str, Any]

SOURCE = Path(__file__).with_name("tool.c")
FOLDER = "OMPT_WITNESS"
SECONDS = 10.0
_SIGNAL = signal.SIGRTMAX - 3
_MAX_THREADS, _MAX_LEVELS = 512, 8
_HEAD, _SLOT, _LEVEL = struct.Struct("=4I"), struct.Struct("=ii2Q"), struct.Struct("=6i2Q")
_SLOT_SIZE = _SLOT.size + _MAX_LEVELS * _LEVEL.size
_SIZE = _HEAD.size + _MAX_THREADS * _SLOT_SIZE
_PHASE, _COUNT = 0, 4  # offsets in the head: the phase, and the number of threads in the handler
_FREE, _GATHER, _WRITE = range(3)
_TOLD = 2  # the result of OMPT's routines if they give an answer
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE, _EVERYONE = 1, 0x7FFF_FFFF
_KINDS = {0x1: "initial", 0x2: "implicit", 0x4: "explicit"}  # ompt_task_flag_t


@dataclass(frozen=True)
class Region:
    """A level of regions as a thread sees it; the tool gave the region *data* when it began."""

    team_size: int
    data: int


@dataclass(frozen=True)
class Task:
    """A level of tasks as a thread sees it: *flags* are OMPT's, *data* is the tool's."""

    flags: int
    thread_num: int
    data: int

    @property
    def kind(self) -> str | None:
        """The kind of task as ``ompd`` names it."""
        return _KINDS.get(self.flags & 0xFF)


@dataclass(frozen=True)
class Seen:
    """The runtime's answers to one thread about itself; innermost regions and tasks first."""

    state: int
    wait_id: int
    data: int
    regions: tuple[Region, ...]
    tasks: tuple[Task, ...]


Moment = Mapping[int, Seen]
"""By native thread id."""


def tool() -> Path:
    """Return the tool, from the cache or newly built.

    :raises Missing: if there is no compiler, or no header of OMPT
    """
    options = ("-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
    headers = ("-I", str(intel_runtime() / "opt" / "compiler" / "include"))

    def build(folder: Path) -> None:
        command = [str(require("gcc")), *options, *headers, str(SOURCE), "-o", str(folder / "tool.so")]
        subprocess.run(command, check=True, env=clean_environment())

    return entry("programs", key_of("ompt-witness", SOURCE.read_text(), options), build) / "tool.so"


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment with which a program loads the tool, which then writes into *folder*."""
    # The loader would split names of preloaded libraries at spaces.
    return {"OMP_TOOL_LIBRARIES": str(tool()), FOLDER: str(folder)}


@contextmanager
def moment(process_id: int, folder: Path) -> Iterator[Moment]:
    """Have all threads write down the runtime's answers, and hold them until the context ends.

    The moment is empty if the tool does not work in the process: the program has ended, has no OMPT or has not begun,
    or a thread did not come in time. Threads that block the signal or have ended are missing in it.
    """
    try:
        file = (folder / str(process_id)).open("r+b")
    except OSError:
        yield {}
        return
    with file, mmap.mmap(file.fileno(), _SIZE) as shared:
        is_ready = _HEAD.unpack_from(shared)[3]
        if not is_ready:
            yield {}
            return
        shared[_HEAD.size :] = bytes(_SIZE - _HEAD.size)
        struct.pack_into("=2I", shared, _COUNT, 0, 0)
        _enter(shared, _GATHER)
        try:
            yield dict(_slots(shared)) if _gather(process_id, shared) and _written(shared) else {}
        finally:
            _enter(shared, _FREE)


def _enter(shared: mmap.mmap, phase: int) -> None:
    struct.pack_into("=I", shared, _PHASE, phase)
    # The futex is in shared memory, so a wake-up on its address here reaches the program's threads.
    word = ctypes.c_uint32.from_buffer(shared)
    try:
        number = _SYS_FUTEX[os.uname().machine]
        ctypes.CDLL(None).syscall(number, ctypes.byref(word), _FUTEX_WAKE, _EVERYONE, None, None, 0)
    finally:
        del word


def _gather(process_id: int, shared: mmap.mmap) -> bool:
    called: set[int] = set()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        there = {_SLOT.unpack_from(shared, _HEAD.size + n * _SLOT_SIZE)[0] for n in range(_MAX_THREADS)}
        expected = _threads(process_id)  # new threads may appear until all are held
        if not expected or len(expected) > _MAX_THREADS:
            return False
        if expected <= there:
            return True
        for thread in expected - called - there:
            ctypes.CDLL(None).tgkill(process_id, thread, int(_SIGNAL))
            called.add(thread)
        time.sleep(0.0005)
    return False


def _threads(process_id: int) -> set[int]:
    # Return the threads that can enter the handler: those that have not ended and do not block the signal.
    found = set()
    for folder in _listed(Path(f"/proc/{process_id}/task")):
        try:
            lines = (folder / "status").read_text().splitlines()
        except OSError:
            continue
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        lets_wait = int(status["SigPnd"], 16) & int(status["SigBlk"], 16)
        if status["State"][0] not in "ZX" and not lets_wait >> (_SIGNAL - 1) & 1:
            found.add(int(folder.name))
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _written(shared: mmap.mmap) -> bool:
    _enter(shared, _WRITE)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        _, count, done, _ = _HEAD.unpack_from(shared)
        if count == done:
            return True
        time.sleep(0.0002)
    return False


def _slots(shared: mmap.mmap) -> Iterator[tuple[int, Seen]]:
    for index in range(_HEAD.unpack_from(shared)[1]):
        at = _HEAD.size + index * _SLOT_SIZE
        thread, state, wait_id, data = _SLOT.unpack_from(shared, at)
        levels = [_LEVEL.unpack_from(shared, at + _SLOT.size + n * _LEVEL.size) for n in range(_MAX_LEVELS)]
        regions = [Region(level[1], level[6]) for level in levels if level[0] == _TOLD]
        tasks = [Task(level[3], level[4], level[7]) for level in levels if level[2] == _TOLD]
        yield thread, Seen(state, wait_id, data, tuple(regions), tuple(tasks))


def broken(moment: Moment, answers: Mapping[str, Answer]) -> list[str]:
    """Return where *answers* of a moment (``threads``, ``parallel`` and ``tasks``) contradict the threads' records.

    An unknown fact in an answer contradicts nothing.
    """
    regions = {row["id"]: row for row in answers["parallel"]["parallel"]}
    tasks = {row["id"]: row for row in answers["tasks"]["tasks"]}
    found: list[str] = []
    for row in answers["threads"]["threads"]:
        seen = moment.get(row["native_thread_id"])
        if seen is not None and row["runtime"] is not None:
            said = (*_of_thread(seen, row, moment), *_of_regions(seen, row, regions), *_of_task(seen, row, tasks))
            found += (f"OMPT: thread {row['native_thread_id']}: {text}" for text in said)
    return [*found, *_of_pairs(moment, answers["threads"]["threads"])]


def _of_thread(seen: Seen, row: Row, moment: Moment) -> Iterator[str]:
    if _number(row["tool_data"]) not in (None, seen.data):
        yield f"its data are {row['tool_data']}, where the tool gave it {seen.data:#x}"
    if row["state"] is not None and not _fits(seen, row, moment):
        yield f"the state is {row['state']} ({row['state_source']}), where the runtime says {state_name(seen.state)}"
    if row["wait_id"] is not None and is_wait(seen.state) and seen.wait_id not in (0, _number(row["wait_id"])):
        yield f"it waits for {row['wait_id']}, where the runtime says {seen.wait_id:#x}"


def _number(text: str | None) -> int | None:
    return int(text, 16) if text is not None else None


def _fits(seen: Seen, row: Row, moment: Moment) -> bool:
    state, told = seen.state, row["state"]
    if told == state_name(state):
        return True
    if told == "idle":
        return _is_left_over(seen, moment)
    if row["state_source"] != "derived":
        return False
    if state in _WORKING:
        # libomp does not note waits for tasks, waits for locks other than queuing locks, or overhead.
        return told in _UNNOTED
    # For code compiled by gcc, Intel's runtime notes a less specific state than the called routine shows.
    if told in _OF_GCC.get(state, ()):
        return True
    # The stack does not always show which barrier it is.
    return told == "wait_barrier" and State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT


def _is_left_over(seen: Seen, moment: Moment) -> bool:
    # A worker keeps its region, and the wait at its end, until it gets another one. The region is over once its primary
    # thread has left it. A worker in no team keeps only the wait.
    if seen.state != State.WAIT_BARRIER_IMPLICIT_PARALLEL:
        return False
    if not seen.regions:
        return True
    left = seen.regions[0].data
    return not any(_is_in(left, other) for other in moment.values() if other is not seen)


def _is_in(region: int, seen: Seen) -> bool:
    # Return whether a thread shows that a region is not over: it is in a nested region, not at the region's end, or the
    # region's primary thread.
    if region not in (known.data for known in seen.regions):
        return False
    is_primary = bool(seen.tasks) and seen.tasks[0].thread_num == 0
    return seen.regions[0].data != region or seen.state != State.WAIT_BARRIER_IMPLICIT_PARALLEL or is_primary


_WORKING = (State.WORK_SERIAL, State.WORK_PARALLEL)
_OF_GCC = {
    State.WAIT_BARRIER_IMPLEMENTATION: ("wait_barrier_implicit_workshare", "wait_barrier_explicit"),
    State.WAIT_LOCK: ("wait_critical",),
}
_UNNOTED = ("overhead", "wait_taskwait", "wait_taskgroup", "wait_lock", "wait_critical", "wait_ordered", "wait_atomic")


def _of_regions(seen: Seen, row: Row, regions: Mapping[str, Row]) -> Iterator[str]:
    if row["thread_num"] is not None and seen.tasks and row["thread_num"] != seen.tasks[0].thread_num:
        yield f"its number is {row['thread_num']}, where the runtime says {seen.tasks[0].thread_num}"
    # The runtime's outermost region is the implicit one around the whole program, with one thread.
    if row["level"] is not None and len(seen.regions) < _MAX_LEVELS and row["level"] != len(seen.regions) - 1:
        yield f"its level is {row['level']}, where the runtime knows {len(seen.regions) - 1} regions"
    if row["team_size"] is not None and seen.regions and row["team_size"] != seen.regions[0].team_size:
        yield f"its team has {row['team_size']} threads, where the runtime says {seen.regions[0].team_size}"
    identifier = row["parallel"]
    for level, theirs in enumerate(seen.regions[:-1]):
        region = regions.get(identifier)
        if region is None:
            break  # a law covers ids that are not listed
        if region["team_size"] not in (None, theirs.team_size):
            yield f"{level} levels out the team has {region['team_size']} threads, not {theirs.team_size}"
        if _number(region["tool_data"]) not in (None, theirs.data):
            yield f"{level} levels out the region has the data {region['tool_data']}, not {theirs.data:#x}"
        identifier = region["enclosing"]


def _of_task(seen: Seen, row: Row, tasks: Mapping[str, Row]) -> Iterator[str]:
    task = tasks.get(row["task"])
    if task is None or not seen.tasks:
        return
    theirs = seen.tasks[0]
    if task["kind"] is not None and theirs.kind not in (None, task["kind"]):
        yield f"it executes an {task['kind']} task, where the runtime says {theirs.kind}"
    if _number(task["tool_data"]) not in (None, theirs.data):
        yield f"its task has the data {task['tool_data']}, where the runtime says {theirs.data:#x}"


def _of_pairs(moment: Moment, rows: Sequence[Row]) -> Iterator[str]:
    # Threads in one region are in one region of the runtime, too. Data 0 marks a region that began before the tool.
    by_region: dict[str, set[int]] = {}
    by_data: dict[int, set[str]] = {}
    for row in rows:
        seen = moment.get(row["native_thread_id"])
        if seen is not None and row["parallel"] is not None and seen.regions and seen.regions[0].data:
            by_region.setdefault(row["parallel"], set()).add(seen.regions[0].data)
            by_data.setdefault(seen.regions[0].data, set()).add(row["parallel"])
    for region, data in by_region.items():
        if len(data) > 1:
            yield f"OMPT: threads of the region {region} are in different ones: {sorted(data)}"
    for datum, names in by_data.items():
        if len(names) > 1:
            yield f"OMPT: threads of one region ({datum}) are said to be in different ones: {sorted(names)}"


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Have ``ompd`` answer within this context as if the program had no tool and its runtime kept no states."""
    kept = Runtime.states_are_kept
    Runtime.states_are_kept = property(lambda runtime: False)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Runtime.states_are_kept = kept  # type: ignore[method-assign]
