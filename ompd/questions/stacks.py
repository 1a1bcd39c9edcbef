"""``stack``: each thread's stack as the source reads, continued where a worker's own ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code import RUNTIME, SYSTEM, UNKNOWN, USER, entry_of
from ompd.contract.plugin import ConstructCode, ParallelHandle, ThreadHandle
from ompd.contract.process import Frame, Module, SourceFrame
from ompd.errors import BadInput, CorruptState, NoAnswer, OmpdError, Unavailable
from ompd.model import Answer, Construct, LocalRecord, StackFrame, StackRecord
from ompd.questions import places
from ompd.questions.ancestry import Ancestry
from ompd.questions.facts import (
    Facts,
    Problems,
    answer,
    begin,
    each,
    native_thread,
    note_first_thread,
    readable_runtimes,
)
from ompd.questions.matching import Found, Matching, team_order
from ompd.questions.runtimes import records
from ompd.questions.signals import signal_of
from ompd.session.session import LoadedRuntime, Session

if TYPE_CHECKING:
    from ompd.debugger.variables.locals import FunctionLocals

_MAX_LEVELS = 1 << 20
_NO_LINE = "it left the stack by a tail call, and which function it was is unknown"
_UNKNOWN_TASK = "the code of a task left the stack by a tail call, and which task it was is unknown"
_GAP = "functions that it called left the stack by tail calls, and are unknown"


def ask(
    session: Session, *, raw: bool = False, fold: bool = False, thread: int | None = None, locals: bool = False
) -> Answer[StackRecord]:
    """Return the stack of each thread: OpenMP threads by region and thread number, then idle ones, then others.

    The runtime's frames are left out, and so are the C library's, except the function that user code called.

    :param raw: all frames of the thread's own stack instead, and no others
    :param fold: group threads with equal stacks in one row
    :param thread: only the thread with this native id or, if there is none, threads with this thread number
    :param locals: add the variables of user frames
    :raises BadInput: if there is no such thread
    :raises NoAnswer: if the target has no threads
    """
    problems = begin(session)
    doubt: str | None = None
    try:
        runtimes = list(readable_runtimes(session, problems, needed=False))
    except NoAnswer as error:
        # A stack can be followed without knowing its runtime; what is missing then is said.
        if not session.process.threads():
            raise
        lost = session.target.loss is not None
        problems.note("no OpenMP runtime is found in what is left" if lost else str(error))
        runtimes, doubt = [], str(error) if lost else None
    if thread is None:
        note_first_thread(session, problems)
    reader = _Reader(session, runtimes, problems, raw, doubt, locals)
    rows = sorted(each(session, reader.chosen(thread), reader.record), key=_order)
    if fold:
        rows = list(_folded(rows))
    return answer(session, rows, records(session, problems), problems)


def _order(row: StackRecord) -> tuple[object, ...]:
    return team_order(row.runtime, row.thread_num, row.level, row.parallel, row.native_thread_id)


def _folded(rows: Sequence[StackRecord]) -> Iterator[StackRecord]:
    groups: dict[object, list[StackRecord]] = {}
    for row in rows:
        frames = tuple(
            (f.function, f.file, f.line, f.kind, f.construct, f.inlined, _values(f.locals)) for f in row.frames
        )
        # Why the program ended stands alone.
        failed = row.native_thread_id if row.failed is not False and row.signal is not None else None
        key = (
            row.runtime,
            row.idle,
            row.level,
            row.team_size,
            row.thread_num is None,
            row.stopped,
            row.about_to_begin,
            frames,
            failed,
        )
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        first, natives = group[0], tuple(row.native_thread_id for row in group)
        yield replace(
            first,
            threads=natives,
            thread_nums=tuple(row.thread_num for row in group),
            ancestors=tuple(row.ancestors[0] for row in group),
        )


def _values(variables: tuple[LocalRecord, ...] | None) -> object:
    return None if variables is None else tuple((v.name, v.text, v.sharing, v.iteration) for v in variables)


class _Item(NamedTuple):
    # A frame of a thread's own stack, with the index of the physical one that it is of, or, if it was left by a jump,
    # of that which has its place, and the address to look up. Glue is what a compiler put around the code of a
    # construct.
    place: int
    call_site: int
    frame: StackFrame
    is_glue: bool = False
    is_outermost: bool = False  # of the code of a construct
    is_inlined_task: bool = False  # the outermost of a task's code that was inlined where the task was met
    variables: FunctionLocals | None = None


# Frames, and why they do not go on.
_Continuation = tuple[tuple[StackFrame, ...], "str | None"]
_UNTOLD = "its continuation outside of its region is unknown: {}"
_OPENMP = ("runtime", "thread_num", "team_size", "level", "parallel", "idle")


class _Own(NamedTuple):
    frames: list[_Item]
    physical: int  # how many frames no guess led to
    boundaries: str | None
    stopped: str | None
    codes: Sequence[ConstructCode] = ()


class _Reader:
    """Stacks of one stop. Facts about one thread are kept for the threads whose stacks it continues."""

    def __init__(
        self,
        session: Session,
        runtimes: Sequence[LoadedRuntime],
        problems: Problems,
        raw: bool,
        doubt: str | None,
        locals: bool,
    ) -> None:
        self._session = session
        self._unknown = doubt
        self._raw, self._locals = raw, locals
        self._process = session.process
        self._problems = problems
        self._matching = Matching(session, runtimes, problems)
        self._ancestry = {runtime.id: Ancestry() for runtime in runtimes}
        self._own: dict[int, _Own] = {}
        self._continuations: dict[str, _Continuation | OmpdError] = {}
        self._kinds: dict[int, str | None] = {}
        self._called: dict[int, int | None] = {}  # where functions begin, by the pc behind the call
        self._begun: dict[str, int | None] = {}  # those of regions, by the region
        self._constructs: dict[tuple[int, str | None], Construct] = {}

    def chosen(self, thread: int | None) -> list[int]:
        """Return the native ids of the requested threads."""
        threads = list(self._process.threads())
        if thread is None or thread in threads:
            return threads if thread is None else [thread]
        numbered = [native for native in threads if self._number(native) == thread]
        if not numbered:
            raise BadInput(
                f"{self._session.target.name}: no thread with native id or OpenMP number {thread}",
                hint="`ompd threads` shows both",
            )
        return numbered

    def _number(self, native: int) -> int | None:
        found = self._matching.of(native)
        try:
            return found[1].thread_num() if found is not None else None
        except OmpdError:
            return None

    # Rows

    def record(self, native: int) -> StackRecord:
        """Return the row of one thread."""
        facts = Facts(f"thread {native}", self._problems)
        found = self._matching.of(native)
        own = self._own_stack(native)
        frames = tuple(item.frame for item in own.frames) if self._raw else tuple(self._written(own, found))
        stopped = own.stopped
        number = size = level = None
        region: ParallelHandle | None = None
        idle: bool | None = False
        if found is None and self._doubt is not None:
            facts.unavailable.update(dict.fromkeys(_OPENMP, self._doubt))
            idle = None
            stopped = stopped or _UNTOLD.format(self._doubt)
        elif found is None and self._unread is not None and any(item.frame.kind == RUNTIME for item in own.frames):
            facts.unavailable.update(dict.fromkeys(_OPENMP, self._unread))
            idle = None
        if found is not None:
            handle = found[1]
            region = facts.get("parallel", handle.current_parallel)
            number = facts.get("thread_num", handle.thread_num)
            if region is not None:
                size, level = facts.get("team_size", region.size), facts.get("level", region.level)
            elif "parallel" in facts.unavailable:
                facts.unavailable.update(dict.fromkeys(("team_size", "level"), facts.unavailable["parallel"]))
            elif "thread_num" in facts.unavailable:
                facts.unavailable.update(dict.fromkeys(("team_size", "level"), facts.unavailable["thread_num"]))
            elif number is not None:
                size, level = 1, 0
            idle = number is None and not frames
            if "thread_num" in facts.unavailable and not frames:
                idle, facts.unavailable["idle"] = None, facts.unavailable["thread_num"]
            if not self._raw and "parallel" not in facts.unavailable:
                # What encloses the outermost region of one runtime may be another's.
                for _, other in (found, *self._matching.around(native)):
                    try:
                        here = region if other is handle else other.current_parallel()
                        others, fault = self._continuation(other, here)
                        frames, stopped = frames + others, stopped or fault
                    except OmpdError as error:
                        stopped = stopped or _UNTOLD.format(error)
            elif "parallel" in facts.unavailable and not self._raw:
                stopped = stopped or _UNTOLD.format(facts.unavailable["parallel"])
        if stopped is not None and stopped != own.stopped:
            self._problems.unreadable_fact(f"thread {native}: its stack", OmpdError(stopped))
        if not frames and found is None and idle is False and all(item.frame.kind != RUNTIME for item in own.frames):
            # Without the user's code, and the runtime's, there is nothing to hide.
            frames = tuple(item.frame for item in own.frames)
        ancestors: tuple[int, ...] | None = ()
        if "level" in facts.unavailable:
            facts.unavailable["ancestors"], ancestors = facts.unavailable["level"], None
        elif found is not None and region is not None:
            ancestors = facts.get("ancestors", partial(self._ancestry[found[0].id].of, region))
        return StackRecord(
            native_thread_id=native,
            runtime=found[0].id if found is not None else None,
            thread_num=number,
            team_size=size,
            level=level,
            parallel=region.id if region is not None else None,
            idle=idle,
            boundaries=own.boundaries,
            stopped=stopped,
            frames=frames,
            threads=(native,),
            thread_nums=(number,),
            about_to_begin=found is not None and facts.known("about_to_begin", found[1].is_about_to_begin, False),
            ancestors=(ancestors,),
            **signal_of(self._session, native, facts),
            unavailable=facts.unavailable,
        )

    # Continuations

    @cached_property
    def _doubt(self) -> str | None:
        # Why a thread that no runtime knows may be OpenMP's all the same.
        if self._unknown is not None:
            return self._unknown
        return self._matching.doubt

    @cached_property
    def _unread(self) -> str | None:
        # Why threads that are in a runtime's code are none of a runtime that is known.
        unread = [r for r in self._session.runtimes if r.space is None and r.is_initialised]
        return f"{unread[0].found.module.name} cannot be read" if unread else None

    def _continuation(self, handle: ThreadHandle, region: ParallelHandle | None) -> _Continuation:
        # What comes after the thread's own frames: nothing on the way out of regions whose primary thread it is; then
        # the code that encountered the region in which it is a worker, on that region's primary thread.
        levels = 0
        outside = handle.outside_of_target()
        around = outside.region if outside is not None else None
        if region is None:
            region, around = around, None
        while region is not None and region.thread(0).address == handle.address:
            region, levels = region.enclosing(), levels + 1
            if region is None:
                region, around = around, None
            if levels > _MAX_LEVELS:
                raise CorruptState(handle.address, "the regions around a thread do not end")
        if region is None:
            return (), None
        known = self._continuations.get(region.id)
        if known is None:
            self._continuations[region.id] = CorruptState(handle.address, "a region is started by its own code")
            try:
                known = self._met(region)
            except OmpdError as error:
                known = error
            self._continuations[region.id] = known
        if isinstance(known, OmpdError):
            raise known
        return known

    def _met(self, region: ParallelHandle) -> _Continuation:
        primary = region.thread(0)
        native = native_thread(self._session, primary)
        own = self._own_stack(native)
        first = self._first_outside(region, own)
        frames = tuple(_as_written([item for item in own.frames if item.place >= first], self._where_met(region)))
        others, stopped = self._continuation(primary, region.enclosing())
        frames, stopped = frames + others, own.stopped or stopped
        known = self._matching.of(native)
        for _, other in (*((known,) if known is not None else ()), *self._matching.around(native)):
            # The thread may be a worker of another runtime's.
            if type(other) is not type(primary) and not others:
                others, fault = self._continuation(other, other.current_parallel())
                frames, stopped = frames + others, stopped or fault
        return frames, stopped

    def _written(self, own: _Own, found: Found | None) -> Iterator[StackFrame]:
        # Of a primary thread that waits at its region's end, the innermost frame is what met the region.
        inner = next((item for item in own.frames if item.frame.kind == USER and not item.is_glue), None)
        met = None
        try:
            region = found[1].current_parallel() if found is not None and inner is not None else None
            if region is not None and found is not None and region.thread(0).address == found[1].address:
                is_met = inner is not None and inner.call_site == region.encountering_frames()[0].call_site
                met = self._where_met(region) if is_met else None
        except OmpdError:
            pass  # then it is where the call is
        return _as_written(own.frames, met)

    def _first_outside(self, region: ParallelHandle, own: _Own) -> int:
        # The place on the primary thread's stack where what met the region begins.
        try:
            return own.physical - len(region.encountering_frames())
        except Unavailable:
            # The function that met it may have left the stack by a tail call, and is known by that.
            inside = [code.frame for code in own.codes if code.region is not None and code.region.id == region.id]
            if len(inside) == 1 and any(i.place > inside[0] and i.frame.how == "tail-call" for i in own.frames):
                return inside[0] + 1
            raise

    def _where_met(self, region: ParallelHandle) -> tuple[str | None, Construct] | None:
        try:
            known = places.region_function(self._session, region)
        except OmpdError:
            return None
        return (known.function, Construct("parallel", known.file, known.line)) if known and known.line else None

    # A thread's own frames

    def _own_stack(self, native: int) -> _Own:
        if native not in self._own:
            self._own[native] = self._read_own(native)
        return self._own[native]

    def _read_own(self, native: int) -> _Own:
        found = self._matching.of(native)
        codes: Sequence[ConstructCode] = ()
        stopped = None
        try:
            stack = self._process.stack(native, guess=True)
            physical, stopped = stack.frames, stack.stopped
            count = len(self._process.stack(native).frames)
        except OmpdError as error:
            self._problems.lost(f"thread {native}: its stack", error)
            return _Own([], 0, None, str(error))
        if stopped is not None:
            self._problems.unreadable_fact(f"thread {native}: its stack", OmpdError(stopped))
        if found is not None:
            try:
                codes = found[1].construct_code()
            except OmpdError as error:
                self._problems.lost(f"thread {native}: where its tasks begin", error)
        frames = self._frames(native, physical, codes, found, whole=stopped is None)
        sources = {code.source for code in codes if code.source is not None}
        boundaries = None if not codes else "runtime" if sources == {"runtime"} else "derived"
        return _Own(frames, count, boundaries, stopped, codes)

    def _frames(
        self,
        native: int,
        physical: Sequence[Frame],
        codes: Sequence[ConstructCode],
        found: Found | None,
        *,
        whole: bool,
    ) -> list[_Item]:
        outermost = {code.frame: code for code in codes}
        # Code of constructs may be where the stack could not be followed to, and is not looked for among frames that
        # were found by a guess.
        known = whole and (bool(codes) or not any(frame.guessed for frame in physical))
        initial = self._initial_task(found, codes) if known else None
        tasks = [code.task.id if code.task is not None else None for code in codes]
        frames: list[_Item] = []
        inside = 0  # the code that the frame is in
        begins: dict[int, ConstructCode] = {}  # by the place of the outermost frame in the list
        called: str | None = None
        unproven: str | None = None  # the way to a frame leads through the unwind tables of the inner ones
        for index, frame in enumerate(physical):
            if self._process.unproven and unproven is None:
                unproven = places.unproven_at(self._session, frame.call_site)
            while inside < len(codes) and codes[inside].frame < index:
                inside += 1
            kind = self._kind(frame, physical[index - 1] if index else None, called)
            called = kind
            task = tasks[inside] if inside < len(codes) else initial
            module = self._process.module_at(frame.call_site)
            name = module.name if module is not None else None
            sources = self._sources(frame, kind)
            found_locals: Sequence[FunctionLocals | None] = [None] * len(sources)
            if self._locals and kind == USER:
                found_locals = self._process.local_variables(frame, native)
            for source, variables in zip(sources, found_locals, strict=True):
                shown = _frame(frame, source, kind, task, native, name, unproven)
                is_stub = kind == SYSTEM and self._process.is_linkage(frame.call_site)
                frames.append(_Item(index, frame.call_site, shown, is_stub, variables=variables))
            code, outer = outermost.get(index), physical[index + 1] if index + 1 < len(physical) else None
            left: Sequence[_Item] = ()
            if code is not None:
                left = self._frames_left(physical, code, found, task, native, unproven)
            frames += left or self._left(frames[-1], frame, outer, code)
            if inside and kind == RUNTIME and outer is not None and outer.is_signal_frame and not self._raw:
                frames += self._handler_left(frames[-1], physical[: index + 1], codes[inside - 1])
            if index in outermost:
                frames[-1] = frames[-1]._replace(is_outermost=True)
                if frames[-1].frame.kind == USER:
                    begins[len(frames) - 1] = outermost[index]
        linked = [item.frame.function for item in frames]
        for at in reversed(range(len(frames))):
            self._read_as_source(frames, at, begins)
        self._name_glue(frames)
        self._give_undeferred_tasks(frames, found, {task for task in tasks if task is not None})
        return self._with_locals(frames, linked) if self._locals else frames

    def _frames_left(
        self,
        physical: Sequence[Frame],
        code: ConstructCode,
        found: Found | None,
        task: str | None,
        native: int,
        unproven: str | None,
    ) -> list[_Item]:
        # The frames of the construct's code that was left by jumps, innermost first.
        if found is None or self._raw:
            return []
        left = places.code_left(self._session, physical, code, found[1])
        if left is None:
            return []
        items: list[_Item] = []
        for jump in left.jumps:
            module = self._process.module_at(jump.address)
            for source in self._process.source_frames(jump.address):
                address = jump.address if left.is_certain else None
                frame = _frame_left(source, address, task, native, module, unproven)
                items.append(_Item(code.frame, jump.address, frame))
        place = places.place_left(self._session, code, left, found[1])
        if items and items[0].frame.line is None:
            items[0] = items[0]._replace(frame=replace(items[0].frame, file=place.file, line=place.line))
        if not items and left.entry is not None:
            source = SourceFrame(self._symbol_of(left.entry), place.file, place.line, False)
            frame = _frame_left(source, None, task, native, self._process.module_at(left.entry), unproven)
            items.append(_Item(code.frame, left.entry, frame))
        owner = places.code_owner(self._session, physical[code.frame].call_site)
        if not items and code.kind == "task" and owner == RUNTIME:
            # It is shown all the same: code that the runtime calls for a task is the user's, whatever it ended with.
            self._problems.unreadable_fact(f"thread {native}: its stack", OmpdError(_UNKNOWN_TASK))
            frame = _frame_left(SourceFrame(None, None, None, False), None, task, native, None, unproven)
            gone = {**dict.fromkeys(("function", "callee"), _UNKNOWN_TASK), **frame.unavailable}
            items.append(_Item(code.frame, 0, replace(frame, unavailable=gone)))
        return items

    def _symbol_of(self, entry: int) -> str | None:
        return self._process.locate(entry).symbol

    def _left(self, inner: _Item, frame: Frame, outer: Frame | None, code: ConstructCode | None) -> list[_Item]:
        # The frames of the user's between one of the stack and the next outer one that left it by tail calls, innermost
        # first.
        runs, called = entry_of(self._process, frame.call_site), None
        if self._raw or runs is None or outer is None or frame.is_signal_frame or frame.guessed:
            return []
        try:
            if code is None:
                # The runtime's routines call code of the user's in ways of their own.
                is_users = places.code_owner(self._session, outer.call_site) == USER
                called = self._function_called(outer.pc) if is_users and not outer.guessed else None
            elif naming.parse_outlined(self._process.locate(runs).symbol or "") is None:
                called = self._function_begun(code)
        except OmpdError:
            return []  # what cannot be read shows nothing
        if called in (None, runs) or places.code_owner(self._session, called) != USER:
            return []
        chain = self._process.described_tail_calls(called, runs)
        frames: list[_Item] = []
        for number, (start, jump) in enumerate(chain.steps):
            gap = None if chain.is_whole or number != chain.inner else _GAP
            frames += self._frames_of_step(inner, start, jump, gap)
        return frames

    def _handler_left(self, inner: _Item, inside: Sequence[Frame], code: ConstructCode) -> list[_Item]:
        # A handler of a signal that ended by a jump to the routine that begins a region: the kernel's frame does not
        # say what it called, but the region's code says in which function it was written.
        between = inside[code.frame + 1 :]
        if any(places.code_owner(self._session, frame.call_site) != RUNTIME for frame in between):
            return []
        try:
            if code.kind != "parallel" or code.region is None:
                return []
            known = places.region_function(self._session, code.region)
        except OmpdError:
            return []  # what cannot be read shows nothing
        if known is None or known.function is None:
            return []
        shown = replace(
            inner.frame,
            function=known.function,
            file=known.file,
            line=known.line,
            address=None,
            cfa=None,
            kind=USER,
            inlined=False,
            module=None,
            how="tail-call",
            signal=False,
            unavailable=dict.fromkeys(("address", *(("file", "line") if known.line is None else ())), _NO_LINE),
        )
        return [_Item(inner.place, known.address, shown)]

    def _function_begun(self, code: ConstructCode) -> int | None:
        # The function that the runtime called for a construct, which may be none of those on the stack.
        if code.kind == "parallel":
            return self._function_of_region(code.region) if code.region is not None else None
        return code.task.function() if code.task is not None and code.task.kind() == "explicit" else None

    def _function_called(self, pc: int) -> int | None:
        if pc not in self._called:
            self._called[pc] = self._process.function_named(pc)
        return self._called[pc]

    def _function_of_region(self, region: ParallelHandle) -> int | None:
        if region.id not in self._begun:
            try:
                self._begun[region.id] = region.function()
            except OmpdError:
                self._begun[region.id] = None
        return self._begun[region.id]

    def _frames_of_step(self, inner: _Item, start: int, jump: int | None, gap: str | None) -> list[_Item]:
        # A function that left the stack, with those that were inlined where it jumped.
        call_site = jump if jump is not None else start
        sources: Sequence[SourceFrame] = self._process.source_frames(call_site)
        if jump is None:
            sources = [sources[-1]._replace(file=None, line=None)]
        module = self._process.module_at(call_site)
        items = []
        for source in sources:
            unavailable = dict.fromkeys(("address", "file", "line"), _NO_LINE) if jump is None else {}
            if gap is not None:
                unavailable["callee"] = gap
            shown = replace(
                inner.frame,
                function=source.function,
                file=source.file,
                line=source.line,
                address=jump,
                cfa=None,
                kind=USER,
                inlined=source.inlined,
                module=module.name if module is not None else None,
                how="tail-call",
                signal=False,
                unavailable=unavailable,
            )
            items.append(_Item(inner.place, call_site, shown))
            gap = None
        return items

    def _with_locals(self, frames: Sequence[_Item], linked: Sequence[str | None]) -> list[_Item]:
        # How a construct has its variables is known by what the linker calls the function that was made of it.
        from ompd.questions.locals import add  # noqa: PLC0415  seldom requested

        return [
            item._replace(frame=add(item.frame, name, item.variables))
            for item, name in zip(frames, linked, strict=True)
        ]

    def _give_undeferred_tasks(self, frames: list[_Item], found: Found | None, placed: AbstractSet[str]) -> None:
        # clang inlines the code of tasks that are not deferred into that which meets them: they have no frames of their
        # own that the runtime could know. They are the innermost, and each was generated by the one around it.
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
            return  # then the frames' tasks are those around them
        if len(chain) != len(bodies):
            return
        start = 0
        for end, known in zip(bodies, chain, strict=True):
            for at in range(start, end + 1):
                frames[at] = frames[at]._replace(frame=replace(frames[at].frame, task=known))
            start = end + 1

    def _sources(self, frame: Frame, kind: str) -> Sequence[SourceFrame]:
        # What the C library and the runtime have inlined is no news, and their debug information is large.
        if self._raw or kind in (USER, UNKNOWN):
            return self._process.source_frames(frame.call_site)
        place = self._process.locate(frame.call_site)
        name = self._process.source_name(place.module, place.symbol) if place.symbol is not None else None
        return (SourceFrame(name, None, None, False),)

    def _initial_task(self, found: Found | None, codes: Sequence[ConstructCode]) -> str | None:
        # The task of what is outside of all constructs on a stack: that of an initial thread.
        if found is None:
            return None
        try:
            task = next((c.task for c in reversed(codes) if c.task is not None), None)
            task = task.generating() if task is not None else found[1].current_task() if not codes else None
            # The primary thread of a region that has left its code is in an implicit task that has none.
            region = task.parallel() if task is not None and task.kind() == "implicit" else None
            if region is not None and region.thread(0).address == found[1].address:
                task = task.generating() if task is not None else None
            return task.id if task is not None and task.kind() == "initial" else None
        except OmpdError:
            return None

    def _kind(self, frame: Frame, inner: Frame | None, called: str | None) -> str:
        owner = places.code_owner(self._session, frame.call_site)
        if owner == UNKNOWN and called == RUNTIME and inner is not None and places.calls_entry(self._session, inner):
            return USER
        if owner == USER and self._process.locate(frame.call_site).symbol == naming.PROCESS_BEGIN:
            return SYSTEM
        return owner

    def _read_as_source(self, frames: list[_Item], at: int, begins: Mapping[int, ConstructCode]) -> None:
        # Make of a compiler's function what it is in the source. Called for the outer frames first.
        frame = frames[at].frame
        if frame.kind == USER and self._is_added(frame, frames[at - 1].call_site if at else None):
            frames[at] = frames[at]._replace(is_glue=True)
            return
        known = naming.parse_outlined(frame.function or "") if frame.kind == USER else None
        if known is None and (frame.function is not None or at not in begins):
            return  # one that the code of a construct ended by jumping to is not its code
        if known is not None and at and _is_glue(frame, frames[at - 1].frame):
            frames[at] = frames[at]._replace(is_glue=True)
            return
        # Glue is the function that the runtime knows: it calls the one that has the code, or that is inlined into it.
        outer = at
        while outer + 1 < len(frames) and frames[outer + 1].is_glue:
            outer += 1
        is_inlined = frames[outer].frame.inlined
        around = frames[outer + 1].frame if is_inlined and outer + 1 < len(frames) else None
        # Code that is not deferred is called by the function that has the construct.
        caller = frames[outer + 1].frame if outer + 1 < len(frames) else None
        code = begins.get(outer)
        kind = (
            code.kind if code is not None else _kind_by_name(frame.function or "", frames[outer].frame.function or "")
        )
        parent = known.parent if known is not None else None
        if parent is not None and kind in (None, "task") and naming.is_by_gcc(frame.function or ""):
            told = self._kind_of_gcc(frames[outer].call_site, parent)
            kind = told or (kind if self._session.target.loss is None else None)
        elif kind == "task" and self._process.has_parameter(frames[at].call_site, naming.TASKLOOP_BOUND):
            kind = "taskloop"
        if parent is not None:
            function: str | None = self._as_in_source(frames[at].call_site, parent)
        elif around is not None:
            function = around.function  # where it was met, since it is inlined there
        elif caller is not None and caller.kind == USER:
            function = caller.function
        else:
            function = self._function_of(code, frames[outer].call_site, frame.function)
        if around is not None:
            construct = Construct(kind, around.file, around.line)
        else:
            construct = self._construct(code, kind, frames[outer].call_site)
        if not self._raw and not is_inlined:
            frame = replace(frame, inlined=False)  # only into what is not shown
        if function is None and known is not None:
            frame = replace(frame, unavailable={**frame.unavailable, "function": places.NO_FUNCTION})
        frame = replace(frame, function=function, construct=construct)
        frames[at] = frames[at]._replace(frame=frame, is_inlined_task=around is not None and kind == "task")

    def _name_glue(self, frames: list[_Item]) -> None:
        # What a compiler put around the code of a construct has no name in the source: it is called as that code, and
        # where there is none as what is around it.
        for at, item in enumerate(frames):
            if item.is_glue and item.frame.kind == USER and item.frame.function != "main":
                inner = frames[at - 1].frame if at else None
                near = inner if inner is not None and inner.kind == USER else self._around(frames, at)
                frames[at] = item._replace(frame=replace(item.frame, function=near.function if near else None))

    def _around(self, frames: Sequence[_Item], at: int) -> StackFrame | None:
        return next((item.frame for item in frames[at + 1 :] if item.frame.kind == USER and not item.is_glue), None)

    def _kind_of_gcc(self, call_site: int, parent: str) -> str | None:
        # gcc's names do not say the construct. What its code passes the function to does.
        entry = entry_of(self._process, call_site)
        if entry is None:
            return None
        if entry not in self._kinds:
            names = (naming.construct_of_routine(name) for name in self._process.receivers(entry, parent))
            self._kinds[entry] = next((name for name in names if name is not None), None)
        return self._kinds[entry]

    def _is_added(self, frame: StackFrame, inner: int | None) -> bool:
        # What compilers put between functions of the source: clang around the combiner of a reduction, gfortran a main
        # that calls the program.
        if frame.function == "main" and inner is not None:
            return self._process.locate(inner).symbol == naming.FORTRAN_PROGRAM
        return naming.is_added(frame.function or "")

    def _construct(self, code: ConstructCode | None, kind: str | None, call_site: int) -> Construct:
        entry = entry_of(self._process, call_site)
        key = entry or call_site, kind
        if key not in self._constructs:
            file, line = self._process.construct_line(entry) if entry is not None else (None, None)
            if line is None:
                noted = self._noted(code)
                file, line = (noted[0], noted[2]) if noted is not None else (None, None)
            self._constructs[key] = Construct(kind, file, line)
        return self._constructs[key]

    def _noted(self, code: ConstructCode | None) -> tuple[str, str, int] | None:
        known = (code.region if code.kind == "parallel" else code.task) if code is not None else None
        return places.noted_place(known.source) if known is not None else None

    def _function_of(self, code: ConstructCode | None, call_site: int, symbol: str | None) -> str | None:
        # Of code whose name does not say.
        if code is not None and code.kind == "parallel" and code.region is not None:
            function = places.source_function(self._session, code.region)
            function = function or self._process.declared_inside(call_site)
        else:
            noted = self._noted(code)
            function = noted[1] if noted is not None else self._process.declared_inside(call_site)
        if function is None and naming.parse_outlined(symbol or "") is None and self._session.target.loss is None:
            function = symbol
        return self._as_in_source(call_site, function) if function is not None else None

    def _as_in_source(self, call_site: int, symbol: str) -> str:
        return self._process.source_name(self._process.module_at(call_site), symbol, call_site)


def _frame(
    frame: Frame,
    source: SourceFrame,
    kind: str,
    task: str | None,
    native: int,
    module: str | None,
    unproven: str | None,
) -> StackFrame:
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
        unproven=unproven,
    )


def _frame_left(
    source: SourceFrame, address: int | None, task: str | None, native: int, module: Module | None, unproven: str | None
) -> StackFrame:
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
        thread=native,
        inlined=source.inlined,
        module=module.name if module is not None else None,
        how="tail-call",
        unproven=unproven,
        unavailable=unavailable,
    )


def _kind_by_name(name: str, glue: str) -> str | None:
    # gcc gives all its functions the same name, clang has an entry around those of tasks.
    known = naming.parse_outlined(glue)
    if known is not None and known.construct is not None:
        return known.construct
    return None if naming.is_by_gcc(name) else "parallel"


def _is_glue(outer: StackFrame, inner: StackFrame) -> bool:
    # clang's code of a task is called by the function that the runtime knows; with -g so is that of a region, whose
    # function of the name that ends in _debug__ has the code.
    name, called = outer.function or "", inner.function or ""
    known, body = naming.parse_outlined(name), naming.parse_outlined(called)
    if known is None or body is None or body.construct == "task" or inner.kind != USER:
        return False
    return known.construct == "task" or (naming.is_body(called) and not naming.is_body(name))


def _as_written(frames: Sequence[_Item], met: tuple[str | None, Construct] | None = None) -> Iterator[StackFrame]:
    # The frames that stand for what is in the source. Of the C library's functions that call each other, the one that
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
