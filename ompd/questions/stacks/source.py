"""Replaces compiler-made functions on stacks by the source function that contains the construct, and its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN, USER, entry_of
from ompd.contract.plugin import ConstructCode
from ompd.contract.process import Frame, Module, SourceFrame
from ompd.errors import OmpdError
from ompd.model import Construct, StackFrame
from ompd.questions import places
from ompd.questions.facts.damage import is_damaged
from ompd.questions.facts.openmp_threads import MatchedThread
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.variables.locals import FunctionLocals


class Item(NamedTuple):
    """A frame of a thread's own stack.

    ``place`` is the index of its physical frame or, if the function left by a jump, of the frame that replaced it.
    ``call_site`` is the address by which its function and line are looked up. ``is_glue`` marks a function that a
    compiler added, such as the one around the code of a construct.
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
    physical: int  # the number of physical frames that were unwound without guessing
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
    """Return the record of a function that ended by a jump.

    :param address: the address of the jump, None if it is unknown
    """
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
    """Return the kind of a construct by the names of its code and of the glue around it, None if they do not show it.

    gcc gives the code of all constructs the same kind of name. clang's glue around the code of a task shows the task.
    """
    outlined = naming.parse_outlined(glue)
    if outlined is not None and outlined.construct is not None:
        return outlined.construct
    return None if naming.is_by_gcc(name) else "parallel"


def is_glue(outer: StackFrame, inner: StackFrame) -> bool:
    """Return whether *outer* only calls *inner*, the code of a construct."""
    # With clang, the runtime calls a small function, which calls the code of a task. With -g, there is one for regions,
    # too: the name of the function with the region's code ends in _debug__.
    name, called = outer.function or "", inner.function or ""
    outlined, body = naming.parse_outlined(name), naming.parse_outlined(called)
    if outlined is None or body is None or body.construct == "task" or inner.kind != USER:
        return False
    return outlined.construct == "task" or (naming.is_body(called) and not naming.is_body(name))


def as_written(frames: Sequence[Item], met: tuple[str | None, Construct] | None = None) -> Iterator[StackFrame]:
    """Return the frames of functions that are in the source.

    :param met: the function that encountered a region, and the region's construct, if the innermost user frame did
    """
    # If functions of the C library call each other, keep only the outermost, which user code called. A frame that
    # encountered a region gets the line of the construct, because gcc may give the call the line of the block.
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


