"""Live processes of Linux: stopped while what an answer reads is copied, and not while it is worked out.

A :class:`LiveProcess` gives :class:`Moment` after :class:`Moment`, each a target of its own. The first kind is a
glance: nothing is stopped, memory is read as it changes, registers are as far as ``/proc`` tells them. A question that
is asked of a glance answers nothing that may be shown, but the pages that it reads are, nearly all, those that it will
read. The second kind is of a stop: registers of all threads, the tops of their stacks and those pages, copied within
milliseconds. A page that is asked for and was not copied is noted, so that another stop can copy it as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ompd.debugger.targets.live.copying import Copy, UnknownMappings
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import RunningProcess
from ompd.debugger.targets.live.tracer import NotStopped, Stop

# How long a stop may last: threads beyond so many are allowed some more each. A busy machine may not give its threads
# the processors in time that they need to stop on; another moment may be better.
DEFAULT_STOP_NS, _THREADS_INCLUDED, _EACH_FURTHER_NS = 50_000_000, 256, 200_000
STOP_TRIES = 3


class LiveProcess(RunningProcess):
    """A process that runs, and is stopped when it is told to be.

    ``stops_ns`` are the lengths of the stops so far, in nanoseconds.

    :param max_stop_ns: how long a stop may last; if None, 50 ms, and 0.2 ms more for each thread above 256
    :param clock: the time in nanoseconds, by which stops end
    :raises BadProcess: if it cannot be looked into
    """

    def __init__(
        self, process_id: int, *, max_stop_ns: int | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._max_stop_ns = max_stop_ns
        self._clock = clock
        self.stops_ns: list[int] = []
        super().__init__(process_id)

    # Moments

    def glance(self) -> Moment:
        """Return the process as it is told while it runs. Of threads that run now the registers are not known."""
        self.wanted.clear()
        return Moment(self, {t: self.blocked_at(t) for t in self.thread_ids()}, self.mappings(self.maps()))

    def surface(self) -> Moment:
        """Return the process for reading what nobody writes to: no threads, and nothing that is read is kept."""
        return Moment(self, {}, self.mappings(self.maps()), keeps_pages=False)

    def limit_ns(self, threads: int) -> int:
        """Return how long a stop of so many threads may last, in nanoseconds."""
        if self._max_stop_ns is not None:
            return self._max_stop_ns
        return DEFAULT_STOP_NS + max(0, threads - _THREADS_INCLUDED) * _EACH_FURTHER_NS

    def stop(
        self, pages: Collection[int], nearby: Collection[int] = (), *, deep: bool = False, are_likely: bool = False
    ) -> Moment:
        """Stop all threads, copy the tops of the stacks, *pages*, and if there is time *nearby*, and let them go.

        What could not be copied within the limit is left out.

        :param nearby: pages that may be needed, the likely ones first
        :param are_likely: whether some of these are known to be: then there is more time for them
        :param deep: whether the stacks are copied as far as they reach, if there are not too many
        :raises NotStopped: if they did not all stop within the limit, three times
        :raises BadProcess: if the process may not be stopped
        :raises TargetGone: if it has ended
        """
        tries = 0
        while True:
            tries += 1
            try:
                return self._stop(pages, nearby, deep, are_likely)
            except NotStopped as error:
                if tries == STOP_TRIES:
                    raise NotStopped(self.process_id, error.running, error.threads, error.limit_ns, tries) from error
                time.sleep(min(error.limit_ns, DEFAULT_STOP_NS) / 1e9)  # in which it works on
            except UnknownMappings:
                if tries == STOP_TRIES:
                    raise

    def _stop(self, pages: Collection[int], nearby: Collection[int], deep: bool, are_likely: bool) -> Moment:
        copying = Copy(
            self,
            pages,
            nearby,
            len(self.thread_ids()),
            deep=deep,
            are_likely=are_likely,
            limit_ns=self.limit_ns,
            clock=self._clock,
        )
        stop = Stop(self.process_id, self.folder, copying.run, limit_ns=self.limit_ns, clock=self._clock)
        try:
            stop.run()
        finally:
            if stop.duration_ns:
                self.stops_ns.append(stop.duration_ns)
        return copying.moment()
