"""The code of regions and tasks on all threads' stacks. It shows the functions of regions and tasks, the code that
encountered regions, and the threads on which tasks are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import UNKNOWN, USER, construct_passed, entry_of
from ompd.contract.helpers.stacks import region_entry
from ompd.contract.plugin import ConstructCode, TaskHandle
from ompd.contract.process import Frame
from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.libgomp import stacks
from ompd.runtimes.libgomp.stacks import BEGIN, PARALLEL, TASK, UNDEFERRED, Group, ParsedStack

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Parallel, Task, Thread
    from ompd.runtimes.libgomp.runtime import Runtime


class Constructs:
    """The code of regions and tasks on all stacks of one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._owners = runtime.owners

    def code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """Return the constructs' code on a thread's stack, innermost first."""
        return thread.once("code", lambda: self._code_of(thread))

    def _code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        stack = thread.stack
        regions = {index: self._runtime.team_at(team) for team, index in thread.hosted.items()}
        # Find the task of each code, from the innermost outwards. The innermost code belongs to the current task. The
        # next outer code belongs to the generating task of the inner one in three cases: the inner code is a region
        # that this thread encountered, an undeferred task, or a task that was begun by a routine that only executes
        # children of its caller. Around any other deferred task, the task of the outer code has to be searched.
        try:
            task: TaskHandle | None = thread.current_task()
        except OmpdError:
            task = None
        codes: list[ConstructCode] = []
        candidates: dict[int, dict[str, Task]] = {}
        outside = _around_targets(thread)
        numbers = dict(thread.memberships[::-1]) if regions else {}
        for index, group in enumerate(stack.groups):
            region = regions.get(index)
            frame = group.inner - 1
            if index in outside:
                if group.code is None:
                    codes.append(_row(frame, "target", None, task))
                task = outside[index]
            if group.code in (TASK, UNDEFERRED):
                if task is None or task.kind() != "explicit":
                    task = None
                    candidates[len(codes)] = self._likely(stack, group)
                codes.append(_row(frame, "task", None, task))
                by_parent = group.code == UNDEFERRED or (group.entry or "").startswith(stacks.WAITS_FOR_CHILDREN)
                task = task.generating() if by_parent and task is not None else None
            if group.forks:
                implicit = region.implicit_task(numbers[region.address]) if region is not None else None
                if group.code == PARALLEL:
                    codes.append(_row(frame, "parallel", region, implicit))
                task = implicit.generating() if implicit is not None and group.entry != BEGIN else None
        _assign(codes, candidates)
        return codes

    def _likely(self, stack: ParsedStack, group: Group) -> dict[str, Task]:
        # The explicit tasks, by id, whose code *group* may have called. Their function is the called one, and their
        # address is in a register or in the runtime's part of the stack.
        tasks = self._runtime.tasks
        if group.code == UNDEFERRED:
            # The gomp_task of an undeferred task is in the frame of the routine that called the task's code.
            low, high = stack.frames[group.inner].sp, stack.frames[group.inner].cfa
            undeferred = tasks.undeferred
            if high is None:
                return {}
            addresses = undeferred[bisect_left(undeferred, low) : bisect_left(undeferred, high)]
            return {task.id: task for task in map(self._runtime.task_at, addresses)}
        called = stack.frames[group.inner - 1]
        entry, begun = self._start_of(called), tasks.begun
        named = (begun[word] for word in stack.waiting_words(group) if word in begun)
        # If the task's function jumped into the runtime by a tail call, it has left the stack, and any of these tasks
        # may fit.
        is_left = stack.is_runtimes(called)
        return {task.id: task for task in named if is_left or task.view.pointer("fn") == entry}

    def _start_of(self, frame: Frame) -> int | None:
        # The entry of a frame's function, None if it is unknown.
        place = self._process.locate(frame.call_site)
        return entry_of(self._process, frame.call_site) if place.symbol is not None else frame.function_start

    # The stacks on which tasks are

    @cached_property
    def _code_of_tasks(self) -> Mapping[int, Mapping[str, Sequence[ConstructCode]]]:
        # For each thread's native id, then for each task's id, the code of this task on the thread's stack. A stack
        # that cannot be read is left out.
        codes: dict[int, dict[str, list[ConstructCode]]] = {}
        for thread in self._runtime.threads():
            try:
                on_stack = self.code_of(thread)
            except OmpdError:
                continue
            by_task = codes.setdefault(thread.native, {})
            for code in on_stack:
                if code.task is not None:
                    by_task.setdefault(code.task.id, []).append(code)
        return codes

    @cached_property
    def _threads_of_tasks(self) -> Mapping[str, Thread]:
        # The first thread whose stack has a task's code, by the task's id.
        threads: dict[str, Thread] = {}
        for thread in self._runtime.threads():
            for task in self._code_of_tasks.get(thread.native, ()):
                threads.setdefault(task, thread)
        return threads

    @cached_property
    def _extents(self) -> Sequence[tuple[int, int, int, Thread]]:
        # One row for each thread, sorted by address: the start and the end of the stack's frames, the largest end in
        # the rows so far, and the thread.
        unordered: list[tuple[int, int, Thread]] = []
        for thread in self._runtime.threads():
            try:
                frames = thread.stack.frames
            except OmpdError:
                continue
            if frames:
                unordered.append((frames[0].sp, frames[-1].cfa or frames[-1].sp, thread))
        extents, furthest = [], 0
        for low, high, thread in sorted(unordered, key=lambda extent: extent[:2]):
            furthest = max(furthest, high)
            extents.append((low, high, furthest, thread))
        return extents

    def thread_of_suspended(self, task: Task) -> Thread:
        """Return the thread whose stack has a task that is suspended for another task.

        :raises Unavailable: if no readable stack has the task's code
        """
        thread = self._thread_around(task.address) if task.is_undeferred else self._threads_of_tasks.get(task.id)
        if thread is None:
            raise Unavailable("no stack shows on which thread the task was left for another one")
        return thread

    def _thread_around(self, address: int) -> Thread | None:
        # The thread whose stack contains *address*, None if there is none.
        extents = self._extents
        for low, high, furthest, thread in reversed(extents[: bisect_right(extents, address, key=lambda e: e[0])]):
            if low <= address < high:
                return thread
            if furthest <= address:
                break
        return None

    # Functions and callers

    def entry_of_undeferred(self, task: Task) -> int:
        """Return the entry of an undeferred task's function, which libgomp does not record.

        :raises Unavailable: if no readable stack has the function
        """
        thread = task.thread()
        if thread is None:
            raise Unavailable("the task is on no thread")
        self.code_of(thread)  # raises if the stack cannot be read
        for code in self._code_of_tasks[thread.native].get(task.id, ()):
            entry = self._start_of(thread.stack.frames[code.frame])
            if entry is not None:
                return entry
        unknown = "libgomp does not note the function of a task that is not deferred, nor does the stack show it"
        raise Unavailable(unknown)

    def entry_of_region(self, region: Parallel) -> int:
        """Return the entry of a region's function, as shown by the stacks of the region's threads.

        :raises Unavailable: if no stack has the function
        """
        return region_entry(region, lambda number: self._entry_on(region, number), lambda: self._passed(region))

    def _entry_on(self, region: Parallel, number: int) -> int | None:
        thread = region.thread(number)
        group = thread.group_of(region.address)
        if group is None or group.code != PARALLEL:
            return None
        # The region's function may have left the stack by a tail call, so the frame may belong to another function. The
        # frame's function counts only if it has a construct's name. Otherwise the call in the runtime's frame must show
        # the region's function.
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

    def _passed(self, region: Parallel) -> int | None:
        # The region's function, which the user's code passed to the routine that began the region. None if the call
        # does not show the function.
        thread = region.thread(0)
        frames, group = thread.stack.frames, thread.group_of(region.address)
        if group is None or group.entry == BEGIN or group.outer + 1 >= len(frames):
            return None
        routine = entry_of(self._process, frames[group.outer].call_site)
        return construct_passed(self._process, frames[group.outer + 1].pc, routine)

    def encountering_frames(self, region: Parallel) -> tuple[Frame, ...]:
        """Return the primary thread's frames outside of a region, starting with the user function that encountered the
        region.

        :raises Unavailable: if that function's frame is not on the stack, or cannot be identified
        """
        thread = region.thread(0)
        group, stack = thread.group_of(region.address), thread.stack
        if group is None and stack.stopped is not None:
            raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stack.stopped}")
        if group is None:
            raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
        caller, outer, frames = group.caller, group.outer, stack.frames
        if caller is None and outer + 1 < len(frames) and stack.is_runtimes(frames[outer + 1]):
            return frames[outer:]  # another region's code began this region by a tail call
        owner = self._owners.of(frames[caller]) if caller is not None else None
        # In a static program, names do not distinguish user functions from the C library's. But only user code calls
        # entry points.
        if owner == USER or (owner == UNKNOWN and naming.is_entry(group.entry)):
            return frames[caller:]
        if owner == UNKNOWN:
            raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
        raise Unavailable("the function that encountered the region has left the stack by a tail call")


