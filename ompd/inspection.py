"""A session with its questions as methods: what the front door hands out."""

from __future__ import annotations

from ompd.model import Answer, ParallelRecord, RuntimeRecord, ThreadRecord
from ompd.questions import regions, runtimes, threads
from ompd.session import Session


class Inspection(Session):
    """A stopped program and the questions that can be asked of it. Each answers with frozen records."""

    def ask_runtimes(self) -> Answer[RuntimeRecord]:
        """Return every OpenMP runtime of the process."""
        return runtimes.ask(self)

    def ask_threads(self) -> Answer[ThreadRecord]:
        """Return one row for each thread of the process.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return threads.ask(self)

    def ask_parallel(self) -> Answer[ParallelRecord]:
        """Return the parallel regions that are being executed, enclosing ones before those they enclose.

        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return regions.ask(self)
