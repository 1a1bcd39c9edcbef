"""Finds the OpenMP threads of the process and their runtimes, for all queries about threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ThreadHandle
from ompd.errors import NotInitialised, OmpdError
from ompd.model import StackRecord, ThreadRecord, VariableRecord
from ompd.questions.facts.damage import is_damaged, leaves_doubt
from ompd.questions.facts.gathering import Problems
from ompd.session import LoadedRuntime, Session

Found = tuple[LoadedRuntime, ThreadHandle]
"""An OpenMP thread: the runtime that knows it, and its handle there."""


class Matching:
    """The threads of one stop and their handles. Each thread is looked up once, when it is first needed."""

    def __init__(self, session: Session, runtimes: Sequence[LoadedRuntime], problems: Problems) -> None:
        self._session = session
        self._runtimes = runtimes
        self._problems = problems
        self._known: dict[int, Found | None] = {}
        self._handles: set[tuple[str, int]] = set()
        self._others: dict[int, Sequence[Found]] = {}

    def of(self, thread: int) -> Found | None:
        """Return the OpenMP thread with the native id *thread*, None if no runtime knows it."""
        if thread not in self._known:
            self._known[thread] = self._find(thread)
        return self._known[thread]

    def _find(self, thread: int) -> Found | None:
        matches: list[Found] = []
        for runtime in self._runtimes:
            if runtime.space is None:
                continue
            try:
                handle = runtime.space.thread_by_native_id(ThreadIdKind.LWP, thread)
            except OmpdError as error:
                self._problems.lost(f"{runtime.id}: threads", error)
                continue
            if handle is not None:
                matches.append((runtime, handle))
                self._handles.add((runtime.id, handle.address))
        # Several runtimes may know a thread, because they keep threads that left their regions. The innermost counts.
        if len(matches) < 2:
            return next(iter(matches), None)
        nearest, *outer = sorted(matches, key=lambda match: self._nearness(thread, match), reverse=True)
        self._others[thread] = outer
        return nearest

    def _nearness(self, thread: int, match: Found) -> tuple[bool, int]:
        runtime, handle = match
        try:
            inside = handle.current_parallel() is not None
        except OmpdError:
            inside = False
        process, module = self._session.process, runtime.found.module
        frames = process.stacks.stack(thread).frames
        innermost = next(
            (i for i, frame in enumerate(frames) if process.symbols.module_at(frame.call_site) is module), len(frames)
        )
        return inside, -innermost

    def around(self, thread: int) -> Sequence[Found]:
        """Return the matches of a thread in other runtimes than :meth:`of`.

        A thread in a region of one runtime may have started a region of another.
        """
        self.of(thread)
        return self._others.get(thread, ())

    @cached_property
    def matched(self) -> frozenset[tuple[str, int]]:
        """The runtime's id and the address of every handle: two for a thread that two runtimes know."""
        for thread in self._session.process.threads.ids():
            self.of(thread)
        return frozenset(self._handles)

    @cached_property
    def doubt(self) -> OmpdError | None:
        """The first damaged or lost fact because of which an unmatched thread may still be an OpenMP thread.

        None if everything that the runtimes know about threads was read.
        """
        session = self._session
        for runtime in session.runtimes:
            if runtime.space is None and runtime.is_initialised and leaves_doubt(session, runtime.fault):
                return runtime.fault
        # A lost library may have contained a runtime. If no runtime is left, the program may have, too.
        lost = session.stop.lost_libraries if self._runtimes else session.stop.lost_runtimes
        if is_damaged(session) and lost:
            return OmpdError("; ".join(lost))
        return next((OmpdError(doubt) for runtime in self._runtimes for doubt in self._of(runtime)), None)

    def _of(self, runtime: LoadedRuntime) -> Iterator[str]:
        try:
            handles = runtime.space.threads() if runtime.space is not None else ()
            if handles and not any((runtime.id, handle.address) in self.matched for handle in handles):
                yield f"none of the {len(handles)} threads of {runtime.id} is a thread of the process"
            for handle in handles:
                if not handle.native_id(ThreadIdKind.PTHREAD) and handle.current_parallel() is not None:
                    yield f"{runtime.id} has data of a thread in a team at {handle.address:#x} that name no thread"
        except NotInitialised:
            return  # it has no threads yet
        except OmpdError as error:
            yield f"{runtime.id}: {error}"


def team_order(row: StackRecord | ThreadRecord | VariableRecord) -> tuple[bool, str, bool, int, str, int, int]:
    """Return the sort key of rows: OpenMP threads by region and thread number, then idle ones, then others."""
    return (
        row.runtime is None,
        row.runtime or "",
        row.thread_num is None,
        (None if isinstance(row, VariableRecord) else row.level) or 0,
        row.parallel or "",
        row.thread_num or 0,
        row.native_thread_id or 0,
    )