def _around_targets(thread: Thread) -> dict[int, TaskHandle | None]:
    # The task that encountered each target region, None if it is unknown. The key is the index of the group that called
    # the target region's code.
    tasks: dict[int, TaskHandle | None] = {}
    for depth, context in enumerate(thread.contexts):
        if context.target is not None:
            try:
                tasks[context.target.group] = thread.task_outside(depth)
            except OmpdError:
                tasks[context.target.group] = None
    return tasks


def _row(frame: int, kind: str, region: Parallel | None, task: TaskHandle | None) -> ConstructCode:
    return ConstructCode(frame, kind, region, task, "derived" if task is not None else None)


def _assign(codes: list[ConstructCode], candidates: dict[int, dict[str, Task]]) -> None:
    # Assign a task to each code for which only one candidate is left. A task has only one place on a stack, so an
    # assigned task is no longer a candidate for other places.
    places: dict[str, list[int]] = {}
    for index, tasks in candidates.items():
        for name in tasks:
            places.setdefault(name, []).append(index)
    for code in codes:
        if code.task is not None:
            for index in places.pop(code.task.id, ()):
                del candidates[index][code.task.id]
    clear = [index for index, tasks in candidates.items() if len(tasks) == 1]
    heapify(clear)
    while clear:
        index = heappop(clear)
        if len(candidates[index]) != 1:
            continue  # another place took its last candidate
        ((name, task),) = candidates[index].items()
        codes[index] = codes[index]._replace(task=task, source="derived")
        for other in places.pop(name):
            del candidates[other][name]
            if len(candidates[other]) == 1:
                heappush(clear, other)
