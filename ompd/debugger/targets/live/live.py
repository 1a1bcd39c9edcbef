"""Live processes of Linux: stopped while memory is copied, and running while the answer is computed.

A :class:`LiveProcess` makes one :class:`Moment` after another. Each moment is a target. There are two kinds.

A glance stops nothing. It reads memory while memory changes, and registers from ``/proc``. If all threads slept
meanwhile, the answer is valid. Otherwise the answer is dropped, but the pages that it read are noted.

A stop stops the running threads, and usually not the sleeping ones. Registers, the tops of the stacks and the noted
pages are copied within milliseconds. If an answer needs a page or register that was not copied, another stop copies it.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Collection

from ompd.debugger.targets.live.copying import Copy, UnknownMappings
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import RunningProcess
from ompd.debugger.targets.live.tracer import Asleep, NotStopped, Stop

# The limit of a stop, and how much each thread above the included number adds. On a busy machine the threads may not
# get the processors that they need in order to stop; another moment may be better.
DEFAULT_STOP_NS, _THREADS_INCLUDED, _EACH_FURTHER_NS = 50_000_000, 256, 200_000
STOP_TRIES = 3
# Attempts that do not stop sleeping threads. If a sleeping thread ran during each of them, the next attempt stops all.
_TRIES_ASLEEP = 2


class LiveProcess(RunningProcess):
    """A running process that can be stopped.

    ``stops_ns`` are the lengths of the stops so far, in nanoseconds.

    :param max_stop_ns: the limit of a stop; if None, 50 ms, and 0.2 ms more for each thread above 256
    :param clock: returns the time in nanoseconds, for the limits of stops
    :raises BadProcess: if it cannot be inspected
    """

    def __init__(
        self, process_id: int, *, max_stop_ns: int | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._max_stop_ns = max_stop_ns
        self.clock = clock
        self.stops_ns: list[int] = []
        self.light_buffer: mmap.mmap | None = None
        """The memory for the next light copy."""
        super().__init__(process_id)

    # Moments

    def glance(self) -> Moment:
        """Return the process as it runs. The registers of running threads are unknown."""
        self.wanted.clear()
        asleep = {thread: self.asleep(thread) for thread in self.thread_ids()}
        # The new threads are not known to have slept: a thread may have created them after the list was read, and sleep
        # now.
        asleep |= {thread: None for thread in self.thread_ids() if thread not in asleep}
        registers = {
            thread: self.registers_asleep(how) if how is not None else self.blocked_at(thread)
            for thread, how in asleep.items()
        }
        return Moment(self, registers, self.mappings(self.maps()), asleep=asleep)

    def surface(self) -> Moment:
        """Return the process for reading constant memory. It has no threads, and does not keep the pages that it
        reads.
        """
        return Moment(self, {}, self.mappings(self.maps()), keeps_pages=False)

    def limit_ns(self, threads: int) -> int:
        """Return the limit of a stop in nanoseconds, for a process with *threads* threads."""
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
        light: bool = False,
        are_likely: bool = False,
    ) -> Moment:
        """Stop the running threads, copy the tops of their stacks, *pages*, and *nearby* if time is left, and release.

        Pages are left out if the time is over. Sleeping threads are not stopped, except those of *lacking*. If a
        sleeping thread runs meanwhile, the copy is repeated; the third attempt stops sleeping threads, too.

        :param nearby: pages that may be needed, the likely ones first
        :param lacking: sleeping threads whose registers are needed
        :param deep: whether to copy the stacks to their ends, unless they are too large
        :param light: for a look that is repeated often: less of the stacks is copied, and no sleeping thread is ever
            stopped. The registers of a thread are unknown if it has no processor, or runs during the second attempt.
        :param are_likely: whether some of *nearby* will be needed, so that they get more time
        :raises NotStopped: if three attempts failed to stop all threads within the limit
        :raises BadProcess: if the process may not be stopped
        :raises TargetGone: if it has ended
        """
        tries = woken = 0
        while True:
            copy = Copy(self, pages, nearby, len(self.thread_ids()), deep=deep, light=light, are_likely=are_likely)
            leaves_sleepers = woken < _TRIES_ASLEEP
            sleepers = Sleepers(self, lacking if leaves_sleepers else None)
            try:
                stop = self._stop(copy, sleepers)
                if stop.woken and leaves_sleepers:
                    woken += 1
                    if not light or woken < _TRIES_ASLEEP:
                        continue
                return copy.moment(stop.woken, sleepers.unstoppable)
            except NotStopped as error:
                tries += 1
                if tries == STOP_TRIES:
                    raise NotStopped(self.process_id, error.running, error.threads, error.limit_ns, tries) from error
                time.sleep(min(error.limit_ns, DEFAULT_STOP_NS) / 1e9)  # let the process work meanwhile
            except UnknownMappings:
                tries += 1
                if tries == STOP_TRIES:
                    raise

    def _stop(self, copy: Copy, sleepers: Sleepers) -> Stop:
        stop = Stop(self, copy, sleepers)
        try:
            stop.run()
        finally:
            if stop.duration_ns:
                self.stops_ns.append(stop.duration_ns)
        return stop


class Sleepers:
    """Decides which sleeping threads are stopped, during one stop of the process.

    ``unstoppable`` are threads whose registers are needed, but whose system call would not restart.

    :param lacking: the threads whose registers are needed, None for all
    """

    def __init__(self, process: RunningProcess, lacking: Collection[int] | None) -> None:
        self._process, self._lacking = process, lacking
        self.unstoppable: set[int] = set()

    def leave(self, thread: int) -> Asleep | None:
        """Return how *thread* sleeps, None if it runs or is to be stopped."""
        asleep = self._process.asleep(thread)
        if asleep is None or (self._lacking is not None and thread not in self._lacking):
            return asleep
        if self._process.can_restart(thread, asleep):
            return None
        self.unstoppable.add(thread)
        return asleep
