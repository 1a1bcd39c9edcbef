"""Frames between the physical stack and the source, and their kinds by function name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN, USER
from ompd.contract.plugin import ConstructCode
from ompd.contract.process import Frame, Module, SourceFrame
from ompd.model import Construct, StackFrame

if TYPE_CHECKING:
    from ompd.debugger.variables.locals import FunctionLocals


class Item(NamedTuple):
    """A frame of a thread's own stack.

    ``place`` is the index of its physical frame or, if the function left by a jump, of the frame that replaced it.
    ``call_site`` is the address to look up. Glue is a function that a compiler put around the code of a construct.
    """

    place: int
    call_site: int
    frame: StackFrame
    is_glue: bool = False
    is_outermost: bool = False  # the outermost frame of a construct's code
    is_inlined_task: bool = False  # the outermost frame of a task that was inlined into the encountering code
    variables: FunctionLocals | None = None


class Own(NamedTuple):
    """A thread's own stack, innermost frame first."""

    frames: list[Item]
    physical: int  # the number of frames found without a guess
    boundaries: str | None
    stopped: str | None
    codes: Sequence[ConstructCode] = ()


def own_frame(
    frame: Frame,
    source: SourceFrame,
    kind: str,
    task: str | None,
    native: int,
    module: str | None,
    unproven: str | None,
    idle: int | None = None,
) -> StackFrame:
    """Return the record of a physical frame, or of a function that was inlined in it."""
    return StackFrame(
        function=source.function,
        file=source.file,
        line=source.line,
        address=frame.pc,
        cfa=frame.cfa,
        kind=kind,
        task=task,
        thread=native,
        inlined=source.inlined,
        module=module,
        how=frame.how,
        guessed=frame.guessed,
        signal=frame.is_signal_frame,
        idle_loop=idle is not None and frame.cfa is not None and frame.sp <= idle < frame.cfa,
        unproven=unproven,
    )


def frame_left(
    source: SourceFrame,
    address: int | None,
    task: str | None,
    thread: int | None,
    module: Module | None,
    unproven: str | None,
) -> StackFrame:
    """Return the record of a function that ended by a jump at *address*, which is None if the jump is unknown."""
    unavailable = {}
    if address is None:
        reason = "it ended by a jump, and which one is unknown"
        unavailable = {key: reason for key in ("address", "file", "line") if key == "address" or source.line is None}
    return StackFrame(
        function=source.function,
        file=source.file,
        line=source.line,
        address=address,
        cfa=None,
        kind=USER,
        task=task,
        thread=thread,
        inlined=source.inlined,
        module=module.name if module is not None else None,
        how="tail-call",
        unproven=unproven,
        unavailable=unavailable,
    )


def kind_by_name(name: str, glue: str) -> str | None:
    """Return the kind of a construct by the names of its code and the function around it, None if unknown."""
    # gcc names all its functions alike. clang puts an entry function around the code of tasks.
    known = naming.parse_outlined(glue)
    if known is not None and known.construct is not None:
        return known.construct
    return None if naming.is_by_gcc(name) else "parallel"


def is_glue(outer: StackFrame, inner: StackFrame) -> bool:
    """Return whether *outer* only calls *inner*, the code of a construct."""
    # In clang's code the runtime calls a small function, which calls the task. With -g regions have one, too: their
    # code is in the function whose name ends in _debug__.
    name, called = outer.function or "", inner.function or ""
    known, body = naming.parse_outlined(name), naming.parse_outlined(called)
    if known is None or body is None or body.construct == "task" or inner.kind != USER:
        return False
    return known.construct == "task" or (naming.is_body(called) and not naming.is_body(name))


def as_written(frames: Sequence[Item], met: tuple[str | None, Construct] | None = None) -> Iterator[StackFrame]:
    """Return the frames of functions that are in the source.

    :param met: the function and the construct that the innermost user frame has encountered
    """
    # Keep only the outermost of the C library's functions that call each other: the user called it. The frame that
    # encountered a construct gets the construct's line, because gcc may give the call the line of the block.
    shown = False
    for number, item in enumerate(frames):
        frame, is_outermost = item.frame, item.is_outermost
        if item.is_glue or frame.kind == RUNTIME:
            continue
        if frame.kind == SYSTEM and not is_outermost:
            outer = frames[number + 1].frame.kind if number + 1 < len(frames) else None
            if outer not in (USER, UNKNOWN) and not (frame.signal and shown):
                continue
        shown = True
        if frame.kind == USER:
            if met is not None and (frame.function, frame.file) == (met[0], met[1].file):
                frame = replace(frame, line=met[1].line)
            construct = frame.construct
            is_region = construct is not None and construct.kind == "parallel" and is_outermost
            met = (frame.function, construct) if is_region and construct is not None else None
        yield frame