class SourceReader:
    """Rewrites frames as the source has them. Facts about a function are kept for all stacks of one stop."""

    def __init__(self, session: Session, raw: bool) -> None:
        self._session = session
        self._process = session.process
        self._raw = raw
        self._kinds: dict[int, str | None] = {}
        self._constructs: dict[tuple[int, str | None], Construct] = {}

    def read(
        self,
        frames: list[Item],
        begins: Mapping[int, ConstructCode],
        matched: MatchedThread | None,
        placed: AbstractSet[str],
    ) -> None:
        """Rewrite the frames of one stack, innermost first, as the source has them.

        :param begins: the code of constructs, by the index of its outermost frame
        :param placed: the ids of tasks that have frames of their own
        """
        for index in reversed(range(len(frames))):
            self._read_as_source(frames, index, begins)
        self._name_glue(frames)
        _give_undeferred_tasks(frames, matched, placed)

    def _read_as_source(self, frames: list[Item], index: int, begins: Mapping[int, ConstructCode]) -> None:
        # Rewrite one frame if a compiler made its function. Callers begin with the outer frames, because inner frames
        # take names from them.
        frame = frames[index].frame
        if frame.kind == USER and self._is_added(frame, frames[index - 1].call_site if index else None):
            frames[index] = frames[index]._replace(is_glue=True)
            return
        outlined = naming.parse_outlined(frame.function or "") if frame.kind == USER else None
        if outlined is None and (frame.function is not None or index not in begins):
            return  # a function of the source: if it is where a construct's code should be, the code jumped to it
        if outlined is not None and index and is_glue(frame, frames[index - 1].frame):
            frames[index] = frames[index]._replace(is_glue=True)
            return
        # Skip the glue, which the runtime calls. The glue calls the construct's code, or the code is inlined into it.
        outer = index
        while outer + 1 < len(frames) and frames[outer + 1].is_glue:
            outer += 1
        is_inlined = frames[outer].frame.inlined
        around = frames[outer + 1].frame if is_inlined and outer + 1 < len(frames) else None
        # The code of an undeferred task is called by the function that contains the construct.
        caller = frames[outer + 1].frame if outer + 1 < len(frames) else None
        code = begins.get(outer)
        kind = code.kind if code is not None else kind_by_name(frame.function or "", frames[outer].frame.function or "")
        parent = outlined.parent if outlined is not None else None
        if parent is not None and kind in (None, "task") and naming.is_by_gcc(frame.function or ""):
            kind_of_gcc = self._kind_of_gcc(frames[outer].call_site, parent)
            kind = kind_of_gcc or (None if is_damaged(self._session) else kind)
        elif kind == "task" and self._process.places.has_parameter(frames[index].call_site, naming.TASKLOOP_BOUND):
            kind = "taskloop"
        if parent is not None:
            function: str | None = self._as_in_source(frames[index].call_site, parent)
        elif around is not None:
            function = around.function  # the code is inlined into the function that contains the construct
        elif caller is not None and caller.kind == USER:
            function = caller.function
        else:
            function = self._function_of(code, frames[outer].call_site, frame.function)
        if around is not None:
            construct = Construct(kind, around.file, around.line)
        else:
            construct = self._construct(code, kind, frames[outer].call_site)
        if not self._raw and not is_inlined:
            frame = replace(frame, inlined=False)  # the glue into which the code was inlined is not shown
        if function is None and outlined is not None:
            frame = replace(frame, unavailable={**frame.unavailable, "function": places.NO_FUNCTION})
        frame = replace(frame, function=function, construct=construct)
        frames[index] = frames[index]._replace(frame=frame, is_inlined_task=around is not None and kind == "task")

    def _name_glue(self, frames: list[Item]) -> None:
        # Give each glue frame the name of the construct's code inside of it or, without such a frame, of the function
        # around it: the source has no name for glue.
        for index, item in enumerate(frames):
            if item.is_glue and item.frame.kind == USER and item.frame.function != "main":
                inner = frames[index - 1].frame if index else None
                near = inner if inner is not None and inner.kind == USER else self._around(frames, index)
                frames[index] = item._replace(frame=replace(item.frame, function=near.function if near else None))

    def _around(self, frames: Sequence[Item], index: int) -> StackFrame | None:
        return next((item.frame for item in frames[index + 1 :] if item.frame.kind == USER and not item.is_glue), None)

    def _kind_of_gcc(self, call_site: int, parent: str) -> str | None:
        # Return the kind of a construct compiled by gcc, by the runtime's routine that receives the construct's code.
        # gcc's names do not show it.
        entry = entry_of(self._process.contract, call_site)
        if entry is None:
            return None
        if entry not in self._kinds:
            names = (naming.construct_of_routine(name) for name in self._process.calls.receivers(entry, parent))
            self._kinds[entry] = next((name for name in names if name is not None), None)
        return self._kinds[entry]

    def _is_added(self, frame: StackFrame, inner: int | None) -> bool:
        # Return whether a compiler added the function: clang's around the combiner of a reduction, or gfortran's main.
        if frame.function == "main" and inner is not None:
            return self._process.places.locate(inner).symbol == naming.FORTRAN_PROGRAM
        return naming.is_added(frame.function or "")

    def _construct(self, code: ConstructCode | None, kind: str | None, call_site: int) -> Construct:
        entry = entry_of(self._process.contract, call_site)
        key = entry or call_site, kind
        if key not in self._constructs:
            file, line = self._process.places.construct_line(entry) if entry is not None else (None, None)
            if line is None:
                noted = self._noted(code)
                file, line = (noted[0], noted[2]) if noted is not None else (None, None)
            self._constructs[key] = Construct(kind, file, line)
        return self._constructs[key]

    def _noted(self, code: ConstructCode | None) -> tuple[str, str, int] | None:
        handle = (code.region if code.kind == "parallel" else code.task) if code is not None else None
        return places.noted_place(handle.source) if handle is not None else None

    def _function_of(self, code: ConstructCode | None, call_site: int, symbol: str | None) -> str | None:
        # Return the function that contains a construct, for code whose name does not show it. None if it is unknown.
        if code is not None and code.kind == "parallel" and code.region is not None:
            function = places.source_function(self._session, code.region)
            function = function or self._process.places.declared_inside(call_site)
        else:
            noted = self._noted(code)
            function = noted[1] if noted is not None else self._process.places.declared_inside(call_site)
        if function is None and naming.parse_outlined(symbol or "") is None and not is_damaged(self._session):
            function = symbol
        return self._as_in_source(call_site, function) if function is not None else None

    def _as_in_source(self, call_site: int, symbol: str) -> str:
        return self._process.places.source_name(self._process.symbols.module_at(call_site), symbol, call_site)


def _give_undeferred_tasks(frames: list[Item], matched: MatchedThread | None, placed: AbstractSet[str]) -> None:
    # Set the task of frames with inlined undeferred tasks. clang inlines the code of such a task into the encountering
    # code, so the runtime knows no frames of it. These tasks are the innermost; each generated the next inner one.
    inner = next((index for index, item in enumerate(frames) if item.is_outermost), len(frames))
    bodies = [index for index, item in enumerate(frames[:inner]) if item.is_inlined_task]
    if not bodies or matched is None:
        return
    chain: list[str] = []
    try:
        task = matched[1].current_task()
        while task is not None and task.kind() == "explicit" and task.id not in placed and len(chain) < len(bodies):
            chain.append(task.id)
            task = task.generating()
    except OmpdError:
        return  # the frames keep the task that encloses the undeferred ones
    if len(chain) != len(bodies):
        return
    start = 0
    for end, task_id in zip(bodies, chain, strict=True):
        for index in range(start, end + 1):
            frames[index] = frames[index]._replace(frame=replace(frames[index].frame, task=task_id))
        start = end + 1
