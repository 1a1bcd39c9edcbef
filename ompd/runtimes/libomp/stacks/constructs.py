"""Whose code each part of a thread's stack is: the regions and tasks that it executes, from the innermost outwards.

Where the code of a construct begins on the stack is shown by the runtime's own routines that call it. Whose it is, is
shown by ``ompt_frame_t`` where the runtime keeps that; else by the order of the regions, and by the task's function.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter

from ompd.contract.code_owners import entry_of
from ompd.contract.plugin import ConstructCode, ParallelHandle, TaskHandle
from ompd.contract.process import Frame
from ompd.errors import CorruptState, OmpdError
from ompd.runtimes.libomp.stacks.regions import Stacks
from ompd.runtimes.libomp.teams.tasks import Task
from ompd.runtimes.libomp.teams.teams import Region
from ompd.runtimes.libomp.teams.threads import Thread, Threads

_MAX_TASKS = 1 << 20


class Constructs:
    """The code of constructs on the stacks of one runtime's threads."""

    def __init__(self, runtime: Threads, stacks: Stacks) -> None:
        self._runtime = runtime
        self._stacks = stacks

    @cached_property
    def _waiting(self) -> WaitingTasks:
        return WaitingTasks(self._runtime)

    def code_of(self, thread: Thread) -> list[ConstructCode]:
        """Return the code of regions and explicit tasks on the stack of *thread*, innermost first.

        :raises OmpdError: if the stack or the thread's regions cannot be read
        """
        stack = self._stacks.hosted(thread)
        regions = {index: region for region, index in stack.places.items() if index is not None}
        found = []
        for index, pair in enumerate(pairwise(stack.frames)):
            if index in regions or self._stacks.code.begins_region(*pair):
                found.append(ConstructCode(index, "parallel", regions.get(index), None, None))
            elif self._stacks.code.begins_task(*pair):
                found.append(ConstructCode(index, "task", None, None, None))
        with_tasks = self._with_kept_tasks if self._runtime.states_are_kept else self._with_likely_tasks
        return with_tasks(thread, stack.frames, found)

    def _with_kept_tasks(
        self, thread: Thread, frames: Sequence[Frame], found: Sequence[ConstructCode]
    ) -> list[ConstructCode]:
        # The exit frame of a task is the frame that called its code: __builtin_frame_address(0) there, which on x86-64
        # lies two words before the CFA, whatever the flags say. So the frame is the one whose own part of the stack
        # holds it.
        exits: list[tuple[int, Task]] = []
        explicit: dict[str, Task] = {}
        for owner in _on_thread(thread):
            exit_frame, _ = owner.frames()
            if exit_frame is not None:
                exits.append((exit_frame.address, owner))
            if owner.kind() == "explicit":
                explicit[owner.id] = owner
        exits.sort(key=itemgetter(0))
        rows = []
        for code in found:
            low, high = frames[code.frame].cfa, frames[code.frame + 1].cfa
            first = bisect_left(exits, low, key=itemgetter(0)) if low is not None and high is not None else len(exits)
            inside = [owner for at, owner in exits[first : first + 2] if high is not None and at < high]
            task = inside[0] if len(inside) == 1 else None
            if task is not None and (task.kind() == "explicit") != (code.kind == "task"):
                raise CorruptState(task.address, f"the frame of {task.kind()} task {task.id} is that of a {code.kind}")
            rows.append(code._replace(task=task, source="runtime" if task is not None else None))
            explicit.pop(task.id if task is not None else "", None)
        # What is called by the user's code itself, since it is not deferred, the runtime cannot know the frame of.
        open_ = [number for number, code in enumerate(rows) if code.kind == "task" and code.task is None]
        if len(open_) == len(explicit):
            for number, task in zip(open_, explicit.values(), strict=True):
                rows[number] = rows[number]._replace(task=task, source="derived")
        return _with_implicit_tasks(thread, rows)

    def _with_likely_tasks(
        self, thread: Thread, frames: Sequence[Frame], found: Sequence[ConstructCode]
    ) -> list[ConstructCode]:
        # The innermost code is the current task's, and what lies around a region's code on its primary thread is that
        # of the task that met it. Explicit tasks around explicit ones are looked for among those that generated others:
        # they have the function, and wait on this thread.
        rows = list(found)
        try:
            current: Task | None = thread.current_task()
        except OmpdError:
            current = None
        met: TaskHandle | None = current
        for number, code in enumerate(rows):
            if code.kind == "parallel":
                met = _encountering(thread, code.region)
                continue
            task = met if met is not None and met.kind() == "explicit" else None
            if task is None and number:
                entry = entry_of(self._runtime.process, frames[code.frame].call_site)
                likely = self._waiting.on(thread, current).get(entry, ())
                task = likely[0] if len(likely) == 1 else None
            met = None
            if task is not None:
                rows[number] = code._replace(task=task, source="derived")
        return _with_implicit_tasks(thread, rows)


