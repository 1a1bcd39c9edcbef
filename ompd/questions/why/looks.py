"""Earlier looks at a live process: a thread that has not moved between two looks is more likely to be stuck."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

from ompd.analysis.moment import Moment
from ompd.analysis.verdicts.samples import Progress
from ompd.errors import BadInput, NoAnswer, OmpdError, TargetGone
from ompd.model import ChildRecord, OtherRanksRecord
from ompd.model.supply import Settings, Supply
from ompd.questions.diff import are_one_process
from ompd.questions.why.collect import collect
from ompd.session import Session

SAMPLES, INTERVAL = 2, 0.5
_MOST_SAMPLES, _LONGEST = 1000, 86_400.0


class Look(NamedTuple):
    """The moments of earlier looks at a process, the latest last.

    ``seconds`` is the time from the first look to the look that is still to be taken, None if it is unknown.
    ``may_stop`` is False if that look must not stop the process, as the earlier ones did not. ``children`` are the
    verdicts on child processes, ``other_ranks`` those on other ranks of the same job. ``supply`` is what the process
    got from its machine since the first look, None if that is unknown.
    """

    moments: tuple[Moment, ...]
    seconds: float | None
    may_stop: bool = True
    children: tuple[ChildRecord, ...] = ()
    other_ranks: OtherRanksRecord | None = None
    supply: Supply | None = None


def look_before(
    session: Session, samples: int | None = None, interval: float | None = None, *, beside: bool = True
) -> Look | None:
    """Return earlier looks at a live process, once it is time for the last look, which the caller takes.

    The process runs between looks. None if *samples* is 1, for a process without a runtime, and for targets other than
    a live process, because these do not change.

    :param samples: the number of looks, including the last one, :data:`SAMPLES` if None
    :param interval: seconds between two looks, :data:`INTERVAL` if None
    :param beside: whether to look at child processes and other ranks, too
    :raises BadInput: if *samples* or *interval* is out of its range
    """
    count = SAMPLES if samples is None else samples
    if not 1 <= count <= _MOST_SAMPLES:
        raise BadInput(f"{count} looks: it has to be at least 1 and at most {_MOST_SAMPLES}")
    seconds = INTERVAL if interval is None else interval
    if not 0 <= seconds <= _LONGEST:
        raise BadInput(f"{interval} is not a number of seconds from 0 to {_LONGEST:g}")
    if session.target.kind != "live" or count == 1:
        return None
    if session.may_stop:
        look = _look_without_stop(session, seconds)
        if look is not None:
            return look
    # Cores need none of these modules.
    from ompd.analysis.verdicts.supply.demand import SHORTEST
    from ompd.machine.supply.readings import supply_between, take_reading
    from ompd.questions.why.beside import children_of, descendants, ranks_beside

    begin = time.monotonic()
    moments = []
    reading, settings = None, Settings()
    process_id = session.target.process_id or 0
    for _ in range(count - 1):
        try:
            moment, settings = session.ask(_moment_and_settings)
            moments.append(moment)
        except NoAnswer as error:
            children = descendants(session)
            if children and not session.runtimes and session.process.gone_code() is None:
                hint = f"its child process {children[0]} uses OpenMP: ompd why {children[0]}"
                raise NoAnswer(str(error), hint=hint) from error
            return None  # without a readable runtime there is nothing to compare with a second look
        # Readings are taken outside of the looks, which use processors themselves, and may stop the process.
        if reading is None and seconds >= SHORTEST:
            reading = take_reading(process_id)
        time.sleep(seconds)
    supply = supply_between(process_id, reading, take_reading(process_id), settings) if reading is not None else None
    look = Look(tuple(moments), round(time.monotonic() - begin, 2), supply=supply)
    return look._replace(children=children_of(session), other_ranks=ranks_beside(session)) if beside else look


def _look_without_stop(session: Session, seconds: float) -> Look | None:
    # Return looks without stopping the process, None if no thread seems to have missed a wake-up. Such a thread sleeps
    # although its futex word has changed. It can be seen only while the process runs: a stop restarts its futex() call,
    # which returns at once.
    try:
        if not session.ask(_sleep_though_free, may_stop=False):
            return None
        begin = time.monotonic()
        first = session.ask(_moment, may_stop=False)
        time.sleep(seconds)
        second = session.ask(_moment, may_stop=False)
    except TargetGone:
        raise
    except OmpdError:  # memory that changes while it is read may contradict itself
        return None
    if not Progress.between(first, second).asleep_though_free:
        return None
    return Look((first,), round(time.monotonic() - begin, 2), may_stop=False)


def _moment(session: Session) -> Moment:
    return collect(session)[0]


def _moment_and_settings(session: Session) -> tuple[Moment, Settings]:
    from ompd.questions.why.settings import settings_of

    return collect(session)[0], settings_of(session)


def _sleep_though_free(session: Session) -> bool:
    process = session.process
    for thread in process.threads.ids() if not session.is_held else ():
        with suppress(OmpdError):
            if process.waiting.progress(thread) == "released":
                return True
    return False


def look_at_earlier(earlier: Session, session: Session) -> Look:
    """Return a look at an earlier moment of a process, shown by another core of the same process.

    :raises BadInput: if *earlier* is another process, or it is not known whether it is the same
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    is_same = are_one_process(earlier, session)
    names = f"{earlier.target.name} and {session.target.name}"
    if is_same is False:
        raise BadInput(f"{names} are not of the same process")
    if is_same is None:
        raise BadInput(f"{names}: it is not known whether they are of the same process")
    return Look((earlier.ask(_moment),), None)
