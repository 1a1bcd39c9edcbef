"""Queries of a live process. A query is rehearsed while the process runs. Then the process is stopped, the memory that
the answer reads is copied, and the process runs on.

If all threads slept during the rehearsal, nothing has changed, and the rehearsal's answer is valid. So most hanging
programs are never stopped.

A program that keeps making tasks and regions may have other structures, at other addresses, at each stop. So there are
several stops, each with a time limit. If no stop copies all that the answer needs, the answer is from the stop that
lacks least, and has gaps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from ompd.debugger.files.finder import FileOptions
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.live.files import LiveFiles
from ompd.debugger.targets.live.live import LiveProcess
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.tracer import LONGER_STOPS, NotStopped
from ompd.errors import BadInput, BadProcess, NoAnswer, OmpdError, TargetGone, Unavailable
from ompd.model import Answer
from ompd.session.stop import Stop

if TYPE_CHECKING:
    from typing_extensions import Self

    from ompd.session.session import Session

MAX_STOPS = 5
# For a query that is repeated: the stops for one result, and the number of results whose pages are copied for the next.
_REPEATED_STOPS, _REMEMBERED = 3, 16
# Limits of the number of reads in a rehearsal, which walks along changing structures and might not end. The answer
# itself may read more.
_MAX_REHEARSED, _MAX_REHEARSED_PER_THREAD = 400_000, 1_000
_LONGEST_STOP = 3_600_000.0  # an hour, in milliseconds
_NOT_STOPPED = "the process was not stopped: what this tells of different threads may be of different moments"
_UNREAD = "asleep in a system call that a stop might disturb, so that some registers are unknown"

_T = TypeVar("_T")
_S = TypeVar("_S", bound="Session")


class Stopper:
    """The stops of one session on a live process.

    :param nonblocking: whether the process is only read while it runs, and never stopped
    """

    def __init__(
        self,
        process: LiveProcess,
        files: FileOptions | None = None,
        *,
        nonblocking: bool = False,
    ) -> None:
        self.process = process
        self._options = files
        self.nonblocking = nonblocking
        self.held_by: str | None = None
        self._moment: Moment | None = None
        self._best: Moment | None = None  # the stop that lacks least; used if none is complete
        # The reasons why the last answer is incomplete.
        self._shortfalls: list[str] = []
        # The pages that the last repetitions of a query read.
        self._recent: deque[Collection[int]] = deque(maxlen=_REMEMBERED)
        # Facts from files are read before the first stop. They are kept for all moments.
        self.base = self._look()

    def _look(self) -> StoppedProcess:
        self.process.refresh()
        self.target = self.process.surface()
        self.files = LiveFiles(
            self.process.process_id,
            self.target.mappings(),
            self.process.auxiliary_vector,
            self._options,
        )
        self._code = self.target.code_mappings()
        return StoppedProcess(self.target, self.files, self.files.exe)

    @classmethod
    def attach(
        cls,
        process_id: int,
        files: FileOptions | None = None,
        *,
        nonblocking: bool = False,
        max_stop: float | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Return the stopper of the process *process_id*, which keeps running.

        :param max_stop: longest stop, in milliseconds; if None, see
            :meth:`~ompd.debugger.targets.live.live.LiveProcess.limit_ns`
        :param clock: returns the time in nanoseconds, for the limit of stops
        :raises BadInput: if *max_stop* is out of range
        :raises BadProcess: if the process cannot be inspected
        """
        process = LiveProcess(process_id, max_stop_ns=_nanoseconds(max_stop), clock=clock)
        try:
            return cls(process, files, nonblocking=nonblocking)
        except BaseException:
            process.close()
            raise

    @property
    def has_asked(self) -> bool:
        """Whether the process was stopped, or read as it ran, for a query. Only then can handles exist."""
        return self._moment is not None

    def close(self) -> None:
        """Detach from the process, and close its files."""
        self.base.close()
        self.process.close()

    @property
    def shortfalls(self) -> Sequence[str]:
        """The reasons why the last answer is incomplete: data that no stop of the process copied."""
        return tuple(self._shortfalls)

    def ask(self, session: _S, question: Callable[[_S], _T], *, may_stop: bool = True) -> _T:
        """Return the result of *question*, which is called with *session*. All its reads are of one moment.

        The session is switched to each moment at which the question runs.

        :param may_stop: whether the process may be stopped; otherwise it is read while it runs
        :raises NotStopped: if the process did not stop within the limit of a stop, and the result cannot carry a
            warning
        """
        first = len(self.process.stops_ns)
        self._shortfalls = []
        result, stop = self._ask(session, question, may_stop=may_stop and not self.nonblocking)
        if not _answers(result):
            return result
        answers = result if isinstance(result, tuple) else (result,)
        own_thread_ids = {str(thread): number for thread, number in self.process.own_thread_ids().items()}
        stops_ns = tuple(self.process.stops_ns[first:])
        target = replace(stop.record, stops_ns=stops_ns, own_thread_ids=own_thread_ids)
        notes = self._notes(stop)
        annotated = tuple(
            replace(
                answer,
                target=target,
                complete=answer.complete and not self._shortfalls,
                warnings=(*self._shortfalls, *answer.warnings, *notes),
            )
            if isinstance(answer, Answer)
            else answer
            for answer in answers
        )
        return cast("_T", annotated if isinstance(result, tuple) else annotated[0])

    def _ask(self, session: _S, question: Callable[[_S], _T], *, may_stop: bool) -> tuple[_T, Stop]:
        self.held_by = self.process.held_by()
        glance = self.process.glance()
        sleeps = None not in glance.asleep.values()
        stop = self._show(session, glance, is_limited=may_stop and not sleeps)
        results: list[_T] = []  # empty, or the one result
        fault: OmpdError | None = None
        try:
            results.append(question(session))
        except OmpdError as error:
            # The error may be no fault of the process: structures that change while they are read may look
            # inconsistent.
            fault = error
        if isinstance(fault, NoAnswer) and not stop.runtimes:
            raise fault  # a stop would not help
        if not may_stop or (glance.confirm() and not glance.lacking):
            glance.settle()
            if fault is not None:
                raise fault
            return results[0], stop
        if self.process.serves_page_faults():
            # To read such a page, the kernel waits for a thread of the process, which a stop would stop, too.
            why = "supplies pages of its own memory (userfaultfd), so that a stop might not end"
            hint = "--nonblocking reads it as it runs"
            return self._ask_unstopped(session, question, BadProcess(self.process.process_id, why, hint=hint))
        try:
            return self._ask_stopped(session, question, glance)
        except NotStopped as error:
            return self._ask_unstopped(session, question, error)

    def repeat(self, session: _S, question: Callable[[_S], _T]) -> _T:
        """Return the result of *question*, which is called with *session*, at one moment. For a query that is repeated
        often.

        There is no rehearsal: a stop copies the pages that the last repetitions read. Sleeping threads are never
        stopped, so that some of their registers are unknown. If the process may not be stopped, it is read while it
        runs. Nothing may be read of the moment of an earlier repetition.

        :raises Unavailable: if no stop copied all that the query reads, or the process did not stop in time
        :raises TargetGone: if the process has ended
        :raises BadProcess: if it executes another program than at the last repetition, or may not be stopped
        """
        self.held_by = self.process.held_by()
        may_stop = not self.nonblocking and not self.process.serves_page_faults()
        needed = set().union(*self._recent)
        for _ in range(_REPEATED_STOPS if may_stop else 1):
            try:
                moment = self.process.stop(needed, light=True) if may_stop else self.process.glance()
            except NotStopped as error:
                # Threads do not stop in a process that ends, or executes another program.
                if self.process.executes_another():
                    raise BadProcess(self.process.process_id, "executes another program") from error
                raise Unavailable(str(error)) from error
            if self._recent and not self._fits(moment) and self.process.executes_another():
                raise BadProcess(self.process.process_id, "executes another program")
            self._show(session, moment)
            try:
                result = question(session)
            except OmpdError:
                if not moment.missed:
                    raise
            else:
                if not moment.missed or not may_stop:
                    self._recent.append(moment.pages_read)
                    moment.settle()
                    return result
            needed |= moment.missed
        raise Unavailable(f"process {self.process.process_id} changes faster than it can be copied")

    def _ask_stopped(self, session: _S, question: Callable[[_S], _T], glance: Moment) -> tuple[_T, Stop]:
        needed, nearby, lacking = set(glance.missed), list(glance.pages_nearby(0)), set(glance.lacking)
        best: Moment | None = None
        stops, deep, has_ended = 0, False, False
        kept: tuple[_T, Moment] | None = None  # a valid answer that may say more after another stop
        while stops < MAX_STOPS:
            try:
                moment = self.process.stop(needed, nearby, lacking=lacking, deep=deep, are_likely=best is not None)
            except (TargetGone, NotStopped) as error:
                if kept is not None:
                    break
                if best is None:
                    raise
                has_ended = isinstance(error, TargetGone)
                break
            stops += 1
            stop = self._show(session, moment, keep=best)
            if not self._fits(moment):
                continue
            try:
                result = question(session)
                if moment.is_whole and (kept is not None or not moment.hoped):
                    moment.settle()
                    return result, stop
                if moment.is_whole:
                    kept, best = (result, moment), moment
                    needed |= moment.hoped
                    continue
            except OmpdError:
                if moment.is_whole:
                    raise
            if best is None or len(moment.missed) <= len(best.missed):
                best = moment
            deep = deep or moment.misses_stacks()
            needed |= moment.missed
            lacking |= moment.lacking
            nearby = [*moment.pages_nearby(stops), *nearby]
        if kept is not None:
            result, moment = kept
            moment.settle()
            return result, self._show(session, moment)
        if best is None:
            raise BadProcess(
                self.process.process_id, f"loaded or unloaded libraries at each of {MAX_STOPS} stops", hint="try again"
            )
        return self._answer_from(session, best, stops, question, has_ended=has_ended)

    def _ask_unstopped(self, session: _S, question: Callable[[_S], _T], error: BadProcess) -> tuple[_T, Stop]:
        # Reads the process as it runs, because it cannot be stopped. Raises *error* if the result cannot carry a
        # warning.
        glance = self.process.glance()
        stop = self._show(session, glance)
        try:
            result = question(session)
        except OmpdError:
            raise error from None
        finally:
            glance.settle()
        if not _answers(result):
            raise error
        if not glance.confirm():
            self._shortfalls.append(f"{error}; it was read as it runs ({error.hint})")
        return result, stop

    def _answer_from(
        self, session: _S, moment: Moment, stops: int, question: Callable[[_S], _T], *, has_ended: bool
    ) -> tuple[_T, Stop]:
        # Answers from one stop that lacks some pages. The gaps are not filled with data of other moments.
        pages, left_out = len(moment.missed), moment.left_out
        times = "one stop" if stops == 1 else f"any of {stops} stops"
        if left_out:
            moment.settle("it was not copied before the process had been stopped as long as it may be", LONGER_STOPS)
        else:
            moment.settle("the program had moved on to it when it was stopped, so that it was not copied", "try again")
        stop = self._show(session, moment)
        result = question(session)
        if left_out:
            self._shortfalls.append(
                f"the process was let go when it had been stopped as long as it may be, with {left_out} pages not yet"
                f" copied, and some of them are needed: what they hold is missing ({LONGER_STOPS})"
            )
        elif has_ended:
            self._shortfalls.append(
                f"the process ended before it could be stopped again: {pages} pages were needed that were not copied in"
                f" {times}, and what they hold is missing"
            )
        else:
            self._shortfalls.append(
                f"the program changes what is asked for faster than it can be copied: {pages} pages were needed that"
                f" were not copied in {times}, and what they hold is missing"
            )
        return result, stop

    def _show(self, session: Session, moment: Moment, *, keep: Moment | None = None, is_limited: bool = False) -> Stop:
        # Switches the session to this moment, and drops the data of earlier moments except *keep*.
        if not self._fits(moment):
            self.base.close()
            self.base = self._look()
        for other in (self._moment, self._best):
            if other is not None and other is not moment and other is not keep:
                other.retire()
        self._moment, self._best = moment, keep
        process = self.base.at_another_stop(moment)
        if is_limited:
            process.memory.limit_reads(_MAX_REHEARSED + _MAX_REHEARSED_PER_THREAD * len(moment.thread_ids()))
        return session.begin_stop(moment, process)

    def _fits(self, moment: Moment) -> bool:
        # Returns whether the files that were read are those mapped at this moment. The program may have loaded a
        # library or called execve since.
        return moment.code_mappings() == self._code

    def _notes(self, stop: Stop) -> list[str]:
        notes = [self.process.note] if self.process.note is not None else []
        number = self.process.process_id
        if self.held_by == "a signal":
            notes.append(f"process {number} does not run: a signal has stopped it (kill -CONT {number} lets it go on)")
        elif self.held_by is not None:
            notes.append(f"process {number} does not run: {self.held_by} holds it")
        if isinstance(stop.target, Moment) and not stop.target.is_stopped:
            notes.append(_NOT_STOPPED)
        elif isinstance(stop.target, Moment):
            unknown, unread = stop.target.unknown_threads(), sorted(stop.target.unread)
            if unknown:
                listed = ", ".join(map(str, unknown))
                notes.append(f"could not be stopped, so that its place is not known: thread {listed}")
            if unread:
                listed = ", ".join(map(str, unread))
                notes.append(f"{_UNREAD}: thread {listed}")
        return notes


def _answers(result: object) -> bool:
    # Returns whether *result* contains answers, which can carry warnings.
    parts = result if isinstance(result, tuple) else (result,)
    return any(isinstance(part, Answer) for part in parts)


def _nanoseconds(milliseconds: float | None) -> int | None:
    if milliseconds is not None and not 0 < milliseconds <= _LONGEST_STOP:
        raise BadInput(f"a stop of {milliseconds:g} ms: it has to be more than 0 and no more than {_LONGEST_STOP:g} ms")
    return int(milliseconds * 1e6) if milliseconds is not None else None
