"""A session that has the queries as methods. The functions of :mod:`ompd` return it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from ompd.errors import Unavailable
from ompd.model import (
    Answer,
    CheckAnswer,
    DiffAnswer,
    DoctorAnswer,
    IcvRecord,
    ParallelRecord,
    ProfileAnswer,
    RuntimeRecord,
    SnapshotRecord,
    StackRecord,
    TaskRecord,
    ThreadRecord,
    VariableAnswer,
    WhyAnswer,
    texts,
)
from ompd.questions import diff, doctor, icvs, regions, runtimes, snapshot, stacks, tasks, threads, variables, why
from ompd.session import Session
from ompd.session.waiting import INTERVAL, SECONDS, STABLE, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

_Answer = TypeVar("_Answer", bound=Answer[Any])
_T = TypeVar("_T")
# Deprecated names, which `dir` leaves out.
_OLD = frozenset(("ask_variable",))
_QUERIES = re.compile("ask(_[a-z]+)?")
_SHORT = ("diff", "doctor", "icvs", "parallel", "profile", "stack", "tasks", "threads", "var", "why")
_PUBLIC = (*_SHORT, "close", "process", "runtimes", "snapshot", "wait_until")


class Inspection(Session):
    """A stopped program, with queries as methods. Each query returns frozen records (:mod:`ompd.model`)."""

    _running_methods: tuple[str, ...] = ()
    """The names of the methods that run the program. Only some kinds of sessions have such methods."""

    def __dir__(self) -> list[str]:
        """Return the names that docs/api.md documents as public."""
        queries = {name for name in dir(type(self)) if _QUERIES.fullmatch(name)} - _OLD
        return sorted(queries | {*_PUBLIC, *self._running_methods})

    def __repr__(self) -> str:
        """Return a text with the target's name."""
        text = f"session on {self.target.name}" + ("" if self._is_open else ", closed")
        return f"<{repr(text)[1:-1]}>"

    def ask_runtimes(self) -> Answer[RuntimeRecord]:
        """Return the OpenMP runtimes of the process."""
        return _answer_of("runtimes", self.ask(runtimes.ask))

    def ask_threads(self, *, fold: bool = False) -> Answer[ThreadRecord]:
        """Return one row for each thread of the process.

        :param fold: group equal threads in one row
        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return _answer_of("threads", self.ask(lambda session: threads.ask(session, fold=fold)))

    def ask_why(self, samples: int = 2, interval: float = 0.5) -> WhyAnswer:
        """Return the reasons why threads are blocked, the most important one first, and the wait-for graph.

        :param samples: how often to sample a live process, which runs between two samples
        :param interval: seconds between two samples
        :raises BadInput: if *samples* or *interval* is out of range
        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        earlier = why.look_before(self, samples, interval)
        may_stop = earlier is None or earlier.may_stop
        return _answer_of("why", self.ask(lambda session: why.ask(session, earlier), may_stop=may_stop))

    def ask_parallel(self) -> Answer[ParallelRecord]:
        """Return the active parallel regions, enclosing regions before enclosed ones.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return _answer_of("parallel", self.ask(regions.ask))

    def ask_tasks(self) -> Answer[TaskRecord]:
        """Return the tasks, each after the task that generated it.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return _answer_of("tasks", self.ask(tasks.ask))

    def ask_stacks(
        self, *, raw: bool = False, fold: bool = False, thread: int | None = None, locals: bool = False
    ) -> Answer[StackRecord]:
        """Return the source-level stack of each thread. After a worker's own frames come those of the thread that
        started the region.

        :param raw: return all frames of each thread's own stack instead
        :param fold: group threads with equal stacks in one row
        :param thread: return only the thread with this native id or, if there is none, threads with this thread number
        :param locals: add the variables in frames of the user's functions
        :raises BadInput: if there is no such thread
        :raises NoAnswer: if the target has no threads
        """
        return _answer_of(
            "stack",
            self.ask(lambda session: stacks.ask(session, raw=raw, fold=fold, thread=thread, locals=locals)),
        )

    def ask_icvs(self) -> Answer[IcvRecord]:
        """Return each internal control variable, for each handle of the variable's scope.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return _answer_of("icvs", self.ask(icvs.ask))

    def ask_diff(self, earlier: Inspection) -> DiffAnswer:
        """Return the differences between *earlier*, a session on another core or process, and this session.

        :raises NoAnswer: if one of the two has no readable OpenMP runtime
        """
        return diff.ask(self, earlier)

    def ask_profile(self, seconds: float = 20.0, *, rate: float = 20.0) -> ProfileAnswer:
        """Return where the time of the threads of a running process goes, and the causes of lost time.

        :param seconds: how long to look at the process, which runs meanwhile; Ctrl-C ends it earlier
        :param rate: the most looks per second. If a look costs too much, there are fewer.
        :raises BadInput: if *seconds* or *rate* is out of range
        :raises NoAnswer: if no OpenMP runtime of the process can be read
        :raises TargetGone: if the process ended before the first look
        :raises Unsupported: if the target is not a live process
        """
        from ompd.questions import profile

        return _answer_of("profile", profile.ask(self, seconds=seconds, rate=rate))

    def ask_doctor(self) -> DoctorAnswer:
        """Return the limits of answers on this target and the risks of the process, each with a remedy."""
        earlier = doctor.supply.look_before(self)
        return _answer_of("doctor", self.ask(lambda session: doctor.ask(session, earlier)))

    def ask_check(self) -> CheckAnswer:
        """Return the differences between the session's OMPD library and ompd's own plugin. A difference that is known
        has its explanation.

        :raises NoAnswer: if no OMPD library reads a runtime of the program, or ompd has no plugin for that runtime
        """
        from ompd.questions.check import answering

        return _answer_of("check", self.ask(answering.ask))

    def ask_var(
        self, name: str, *, format: str | None = None, stats: bool = False, elements: int | None = None
    ) -> VariableAnswer:
        """Return a variable, or a part of a variable, in each thread.

        :param name: its name in the source, qualified if needed: ``x``, ``file.c::x``, ``ns::x``, ``function::x``,
            ``/block/member``, ``x.member[2]``
        :param format: one of gdb's letters (x d u o t c f s a z) for the text
        :param stats: compute the answer's ``stats``
        :param elements: maximum number of array elements or string characters to show; 200 if None
        :raises NoAnswer: if there is no such variable, or more than one
        :raises BadInput: if the variable has no such part
        """
        return _answer_of(
            "var",
            self.ask(lambda session: variables.ask(session, name, format=format, stats=stats, elements=elements)),
        )

    # The names of the commands, for sessions at a prompt.
    threads, why, parallel, tasks = ask_threads, ask_why, ask_parallel, ask_tasks
    stack, icvs, diff, doctor, var = ask_stacks, ask_icvs, ask_diff, ask_doctor, ask_var
    profile = ask_profile

    def ask_variable(
        self, name: str, *, format: str | None = None, stats: bool = False, elements: int | None = None
    ) -> VariableAnswer:
        """Return the result of :meth:`ask_var`. This old name is deprecated and will be removed."""
        warnings.warn("ask_variable() is now ask_var()", DeprecationWarning, stacklevel=2)
        return self.ask_var(name, format=format, stats=stats, elements=elements)

    def snapshot(
        self,
        path: str | PathLike[str],
        *,
        data_limit: int = snapshot.DATA_LIMIT,
        keep_environment: bool = False,
        keep_source: bool = False,
    ) -> SnapshotRecord:
        """Write a small ELF core to *path*, with the memory and the parts of the modules' files that queries read.

        :param data_limit: most bytes of writable data to keep of each of the user's modules
        :param keep_environment: keep the whole environment and the folders in arguments, not only OpenMP's variables
        :param keep_source: keep some lines of source around the places of threads, tasks and verdicts
        :raises BadFile: if *path* cannot be written
        """
        return snapshot.take_snapshot(
            self, path, data_limit=data_limit, keep_environment=keep_environment, keep_source=keep_source
        )

    def wait_until(
        self,
        predicate: Callable[[Self], _T],
        *,
        stable: int = STABLE,
        interval: float = INTERVAL,
        seconds: float = SECONDS,
    ) -> _T:
        """Return the result of *predicate*, called with this session, after it was true *stable* times in a row.

        The process runs between two calls. All reads in one call are of one moment. A call without an answer (no
        runtime is loaded yet, or the process did not stop in time) counts as false.

        :param interval: seconds that the process runs between two calls
        :param seconds: longest wait in all
        :raises BadInput: if a number is out of range
        :raises TargetGone: if the program ended
        :raises TimeLimit: if *seconds* have passed
        :raises Unavailable: if *predicate* is false for a core file, which never changes
        """
        return wait_until(self, predicate, self._let_run, stable=stable, interval=interval, seconds=seconds)

    def _let_run(self, seconds: float) -> None:
        # Return after the process has run for *seconds*. A live process runs between queries in any case.
        if self.target.kind == "core":
            raise Unavailable("a core file does not change, and what is waited for is not so in it")
        if self.target.kind == "gdb":
            raise Unavailable("gdb runs the process, not this session: what is waited for is not so at this stop")
        time.sleep(seconds)


def _answer_of(query: str, answer: _Answer) -> _Answer:
    return replace(answer, query=query)


def _text_of(answer: Answer[Any]) -> str:
    from io import StringIO

    from ompd.commands.loading import load
    from ompd.commands.table import COMMANDS
    from ompd.render.terminal import make_console

    command = next((row for row in COMMANDS if row.name == answer.query), None)
    if command is None:
        return repr(answer)
    text = StringIO()
    load(command.printer)(make_console("never", file=text), answer, unfold=False, verbose=False)
    return text.getvalue().rstrip("\n")


texts.formatter = _text_of
