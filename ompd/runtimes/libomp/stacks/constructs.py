"""The regions and tasks whose code is on a thread's stack, innermost first.

The runtime's routines that call a construct's code show where this code begins on the stack. If the runtime keeps an
``ompt_frame_t`` for each task, these frames show the task to which the code belongs. Otherwise the order of the regions
and the functions of the tasks show the task.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from ompd.contract.code_owners import entry_of
from ompd.contract.plugin import ConstructCode
from ompd.errors import CorruptState, OmpdError

if TYPE_CHECKING:
    from ompd.contract.plugin import ParallelHandle, TaskHandle
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.handles import Parallel, Task, Thread
    from ompd.runtimes.libomp.plugin import Runtime

_MAX_TASKS = 1 << 20


def construct_code(thread: Thread) -> list[ConstructCode]:
    """Return the code of regions and explicit tasks on the stack of *thread*, innermost first.

    :raises OmpdError: if the stack or the thread's regions cannot be read
    """
    stacks = thread.runtime.stacks
    stack = stacks.hosted(thread)
    regions = {index: region for region, index in stack.places.items() if index is not None}
    rows = []
    for index, pair in enumerate(pairwise(stack.frames)):
        if index in regions or stacks.code.begins_region(*pair):
            rows.append(ConstructCode(index, "parallel", regions.get(index), None, None))
        elif stacks.code.begins_task(*pair):
            rows.append(ConstructCode(index, "task", None, None, None))
    with_tasks = _with_recorded_tasks if thread.runtime.states_are_kept else _with_derived_tasks
    return _with_implicit_tasks(thread, with_tasks(thread, stack.frames, rows))


def _with_recorded_tasks(
    thread: Thread, frames: Sequence[Frame], without_tasks: Sequence[ConstructCode]
) -> list[ConstructCode]:
    # A task's exit frame is the address that __builtin_frame_address(0) returned in the runtime's frame that called the
    # task's code. On x86-64 this address is two words below that frame's CFA, whatever the exit frame's flags are. So
    # the calling frame is the frame whose part of the stack contains the address.
    exits: list[tuple[int, Task]] = []
    explicit: dict[str, Task] = {}
    for task in _tasks_on(thread):
        exit_frame, _ = task.frames()
        if exit_frame is not None:
            exits.append((exit_frame.address, task))
        if task.kind() == "explicit":
            explicit[task.id] = task
    exits.sort(key=itemgetter(0))
    rows = []
    for code in without_tasks:
        low, high = frames[code.frame].cfa, frames[code.frame + 1].cfa
        first = bisect_left(exits, low, key=itemgetter(0)) if low is not None and high is not None else len(exits)
        inside = [task for address, task in exits[first : first + 2] if high is not None and address < high]
        owner = inside[0] if len(inside) == 1 else None
        if owner is not None and (owner.kind() == "explicit") != (code.kind == "task"):
            raise CorruptState(owner.address, f"the frame of {owner.kind()} task {owner.id} is that of a {code.kind}")
        rows.append(code._replace(task=owner, source="runtime" if owner is not None else None))
        explicit.pop(owner.id if owner is not None else "", None)
    # The runtime records no exit frame for a task that is not deferred, because user code itself calls the task's
    # function.
    undeferred = [number for number, code in enumerate(rows) if code.kind == "task" and code.task is None]
    if len(undeferred) == len(explicit):
        for number, task in zip(undeferred, explicit.values(), strict=True):
            rows[number] = rows[number]._replace(task=task, source="derived")
    return rows


def _with_derived_tasks(
    thread: Thread, frames: Sequence[Frame], without_tasks: Sequence[ConstructCode]
) -> list[ConstructCode]:
    # The innermost code belongs to the current task. On a region's primary thread, the code around the region's code
    # belongs to the task that encountered the region. Any other code of an explicit task belongs to the thread's
    # suspended task with the same function, if there is only one.
    rows = list(without_tasks)
    try:
        current: Task | None = thread.current_task()
    except OmpdError:
        current = None
    outer: TaskHandle | None = current
    for number, code in enumerate(rows):
        if code.kind == "parallel":
            outer = _encountering(thread, code.region)
            continue
        task = outer if outer is not None and outer.kind() == "explicit" else None
        if task is None and number:
            entry = entry_of(thread.runtime.process, frames[code.frame].call_site)
            candidates = thread.runtime.suspended.on(thread, current).get(entry, ())
            task = candidates[0] if len(candidates) == 1 else None
        outer = None
        if task is not None:
            rows[number] = code._replace(task=task, source="derived")
    return rows


class SuspendedTasks:
    """The explicit tasks that generated the current tasks of threads, and are themselves suspended on a thread.

    Each task is read once.
    """

    def __init__(self, runtime: Runtime) -> None:
        # The suspended tasks, by the address of their thread's kmp_info_t, then by the task's function.
        self._tasks: dict[int, dict[int | None, list[Task]]] = {}
        # For each task, the error if one of its ancestors is unreadable.
        self._faults: dict[int, OmpdError | None] = {}
        self._current = runtime.current_tasks
        for address in self._current:
            self._add_ancestors(runtime.task_at(address))

    def on(self, thread: Thread, current: Task | None) -> Mapping[int | None, Sequence[Task]]:
        """Return the tasks that are suspended on *thread*. The keys are the entries of the tasks' functions. *current*
        is the task that the thread executes.

        :raises OmpdError: if an ancestor of *current* cannot be read
        """
        fault = self._faults.get(current.address) if current is not None else None
        if fault is not None:
            raise fault
        return self._tasks.get(thread.address, {})

    def _add_ancestors(self, task: Task) -> None:
        path: list[int] = []
        fault: OmpdError | None = None
        ancestor: Task | None = task
        try:
            while ancestor is not None and ancestor.kind() == "explicit":
                if ancestor.address in self._faults:
                    fault = self._faults[ancestor.address]
                    break
                self._faults[ancestor.address] = None
                path.append(ancestor.address)
                thread = ancestor.thread_or_none() if ancestor.address not in self._current else None
                if thread is not None:
                    by_function = self._tasks.setdefault(thread.address, {})
                    by_function.setdefault(ancestor.function(), []).append(ancestor)
                ancestor = ancestor.generating()
        except OmpdError as error:
            fault = error
        self._faults.update(dict.fromkeys(path, fault))


def _tasks_on(thread: Thread) -> Iterator[Task]:
    # The task that the thread executes, and the tasks that are suspended on it, innermost first.
    task: Task | None = thread.current_task()
    task_ids: set[str] = set()
    is_untied = False
    while task is not None:
        if task.id in task_ids and is_untied:
            return
        if task.id in task_ids or len(task_ids) >= _MAX_TASKS:
            raise CorruptState(task.address, "the chain of tasks on a thread does not end")
        task_ids.add(task.id)
        yield task
        outer: Task | None = task.scheduling() if task.kind() == "explicit" else None
        if outer is not None and outer.id in task_ids and not (outer.flag("tiedness") and task.flag("tiedness")):
            # If the queue is full, the thread executes the next part of an untied task at once, inside of the task's
            # own frame. The runtime then records that the task was suspended for itself, perhaps through other tasks.
            # It no longer knows the task that was first suspended for the untied task.
            outer, is_untied = None, True
        if outer is None:
            outer = task.generating()
            region = task.parallel() if task.kind() == "implicit" else None
            # The task that encountered a region is suspended on the region's primary thread until the region ends. The
            # runtime does not record this in the task.
            is_primary = region is not None and region.thread(0).address == thread.address
            if outer is not None and not is_primary and outer.thread_or_none() != thread:
                return
        task = outer


def _encountering(thread: Thread, region: ParallelHandle | None) -> TaskHandle | None:
    # The task that encountered a region, None if the thread is not the region's primary thread.
    if region is None or region.thread(0).address != thread.address:
        return None
    return region.implicit_task(0).generating()


def _with_implicit_tasks(thread: Thread, rows: Sequence[ConstructCode]) -> list[ConstructCode]:
    # A thread executes a region's code in its implicit task.
    completed = []
    for code in rows:
        if code.kind == "parallel" and code.task is None and code.region is not None:
            code = code._replace(task=_implicit_task(thread, code.region), source="derived")  # type: ignore[arg-type]
        completed.append(code)
    return completed


def _implicit_task(thread: Thread, region: Parallel) -> Task:
    members = region.team.t_threads
    if thread.address not in members:
        raise CorruptState(region.team.address, f"thread {thread.address:#x} runs a region whose team does not have it")
    return region.implicit_task(members.index(thread.address))
