"""Takes the moments of a profile: looks at a running process at jittered times, as often as the looks' cost allows."""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import fmean, median

from ompd.analysis.profile.seen import SeenMoment
from ompd.errors import BadProcess, NoAnswer, TargetGone, Unavailable
from ompd.model import SamplingRecord
from ompd.questions.profile.look import Looks
from ompd.records import record
from ompd.session import Session

# The parts of a processor that the profiler may use, and of its time that the process may be stopped.
_PROCESSOR_PART, _STOPPED_PART = 0.045, 0.015
# The part of the time that looks and stops together may take if they take time from the process: if it has running
# threads for all processors, or its threads wait for processors for this part of their running time.
_CROWDED_PART, _CROWDED_WAITS = 0.02, 0.03
_MOST_FAILURES = 20  # looks that fail in a row
_AGAIN_S = 0.05  # timeout(1) sends a signal twice, once to the process group
_REMEMBERED = 20  # looks whose costs decide the next interval
# With more moments, every second one is dropped and the interval doubles.
_MOST_MOMENTS = 20_000
_FIRST_RUNTIME_S = 60.0  # how long a started program may take to load its OpenMP runtime


@record
class Samples:
    """The moments that were taken. ``delays`` are the part of its running time that each thread waited for a
    processor, by native id. ``held`` is the number of looks at which a signal or a frozen control group held the
    process; they are left out.
    """

    moments: tuple[SeenMoment, ...]
    looks: Looks
    delays: Mapping[int, float]
    sampling: SamplingRecord
    held: int


