"""The answers of a library to OMPD's questions, many of which are asked in one exchange."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.errors import Rc
from ompd.questions.check.ahead import CallQueue
from ompd.questions.check.identities import Identities
from ompd.questions.check.interface import Frames, NativeThread
from ompd.runtimes.hosted.api import Batch, ParallelRef, Pending, Ref, SpaceRef, TaskRef, ThreadRef
from ompd.runtimes.hosted.client import HostedLibrary

_T = TypeVar("_T")
_PREFIX = "ompt_state_"
# How many regions and tasks around a thread are asked for with the thread, and how many in each later exchange.
_NEAR, _FURTHER = 6, 64


class LibraryAnswers:
    """The answers of a library about the process of *space*.

    :param id_size: returns the size of native identifiers of a kind in that process, None for the usual one
    """

    def __init__(
        self, library: HostedLibrary, space: SpaceRef, id_size: Callable[[ThreadIdKind], int | None] = lambda kind: None
    ) -> None:
        self._library = library
        self._space = space
        self._id_size = id_size
        self._calls = CallQueue(library)
        self._call = self._calls.call
        self._identities = Identities(self._calls, id_size)
        # The keys of regions and tasks whose calls are recorded.
        self._expected: set[tuple[Scope, Hashable]] = set()

    def routines(self) -> Mapping[str, str]:
        return dict.fromkeys(sorted(self._library.functions), "there")

    def omp_version(self) -> int:
        return self._call(Batch.get_omp_version, self._space).value()

    def omp_version_string(self) -> str:
        return self._call(Batch.get_omp_version_string, self._space).value()

    def states(self) -> Mapping[int, str]:
        states = self._call(Batch.enumerate_states, self._space).value()
        return {number: name.removeprefix(_PREFIX) for number, name in states.items() if number != State.UNDEFINED}

    def icvs(self) -> Mapping[str, Scope]:
        return {name: scope for name, (_, scope) in self._icvs.items() if isinstance(scope, Scope)}

    def display_control_vars(self) -> Mapping[str, str]:
        pairs = (text.partition("=") for text in self._call(Batch.get_display_control_vars, self._space).value())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def thread(self, kind: ThreadIdKind, identifier: int) -> ThreadRef | None:
        return _or_none(self._thread(kind, identifier))

    def thread_id(self, thread: ThreadRef, kind: ThreadIdKind) -> int:
        return self._call(Batch.get_thread_id, thread, kind, self._id_size(kind)).value()

    def state(self, thread: ThreadRef) -> tuple[int, int | None]:
        state, wait_id = self._call(Batch.get_state, thread).value()
        return state, (wait_id or None) if is_wait(state) else None

    def current_parallel(self, thread: ThreadRef) -> ParallelRef | None:
        return _or_none(self._call(Batch.get_curr_parallel_handle, thread))

    def current_task(self, thread: ThreadRef) -> TaskRef | None:
        return _or_none(self._call(Batch.get_curr_task_handle, thread))

    def enclosing(self, parallel: ParallelRef) -> ParallelRef | None:
        routine = Batch.get_enclosing_parallel_handle
        if not self._calls.has(routine, parallel):
            self._identities.find(Scope.PARALLEL, _made(self._chain(Scope.PARALLEL, parallel, _FURTHER)))
        return _or_none(self._call(routine, parallel))

    def thread_in(self, parallel: ParallelRef, thread_num: int) -> ThreadRef:
        return self._call(Batch.get_thread_in_parallel, parallel, thread_num).value()

    def task_in(self, parallel: ParallelRef, thread_num: int) -> TaskRef:
        return self._call(Batch.get_task_in_parallel, parallel, thread_num).value()

    def generating(self, task: TaskRef) -> TaskRef | None:
        routine = Batch.get_generating_task_handle
        if not self._calls.has(routine, task):
            self._identities.find(Scope.TASK, _made(self._chain(Scope.TASK, task, _FURTHER)))
        return _or_none(self._call(routine, task))

    def scheduling(self, task: TaskRef) -> TaskRef | None:
        return _or_none(self._call(Batch.get_scheduling_task_handle, task))

    def parallel(self, task: TaskRef) -> ParallelRef:
        return self._call(Batch.get_task_parallel_handle, task).value()

    def function(self, task: TaskRef) -> int | None:
        return _or_none(self._call(Batch.get_task_function, task)) or None

    def frames(self, task: TaskRef) -> Frames:
        exit_frame, enter_frame = self._call(Batch.get_task_frame, task).value()
        return Frames(exit_frame.address, enter_frame.address, exit_frame.flag, enter_frame.flag)

    def tool_data(self, scope: Scope, handle: Ref) -> int:
        return self._call(Batch.get_tool_data, handle, scope).value().value % (1 << 64)

    def icv_number(self, name: str, scope: Scope, handle: Ref | None) -> tuple[int, bool]:
        number = self._call(Batch.get_icv_from_scope, *self._variable(name, scope, handle)).value()
        return number.value, number.is_whole

    def icv_text(self, name: str, scope: Scope, handle: Ref | None) -> str:
        return self._call(Batch.get_icv_string_from_scope, *self._variable(name, scope, handle)).value()

    def key(self, scope: Scope, handle: Ref) -> Hashable:
        return self._identities.key(scope, handle)

    # Calls that will be needed

    def expect_threads(self, threads: Sequence[NativeThread]) -> None:
        of_threads = [[self._thread(*each) for each in thread.identifiers()] for thread in threads]
        regions: list[Pending[Any]] = []
        tasks: list[Pending[Any]] = []
        for pending in of_threads:
            for thread in _made(pending)[:1]:
                for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
                    self._call(Batch.get_thread_id, thread, kind, self._id_size(kind))
                self._call(Batch.get_state, thread)
                self._call(Batch.get_tool_data, thread, Scope.THREAD)
                self._expect_variables(Scope.THREAD, thread)
                regions += self._chain(Scope.PARALLEL, self._call(Batch.get_curr_parallel_handle, thread), _NEAR)
                tasks += self._chain(Scope.TASK, self._call(Batch.get_curr_task_handle, thread), _NEAR)
        self.expect(Scope.PARALLEL, _made(regions))
        self.expect(Scope.TASK, _made(tasks))

    def expect(self, scope: Scope, handles: Sequence[Any]) -> None:
        self._identities.find(scope, handles)
        new = [handle for handle in handles if self._is_new(scope, handle)]
        regions: list[Pending[Any]] = []
        tasks: list[Pending[Any]] = []
        for handle in new:
            self._call(Batch.get_tool_data, handle, scope)
            self._expect_variables(scope, handle)
            if scope == Scope.TASK:
                self._call(Batch.get_task_function, handle)
                self._call(Batch.get_task_frame, handle)
                regions.append(self._call(Batch.get_task_parallel_handle, handle))
                tasks.append(self._call(Batch.get_scheduling_task_handle, handle))
        self._find(regions, tasks)

    def expect_members(self, parallel: ParallelRef, thread_nums: Iterable[int]) -> None:
        tasks: list[Pending[Any]] = []
        kind = ThreadIdKind.PTHREAD
        for number in thread_nums:
            thread = self._call(Batch.get_thread_in_parallel, parallel, number)
            self._call(Batch.get_thread_id, thread, kind, self._id_size(kind))
            self._call(Batch.get_curr_parallel_handle, thread)
            tasks.append(self._call(Batch.get_task_in_parallel, parallel, number))
        self._find((), tasks)

    def _find(self, regions: Iterable[Pending[Any]], tasks: Iterable[Pending[Any]]) -> None:
        for scope, pending in ((Scope.PARALLEL, regions), (Scope.TASK, tasks)):
            for each in pending:
                self._identities.expect(scope, each)
            self._identities.find(scope, _made(pending))

    def _is_new(self, scope: Scope, handle: Ref) -> bool:
        key = scope, self._identities.key(scope, handle)
        is_new = key not in self._expected
        self._expected.add(key)
        return is_new

    def _chain(self, scope: Scope, first: Any, steps: int) -> list[Pending[Any]]:
        # Records the calls for the next regions or tasks outwards, and for the facts that distinguish them. Calls
        # beyond the outermost one are skipped, because their handle does not exist.
        is_region = scope == Scope.PARALLEL
        chain = [first]
        for _ in range(steps):
            last = chain[-1]
            if is_region:
                chain.append(self._call(Batch.get_enclosing_parallel_handle, last))
            else:
                chain.append(self._call(Batch.get_generating_task_handle, last))
        for handle in chain:
            self._identities.expect(scope, handle)
        return [handle for handle in chain if isinstance(handle, Pending)]

    def _thread(self, kind: ThreadIdKind, identifier: int) -> Pending[ThreadRef]:
        return self._call(Batch.get_thread_handle, self._space, kind, identifier, self._id_size(kind))

    def _variable(self, name: str, scope: Scope, handle: Ref | None) -> tuple[Ref, Scope, int]:
        whose = self._space if handle is None else handle
        number, own = self._icvs[name]
        if own == scope and not self._calls.has(Batch.get_icv_from_scope, whose, scope, number):
            self._expect_variables(scope, whose)
        return whose, scope, number

    def _expect_variables(self, scope: Scope, whose: Ref) -> None:
        for number, own in self._icvs.values():
            if own == scope:
                self._call(Batch.get_icv_from_scope, whose, scope, number)
                self._call(Batch.get_icv_string_from_scope, whose, scope, number)

    @cached_property
    def _icvs(self) -> Mapping[str, tuple[int, Scope | int]]:
        # If a name occurs twice, the first variable counts.
        variables = self._call(Batch.enumerate_icvs, self._space).value()
        return {variable.name: (variable.number, variable.scope) for variable in reversed(variables)}


def _made(pending: Iterable[Pending[Any]]) -> list[Any]:
    # The results of the calls that succeeded.
    return [call.value() for call in pending if call.error() is None]


def _or_none(pending: Pending[_T]) -> _T | None:
    # ompd_rc_unavailable means that there is none.
    error = pending.error()
    if error is not None and error.rc == Rc.UNAVAILABLE:
        return None
    return pending.value()