class WaitingTasks:
    """The explicit tasks that generated others and wait on a thread now. Each is looked at once, whatever it generated.

    Those that generated the current tasks of threads, one the other, within their regions.
    """

    def __init__(self, runtime: Threads) -> None:
        # By the thread's kmp_info_t, and the function; and why those that generated a task are not all known.
        self._found: dict[int, dict[int | None, list[Task]]] = {}
        self._faults: dict[int, OmpdError | None] = {}
        self._current = runtime.current_tasks
        for address in self._current:
            self._walk(runtime.task_at(address))

    def on(self, thread: Thread, current: Task | None) -> Mapping[int | None, Sequence[Task]]:
        """Return those on *thread*, which executes *current*, by their functions.

        :raises OmpdError: if those that generated *current* cannot all be read
        """
        fault = self._faults.get(current.address) if current is not None else None
        if fault is not None:
            raise fault
        return self._found.get(thread.address, {})

    def _walk(self, task: Task) -> None:
        way: list[int] = []
        fault: OmpdError | None = None
        here: Task | None = task
        try:
            while here is not None and here.kind() == "explicit":
                if here.address in self._faults:
                    fault = self._faults[here.address]
                    break
                self._faults[here.address] = None
                way.append(here.address)
                thread = here.thread_or_none() if here.address not in self._current else None
                if thread is not None:
                    self._found.setdefault(thread.address, {}).setdefault(here.function(), []).append(here)
                here = here.generating()
        except OmpdError as error:
            fault = error
        self._faults.update(dict.fromkeys(way, fault))


def _on_thread(thread: Thread) -> Iterator[Task]:
    # The tasks that the thread executes or has left for others, from the current one outwards.
    task: Task | None = thread.current_task()
    seen: set[str] = set()
    is_untied = False
    while task is not None:
        if task.id in seen and is_untied:
            return
        if task.id in seen or len(seen) >= _MAX_TASKS:
            raise CorruptState(task.address, "the chain of tasks on a thread does not end")
        seen.add(task.id)
        yield task
        outer: Task | None = task.scheduling() if task.kind() == "explicit" else None
        if outer is not None and outer.id in seen and not (outer.flag("tiedness") and task.flag("tiedness")):
            # An untied task goes on in its own frame's callee, where it could not be queued: then it is the one that
            # was suspended for itself, also by way of others. What was suspended for it at first the runtime forgot.
            outer, is_untied = None, True
        if outer is None:
            outer = task.generating()
            region = task.parallel() if task.kind() == "implicit" else None
            # A task that met a region waits for it on the region's primary thread; by itself it does not tell where.
            met_here = region is not None and region.thread(0).address == thread.address
            if outer is not None and not met_here and outer.thread_or_none() != thread:
                return
        task = outer


def _encountering(thread: Thread, region: ParallelHandle | None) -> TaskHandle | None:
    # The task that met a region of which the thread is the primary one.
    if region is None or region.thread(0).address != thread.address:
        return None
    return region.implicit_task(0).generating()


def _with_implicit_tasks(thread: Thread, found: Sequence[ConstructCode]) -> list[ConstructCode]:
    # A region's code on a thread is that of the thread's implicit task in it.
    rows = []
    for code in found:
        if code.kind == "parallel" and code.task is None and code.region is not None:
            code = code._replace(task=_implicit_task(thread, code.region), source="derived")  # type: ignore[arg-type]
        rows.append(code)
    return rows


def _implicit_task(thread: Thread, region: Region) -> TaskHandle:
    members = region.team.t_threads
    if thread.address not in members:
        raise CorruptState(region.team.address, f"thread {thread.address:#x} runs a region whose team does not have it")
    return region.implicit_task(members.index(thread.address))
