"""Whose code is where on the threads' stacks, and what follows from that: functions, callers, places of tasks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

from ompd import naming
from ompd.contract.code_owners import UNKNOWN, USER, construct_passed, entry_of
from ompd.contract.helpers.stacks import region_entry
from ompd.contract.plugin import ConstructCode, TaskHandle
from ompd.contract.process import Frame
from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Region, Registry, Task, Thread
from ompd.runtimes.libgomp.stacks import routines
from ompd.runtimes.libgomp.stacks.parsed import Group, Parsed
from ompd.runtimes.libgomp.stacks.routines import BEGIN, PARALLEL, TASK, UNDEFERRED
from ompd.runtimes.libgomp.task_walk import AllTasks


class Constructs:
    """The code of regions and tasks on all stacks of one process."""

    def __init__(self, runtime: Registry, tasks: AllTasks) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._owners = runtime.owners
        self._tasks = tasks

    def code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """Return whose code is where on the stack of *thread*, innermost first, worked out once."""
        return thread.once("code", lambda: self._code_of(thread))

    def _code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        stack = thread.stack
        regions = {number: self._runtime.team_at(team) for team, number in thread.hosted.items()}
        # The innermost code is that of the current task. What lies around a region that the thread met, or around a
        # task that was not deferred, is that of the task that generated it; so is what lies around one that a routine
        # has begun that waits for children and begins no others. Around other deferred ones a task is looked for.
        try:
            task: TaskHandle | None = thread.current_task()
        except OmpdError:
            task = None
        found: list[ConstructCode] = []
        likely: dict[int, dict[str, Task]] = {}
        outside = _around_targets(thread)
        numbers = dict(thread.memberships[::-1]) if regions else {}
        for number, group in enumerate(stack.groups):
            region = regions.get(number)
            place = group.inner - 1
            if number in outside:
                if group.code is None:
                    found.append(_row(place, "target", None, task))
                task = outside[number]
            if group.code in (TASK, UNDEFERRED):
                if task is None or task.kind() != "explicit":
                    task = None
                    likely[len(found)] = self._likely(stack, group)
                found.append(_row(place, "task", None, task))
                by_parent = group.code == UNDEFERRED or (group.entry or "").startswith(routines.WAITS_FOR_CHILDREN)
                task = task.generating() if by_parent and task is not None else None
            if group.forks:
                implicit = region.implicit_task(numbers[region.address]) if region is not None else None
                if group.code == PARALLEL:
                    found.append(_row(place, "parallel", region, implicit))
                task = implicit.generating() if implicit is not None and group.entry != BEGIN else None
        _give(found, likely)
        return found

    def _likely(self, stack: Parsed, group: Group) -> dict[str, Task]:
        # Explicit tasks that others were begun for: they have the function, and the runtime's routine that called that
        # has the task's address in its registers or on its part of the stack.
        if group.code == UNDEFERRED:
            # It lies in the frame of the routine that called its code.
            low, high = stack.frames[group.inner].sp, stack.frames[group.inner].cfa
            known = self._tasks.undeferred
            if high is None:
                return {}
            tasks = (self._runtime.task_at(at) for at in known[bisect_left(known, low) : bisect_left(known, high)])
            return {task.id: task for task in tasks}
        place = stack.frames[group.inner - 1]
        entry, begun = self._start_of(place), self._tasks.begun
        meant = (begun[word] for word in stack.waiting_words(group) if word in begun)
        # Where the runtime's own routine is there, a task's code ended by a jump to it, and it may be any task's.
        is_left = stack.is_runtimes(place)
        return {task.id: task for task in meant if is_left or task.view.pointer("fn") == entry}

    def _start_of(self, frame: Frame) -> int | None:
        # Where the function of a frame begins.
        place = self._process.locate(frame.call_site)
        return entry_of(self._process, frame.call_site) if place.symbol is not None else frame.function_start

    # Where tasks are

    @cached_property
    def _code_of_tasks(self) -> Mapping[int, Mapping[str, Sequence[ConstructCode]]]:
        # Where on the stack of each thread, by its native id, tasks have their code, by their ids: threads whose stacks
        # can be read.
        found: dict[int, dict[str, list[ConstructCode]]] = {}
        for thread in self._runtime.threads():
            try:
                codes = self.code_of(thread)
            except OmpdError:
                continue  # a stack that cannot be read says nothing; the others may
            own = found.setdefault(thread.native, {})
            for code in codes:
                if code.task is not None:
                    own.setdefault(code.task.id, []).append(code)
        return found

    @cached_property
    def _suspended(self) -> Mapping[str, Thread]:
        # The first thread on whose stack a task has code, by the task's id.
        found: dict[str, Thread] = {}
        for thread in self._runtime.threads():
            for task in self._code_of_tasks.get(thread.native, ()):
                found.setdefault(task, thread)
        return found

    @cached_property
    def _extents(self) -> Sequence[tuple[int, int, int, Thread]]:
        # Where the frames of each thread's stack begin and end, in order, and the furthest end up to there.
        found: list[tuple[int, int, Thread]] = []
        for thread in self._runtime.threads():
            try:
                frames = thread.stack.frames
            except OmpdError:
                continue  # as above
            if frames:
                found.append((frames[0].sp, frames[-1].cfa or frames[-1].sp, thread))
        extents, furthest = [], 0
        for low, high, thread in sorted(found, key=lambda extent: extent[:2]):
            furthest = max(furthest, high)
            extents.append((low, high, furthest, thread))
        return extents

    def thread_of_suspended(self, task: Task) -> Thread:
        """Return the thread on whose stack a task is below others.

        :raises Unavailable: if it is on none that could be read
        """
        found = self._thread_around(task.address) if task.is_undeferred else self._suspended.get(task.id)
        if found is None:
            raise Unavailable("no stack shows on which thread the task was left for another one")
        return found

    def _thread_around(self, address: int) -> Thread | None:
        # The thread on whose stack an address lies.
        extents = self._extents
        for low, high, furthest, thread in reversed(extents[: bisect_right(extents, address, key=lambda e: e[0])]):
            if low <= address < high:
                return thread
            if furthest <= address:
                break
        return None

    # Functions

    def entry_of_undeferred(self, task: Task) -> int:
        """Return the entry of the code of a task that was not deferred, which libgomp does not note.

        :raises Unavailable: if it is on no stack that could be read
        """
        thread = task.thread()
        if thread is None:
            raise Unavailable("the task is on no thread")
        self.code_of(thread)  # which says so if the stack cannot be read
        for code in self._code_of_tasks[thread.native].get(task.id, ()):
            entry = self._start_of(thread.stack.frames[code.frame])
            if entry is not None:
                return entry
        unknown = "libgomp does not note the function of a task that is not deferred, nor does the stack show it"
        raise Unavailable(unknown)

    def entry_of_region(self, region: Region) -> int:
        """Return the entry of a region's function from the stacks of its threads.

        :raises Unavailable: if no thread of the team has it on its stack
        """
        return region_entry(region, lambda number: self._entry_on(region, number), lambda: self._passed(region))

    def _entry_on(self, region: Region, number: int) -> int | None:
        thread = region.thread(number)
        group = thread.group_of(region.address)
        if group is None or group.code != PARALLEL:
            return None
        # The region's function may have ended with a jump to the function that runs. Names and the call show it.
        frames = thread.stack.frames
        inner = frames[group.inner - 1]
        symbol = self._process.locate(inner.call_site).symbol
        is_users = self._owners.is_users(inner)
        if is_users and symbol is not None and naming.parse_outlined(symbol) is not None:
            return self._start_of(inner)
        function = self._process.function_called(frames[group.inner])
        if function is not None and self._owners.at(function) == USER:
            return function
        return self._start_of(inner) if is_users and symbol is None else None

    def _passed(self, region: Region) -> int | None:
        # The call that began it says which function it passed.
        thread = region.thread(0)
        frames, group = thread.stack.frames, thread.group_of(region.address)
        if group is None or group.entry == BEGIN or group.outer + 1 >= len(frames):
            return None
        routine = entry_of(self._process, frames[group.outer].call_site)
        return construct_passed(self._process, frames[group.outer + 1].pc, routine)

    def encountering_frames(self, region: Region) -> tuple[Frame, ...]:
        """Return the frames outside of *region* on its primary thread, from the user's that encountered it outwards.

        :raises Unavailable: if that frame is not on the stack, or not to be told from others
        """
        thread = region.thread(0)
        group, stack = thread.group_of(region.address), thread.stack
        if group is None and stack.stopped is not None:
            raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stack.stopped}")
        if group is None:
            raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
        caller, outer, frames = group.caller, group.outer, stack.frames
        if caller is None and outer + 1 < len(frames) and stack.is_runtimes(frames[outer + 1]):
            return frames[outer:]  # the code of another region ended by the jump to it
        whose = self._owners.of(frames[caller]) if caller is not None else None
        # In a static program names do not tell the user's functions from the C library's; a call of an entry does.
        if whose == USER or (whose == UNKNOWN and naming.is_entry(group.entry)):
            return frames[caller:]
        if whose == UNKNOWN:
            raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
        raise Unavailable("the function that encountered the region has left the stack by a tail call")


def _around_targets(thread: Thread) -> dict[int, TaskHandle | None]:
    # By the groups that called the code of target regions: the tasks that encountered these.
    found: dict[int, TaskHandle | None] = {}
    for depth, context in enumerate(thread.contexts):
        if context.target is not None:
            try:
                found[context.target.group] = thread.task_outside(depth)
            except OmpdError:
                found[context.target.group] = None
    return found


def _row(place: int, kind: str, region: Region | None, task: TaskHandle | None) -> ConstructCode:
    return ConstructCode(place, kind, region, task, "derived" if task is not None else None)


def _give(found: list[ConstructCode], likely: dict[int, dict[str, Task]]) -> None:
    # A task has one place on a stack. So one of several that may be meant is none that has a place already.
    meant: dict[str, list[int]] = {}
    for at, tasks in likely.items():
        for name in tasks:
            meant.setdefault(name, []).append(at)
    for code in found:
        if code.task is not None:
            for at in meant.pop(code.task.id, ()):
                del likely[at][code.task.id]
    clear = [at for at, tasks in likely.items() if len(tasks) == 1]
    heapify(clear)
    while clear:
        at = heappop(clear)
        if len(likely[at]) != 1:
            continue  # it was the last one that another place could mean, too
        ((name, task),) = likely[at].items()
        found[at] = found[at]._replace(task=task, source="derived")
        for other in meant.pop(name):
            del likely[other][name]
            if len(likely[other]) == 1:
                heappush(clear, other)
