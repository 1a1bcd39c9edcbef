"""Live processes of Linux: stopped while what an answer reads is copied, and not while it is worked out.

A :class:`LiveProcess` gives :class:`Moment` after :class:`Moment`, each a target of its own. The first kind is a
glance: nothing is stopped, memory is read as it changes, registers are as far as ``/proc`` tells them. If all threads
slept all the while, its answer is the answer. Otherwise it may not be shown, but the pages that it has read are, nearly
all, those that the answer will read. The second kind is of a stop: threads that run are stopped, those that sleep as a
rule not. Registers, the tops of the stacks and those pages are copied within milliseconds. A page, or a sleeping
thread's register, that is asked for and was not copied is noted, so that another stop can copy it as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ompd.debugger.targets.live.asleep import Asleep
from ompd.debugger.targets.live.copying import Copy, UnknownMappings
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import RunningProcess
from ompd.debugger.targets.live.tracer import NotStopped, Stop

# How long a stop may last: threads beyond so many are allowed some more each. A busy machine may not give its threads
# the processors in time that they need to stop on; another moment may be better.
DEFAULT_STOP_NS, _THREADS_INCLUDED, _EACH_FURTHER_NS = 50_000_000, 256, 200_000
STOP_TRIES = 3
# Copies that are made without stopping sleeping threads. If such a thread ran during each, they are stopped, too.
_TRIES_ASLEEP = 2


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
        """Return the process as it runs. Registers of running threads are unknown."""
        self.wanted.clear()
        asleep = {thread: self.asleep(thread) for thread in self.thread_ids()}
        # A thread that sleeps by now may have made another one since the list was read.
        asleep |= {thread: None for thread in self.thread_ids() if thread not in asleep}
        registers = {
            thread: self.registers_asleep(how) if how is not None else self.blocked_at(thread)
            for thread, how in asleep.items()
        }
        return Moment(self, registers, self.mappings(self.maps()), asleep=asleep)

    def surface(self) -> Moment:
        """Return the process for reading what nobody writes to: no threads, and nothing that is read is kept."""
        return Moment(self, {}, self.mappings(self.maps()), keeps_pages=False)

    def limit_ns(self, threads: int) -> int:
        """Return how long a stop of so many threads may last, in nanoseconds."""
        if self._max_stop_ns is not None:
            return self._max_stop_ns
        return DEFAULT_STOP_NS + max(0, threads - _THREADS_INCLUDED) * _EACH_FURTHER_NS

    def stop(
        self,
        pages: Collection[int],
        nearby: Collection[int] = (),
        *,
        lacking: Collection[int] = (),
        deep: bool = False,
        are_likely: bool = False,
    ) -> Moment:
        """Stop the threads that run, copy the tops of the stacks, *pages*, and if there is time *nearby*, and let them
        go.

        Pages for which there is no time are left out. Sleeping threads are not stopped, those of *lacking* excepted. If
        a sleeping thread runs meanwhile, the copy is made again; the third time sleeping threads are stopped, too.

        :param nearby: pages that may be needed, the likely ones first
        :param lacking: sleeping threads whose registers are needed
        :param are_likely: whether some of these are known to be: then there is more time for them
        :param deep: whether the stacks are copied as far as they reach, if there are not too many
        :raises NotStopped: if they did not all stop within the limit, three times
        :raises BadProcess: if the process may not be stopped
        :raises TargetGone: if it has ended
        """
        tries = woken = 0
        while True:
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
            leaves_sleepers = woken < _TRIES_ASLEEP
            sleepers = _Sleepers(self, lacking if leaves_sleepers else None)
            try:
                stop = self._stop(copying, sleepers)
                if stop.woken and leaves_sleepers:
                    woken += 1
                    continue
                return copying.moment(stop.woken, sleepers.unstoppable)
            except NotStopped as error:
                tries += 1
                if tries == STOP_TRIES:
                    raise NotStopped(self.process_id, error.running, error.threads, error.limit_ns, tries) from error
                time.sleep(min(error.limit_ns, DEFAULT_STOP_NS) / 1e9)  # in which it works on
            except UnknownMappings:
                tries += 1
                if tries == STOP_TRIES:
                    raise

    def _stop(self, copying: Copy, sleepers: _Sleepers) -> Stop[None]:
        stop = Stop(
            self.process_id,
            self.folder,
            copying.run,
            threads=self.thread_ids,
            leave=sleepers.leave,
            asleep=self.asleep,
            limit_ns=self.limit_ns,
            clock=self._clock,
        )
        try:
            stop.run()
        finally:
            if stop.duration_ns:
                self.stops_ns.append(stop.duration_ns)
        return stop


class _Sleepers:
    """Decides for one stop which sleeping threads are stopped.

    ``unstoppable`` are threads whose registers are needed and whose system call would not begin anew.

    :param lacking: the threads whose registers are needed, None for all
    """

    def __init__(self, process: RunningProcess, lacking: Collection[int] | None) -> None:
        self._process, self._lacking = process, lacking
        self.unstoppable: set[int] = set()

    def leave(self, thread: int) -> Asleep | None:
        """Return how a thread sleeps, None if it has to be stopped or runs."""
        asleep = self._process.asleep(thread)
        if asleep is None or (self._lacking is not None and thread not in self._lacking):
            return asleep
        if self._process.can_restart(thread, asleep):
            return None
        self.unstoppable.add(thread)
        return asleep
