"""A thread's own frames, from its registers outwards, with the user functions that left the stack by a tail call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN, USER, entry_of
from ompd.contract.plugin import ConstructCode, ParallelHandle
from ompd.contract.process import Frame, Module, SourceFrame
from ompd.errors import OmpdError, Unavailable
from ompd.model import StackFrame
from ompd.questions import places
from ompd.questions.facts.gathering import Problems
from ompd.questions.facts.openmp_threads import MatchedThread, Matching
from ompd.questions.stacks.names import RuntimeNames
from ompd.questions.stacks.source import Item, Own, SourceReader, frame_left, own_frame
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.binary.types.parts import Step
    from ompd.debugger.variables.locals import FunctionLocals
    from ompd.debugger.variables.names import VariableName


class OwnStacks:
    """The own stacks of the threads of one stop, each read once."""

    def __init__(
        self,
        session: Session,
        matching: Matching,
        problems: Problems,
        raw: bool,
        locals: bool,
        part: VariableName | None = None,
    ) -> None:
        self._session = session
        self._process = session.process
        self._problems = problems
        self._matching = matching
        self._raw, self._locals, self._part = raw, locals, part
        self._own: dict[int, Own] = {}
        self._left = FramesLeft(session, problems, raw)
        self._source = SourceReader(session, raw)
        self._names = RuntimeNames(session)

    def of(self, native: int) -> Own:
        """Return the own stack of the thread with the native id *native*."""
        if native not in self._own:
            self._own[native] = self._read_own(native)
        return self._own[native]

    def _read_own(self, native: int) -> Own:
        matched = self._matching.of(native)
        codes: Sequence[ConstructCode] = ()
        stopped = None
        try:
            stack = self._process.stacks.stack(native, guess=True)
            physical, stopped = stack.frames, stack.stopped
            count = len(self._process.stacks.stack(native).frames)
        except OmpdError as error:
            self._problems.missing(f"thread {native}: its stack", error)
            return Own([], 0, None, str(error))
        if stopped is not None:
            self._problems.unreadable(f"thread {native}: its stack", OmpdError(stopped))
        if matched is not None:
            try:
                codes = matched[1].construct_code()
            except OmpdError as error:
                self._problems.missing(f"thread {native}: where its tasks begin", error)
        frames = self._frames(native, physical, codes, matched, whole=stopped is None)
        sources = {code.source for code in codes if code.source is not None}
        boundaries = None if not codes else "runtime" if sources == {"runtime"} else "derived"
        return Own(frames, count, boundaries, stopped, codes)

    def _frames(
        self,
        native: int,
        physical: Sequence[Frame],
        codes: Sequence[ConstructCode],
        matched: MatchedThread | None,
        *,
        whole: bool,
    ) -> list[Item]:
        outermost = {code.frame: code for code in codes}
        # Frames outside of all constructs get the initial task only if no construct can have been missed: beyond the
        # end of an incomplete stack, or among guessed frames.
        is_certain = whole and (bool(codes) or not any(frame.guessed for frame in physical))
        initial = self._initial_task(matched, codes) if is_certain else None
        idle = self._idle_frame(native, matched) if self._raw else None
        tasks = [code.task.id if code.task is not None else None for code in codes]
        parts = self._steps_of if self._part is not None and self._part.steps else None
        frames: list[Item] = []
        inside = 0  # the index in *codes* of the code around the frame
        begins: dict[int, ConstructCode] = {}  # by the index of the outermost frame in *frames*
        called: str | None = None
        around = self._around_code(physical)
        unproven: str | None = None  # of this or any inner frame, because its unwind tables led to this frame
        for index, frame in enumerate(physical):
            if self._process.symbols.unproven and unproven is None:
                unproven = places.unproven_at(self._session, frame.call_site)
            while inside < len(codes) and codes[inside].frame < index:
                inside += 1
            kind = self._kind(frame, physical[index - 1] if index else None, called)
            kind = RUNTIME if kind == USER and index in around else kind
            called = kind
            task = tasks[inside] if inside < len(codes) else initial
            module = self._process.symbols.module_at(frame.call_site)
            name = module.name if module is not None else None
            sources = self._sources(frame, kind)
            found_locals: Sequence[FunctionLocals | None] = [None] * len(sources)
            if self._locals and kind == USER:
                found_locals = self._process.locals.of_frame(frame, native, self._names.holds_address, parts)
            for source, variables in zip(sources, found_locals, strict=True):
                shown = own_frame(frame, source, kind, task, native, name, unproven, idle)
                is_stub = kind == SYSTEM and self._process.calls.is_linkage(frame.call_site)
                frames.append(Item(index, frame.call_site, shown, is_stub, variables=variables))
            code, outer = outermost.get(index), physical[index + 1] if index + 1 < len(physical) else None
            gone: Sequence[Item] = ()
            if code is not None:
                gone = self._left.of_construct(physical, code, matched, task, native, unproven)
            frames += gone or self._left.between(frames[-1], frame, outer, code)
            if inside and kind == RUNTIME and outer is not None and outer.is_signal_frame and not self._raw:
                frames += self._left.of_handler(frames[-1], physical[: index + 1], codes[inside - 1])
            if index in outermost:
                frames[-1] = frames[-1]._replace(is_outermost=True)
                if frames[-1].frame.kind == USER:
                    begins[len(frames) - 1] = outermost[index]
        linked = [item.frame.function for item in frames]
        self._source.read(frames, begins, matched, {task for task in tasks if task is not None})
        return _with_locals(frames, linked, self._names) if self._locals else frames

    def _sources(self, frame: Frame, kind: str) -> Sequence[SourceFrame]:
        # Return the source functions at a frame, innermost first. Functions inlined into the C library or the runtime
        # are left out: they are not shown, and reading their debug information is slow.
        if self._raw or kind in (USER, UNKNOWN):
            return self._process.places.source_frames(frame.call_site)
        place = self._process.places.locate(frame.call_site)
        name = self._process.places.source_name(place.module, place.symbol) if place.symbol is not None else None
        return (SourceFrame(name, None, None, False),)

    def _steps_of(self, name: str) -> Sequence[Step]:
        # Return the steps to the selected part if *name* is the selected variable, none for other variables.
        variable = self._names.variable(name)
        part = self._part
        return part.steps if part is not None and part.name == (variable.name if variable is not None else name) else ()

    def _idle_frame(self, native: int, matched: MatchedThread | None) -> int | None:
        try:
            return matched[1].idle_frame() if matched is not None else None
        except Unavailable:
            return None  # few runtimes record where a thread waits for work, so the absence is not reported
        except OmpdError as error:
            self._problems.missing(f"thread {native}: where it waits for work", error)
            return None

    def _initial_task(self, matched: MatchedThread | None, codes: Sequence[ConstructCode]) -> str | None:
        # Return the id of the initial task, to which the frames outside of all constructs belong. None if unknown.
        if matched is None:
            return None
        try:
            task = next((c.task for c in reversed(codes) if c.task is not None), None)
            task = task.generating() if task is not None else matched[1].current_task() if not codes else None
            # A primary thread that has left its region's code is still in an implicit task, which has no code.
            region = task.parallel() if task is not None and task.kind() == "implicit" else None
            if region is not None and region.thread(0).address == matched[1].address:
                task = task.generating() if task is not None else None
            return task.id if task is not None and task.kind() == "initial" else None
        except OmpdError:
            return None

    def _around_code(self, physical: Sequence[Frame]) -> Collection[int]:
        # Return the indexes of frames that are the runtime's by the names of its routines, if it is linked into a
        # user's module. Empty if all runtimes are libraries of their own.
        modules = self._session.stop.runtime_modules
        if all(naming.is_runtime_file(module.name) for module in modules):
            return ()
        indexes = self._names.between([self._process.places.locate(frame.call_site).symbol for frame in physical])
        return [index for index in indexes if self._process.symbols.module_at(physical[index].call_site) in modules]

    def _kind(self, frame: Frame, inner: Frame | None, called: str | None) -> str:
        owner = places.code_owner(self._session, frame.call_site)
        if owner == UNKNOWN and called == RUNTIME and inner is not None and places.calls_entry(self._session, inner):
            return USER
        if owner == USER and self._process.places.locate(frame.call_site).symbol == naming.PROCESS_BEGIN:
            return SYSTEM
        return owner


def _with_locals(frames: Sequence[Item], linked: Sequence[str | None], names: RuntimeNames) -> list[Item]:
    # Add the variables to frames. *linked* has the linker's name of each frame's function. The name shows which
    # compiler made the function, and so how the function gets the variables of the code around it.
    from ompd.questions.stacks.locals import add

    return [
        item._replace(frame=add(item.frame, name, item.variables, names))
        for item, name in zip(frames, linked, strict=True)
    ]


_NO_LINE = "it left the stack by a tail call, and which function it was is unknown"
_UNKNOWN_TASK = "the code of a task left the stack by a tail call, and which task it was is unknown"
_GAP = "functions that it called left the stack by tail calls, and are unknown"


class FramesLeft:
    """Finds the functions that left the stacks of one stop by tail calls, and makes frames of them."""

    def __init__(self, session: Session, problems: Problems, raw: bool) -> None:
        self._session = session
        self._process = session.process
        self._problems = problems
        self._raw = raw
        self._called: dict[int, int | None] = {}  # the entry of the called function, by the return address
        self._begun: dict[str, int | None] = {}  # the entry of a region's function, by the region's id

    def of_construct(
        self,
        physical: Sequence[Frame],
        code: ConstructCode,
        matched: MatchedThread | None,
        task: str | None,
        native: int,
        unproven: str | None,
    ) -> list[Item]:
        """Return the frames of a construct's code that left the stack by jumps, innermost first."""
        if matched is None or self._raw:
            return []
        left = places.code_left(self._session, physical, code, matched[1])
        if left is None:
            return []
        items: list[Item] = []
        for jump in left.jumps:
            module = self._process.symbols.module_at(jump.address)
            for source in self._process.places.source_frames(jump.address):
                address = jump.address if left.is_certain else None
                frame = frame_left(source, address, task, native, module, unproven)
                items.append(Item(code.frame, jump.address, frame))
        place = places.place_left(self._session, code, left, matched[1])
        if items and items[0].frame.line is None:
            items[0] = items[0]._replace(frame=replace(items[0].frame, file=place.file, line=place.line))
        if not items and left.entry is not None:
            source = SourceFrame(self._process.places.locate(left.entry).symbol, place.file, place.line, False)
            frame = frame_left(source, None, task, native, self._process.symbols.module_at(left.entry), unproven)
            items.append(Item(code.frame, left.entry, frame))
        owner = places.code_owner(self._session, physical[code.frame].call_site)
        if not items and code.kind == "task" and owner == RUNTIME:
            # Show a frame all the same, because the runtime calls only user code for a task.
            self._problems.unreadable(f"thread {native}: its stack", OmpdError(_UNKNOWN_TASK))
            frame = frame_left(SourceFrame(None, None, None, False), None, task, native, None, unproven)
            unavailable = {**dict.fromkeys(("function", "callee"), _UNKNOWN_TASK), **frame.unavailable}
            items.append(Item(code.frame, 0, replace(frame, unavailable=unavailable)))
        return items

    def between(self, inner: Item, frame: Frame, outer: Frame | None, code: ConstructCode | None) -> list[Item]:
        """Return the user functions that left the stack by tail calls between *frame* and *outer*, innermost first.

        :param inner: the item of *frame*
        :param outer: the next outer frame
        :param code: the construct whose code has *frame* as its outermost frame
        """
        runs, called = entry_of(self._process.contract, frame.call_site), None
        if self._raw or runs is None or outer is None or frame.is_signal_frame or frame.guessed:
            return []
        try:
            if code is None:
                # Only a call in user code names the function that it called. The runtime calls user code by pointers.
                is_users = places.code_owner(self._session, outer.call_site) == USER
                called = self._function_called(outer.pc) if is_users and not outer.guessed else None
            elif naming.parse_outlined(self._process.places.locate(runs).symbol or "") is None:
                called = self._function_begun(code)
        except OmpdError:
            return []  # whether functions have left is unknown
        if called in (None, runs) or places.code_owner(self._session, called) != USER:
            return []
        chain = self._process.calls.described.chain(called, runs)
        frames: list[Item] = []
        for number, (start, jump) in enumerate(chain.links):
            gap = None if chain.is_whole or number != chain.inner else _GAP
            frames += self._frames_of_step(inner, start, jump, gap)
        return frames

    def of_handler(self, inner: Item, inside: Sequence[Frame], code: ConstructCode) -> list[Item]:
        """Return the frame of a signal handler that ended by a jump to the routine that begins a region.

        The kernel's frame does not show the handler, but the region's code shows the function that contains it.
        """
        between = inside[code.frame + 1 :]
        if any(places.code_owner(self._session, frame.call_site) != RUNTIME for frame in between):
            return []
        try:
            if code.kind != "parallel" or code.region is None:
                return []
            outlined = places.region_function(self._session, code.region)
        except OmpdError:
            return []  # the region's function is unreadable
        if outlined is None or outlined.function is None:
            return []
        unknown = ("address", *(("file", "line") if outlined.line is None else ()))
        source = SourceFrame(outlined.function, outlined.file, outlined.line, False)
        shown = _frame_of(inner, source, None, None, dict.fromkeys(unknown, _NO_LINE))
        return [Item(inner.place, outlined.address, shown)]

    def _function_begun(self, code: ConstructCode) -> int | None:
        # Return the entry of the function that the runtime called for a construct, None if it is unknown. The function
        # may have left the stack since.
        if code.kind == "parallel":
            return self._function_of_region(code.region) if code.region is not None else None
        return code.task.function() if code.task is not None and code.task.kind() == "explicit" else None

    def _function_called(self, pc: int) -> int | None:
        if pc not in self._called:
            self._called[pc] = self._process.calls.function_named(pc)
        return self._called[pc]

    def _function_of_region(self, region: ParallelHandle) -> int | None:
        if region.id not in self._begun:
            try:
                self._begun[region.id] = region.function()
            except OmpdError:
                self._begun[region.id] = None
        return self._begun[region.id]

    def _frames_of_step(self, inner: Item, start: int, jump: int | None, gap: str | None) -> list[Item]:
        # Return the frames of a function that left the stack, and of the functions that were inlined at its jump.
        # *start*: its entry. *jump*: the address of its jump, None if unknown. *gap*: why its callee is unknown.
        call_site = jump if jump is not None else start
        sources: Sequence[SourceFrame] = self._process.places.source_frames(call_site)
        if jump is None:
            sources = [sources[-1]._replace(file=None, line=None)]
        module = self._process.symbols.module_at(call_site)
        items = []
        for source in sources:
            unavailable = dict.fromkeys(("address", "file", "line"), _NO_LINE) if jump is None else {}
            if gap is not None:
                unavailable["callee"] = gap
            shown = _frame_of(inner, source, jump, module, unavailable)
            items.append(Item(inner.place, call_site, shown))
            gap = None
        return items


def _frame_of(
    inner: Item, source: SourceFrame, address: int | None, module: Module | None, unavailable: Mapping[str, str]
) -> StackFrame:
    # Return the record of a function that has left the stack after calling or jumping to the function of *inner*.
    around = inner.frame
    frame = frame_left(source, address, around.task, around.thread, module, around.unproven)
    return replace(frame, guessed=around.guessed, unavailable=unavailable)
