"""Distributes targets to workers through Python's ``Executor`` protocol, for any engine.

Few targets are submitted at a time, so that a list of a million needs little memory. If a worker dies, all submitted
targets are lost. They are inspected again, one at a time, so that the target that kills workers is found.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import astuple
from typing import Any

from ompd.errors import OmpdError
from ompd.records import record
from ompd.triage.targets import Wanted
from ompd.triage.work import Limits, begin, inspect_target

Result = dict[str, Any]

_IN_FLIGHT = 3  # targets per worker: the current one, and the next ones in its queue
_ATTEMPTS = 2
_MOST_REASON = 200


@record
class Engine:
    """A source of workers."""

    make: Callable[[], Executor]
    """Starts the workers."""
    end: Callable[[Executor], None]
    """Ends the workers at once."""
    workers: int
    """The number of workers."""
    place: Callable[[Wanted], tuple[Wanted, Mapping[str, Any]]] = lambda wanted: (wanted, {})
    """Returns the target under its worker's name for it, and keyword arguments of ``submit`` that choose the worker."""


def local(workers: int | None = None) -> Engine:
    """Return the engine whose workers are processes of this machine.

    :param workers: the number of workers; None for one on each processor that this process may use
    """
    count = workers or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")  # safe, because this process has no other threads yet

    def end(executor: Executor) -> None:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()

    return Engine(lambda: ProcessPoolExecutor(count, mp_context=context, initializer=begin), end, count)


class Inspecting:
    """Lets an engine's workers inspect targets."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
        self._limits = astuple(limits)
        self._flying: dict[Future[Result], Wanted] = {}
        # The targets to inspect again, and how often each target was lost while no other was submitted.
        self._again: deque[Wanted] = deque()
        self._lost: Counter[Wanted] = Counter()
        self._alone: Wanted | None = None
        self._executor: Executor | None = None
        self._is_broken = False

    def results(self, targets: Iterable[Wanted]) -> Iterator[Result]:
        """Yield the result of each target once, as soon as it is ready."""
        waiting = iter(targets)
        try:
            while self._send(waiting):
                done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from self._taken(future, self._flying.pop(future))
        except BaseException:
            if self._executor is not None:
                self._engine.end(self._executor)
            raise
        if self._executor is not None:
            self._executor.shutdown()

    def _send(self, waiting: Iterator[Wanted]) -> bool:
        if not self._flying:
            self._alone = None
            if self._is_broken and self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None
                self._is_broken = False
        while not self._is_broken and len(self._flying) < self._engine.workers * _IN_FLIGHT:
            if self._alone is not None or (self._again and self._flying):
                break
            is_lost = bool(self._again)
            wanted = self._again.popleft() if is_lost else next(waiting, None)
            if wanted is None:
                break
            try:
                if self._executor is None:
                    self._executor = self._engine.make()
                placed, options = self._engine.place(wanted)
                arguments = (wanted.name, placed.name, placed.process_id, self._limits)
                future = self._executor.submit(inspect_target, *arguments, **options)
            except BrokenExecutor:
                self._again.append(wanted)
                self._is_broken = True
                return bool(self._flying) or self._send(waiting)
            except (OSError, RuntimeError) as error:  # no process or no thread can be started
                reason = error.strerror if isinstance(error, OSError) else error
                hint = "raise the limit of processes (ulimit -u), or take fewer --workers"
                raise OmpdError(f"no worker can be started: {reason}", hint=hint) from error
            self._flying[future] = wanted
            self._alone = wanted if is_lost else None
        return bool(self._flying)

    def _taken(self, future: Future[Result], wanted: Wanted) -> Iterator[Result]:
        try:
            result = future.result()
        except Exception as error:  # noqa: BLE001  each engine has its own errors for lost workers
            self._is_broken |= isinstance(error, BrokenExecutor)
            self._lost[wanted] += wanted == self._alone
            if self._lost[wanted] < _ATTEMPTS:
                self._again.append(wanted)
                return
            reason = f"{_ATTEMPTS} workers were lost while they inspected it alone ({type(error).__name__}: {error})"
            identity = wanted.identity()
            result = {
                "target": wanted.name,
                "identity": list(identity) if identity is not None else None,
                "failed": reason[:_MOST_REASON],
            }
        yield result
