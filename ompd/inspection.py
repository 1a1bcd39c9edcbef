"""A session with its questions as methods: what the front door hands out."""

from __future__ import annotations

from ompd.model import Answer, IcvRecord, ParallelRecord, RuntimeRecord, TaskRecord, ThreadRecord
from ompd.questions import icvs, regions, runtimes, tasks, threads
from ompd.session import Session


class Inspection(Session):
    """A stopped program and the questions that can be asked of it. Each answers with frozen records."""

    def ask_runtimes(self) -> Answer[RuntimeRecord]:
        """Return every OpenMP runtime of the process."""
        return self.ask(runtimes.ask)

    def ask_threads(self) -> Answer[ThreadRecord]:
        """Return one row for each thread of the process.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return self.ask(threads.ask)

    def ask_parallel(self) -> Answer[ParallelRecord]:
        """Return the parallel regions that are being executed, enclosing ones before those they enclose.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return self.ask(regions.ask)

    def ask_tasks(self) -> Answer[TaskRecord]:
        """Return the tasks that exist, each after the one that generated it.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return self.ask(tasks.ask)

    def ask_icvs(self) -> Answer[IcvRecord]:
        """Return each internal control variable for each handle of its scope.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return self.ask(icvs.ask)
