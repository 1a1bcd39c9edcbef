"""Sessions on a process under LLDB. A script queries the process at one stop, and runs it to the next."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypeVar

from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.lldb.files import LldbFiles
from ompd.debugger.targets.lldb.run import LldbRun, ProgramEnded
from ompd.debugger.targets.lldb.target import LldbTarget
from ompd.errors import BadInput, Unavailable
from ompd.frontends.events import EVENTS, check_events, symbol_of
from ompd.inspection import Inspection
from ompd.lldb.entries import PARALLEL, THREAD, EntryEvents
from ompd.naming import CONSTRUCT_EXPRESSION
from ompd.records import record
from ompd.safety.isolation import AwayFromHere
from ompd.session.stop import LoadedRuntime

SECONDS = 60.0
"""How long a program may take to come to a place, unless the caller gives another time."""

_T = TypeVar("_T")
# LLDB's Python also searches the current folder, where anybody may have put a module with the name of an optional
# module.
_AWAY = AwayFromHere()
_NO_PLACES = "{} has no places for events (ompd_bp_*), and when its tasks begin and end nothing else says"
_NO_PLACES_HINT = (
    f"the events {', '.join((*PARALLEL, *THREAD))} are there; libgomp has no places in any build, an LLVM libomp unless"
    " it was stripped, as distributions' are, and Intel's libiomp5 has them"
)
# Names of places other than events.
_BEGUN, _UNSEEN = "a runtime has begun", "unseen: "


@record
class Event:
    """A thread has reached a place: the ``name`` of an event, or the place that was passed to ``continue_to``."""

    name: str
    native_thread_id: int


class LldbInspection(Inspection):
    """A process under LLDB, an ``SBProcess``, at one stop.

    If the process runs, all objects of the old stop raise StaleHandle. The methods here run the process and move the
    session to the new stop. If ``launch`` started the program, closing the session ends it.
    """

    target: LldbTarget
    _running_methods = ("continue_to", "events", "step_into_region")

    def __init__(
        self,
        process: Any,
        run: LldbRun | None = None,
        plugins: Sequence[str | PathLike[str]] = (),
        ompd_library: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(LldbTarget(process), LldbFiles(process), plugins=plugins, ompd_library=ompd_library)
        self._run = run
        self._entries: EntryEvents | None = None

    def ask(self, question: Callable[[LldbInspection], _T], *, may_stop: bool = True) -> _T:
        """See :meth:`Session.ask`."""
        with _AWAY:
            return super().ask(question, may_stop=may_stop)

    @property
    def runtimes(self) -> tuple[LoadedRuntime, ...]:
        """See :attr:`Session.runtimes`.

        :raises StaleHandle: if the process has run since
        """
        self.target.check()
        with _AWAY:
            return super().runtimes

    def close(self) -> None:
        """Release the process; if ``launch`` started it, end it."""
        super().close()
        if self._run is not None:
            self._run.close()

    def continue_to(self, place: str, *, seconds: float = SECONDS) -> Event:
        """Run until a thread reaches *place*, and return this event. The session then belongs to the new stop.

        :param place: an event of the specification (:data:`EVENTS`), a line ``file.c:12``, or the name of a function
        :raises BadInput: if there is no such place in the program
        :raises Unavailable: if the runtime does not report events
        :raises TargetGone: if the program ended
        :raises TimeLimit: if it took longer than *seconds*; the session then belongs to the stop that was reached
        """
        return self._continue([place], seconds)[0]

    def step_into_region(self, *, seconds: float = SECONDS) -> Event:
        """Run until the thread that is selected in LLDB begins the code of a region or task. Return that event.

        :raises Unavailable: if the program has no symbol of such code
        """
        run = self._running()
        thread = run.process.GetSelectedThread().GetThreadID()
        what = f"the code of a region in thread {thread}"
        return self._run_to({what: lambda: run.at_functions_like(CONSTRUCT_EXPRESSION, thread)}, what, seconds)[0]

    def events(self, *names: str, seconds: float = SECONDS, limit: int | None = None) -> Iterator[Event]:
        """Run the program, and yield each event named in *names* (:data:`EVENTS`; without names, all). The program is
        stopped at the yielded event.

        Ends with the program, or after *limit* events. Each event costs the program some milliseconds.

        :param seconds: the longest time from one event to the next
        :raises Unavailable: if the runtime will not pass its places for events
        """
        wanted = names or EVENTS
        for name in wanted:
            if name not in EVENTS:
                raise BadInput(f"there is no event {name!r}", hint=f"there are {', '.join(EVENTS)}")
        count = 0
        while True:
            try:
                events = self._continue(wanted, seconds)
            except ProgramEnded:
                return
            for event in events:
                yield event
                count += 1
                if count == limit:
                    return

    # Running

    def _let_run(self, seconds: float) -> None:
        run = self._running()
        try:
            run.run_for(seconds)
        finally:
            self._renew(run)

    def _running(self) -> LldbRun:
        if self.target.is_core:
            raise Unavailable("a core file does not run")
        if self._run is None:
            self._run = LldbRun(self.target.process)
        return self._run

    def _continue(self, places: Sequence[str], seconds: float) -> list[Event]:
        run = self._running()
        wants_events = any(place in EVENTS for place in places)
        if wants_events:
            check_events(self)
        makers = {place: lambda place=place: self._breakpoint(run, place) for place in places}
        what = " or ".join(places) if len(places) < 3 else "an event"
        deadline = time.monotonic() + seconds
        if self._entries is None:
            self._entries = EntryEvents(run)
        entries = self._entries
        while True:
            # Make a new watch each time: a watch's breakpoints are deleted at the stop.
            watch = _Watch(run, entries, self.process, [p for p in places if p in EVENTS]) if wants_events else None
            hits = self._run_to(makers, what, seconds, watch, deadline)
            unseen = next((hit.name for hit in hits if hit.name.startswith(_UNSEEN)), None)
            if unseen is not None:
                raise _no_places([unseen.removeprefix(_UNSEEN)])
            if any(hit.name == _BEGUN for hit in hits):
                check_events(self)
            if wants_events:
                hits += [Event(*hit) for hit in entries.events([(hit.name, hit.native_thread_id) for hit in hits])]
            events = [hit for hit in hits if hit.name in places]
            if events:
                run.select(events[0].native_thread_id)
                return events

    def _run_to(
        self,
        makers: Mapping[str, Any],
        what: str,
        seconds: float,
        watch: _Watch | None = None,
        deadline: float | None = None,
    ) -> list[Event]:
        run = self._running()
        more = watch.new if watch is not None else None
        try:
            return [Event(*hit) for hit in run.run_to(makers, what, seconds, more, deadline)]
        finally:
            self._renew(run)

    def _renew(self, run: LldbRun) -> None:
        # All data so far belong to the previous stop. Objects that callers still have become stale.
        if run.can_be_asked():
            self.process.close()
            target = LldbTarget(run.process)
            self.begin_stop(target, StoppedProcess(target, LldbFiles(run.process)))

    def _breakpoint(self, run: LldbRun, place: str) -> Any:
        if place in EVENTS:
            return run.at_symbol(symbol_of(place))
        line = re.fullmatch(r"(.+):(\d+)", place)
        return run.at_line(line[1], int(line[2])) if line is not None else run.at_function(place)


class _Watch:
    """Watches for runtimes that are loaded, and notices if a runtime's events cannot be seen.

    :param wanted: the names of the events to see
    """

    def __init__(self, run: LldbRun, entries: EntryEvents, process: StoppedProcess, wanted: Sequence[str]) -> None:
        self._run, self._entries, self._process, self._wanted = run, entries, process, wanted
        self._seen: set[str] = set()
        self._has_begun = False
        self._needs_places = not {*PARALLEL, *THREAD}.issuperset(wanted)

    def new(self) -> list[tuple[str, Any]]:
        """Return breakpoints for the runtimes that are loaded now.

        :raises Unavailable: if no runtime has places for events, and a wanted event needs them
        """
        run, runtimes = self._run, self._run.runtimes()
        without_events = [runtime for runtime in runtimes if not runtime.has_events]
        if self._needs_places and without_events and len(without_events) == len(runtimes):
            raise _no_places([runtime.name for runtime in without_events])
        breakpoints: list[tuple[str, Any]] = []
        for runtime in runtimes:
            # LLDB lists the libraries of a program before the loader has mapped them. Breakpoints at addresses in such
            # a library have to wait.
            if runtime.name in self._seen or not (runtime.has_events or run.is_loaded(runtime.module)):
                continue
            self._seen.add(runtime.name)
            if runtime.has_events:
                breakpoints += [(_BEGUN, breakpoint) for breakpoint in run.at_begin(runtime)]
                continue
            breakpoints += self._entries.places(runtime, self._wanted)
            if self._needs_places:
                breakpoints += [(_UNSEEN + runtime.name, breakpoint) for breakpoint in run.at_entries(runtime)]
        if not self._has_begun and without_events:
            # Only once, at the start: no thread is inside of a runtime that is loaded later.
            breakpoints += self._entries.returns(self._process, self._wanted)
        self._has_begun = True
        return breakpoints


def _no_places(names: Sequence[str]) -> Unavailable:
    return Unavailable(_NO_PLACES.format(" and ".join(names)), hint=_NO_PLACES_HINT)


def launch(
    arguments: Sequence[str | PathLike[str]],
    *,
    env: Mapping[str, str | None] | None = None,
    cwd: str | PathLike[str] | None = None,
    omp_debug: bool = True,
    plugins: Sequence[str | PathLike[str]] = (),
    ompd_library: str | PathLike[str] | None = None,
) -> LldbInspection:
    """Start a program, and return a session on it; see :func:`ompd.launch`."""
    if isinstance(arguments, str | PathLike):
        raise BadInput(
            f"{fspath(arguments)} cannot be started: launch() takes a list, the program and its arguments",
            hint=f"ompd.launch([{fspath(arguments)!r}])",
        )
    environment: dict[str, str | None] = {
        **os.environ,
        **({"OMP_DEBUG": "enabled"} if omp_debug else {}),
        **(env or {}),
    }
    run = LldbRun.launch(
        [fspath(argument) for argument in arguments],
        {name: value for name, value in environment.items() if value is not None},
        fspath(cwd) if cwd is not None else None,
        without_note=omp_debug,
    )
    try:
        return LldbInspection(run.process, run, plugins, ompd_library)
    except BaseException:
        run.close()
        raise
