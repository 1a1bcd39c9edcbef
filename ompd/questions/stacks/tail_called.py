"""Frames that have left the stack: user functions that ended by a tail call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ompd import naming
from ompd.contract.code_owners import RUNTIME, USER, entry_of
from ompd.contract.plugin import ConstructCode, ParallelHandle
from ompd.contract.process import Frame, Module, SourceFrame
from ompd.errors import OmpdError
from ompd.model import StackFrame
from ompd.questions import places
from ompd.questions.facts.gathering import Problems
from ompd.questions.facts.matching import Found
from ompd.questions.stacks.items import Item, frame_left
from ompd.session import Session

_NO_LINE = "it left the stack by a tail call, and which function it was is unknown"
_UNKNOWN_TASK = "the code of a task left the stack by a tail call, and which task it was is unknown"
_GAP = "functions that it called left the stack by tail calls, and are unknown"


class FramesLeft:
    """The functions that left the stacks of one stop by tail calls."""

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
        found: Found | None,
        task: str | None,
        native: int,
        unproven: str | None,
    ) -> list[Item]:
        """Return the frames of a construct's code that left the stack by jumps, innermost first."""
        if found is None or self._raw:
            return []
        left = places.code_left(self._session, physical, code, found[1])
        if left is None:
            return []
        items: list[Item] = []
        for jump in left.jumps:
            module = self._process.symbols.module_at(jump.address)
            for source in self._process.places.source_frames(jump.address):
                address = jump.address if left.is_certain else None
                frame = frame_left(source, address, task, native, module, unproven)
                items.append(Item(code.frame, jump.address, frame))
        place = places.place_left(self._session, code, left, found[1])
        if items and items[0].frame.line is None:
            items[0] = items[0]._replace(frame=replace(items[0].frame, file=place.file, line=place.line))
        if not items and left.entry is not None:
            source = SourceFrame(self._process.places.locate(left.entry).symbol, place.file, place.line, False)
            frame = frame_left(source, None, task, native, self._process.symbols.module_at(left.entry), unproven)
            items.append(Item(code.frame, left.entry, frame))
        owner = places.code_owner(self._session, physical[code.frame].call_site)
        if not items and code.kind == "task" and owner == RUNTIME:
            # Show a frame all the same, because the runtime calls only user code for a task.
            self._problems.unreadable_fact(f"thread {native}: its stack", OmpdError(_UNKNOWN_TASK))
            frame = frame_left(SourceFrame(None, None, None, False), None, task, native, None, unproven)
            gone = {**dict.fromkeys(("function", "callee"), _UNKNOWN_TASK), **frame.unavailable}
            items.append(Item(code.frame, 0, replace(frame, unavailable=gone)))
        return items

    def between(self, inner: Item, frame: Frame, outer: Frame | None, code: ConstructCode | None) -> list[Item]:
        """Return the user functions that left the stack by tail calls between a frame and the next outer one.

        The innermost comes first.
        """
        runs, called = entry_of(self._process.contract, frame.call_site), None
        if self._raw or runs is None or outer is None or frame.is_signal_frame or frame.guessed:
            return []
        try:
            if code is None:
                # A call in the runtime's code is no evidence: it calls user code through pointers.
                is_users = places.code_owner(self._session, outer.call_site) == USER
                called = self._function_called(outer.pc) if is_users and not outer.guessed else None
            elif naming.parse_outlined(self._process.places.locate(runs).symbol or "") is None:
                called = self._function_begun(code)
        except OmpdError:
            return []  # unreadable, so that nothing is known
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
            known = places.region_function(self._session, code.region)
        except OmpdError:
            return []  # unreadable, so that nothing is known
        if known is None or known.function is None:
            return []
        unknown = ("address", *(("file", "line") if known.line is None else ()))
        source = SourceFrame(known.function, known.file, known.line, False)
        shown = _frame_of(inner, source, None, None, dict.fromkeys(unknown, _NO_LINE))
        return [Item(inner.place, known.address, shown)]

    def _function_begun(self, code: ConstructCode) -> int | None:
        # The function that the runtime called for a construct. It may have left the stack.
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
        # A function that left the stack, with the functions inlined at its jump.
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
    # The record of a function that called or jumped to that of *inner*, and has left the stack.
    around = inner.frame
    frame = frame_left(source, address, around.task, around.thread, module, around.unproven)
    return replace(frame, guessed=around.guessed, unavailable=unavailable)
