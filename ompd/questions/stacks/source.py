"""Replaces compilers' functions on stacks by the source: the function that contains the construct, and its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ompd import naming
from ompd.contract.code_owners import USER, entry_of
from ompd.contract.plugin import ConstructCode
from ompd.errors import OmpdError
from ompd.model import Construct, StackFrame
from ompd.questions import places
from ompd.questions.facts.damage import is_damaged
from ompd.questions.facts.matching import Found
from ompd.questions.stacks.items import Item, is_glue, kind_by_name
from ompd.session import Session


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
        found: Found | None,
        placed: AbstractSet[str],
    ) -> None:
        """Rewrite the frames of one stack, innermost first, as the source has them.

        :param begins: the code of constructs, by the index of its outermost frame
        :param placed: the ids of tasks that have frames of their own
        """
        for at in reversed(range(len(frames))):
            self._read_as_source(frames, at, begins)
        self._name_glue(frames)
        _give_undeferred_tasks(frames, found, placed)

    def _read_as_source(self, frames: list[Item], at: int, begins: Mapping[int, ConstructCode]) -> None:
        # Rewrites a compiler's function. The outer frames come first, because the inner ones take names from them.
        frame = frames[at].frame
        if frame.kind == USER and self._is_added(frame, frames[at - 1].call_site if at else None):
            frames[at] = frames[at]._replace(is_glue=True)
            return
        known = naming.parse_outlined(frame.function or "") if frame.kind == USER else None
        if known is None and (frame.function is not None or at not in begins):
            return  # the construct's code ended by a jump to this function
        if known is not None and at and is_glue(frame, frames[at - 1].frame):
            frames[at] = frames[at]._replace(is_glue=True)
            return
        # Glue is the function that the runtime calls. The construct's code is called by it, or inlined into it.
        outer = at
        while outer + 1 < len(frames) and frames[outer + 1].is_glue:
            outer += 1
        is_inlined = frames[outer].frame.inlined
        around = frames[outer + 1].frame if is_inlined and outer + 1 < len(frames) else None
        # The code of an undeferred task is called by the function that contains the construct.
        caller = frames[outer + 1].frame if outer + 1 < len(frames) else None
        code = begins.get(outer)
        kind = code.kind if code is not None else kind_by_name(frame.function or "", frames[outer].frame.function or "")
        parent = known.parent if known is not None else None
        if parent is not None and kind in (None, "task") and naming.is_by_gcc(frame.function or ""):
            told = self._kind_of_gcc(frames[outer].call_site, parent)
            kind = told or (None if is_damaged(self._session) else kind)
        elif kind == "task" and self._process.places.has_parameter(frames[at].call_site, naming.TASKLOOP_BOUND):
            kind = "taskloop"
        if parent is not None:
            function: str | None = self._as_in_source(frames[at].call_site, parent)
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
            frame = replace(frame, inlined=False)  # the function around it is not shown
        if function is None and known is not None:
            frame = replace(frame, unavailable={**frame.unavailable, "function": places.NO_FUNCTION})
        frame = replace(frame, function=function, construct=construct)
        frames[at] = frames[at]._replace(frame=frame, is_inlined_task=around is not None and kind == "task")

    def _name_glue(self, frames: list[Item]) -> None:
        # Glue has no name in the source. It gets the name of the construct's code or, without it, of the function
        # around it.
        for at, item in enumerate(frames):
            if item.is_glue and item.frame.kind == USER and item.frame.function != "main":
                inner = frames[at - 1].frame if at else None
                near = inner if inner is not None and inner.kind == USER else self._around(frames, at)
                frames[at] = item._replace(frame=replace(item.frame, function=near.function if near else None))

    def _around(self, frames: Sequence[Item], at: int) -> StackFrame | None:
        return next((item.frame for item in frames[at + 1 :] if item.frame.kind == USER and not item.is_glue), None)

    def _kind_of_gcc(self, call_site: int, parent: str) -> str | None:
        # gcc's names do not tell the construct, but the runtime routine that receives the function does.
        entry = entry_of(self._process.contract, call_site)
        if entry is None:
            return None
        if entry not in self._kinds:
            names = (naming.construct_of_routine(name) for name in self._process.calls.receivers(entry, parent))
            self._kinds[entry] = next((name for name in names if name is not None), None)
        return self._kinds[entry]

    def _is_added(self, frame: StackFrame, inner: int | None) -> bool:
        # Functions that compilers add: clang's around the combiner of a reduction, and gfortran's main.
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
        known = (code.region if code.kind == "parallel" else code.task) if code is not None else None
        return places.noted_place(known.source) if known is not None else None

    def _function_of(self, code: ConstructCode | None, call_site: int, symbol: str | None) -> str | None:
        # The function that contains a construct, if the name of the construct's code does not tell it.
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


def _give_undeferred_tasks(frames: list[Item], found: Found | None, placed: AbstractSet[str]) -> None:
    # clang inlines the code of undeferred tasks into the encountering code, so that the runtime knows no frames of
    # theirs. These tasks are the innermost ones, and each was generated by the one around it.
    inner = next((at for at, item in enumerate(frames) if item.is_outermost), len(frames))
    bodies = [at for at, item in enumerate(frames[:inner]) if item.is_inlined_task]
    if not bodies or found is None:
        return
    chain: list[str] = []
    try:
        task = found[1].current_task()
        while task is not None and task.kind() == "explicit" and task.id not in placed and len(chain) < len(bodies):
            chain.append(task.id)
            task = task.generating()
    except OmpdError:
        return  # the frames keep the tasks around them
    if len(chain) != len(bodies):
        return
    start = 0
    for end, known in zip(bodies, chain, strict=True):
        for at in range(start, end + 1):
            frames[at] = frames[at]._replace(frame=replace(frames[at].frame, task=known))
        start = end + 1