class Sampler:
    """Looks at one running process again and again.

    :param rate: the most looks per second
    :param progress: called with a line about the state of affairs, None for nothing
    :param is_new: whether the program was just started, so that it may not have loaded its OpenMP runtime yet
    """

    def __init__(
        self, session: Session, rate: float, progress: Callable[[str], None] | None = None, *, is_new: bool = False
    ) -> None:
        self._session, self._rate, self._progress, self._is_new = session, rate, progress, is_new
        self._process = session.live_process
        self._looks = Looks()
        self._moments: list[SeenMoment] = []
        self._times: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}  # each thread's first and last
        # Of the last looks: processor time, time of stops, number of running threads; and how long all threads have had
        # processors, and have waited for them, in nanoseconds.
        self._costs: deque[tuple[float, float, int, int, int]] = deque(maxlen=_REMEMBERED)
        self._processors = len(os.sched_getaffinity(0))
        self._thinning = 1.0
        self._count = self._lost = self._held = self._refusals = self._failures = 0
        self._look_cpu = self._last_s = 0.0

    def run(self, seconds: float | None) -> Samples:
        """Take moments for *seconds*, or until the program ends or Ctrl-C is pressed. Return what was taken.

        :param seconds: None for no limit
        :raises NoAnswer: if no OpenMP runtime of the process can be read
        :raises TargetGone: if the process ended before the first moment
        :raises BadProcess: if the process cannot be inspected
        """
        begin, processor, first_stop = time.monotonic(), time.process_time(), len(self._process.stops_ns)
        ended = "time"
        try:
            if not self._is_new:
                self._warm_up()
                begin, processor, first_stop = time.monotonic(), time.process_time(), len(self._process.stops_ns)
            while seconds is None or time.monotonic() - begin < seconds:
                self._look(begin)
                left = seconds - (time.monotonic() - begin) if seconds is not None else None
                self._pause(left)
                self._report(time.monotonic() - begin, seconds)
        except KeyboardInterrupt:
            ended = "interrupted"
            with suppress(KeyboardInterrupt):
                time.sleep(_AGAIN_S)
        except (TargetGone, BadProcess, Unavailable) as error:
            if not self._moments:
                raise
            ended = str(error)
        elapsed = time.monotonic() - begin
        stops = self._process.stops_ns[first_stop:]
        sampling = SamplingRecord(
            seconds=round(elapsed, 3),
            moments=len(self._moments),
            lost=self._lost,
            asked_rate=self._rate,
            rate=round(self._count / elapsed, 2) if elapsed else 0.0,
            look_ms=round(1e3 * self._look_cpu / self._count, 3) if self._count else 0.0,
            stops=len(stops),
            stopped_ms=round(fmean(stops) / 1e6, 3) if stops else 0.0,
            processor=round((time.process_time() - processor) / elapsed, 4) if elapsed else 0.0,
            ended=ended,
        )
        return Samples(tuple(self._moments), self._looks, self._delays(), sampling, self._held)

    def _warm_up(self) -> None:
        # The first look reads files, and takes much longer than the others. It does not count.
        try:
            self._session.repeat(lambda session: self._looks.at(session, 0.0))
        except Unavailable:
            pass
        except TargetGone:
            if self._process.has_ended():
                raise

    def _look(self, begin: float) -> None:
        processor, stops = time.process_time(), len(self._process.stops_ns)
        self._read_times()
        at = time.monotonic() - begin
        running = 0
        try:
            moment = self._session.repeat(lambda session: self._looks.at(session, at))
            running = sum(thread.call is None for thread in moment.threads)
            self._failures = 0
            if self._session.is_held:
                self._held += 1
            else:
                self._moments.append(moment)
        except Unavailable:
            self._lost += 1
            self._failures += 1
            if self._failures >= _MOST_FAILURES:
                raise
        except TargetGone:
            if self._process.has_ended():
                raise
            self._lost += 1  # it executes another program
        except BadProcess:
            # While another program is executed, the system refuses for a moment.
            self._refusals += 1
            if self._refusals > 1 or not self._moments:
                raise
            self._lost += 1
        except NoAnswer:
            if self._moments or not self._is_new or at > _FIRST_RUNTIME_S:
                raise
        used = time.process_time() - processor
        self._last_s = time.monotonic() - begin - at
        self._count += 1
        self._look_cpu += used
        ran, waited = (sum(last[which] for _, last in self._times.values()) for which in (0, 1))
        if len(self._moments) > 1:  # the first look of a new program reads files
            self._costs.append((used, sum(self._process.stops_ns[stops:]) / 1e9, running, ran, waited))
        if len(self._moments) > _MOST_MOMENTS:
            del self._moments[::2]
            self._thinning *= 2

    def _pause(self, left: float | None) -> None:
        # Wait for the next look. A fixed interval would see a program's periodic phases at the same place each time.
        needed = 0.0
        if self._costs:
            # A look is dear at times, because it names a new construct.
            used = median(cost[0] for cost in self._costs)
            stopped = fmean(cost[1] for cost in self._costs)
            needed = max(used / _PROCESSOR_PART, stopped / _STOPPED_PART)
            if self._is_crowded:
                needed = max(needed, (used + stopped) / _CROWDED_PART)
        interval = max(self._thinning / self._rate, needed)
        pause = random.uniform(0.5, 1.5) * interval - self._last_s
        time.sleep(max(0.0, min(pause, left) if left is not None else pause))

    @property
    def _is_crowded(self) -> bool:
        (*_, ran, waited), (*_, ran_later, waited_later) = self._costs[0], self._costs[-1]
        waits = waited_later - waited
        if waits > _CROWDED_WAITS * (waits + ran_later - ran):
            return True
        return fmean(cost[2] for cost in self._costs) >= self._processors

    def _read_times(self) -> None:
        with suppress(TargetGone):
            for thread in self._process.thread_ids():
                times = self._process.processor_times(thread)
                if times is not None:
                    self._times[thread] = self._times.get(thread, (times, times))[0], times

    def _delays(self) -> dict[int, float]:
        delays = {}
        for thread, ((ran, waited), (ran_later, waited_later)) in self._times.items():
            whole = ran_later - ran + waited_later - waited
            delays[thread] = (waited_later - waited) / whole if whole > 0 else 0.0
        return delays

    def _report(self, elapsed: float, seconds: float | None) -> None:
        if self._progress is not None:
            of = f" of {seconds:g}" if seconds is not None else ""
            self._progress(f"{len(self._moments)} moments in {elapsed:.0f}{of} s; Ctrl-C ends it")
