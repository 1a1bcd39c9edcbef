"""The query ``profile``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import ceil

from ompd.analysis.profile.causes import causes
from ompd.analysis.profile.estimates import FEWEST
from ompd.analysis.profile.regions import Regions
from ompd.errors import BadInput, OmpdError, Unsupported
from ompd.model import ProfileAnswer, RuntimeRecord
from ompd.questions.facts.answers import begin
from ompd.questions.profile.names import named
from ompd.questions.profile.sampler import Sampler, Samples
from ompd.questions.runtimes import records
from ompd.session import Session

RATE, SECONDS = 20.0, 20.0
_FASTEST, _LONGEST = 1000.0, 86_400.0


def ask(
    session: Session,
    *,
    seconds: float | None = SECONDS,
    rate: float = RATE,
    progress: Callable[[str], None] | None = None,
    is_new: bool = False,
) -> ProfileAnswer:
    """Return where the time of the threads of a running process goes.

    :param seconds: how long to look, None until the program ends or Ctrl-C is pressed
    :param rate: the most looks per second. If a look costs too much, there are fewer.
    :param progress: called with a line about the state of affairs, None for nothing
    :param is_new: whether the program was just started, so that it may not have loaded its OpenMP runtime yet
    :raises BadInput: if *seconds* or *rate* is out of its range
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    :raises TargetGone: if the process ended before the first look
    :raises Unsupported: if the target is not a live process
    """
    if session.target.kind != "live":
        raise Unsupported(f"{session.target.name} does not run: a profile needs a running process")
    if seconds is not None and not 0 < seconds <= _LONGEST:
        raise BadInput(f"{seconds:g} seconds: it has to be more than 0 and no more than {_LONGEST:g}")
    if not 0 < rate <= _FASTEST:
        raise BadInput(f"{rate:g} looks per second: it has to be more than 0 and no more than {_FASTEST:g}")
    process = session.live_process
    first_stop = len(process.stops_ns)
    samples = Sampler(session, rate, progress, is_new=is_new).run(seconds)
    regions = Regions(samples.moments, named(session, samples.moments, samples.looks.constructs), samples.delays)
    rows = regions.records()
    threads = regions.threads()
    own = {str(thread): number for thread, number in process.own_thread_ids().items()}
    notes = [process.note] if process.note is not None else []
    return ProfileAnswer(
        replace(session.stop.record, stops_ns=tuple(process.stops_ns[first_stop:]), own_thread_ids=own),
        _runtimes(session),
        rows,
        bool(samples.moments),
        (*_warnings(samples), *notes),
        verdicts=causes(regions, rows),
        sampling=samples.sampling,
        efficiency=regions.efficiency if samples.moments else None,
        serial=regions.serial if samples.moments else None,
        team_size=regions.team_size if samples.moments else None,
        activities=regions.activities_of_run(),
        serial_lines=regions.serial_lines(),
        threads=threads,
        moments=regions.timeline(threads),
        stacks=regions.stacks(),
    )


def _runtimes(session: Session) -> tuple[RuntimeRecord, ...]:
    with suppress(OmpdError):  # the process has ended, and its memory is gone
        return records(session, begin(session))
    return ()


def _warnings(samples: Samples) -> Iterator[str]:
    sampling = samples.sampling
    if sampling.ended not in ("time", "interrupted"):
        yield f"sampling ended after {sampling.seconds:.1f} s: {sampling.ended}"
    if sampling.moments < FEWEST:
        enough = ceil(FEWEST / sampling.rate) if sampling.rate else 0
        longer = f" (--seconds {enough} gives as many)" if sampling.ended == "time" and enough else ""
        yield f"{sampling.moments} moments are too few for intervals and causes: at least {FEWEST} are needed{longer}"
    if sampling.lost:
        yield f"{sampling.lost} looks failed, because the process changed or was not stopped in time"
    if samples.held:
        yield f"{samples.held} looks are left out, because the process was held and did not run"
