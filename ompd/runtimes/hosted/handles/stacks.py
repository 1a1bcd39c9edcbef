"""Where the code of tasks is on native stacks: by the frames that the runtime keeps of them.

A task's exit frame is the one of the runtime that called its code, its enter frame the one that its code has called. By
the specification the address is the canonical frame address, or the frame pointer, and flags say which of the two; LLVM
keeps what ``__builtin_frame_address(0)`` returns, and its flags say that it is the other. So the frame is looked for in
both ways, and whose code is there decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd import naming
from ompd.contract.code_owners import RUNTIME, construct_passed, entry_of
from ompd.contract.helpers.stacks import region_entry
from ompd.contract.ompt import FrameFlag
from ompd.contract.plugin import ConstructCode, FrameAddress, ThreadHandle
from ompd.contract.process import Frame
from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.hosted.handles.regions import Region
from ompd.runtimes.hosted.handles.tasks import Tasks

_KIND = 0xF0  # what kind of address a frame has; the rest of its flags says whose frame it is


def construct_code(space: Tasks, thread: ThreadHandle) -> Sequence[ConstructCode]:
    """See :meth:`ompd.contract.plugin.ThreadHandle.construct_code`.

    :raises Unavailable: if the runtime keeps no frames
    :raises CorruptState: if a frame is not on the thread's stack
    """
    frames = space.process.stack(thread.native_thread_id()).frames
    found: dict[int, ConstructCode] = {}
    for task in space.tasks_on(thread):
        exit_frame, _ = task.frames()
        region = task.parallel()
        kind = "parallel" if task.is_implicit else "task"
        if exit_frame is None or (kind == "parallel" and region is None):
            continue
        at = _called_from(space, frames, exit_frame) - 1
        if at < 0 or (space.owners.of(frames[at + 1]) != RUNTIME and not space.owners.is_users(frames[at])):
            continue  # it has no frame: the runtime is about to call it, or it was inlined where its task was met
        found.setdefault(at, ConstructCode(at, kind, region if kind == "parallel" else None, task, "runtime"))
    return [found[at] for at in sorted(found)]


def encountering_frames(space: Tasks, region: Region) -> Sequence[Frame]:
    """See :meth:`ompd.contract.plugin.ParallelHandle.encountering_frames`.

    :raises Unavailable: if the runtime keeps no frames, or none of the tasks concerned
    """
    frames = space.process.stack(region.thread(0).native_thread_id()).frames
    task = space.implicit_task_of(region, 0)
    exit_frame, _ = task.frames()
    if exit_frame is None:
        # At its end the task that encountered it is all there is.
        encountering = task.generating()
        exit_frame = encountering.frames()[1] if encountering is not None else None
    if exit_frame is None:
        raise Unavailable("neither the region's task nor the one that encountered the region has a frame")
    at = _called_from(space, frames, exit_frame)
    while at < len(frames) and space.owners.of(frames[at]) == RUNTIME:
        at += 1
    if at == len(frames):
        raise Unavailable("the code that encountered the region is not on the stack of its primary thread")
    return frames[at:]


def entry_of_region(space: Tasks, region: Region) -> int:
    """Return the entry of the function that a compiler made of a region's code, as the stacks of its threads show it.

    :raises OmpdError: if they show none
    """
    process = space.process

    def on_stack(number: int) -> int | None:
        thread = region.thread(number)
        code = next((code for code in construct_code(space, thread) if code.region is region), None)
        if code is None:
            return None
        entry = entry_of(process, process.stack(thread.native_thread_id()).frames[code.frame].call_site)
        # Code that ended by a jump to another function is not on the stack any more.
        is_construct = entry is not None and naming.is_construct_code(process.locate(entry).symbol or "")
        return entry if is_construct else None

    return region_entry(
        region, on_stack, lambda: construct_passed(process, encountering_frames(space, region)[0].pc, None)
    )


def _called_from(space: Tasks, frames: Sequence[Frame], kept: FrameAddress) -> int:
    # The index of the frame from which a task's code was called. By the specification it is that of the code itself if
    # it is said to be the application's. LLVM's library does not say whose it is, and where the application has called
    # the code of a task that was not deferred, its frame is the caller's.
    candidates = list(_candidates(frames, kept))
    if not candidates:
        raise CorruptState(kept.address, f"{space.client.name}: a task's frame is not on the stack of its thread")
    for at in candidates:
        if space.owners.of(frames[at]) == RUNTIME:
            return at
    is_codes_own = kept.flags is not None and kept.flags & FrameFlag.APPLICATION
    return candidates[0] + bool(is_codes_own)


def _candidates(frames: Sequence[Frame], kept: FrameAddress) -> Iterator[int]:
    # The frame whose own part of the stack has the address, and the one inside of it that ends there.
    for at, frame in enumerate(frames):
        if frame.cfa is None or frame.cfa <= kept.address:
            continue
        if frame.sp <= kept.address:
            inner = at - 1 if at and frames[at - 1].cfa == kept.address else None
            is_inner_first = kept.flags is not None and kept.flags & _KIND == FrameFlag.CFA
            both = [at] if inner is None else [inner, at] if is_inner_first else [at, inner]
            yield from both
        return
