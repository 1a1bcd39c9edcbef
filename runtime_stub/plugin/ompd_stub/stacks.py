"""The regions and tasks whose code is on a thread's stack.

If the runtime keeps frames, they show this code. A task's exit frame is the frame of the routine that called the task's
code. Its reenter frame is the frame of the user's function that encountered a construct. Without frames, functions show
the code: the runtime always keeps the function of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ompd.contract.code_owners import RUNTIME, USER, entry_of
from ompd.contract.helpers.stacks import interrupted_at
from ompd.contract.helpers.walks import MAX_TASKS, chain
from ompd.contract.ompt import FrameFlag
from ompd.contract.plugin import ConstructCode
from ompd.contract.process import Frame
from ompd.errors import CorruptState, Unavailable

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime
    from ompd_stub.tasks import Task
    from ompd_stub.teams import Region, Team
    from ompd_stub.threads import Thread

_FORKS = "GOMP_parallel"
# They call the code of implicit and explicit tasks.
_CALLERS = ("run_implicit", "call_task")


def construct_code(thread: Thread) -> list[ConstructCode]:
    """Return the code of regions and explicit tasks on the stack of *thread*, innermost first.

    :raises OmpdError: if its stack or its tasks cannot be read
    """
    frames = _frames(thread)
    if not thread.runtime.keeps_states():
        return _by_functions(thread, frames)
    found: list[ConstructCode] = []
    for task in _hosted_tasks(thread):
        exit_frame, _ = task.frames()
        if exit_frame is None:
            continue  # an initial task, or the task's code has not begun or has ended
        at = _holding(frames, exit_frame.address)
        if at is None:
            raise CorruptState(task.address, f"no frame of its thread's stack holds {exit_frame.address:#x}")
        # A function may execute a region's code itself, without a call. The code is then in the function's own frame.
        outermost = at if (exit_frame.flags or 0) & FrameFlag.APPLICATION else at - 1
        if outermost < 0:
            continue  # the runtime's routine is about to call the code
        if found and outermost < found[-1].frame:
            raise CorruptState(task.address, "its code lies inside of that of a task that it began")
        found.append(_code(outermost, task, "runtime"))
    return found


def _hosted_tasks(thread: Thread) -> Iterator[Task]:
    # The tasks on a thread's stack, innermost first, as the runtime records them.
    def outer(task: Task) -> Task | None:
        if task.kind() == "explicit":
            return task.scheduling()
        # A region's primary thread encountered the region.
        is_met_here = task.kind() == "implicit" and task.team.threads[0] == thread.address
        return task.generating() if is_met_here else None

    return chain(thread.current_task(), outer, MAX_TASKS, "the tasks on a thread")


def _code(frame: int, task: Task, source: str) -> ConstructCode:
    if task.kind() == "implicit":
        return ConstructCode(frame, "parallel", task.parallel(), task, source)
    return ConstructCode(frame, "task", None, task, source)


def _frames(thread: Thread) -> Sequence[Frame]:
    return thread.runtime.process.stack(thread.native).frames


def _holding(frames: Sequence[Frame], address: int) -> int | None:
    # The index of the frame that contains an address.
    for index, frame in enumerate(frames):
        if frame.cfa is not None and frame.sp <= address < frame.cfa:
            return index
    return None


def _by_functions(thread: Thread, frames: Sequence[Frame]) -> list[ConstructCode]:
    # User code that the runtime called is a task's. Implicit tasks are on the stack in the order of their regions.
    # Explicit tasks are identified by thread and function, so two with the same function cannot be distinguished.
    current = thread.current_task()
    implicit = [team.implicit_task_of(thread) for team in _hosted_teams(thread) if team.level]
    explicit = list(thread.runtime.explicit_tasks.get(thread.address, ()))
    if current is not None and current.kind() == "explicit" and current not in explicit:
        explicit.append(current)
    found: list[ConstructCode] = []
    for index, (inner, outer) in enumerate(pairwise(frames)):
        if _is(thread.runtime, inner, USER) and _is(thread.runtime, outer, RUNTIME):
            entry = entry_of(thread.runtime.process, inner.call_site)
        elif _is_code_left(thread, outer):
            entry = thread.runtime.process.function_called(outer)
        else:
            continue
        next_ = next((number for number, task in enumerate(implicit) if task.function() == entry), None)
        if next_ is None and implicit and _routine(thread, outer) == _CALLERS[0]:
            next_ = 0  # the called function ended with a jump to the function on the stack
        if next_ is not None:
            found.append(_code(index, implicit[next_], "derived"))
            del implicit[: next_ + 1]  # the code of the tasks between has ended
            continue
        likely = [task for task in explicit if task.function() == entry]
        task = current if not found and current in likely else likely[0] if len(likely) == 1 else None
        if task is None:
            found.append(ConstructCode(index, "task", None, None, None))
        else:
            found.append(_code(index, task, "derived"))
            explicit.remove(task)
    return found


def _is_code_left(thread: Thread, outer: Frame) -> bool:
    # Whether a routine of the runtime called the code of a construct, and that code ended with a jump to the function
    # of the inner frame.
    return _routine(thread, outer) in _CALLERS and thread.runtime.process.calls_by_pointer(outer.pc) is True


def _hosted_teams(thread: Thread) -> Iterator[Team]:
    # The teams whose regions' code is on a thread's stack, innermost first, up to the team of which it is a worker.
    team = thread.team
    while team is not None:
        yield team
        if team.threads[0] != thread.address:
            return
        team = team.parent


def _is(runtime: Runtime, frame: Frame, owner: str) -> bool:
    return runtime.owners.of(frame) == owner


def encountering_frames(region: Region) -> tuple[Frame, ...]:
    """Return the frames outside of *region* on its primary thread, innermost first.

    The first one is the user's frame that encountered the region.

    :raises Unavailable: if that frame is not on the stack, or cannot be distinguished from others
    """
    runtime = region.team.runtime
    primary = runtime.thread_at(region.team.threads[0])
    frames = _frames(primary)
    at: int | None = None
    if runtime.keeps_states():
        address = region.team.view.pointer("encountering")
        if address is None:
            raise CorruptState(region.team.address, f"{region.team.view.layout.name} without encountering")
        _, reenter = runtime.task_at(address).frames()
        at = _holding(frames, reenter.address) if reenter is not None else None
    else:
        at = _calls_of_parallel(primary, frames).get(region.team.address)
    if at is None or not _is(runtime, frames[at], USER):
        raise Unavailable("the function that encountered the region is not to be told from others on the stack")
    return tuple(frames[at:])


def _calls_of_parallel(primary: Thread, frames: Sequence[Frame]) -> dict[int, int]:
    # The frames that called the runtime to form teams, by the team's address. Calls and teams are in the same order.
    calls = [
        index + 1
        for index, (inner, outer) in enumerate(pairwise(frames))
        if not _is(primary.runtime, outer, RUNTIME) and _routine(primary, inner).startswith(_FORKS)
    ]
    met = [team.address for team in _hosted_teams(primary) if team.level and team.threads[0] == primary.address]
    if len(calls) == len(met) + 1 and not any(_is(primary.runtime, frame, USER) for frame in frames[: calls[0]]):
        calls = calls[1:]  # the thread is forming a team that it has not joined yet, or has left one at a region's end
    return dict(zip(met, calls, strict=True)) if len(met) == len(calls) else {}


def _routine(thread: Thread, frame: Frame) -> str:
    # The name of the runtime's routine of a frame, "" for other code and for a routine without a name.
    inside = _is(thread.runtime, frame, RUNTIME)
    return (thread.runtime.process.locate(frame.call_site).symbol or "") if inside else ""


def runs_no_routine(thread: Thread) -> bool:
    """Return whether a thread is outside of the runtime: in user code, or in code to which user code jumped."""
    frames = _handled(thread)
    runtime = thread.runtime
    inside = next((i for i, frame in enumerate(frames) if _is(runtime, frame, RUNTIME)), len(frames))
    if any(_is(runtime, frame, USER) for frame in frames[:inside]):
        return True
    # The runtime's two routines that call code of constructs never call the C library.
    return 0 < inside < len(frames) and _routine(thread, frames[inside]) in _CALLERS


def innermost_entry(thread: Thread) -> str:
    """Return the name of the runtime's routine that the innermost user code called.

    :raises Unavailable: if the name is unknown, or the thread is in no such routine
    """
    outermost = ""
    for frame in _handled(thread):
        if _is(thread.runtime, frame, RUNTIME):
            outermost = _routine(thread, frame)
        elif _is(thread.runtime, frame, USER):
            break
    if not outermost:
        raise Unavailable("the stack does not name the runtime's routine that the thread is in")
    return outermost


def _handled(thread: Thread) -> Sequence[Frame]:
    # The frames of a thread without those of signal handlers. A handler does not end the wait that the signal
    # interrupted, unless the handler itself is in a construct.
    frames = _frames(thread)
    codes = _by_functions(thread, frames)
    *_, first = interrupted_at(frames, {code.frame for code in codes}.__contains__)
    return frames[first:]


def runs_code_of(thread: Thread, task: Task) -> bool:
    """Return whether the code of a task is on the stack of *thread*, by the task's function."""
    return any(code.task is task for code in _by_functions(thread, _frames(thread)))
