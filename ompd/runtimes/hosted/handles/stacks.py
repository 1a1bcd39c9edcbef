"""Locate the code of tasks on native stacks, by the frames that the runtime records for each task.

A task's exit frame belongs to the runtime's routine that called the task's code. Its enter frame belongs to the
function of the task that called the runtime. By the specification, a flag shows whether the address is the canonical
frame address or the frame pointer. LLVM's runtime stores the result of ``__builtin_frame_address(0)``, but sets the
flag for the other kind. So both kinds are tried, and the owner of the frame's code decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, construct_passed, entry_of
from ompd.contract.helpers.stacks import region_entry
from ompd.contract.ompt import FrameFlag
from ompd.contract.plugin import ConstructCode, FrameAddress
from ompd.contract.process import Frame
from ompd.errors import CorruptState, Unavailable

if TYPE_CHECKING:
    from ompd.runtimes.hosted.handles.regions import Region
    from ompd.runtimes.hosted.handles.space import HostedSpace
    from ompd.runtimes.hosted.handles.threads import Thread

_KIND = 0xF0  # the flags for the kind of a frame's address; the other flags are for the frame's owner


def construct_code(thread: Thread) -> Sequence[ConstructCode]:
    """Return the code of regions and explicit tasks on the stack of *thread*, innermost first.

    :raises Unavailable: if the runtime records no frames
    :raises CorruptState: if a frame is not on the thread's stack
    """
    space = thread.space
    frames = space.process.stack(thread.native_thread_id()).frames
    codes: dict[int, ConstructCode] = {}
    for task in thread.tasks():
        exit_frame, _ = task.frames()
        region = task.parallel()
        kind = "parallel" if task.is_implicit else "task"
        if exit_frame is None or (kind == "parallel" and region is None):
            continue
        index = _called_from(space, frames, exit_frame) - 1
        if index < 0 or (space.owners.of(frames[index + 1]) != RUNTIME and not space.owners.is_users(frames[index])):
            continue  # the task's code has no frame: the runtime is about to call it, or it was inlined
        codes.setdefault(index, ConstructCode(index, kind, region if kind == "parallel" else None, task, "runtime"))
    return [codes[index] for index in sorted(codes)]


def encountering_frames(region: Region) -> Sequence[Frame]:
    """Return the primary thread's frames outside of *region*, starting with the user function that encountered the
    region.

    :raises Unavailable: if the runtime records no frames, or none for the tasks concerned
    """
    space = region.space
    frames = space.process.stack(region.thread(0).native_thread_id()).frames
    task = region.implicit_task(0)
    exit_frame, _ = task.frames()
    if exit_frame is None:
        # At the region's end, only the task that encountered the region has a frame.
        encountering = task.generating()
        exit_frame = encountering.frames()[1] if encountering is not None else None
    if exit_frame is None:
        raise Unavailable("neither the region's task nor the one that encountered the region has a frame")
    first = _called_from(space, frames, exit_frame)
    while first < len(frames) and space.owners.of(frames[first]) == RUNTIME:
        first += 1
    if first == len(frames):
        raise Unavailable("the code that encountered the region is not on the stack of its primary thread")
    return frames[first:]


def entry_of_region(region: Region) -> int:
    """Return the entry of the function that a compiler made from a region's code, as shown by the stacks of the
    region's threads.

    :raises OmpdError: if the stacks do not show the function
    """
    process = region.space.process

    def on_stack(number: int) -> int | None:
        thread = region.thread(number)
        code = next((code for code in construct_code(thread) if code.region is region), None)
        if code is None:
            return None
        entry = entry_of(process, process.stack(thread.native_thread_id()).frames[code.frame].call_site)
        # A region's code that ended by a jump to another function is no longer on the stack.
        is_construct = entry is not None and naming.is_construct_code(process.locate(entry).symbol or "")
        return entry if is_construct else None

    def passed() -> int | None:
        return construct_passed(process, encountering_frames(region)[0].pc, None)

    return region_entry(region, on_stack, passed)


def _called_from(space: HostedSpace, frames: Sequence[Frame], kept: FrameAddress) -> int:
    # The index of the frame from which a task's code was called. By the specification, the recorded frame belongs to
    # the code itself if its flags name the application as the owner. LLVM's library does not report the owner. If the
    # application itself called the code, as of a task that is not deferred, LLVM records the caller's frame.
    candidates = list(_candidates(frames, kept))
    if not candidates:
        raise CorruptState(
            kept.address, f"{space.hosted_library.name}: a task's frame is not on the stack of its thread"
        )
    for index in candidates:
        if space.owners.of(frames[index]) == RUNTIME:
            return index
    is_codes_own = kept.flags is not None and kept.flags & FrameFlag.APPLICATION
    return candidates[0] + bool(is_codes_own)


def _candidates(frames: Sequence[Frame], kept: FrameAddress) -> Iterator[int]:
    # The frame whose part of the stack contains the recorded address. If the address is the CFA of the next inner
    # frame, that frame is a candidate, too: the first one if the flags say that the address is a CFA, otherwise the
    # second.
    for index, frame in enumerate(frames):
        if frame.cfa is None or frame.cfa <= kept.address:
            continue
        if frame.sp <= kept.address:
            inner = index - 1 if index and frames[index - 1].cfa == kept.address else None
            is_inner_first = kept.flags is not None and kept.flags & _KIND == FrameFlag.CFA
            if inner is None:
                yield index
            else:
                yield from (inner, index) if is_inner_first else (index, inner)
        return
