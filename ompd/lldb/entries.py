"""Events of runtimes without places for events (``ompd_bp_*``), such as libgomp and libomp without symbols.

A region begins at a call of the runtime's entry point for regions, and ends when that call returns.

A runtime also calls its own entry points, by direct calls in its code. Such calls are no events. By pointers a runtime
calls code of the user, which may jump on to an entry point. A thread of the runtime begins in the function that is
passed to ``pthread_create``. It ends when that function returns or calls ``pthread_exit``.

Two kinds of events cannot be seen: tasks, which a runtime begins by itself, and the moment when it registers a thread
that it did not create.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.lldb.run import Hit, LldbRun, RuntimeModule
from ompd.naming import routine_name

PARALLEL, THREAD = ("parallel_begin", "parallel_end"), ("thread_begin", "thread_end")

# Entry points that run a whole region, that begin a region, and that end a region. GCC until 4.8 wrote calls of the
# pairs; clang does so for regions of one thread.
_WHOLE = re.compile(r"GOMP_parallel(?:_loop_\w+(?<!_start)|_sections|_reductions)?|__kmpc_fork_call(?:_if)?")
_OPENING = re.compile(r"GOMP_parallel(?:_loop_\w+|_sections)?_start|__kmpc_serialized_parallel")
_CLOSING = re.compile(r"GOMP_parallel_end|__kmpc_end_serialized_parallel")

_CALL, _CREATE, _EXIT, _WORKER, _RETURN = "call of a runtime", "pthread_create", "pthread_exit", "a worker", "a return"
MARKS = frozenset((_CALL, _CREATE, _EXIT, _WORKER, _RETURN))
"""Names of places that are not events themselves."""


class _Call(NamedTuple):
    # A call that has not returned yet: its thread, its return address, and the stack pointer after the return.
    thread: int
    back: int
    stack: int


class EntryEvents:
    """The events of those runtimes in a process that have no places for events."""

    def __init__(self, run: LldbRun) -> None:
        self._run = run
        self._kinds: dict[int, re.Pattern[str]] = {}  # patterns of entry points, by address
        self._workers: set[int] = set()  # addresses of functions in which workers begin
        self._regions: set[_Call] = set()
        self._threads: set[_Call] = set()
        self._noted_stop: int | None = None  # the stop up to which calls were noted

    def places(self, runtime: RuntimeModule, wanted: Sequence[str]) -> Iterator[tuple[str, object]]:
        """Yield breakpoints for the *wanted* events of a runtime, with names for :meth:`events`."""
        run = self._run
        if set(wanted) & set(PARALLEL):
            for symbol, address in run.functions(runtime.module):
                name = routine_name(symbol)
                kind = next((kind for kind in (_WHOLE, _OPENING, _CLOSING) if kind.fullmatch(name)), None)
                if kind is not None:
                    self._kinds.setdefault(address, kind)
            yield from ((_CALL, run.at_address(address)) for address in self._kinds)
        if set(wanted) & set(THREAD):
            for name in (_CREATE, _EXIT):
                yield from ((name, run.at_address(address)) for address in run.functions_called(name))
            yield from ((_WORKER, run.at_address(address)) for address in self._workers)

    def returns(self, process: StoppedProcess, wanted: Sequence[str]) -> Iterator[tuple[str, object]]:
        """Yield breakpoints at which the current regions and threads end, for the *wanted* events."""
        if self._noted_stop != self._run.stop_id:
            self._find_calls(process)
        calls = self._regions if set(wanted) & set(PARALLEL) else set()
        if "thread_end" in wanted:
            calls = calls | self._threads
        yield from ((_RETURN, self._run.at_address(address)) for address in {call.back for call in calls})

    def _find_calls(self, process: StoppedProcess) -> None:
        # Find the calls that have not returned yet on the stacks, because the program has run unobserved since the last
        # stop.
        self._regions, self._threads = set(), set()
        for thread in process.threads.ids():
            frames = list(process.stacks.stack(thread).frames)
            outermost: _Call | None = None
            for frame, caller in pairwise(frames):
                if frame.cfa is None:
                    continue
                call = _Call(thread, caller.pc, frame.cfa)
                kind = self._kinds.get(frame.function_start) if frame.function_start is not None else None
                if kind in (_WHOLE, _CLOSING) and not self._is_own(caller.pc):
                    self._regions.add(call)
                is_inside, is_callers = map(self._run.is_in_runtime, (frame.call_site, caller.call_site))
                if is_inside and not is_callers and not self._run.is_in_program(caller.call_site):
                    outermost = call
            if outermost is not None and not self._run.is_in_program(outermost.back):
                self._threads.add(outermost)

    def _is_own(self, back: int) -> bool:
        # Return whether a runtime calls its own entry point before this return address, directly or by its linkage
        # table.
        if not self._run.is_in_runtime(back - 1):
            return False
        call = self._run.read(back - 6, 6)
        is_direct, is_by_linkage_table = call[1:2] == b"\xe8", call[:2] == b"\xff\x15"
        return is_direct or is_by_linkage_table

    def events(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the events of *hits*, and note the calls that have begun and ended."""
        events: list[Hit] = []
        for mark, thread in hits:
            if mark in MARKS:
                events += [(name, thread) for name in self._events(mark, thread)]
        self._noted_stop = self._run.stop_id
        return events

    def _events(self, mark: str, thread: int) -> Iterator[str]:
        top = self._run.top(thread)
        call = _Call(thread, top.back, top.stack + self._run.pointer_size)
        if mark == _CALL and not self._is_own(top.back):
            kind = self._kinds.get(top.pc)
            if kind in (_WHOLE, _CLOSING):
                self._regions.add(call)
            if kind in (_WHOLE, _OPENING):
                yield "parallel_begin"
        elif mark == _RETURN:
            returned = _Call(thread, top.pc, top.stack)
            if returned in self._regions:
                self._regions.remove(returned)
                yield "parallel_end"
            if returned in self._threads:
                self._threads.remove(returned)
                yield "thread_end"
        elif mark == _CREATE and self._run.is_in_runtime(top.back - 1):
            self._workers.add(top.third_argument)
        elif mark == _WORKER:
            self._threads.add(call)
            yield "thread_begin"
        elif mark == _EXIT and self._run.is_in_runtime(top.back - 1):
            self._threads = {other for other in self._threads if other.thread != thread}
            yield "thread_end"
