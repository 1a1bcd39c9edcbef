"""Asking a live process: rehearse the question while it runs, stop it, copy what the answer reads, let it go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from ompd.debugger.files import Progress
from ompd.debugger.inspected import InspectedProcess
from ompd.debugger.targets.live import LiveProcess, Moment
from ompd.debugger.targets.live_files import LiveFiles
from ompd.errors import OmpdError, TargetGone
from ompd.model import Answer

if TYPE_CHECKING:
    from typing_extensions import Self

    from ompd.session import Session

# After so many short stops the process is held until the answer is complete: a program that makes tasks and regions all
# the time may have other structures at each stop, and these at other places.
MAX_SHORT_STOPS = 3
_NOT_STOPPED = "the process was not stopped: what this tells of different threads may be of different moments"

_T = TypeVar("_T")


class Stopper:
    """The stops of one session on a live process.

    :param exe: the program's file, if the user named one
    :param nonblocking: whether the process is read as it runs, and never stopped
    """

    def __init__(
        self,
        process: LiveProcess,
        *,
        exe: str | None = None,
        sysroot: str | None = None,
        debug_dirs: Sequence[str] = (),
        debuginfod: bool = False,
        progress: Progress | None = None,
        nonblocking: bool = False,
    ) -> None:
        self.process = process
        self._exe, self._sysroot, self._debug_dirs = exe, sysroot, debug_dirs
        self._debuginfod, self._progress = debuginfod, progress
        self._nonblocking = nonblocking
        self._moment: Moment | None = None
        # What files tell is read once, before the first stop, and belongs to no moment.
        self._base = self._look()

    def _look(self) -> InspectedProcess:
        self.process.refresh()
        self.target = self.process.surface()
        self.files = LiveFiles(
            self.process.process_id,
            self.target.mappings(),
            self.process.auxiliary_vector,
            self._sysroot,
            self._debug_dirs,
            debuginfod=self._debuginfod,
            progress=self._progress,
        )
        self._code = self.target.code_mappings()
        return InspectedProcess(self.target, self.files, self._exe)

    @classmethod
    def attach(
        cls,
        process_id: int,
        *,
        exe: str | None = None,
        sysroot: str | None = None,
        debug_dirs: Sequence[str] = (),
        debuginfod: bool = False,
        progress: Progress | None = None,
        nonblocking: bool = False,
    ) -> Self:
        """Return the stopper of the process with that number. It runs on.

        :raises BadProcess: if it cannot be looked into
        """
        process = LiveProcess(process_id)
        try:
            return cls(
                process,
                exe=exe,
                sysroot=sysroot,
                debug_dirs=debug_dirs,
                debuginfod=debuginfod,
                progress=progress,
                nonblocking=nonblocking,
            )
        except BaseException:
            process.close()
            raise

    @property
    def has_asked(self) -> bool:
        """Whether there was a stop, or a glance, of which handles may be."""
        return self._moment is not None

    @property
    def base(self) -> InspectedProcess:
        """The process as its files tell it."""
        return self._base

    def close(self) -> None:
        """Let go of the process and of its files."""
        self._base.close()
        self.process.close()

    def ask(self, session: Session, question: Callable[[], _T]) -> _T:
        """Return what *question* answers when all that it reads of *session* is of one moment."""
        first = len(self.process.stops_ns)
        result = self._ask(session, question)
        answers = result if isinstance(result, tuple) else (result,)
        if not any(isinstance(answer, Answer) for answer in answers):
            return result
        own = {str(thread): number for thread, number in self.process.own_thread_ids().items()}
        target = replace(session.record, stops_ns=tuple(self.process.stops_ns[first:]), own_thread_ids=own)
        notes = self._notes(session)
        told = tuple(
            replace(answer, target=target, warnings=(*answer.warnings, *notes))
            if isinstance(answer, Answer)
            else answer
            for answer in answers
        )
        return cast("_T", told if isinstance(result, tuple) else told[0])

    def _ask(self, session: Session, question: Callable[[], _T]) -> _T:
        glance = self._show(session, self.process.glance())
        if self._nonblocking:
            try:
                return question()
            finally:
                glance.settle()
        with suppress(OmpdError):  # what is read as it changes may contradict itself, which tells nothing
            question()
        wanted = glance.pages_to_copy()
        answered: list[_T] = []
        for _ in range(MAX_SHORT_STOPS):
            try:
                moment = self._show(session, self.process.stop(wanted))
            except TargetGone:
                if answered:
                    return answered[-1]  # what could not be read makes it incomplete, and it says so
                raise
            if not self._fits(moment):
                continue
            try:
                answered.append(question())
            except OmpdError:
                if not moment.missed:
                    raise
            if not moment.missed:
                moment.settle()
                return answered[-1]
            wanted |= moment.pages_to_copy()
        with self.process.held(wanted) as moment:
            self._show(session, moment)
            result = question()
        moment.settle()
        return result

    def _show(self, session: Session, moment: Moment) -> Moment:
        # From here on the session is of this moment.
        if not self._fits(moment):
            self._base.close()
            self._base = self._look()
            session.owners.clear()
        if self._moment is not None:
            self._moment.retire()
        self._moment = moment
        session.begin_stop(moment, self._base.at_another_stop(moment))
        return moment

    def _fits(self, moment: Moment) -> bool:
        # Whether what is known of the files is of those that are mapped at this moment: the program may have loaded a
        # library since, or have become another program.
        return moment.code_mappings() == self._code

    def _notes(self, session: Session) -> list[str]:
        notes = [self.process.note] if self.process.note is not None else []
        if self._nonblocking:
            notes.append(_NOT_STOPPED)
        elif isinstance(session.target, Moment):
            threads = session.target.unstopped_threads()
            if threads:
                listed = ", ".join(map(str, threads))
                notes.append(f"asleep in the kernel, so that all registers could not be read: thread {listed}")
        return notes
