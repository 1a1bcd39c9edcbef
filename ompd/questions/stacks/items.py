"""A frame on its way from the stack to the source, and what its function's name and place say of it."""

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
    from ompd.session.face import FunctionLocals


class Item(NamedTuple):
    """A frame of a thread's own stack.

    ``place`` is the index of the physical frame that it is of or, if it was left by a jump, of that which has its
    place; ``call_site`` the address to look up. Glue is what a compiler put around the code of a construct.
    """

    place: int
    call_site: int
    frame: StackFrame
    is_glue: bool = False
    is_outermost: bool = False  # of the code of a construct
    is_inlined_task: bool = False  # the outermost of a task's code that was inlined where the task was met
    variables: FunctionLocals | None = None


class Own(NamedTuple):
    """A thread's own stack, innermost frame first, and what is known of it."""

    frames: list[Item]
    physical: int  # how many frames no guess led to
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
    """Return the record of a function that ended by a jump at *address*, None if it is unknown which jump it was."""
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
    """Return the kind of a construct by the names of its code and the function around it, None if they do not say."""
    # gcc gives all its functions the same name, clang has an entry around those of tasks.
    known = naming.parse_outlined(glue)
    if known is not None and known.construct is not None:
        return known.construct
    return None if naming.is_by_gcc(name) else "parallel"


def is_glue(outer: StackFrame, inner: StackFrame) -> bool:
    """Return whether *outer* does nothing but call the code of a construct, which *inner* is."""
    # clang's code of a task is called by the function that the runtime knows; with -g so is that of a region, whose
    # function of the name that ends in _debug__ has the code.
    name, called = outer.function or "", inner.function or ""
    known, body = naming.parse_outlined(name), naming.parse_outlined(called)
    if known is None or body is None or body.construct == "task" or inner.kind != USER:
        return False
    return known.construct == "task" or (naming.is_body(called) and not naming.is_body(name))


def as_written(frames: Sequence[Item], met: tuple[str | None, Construct] | None = None) -> Iterator[StackFrame]:
    """Return the frames that stand for what is in the source."""
    # Of the C library's functions that call each other, the one that
    # the user called is. The code that met a parallel construct is at that, whatever line gcc gave the call: where the
    # construct begins a block it is that of the block.
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
