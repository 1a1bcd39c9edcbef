"""Rows of stacks: a thread's own frames, continued on the thread that began the region in which it is a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.code_owners import RUNTIME, USER
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.model import Construct, StackFrame, StackRecord
from ompd.questions import places
from ompd.questions.facts.answers import native_thread
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.facts.openmp_threads import (
    Ancestry,
    MatchedThread,
    Matching,
    Membership,
    membership_of,
    unknown_membership,
)
from ompd.questions.facts.signals import signal_of
from ompd.questions.stacks.source import Own, as_written
from ompd.questions.stacks.thread_frames import OwnStacks
from ompd.session import LoadedRuntime, Session

if TYPE_CHECKING:
    from ompd.debugger.variables.names import VariableName

_MAX_LEVELS = 1 << 20
# The frames of a continuation, and the reason why it ends early, None if it is whole.
_Continuation = tuple[tuple[StackFrame, ...], "str | None"]
_UNTOLD = "its continuation outside of its region is unknown: {}"
_OPENMP = ("runtime", "thread_num", "team_size", "level", "parallel", "idle")


class Reader:
    """Reads the rows of stacks at one stop. A thread's frames are kept, because they continue other threads' stacks."""

    def __init__(
        self,
        session: Session,
        runtimes: Sequence[LoadedRuntime],
        problems: Problems,
        raw: bool,
        doubt: str | None,
        locals: bool,
        part: VariableName | None = None,
    ) -> None:
        self._session = session
        self._unknown = doubt
        self._raw = raw
        self._process = session.process
        self._problems = problems
        self._matching = Matching(session, runtimes, problems)
        self._stacks = OwnStacks(session, self._matching, problems, raw, locals, part)
        self._ancestry = {runtime.id: Ancestry() for runtime in runtimes}
        self._continuations: dict[str, _Continuation | OmpdError] = {}

    def chosen(self, thread: int | None) -> list[int]:
        """Return the native ids of the requested threads."""
        threads = list(self._process.threads.ids())
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
        matched = self._matching.of(native)
        try:
            return matched[1].thread_num() if matched is not None else None
        except OmpdError:
            return None

    # Rows

    def record(self, native: int) -> StackRecord:
        """Return the row of one thread."""
        facts = Facts(f"thread {native}", self._problems)
        matched = self._matching.of(native)
        own = self._stacks.of(native)
        frames = tuple(item.frame for item in own.frames) if self._raw else tuple(self._written(own, matched))
        stopped = own.stopped
        member = Membership()
        idle: bool | None = False
        if matched is None and self._doubt is not None:
            member, idle = unknown_membership(facts, _OPENMP, self._doubt), None
            stopped = stopped or _UNTOLD.format(self._doubt)
        elif matched is None and self._unread is not None and any(item.frame.kind == RUNTIME for item in own.frames):
            member, idle = unknown_membership(facts, _OPENMP, self._unread), None
        if matched is not None:
            handle = matched[1]
            member = membership_of(handle, self._ancestry[matched[0].id], facts, ("team_size", "level"))
            idle = member.thread_num is None and not frames
            if "thread_num" in facts.unavailable and not frames:
                idle, facts.unavailable["idle"] = None, facts.unavailable["thread_num"]
            if not self._raw and "parallel" not in facts.unavailable:
                # The outermost region of one runtime may be inside a region of another.
                for _, other in (matched, *self._matching.around(native)):
                    try:
                        region = member.region if other is handle else other.current_parallel()
                        continuation, fault = self._continuation(other, region)
                        frames, stopped = frames + continuation, stopped or fault
                    except OmpdError as error:
                        stopped = stopped or _UNTOLD.format(error)
            elif "parallel" in facts.unavailable and not self._raw:
                stopped = stopped or _UNTOLD.format(facts.unavailable["parallel"])
        if stopped is not None and stopped != own.stopped:
            self._problems.unreadable(f"thread {native}: its stack", OmpdError(stopped))
        if not frames and matched is None and idle is False and all(item.frame.kind != RUNTIME for item in own.frames):
            # If all frames are of libraries, none was kept as source. Show them all.
            frames = tuple(item.frame for item in own.frames)
        return StackRecord(
            native_thread_id=native,
            runtime=matched[0].id if matched is not None else None,
            thread_num=member.thread_num,
            team_size=member.team_size,
            level=member.level,
            parallel=member.region.id if member.region is not None else None,
            idle=idle,
            boundaries=own.boundaries,
            stopped=stopped,
            frames=frames,
            threads=(native,),
            thread_nums=(member.thread_num,),
            about_to_begin=matched is not None and facts.known("about_to_begin", matched[1].is_about_to_begin, False),
            ancestors=(member.ancestors,),
            **signal_of(self._session, native, facts),
            unavailable=facts.unavailable,
        )

    # Continuations

    @cached_property
    def _doubt(self) -> str | None:
        # The reason why an unmatched thread may still be an OpenMP thread.
        if self._unknown is not None:
            return self._unknown
        doubt = self._matching.doubt
        return str(doubt) if doubt is not None else None

    @cached_property
    def _unread(self) -> str | None:
        # The reason why threads in a runtime's code may be unmatched: a runtime that cannot be read.
        unread = [r for r in self._session.runtimes if r.space is None and r.is_initialised]
        return f"{unread[0].found.module.name} cannot be read" if unread else None

    def _continuation(self, handle: ThreadHandle, region: ParallelHandle | None) -> _Continuation:
        # Return the frames of other threads that continue a thread's stack. Regions of which it is the primary thread
        # add none, because its own stack goes on outside of them. At the innermost region in which it is a worker, the
        # primary thread's stack continues, from the code that encountered the region.
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
        continuation = self._continuations.get(region.id)
        if continuation is None:
            self._continuations[region.id] = CorruptState(handle.address, "a region is started by its own code")
            try:
                continuation = self._met(region)
            except OmpdError as error:
                continuation = error
            self._continuations[region.id] = continuation
        if isinstance(continuation, OmpdError):
            raise continuation
        return continuation

    def _met(self, region: ParallelHandle) -> _Continuation:
        primary = region.thread(0)
        native = native_thread(self._session, primary)
        own = self._stacks.of(native)
        first = self._first_outside(region, own)
        frames = tuple(as_written([item for item in own.frames if item.place >= first], self._where_met(region)))
        continuation, stopped = self._continuation(primary, region.enclosing())
        frames, stopped = frames + continuation, own.stopped or stopped
        matched = self._matching.of(native)
        for _, other in (*((matched,) if matched is not None else ()), *self._matching.around(native)):
            # The primary thread may be a worker in another runtime's region.
            if type(other) is not type(primary) and not continuation:
                continuation, fault = self._continuation(other, other.current_parallel())
                frames, stopped = frames + continuation, stopped or fault
        return frames, stopped

    def _written(self, own: Own, matched: MatchedThread | None) -> Iterator[StackFrame]:
        # Return the thread's own frames as in the source. If a primary thread waits at the end of its region, its
        # innermost user frame is the one that encountered the region, and gets the line of the construct.
        inner = next((item for item in own.frames if item.frame.kind == USER and not item.is_glue), None)
        met = None
        try:
            region = matched[1].current_parallel() if matched is not None and inner is not None else None
            if region is not None and matched is not None and region.thread(0).address == matched[1].address:
                is_met = inner is not None and inner.call_site == region.encountering_frames()[0].call_site
                met = self._where_met(region) if is_met else None
        except OmpdError:
            pass  # the frame keeps the line of its call
        return as_written(own.frames, met)

    def _first_outside(self, region: ParallelHandle, own: Own) -> int:
        # Return the index of the frame with the code that encountered the region. *own*: the primary thread's stack.
        try:
            return own.physical - len(region.encountering_frames())
        except Unavailable:
            # The encountering function may have left the stack by a tail call. Then a frame for it was added to *own*.
            inside = [code.frame for code in own.codes if code.region is not None and code.region.id == region.id]
            if len(inside) == 1 and any(i.place > inside[0] and i.frame.how == "tail-call" for i in own.frames):
                return inside[0] + 1
            raise

    def _where_met(self, region: ParallelHandle) -> tuple[str | None, Construct] | None:
        try:
            function = places.region_function(self._session, region)
        except OmpdError:
            return None
        return (
            (function.function, Construct("parallel", function.file, function.line))
            if function and function.line
            else None
        )
