"""A library's own answers to OMPD's questions: one call for each, and what its refusals are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.errors import OmpdError, Rc
from ompd.questions.check.interface import Frames
from ompd.runtimes.hosted.api import Batch, IcvWord, ParallelRef, Pending, Ref, SpaceRef, TaskRef, ThreadRef
from ompd.runtimes.hosted.client import HostedLibrary

_T = TypeVar("_T")
_PREFIX = "ompt_state_"
# Each new handle is compared with those of which nothing else tells it.
_MAX_ALIKE = 1 << 13
_Variables = Mapping[str, tuple[Pending[IcvWord], Pending[str]]]


class OfLibrary:
    """The answers of a library about the process for which *space* was made.

    :param id_size: returns the size of native identifiers of a kind in that process, None for the usual one
    """

    def __init__(
        self, library: HostedLibrary, space: SpaceRef, id_size: Callable[[ThreadIdKind], int | None] = lambda kind: None
    ) -> None:
        self._library, self._space, self._id_size = library, space, id_size
        # Handles that were seen, in groups of which each has those that may be of the same thing.
        self._seen: dict[tuple[Scope, Hashable], list[Ref]] = {}
        # The variables of the handle that was asked of last.
        self._last: tuple[tuple[Scope, int], _Variables] | None = None

    def routines(self) -> Mapping[str, str]:
        return dict.fromkeys(sorted(self._library.functions), "there")

    def omp_version(self) -> int:
        return self._library.batch().get_omp_version(self._space).value()

    def omp_version_string(self) -> str:
        return self._library.batch().get_omp_version_string(self._space).value()

    def states(self) -> Mapping[int, str]:
        states = self._library.batch().enumerate_states(self._space).value()
        return {number: name.removeprefix(_PREFIX) for number, name in states.items() if number != State.UNDEFINED}

    def icvs(self) -> Mapping[str, Scope]:
        return {name: scope for name, (_, scope) in self._icvs.items() if isinstance(scope, Scope)}

    def display_control_vars(self) -> Mapping[str, str]:
        pairs = (text.partition("=") for text in self._library.batch().get_display_control_vars(self._space).value())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def thread(self, kind: ThreadIdKind, identifier: int) -> ThreadRef | None:
        return _or_none(self._library.batch().get_thread_handle(self._space, kind, identifier, self._id_size(kind)))

    def thread_id(self, thread: ThreadRef, kind: ThreadIdKind) -> int:
        return self._library.batch().get_thread_id(thread, kind, self._id_size(kind)).value()

    def state(self, thread: ThreadRef) -> tuple[int, int | None]:
        state, wait_id = self._library.batch().get_state(thread).value()
        return state, (wait_id or None) if is_wait(state) else None

    def current_parallel(self, thread: ThreadRef) -> ParallelRef | None:
        return _or_none(self._library.batch().get_curr_parallel_handle(thread))

    def current_task(self, thread: ThreadRef) -> TaskRef | None:
        return _or_none(self._library.batch().get_curr_task_handle(thread))

    def enclosing(self, parallel: ParallelRef) -> ParallelRef | None:
        return _or_none(self._library.batch().get_enclosing_parallel_handle(parallel))

    def thread_in(self, parallel: ParallelRef, thread_num: int) -> ThreadRef:
        return self._library.batch().get_thread_in_parallel(parallel, thread_num).value()

    def task_in(self, parallel: ParallelRef, thread_num: int) -> TaskRef:
        return self._library.batch().get_task_in_parallel(parallel, thread_num).value()

    def generating(self, task: TaskRef) -> TaskRef | None:
        return _or_none(self._library.batch().get_generating_task_handle(task))

    def scheduling(self, task: TaskRef) -> TaskRef | None:
        return _or_none(self._library.batch().get_scheduling_task_handle(task))

    def parallel(self, task: TaskRef) -> ParallelRef:
        return self._library.batch().get_task_parallel_handle(task).value()

    def function(self, task: TaskRef) -> int | None:
        return _or_none(self._library.batch().get_task_function(task)) or None

    def frames(self, task: TaskRef) -> Frames:
        exit_frame, enter_frame = self._library.batch().get_task_frame(task).value()
        return Frames(exit_frame.address, enter_frame.address, exit_frame.flag, enter_frame.flag)

    def tool_data(self, scope: Scope, handle: Ref) -> int:
        return self._library.batch().get_tool_data(handle, scope).value().value % (1 << 64)

    def icv_number(self, name: str, scope: Scope, handle: Ref | None) -> tuple[int, bool]:
        found = self._variable(name, scope, handle)[0].value()
        return found.value, found.is_whole

    def icv_text(self, name: str, scope: Scope, handle: Ref | None) -> str:
        return self._variable(name, scope, handle)[1].value()

    def _variable(self, name: str, scope: Scope, handle: Ref | None) -> tuple[Pending[IcvWord], Pending[str]]:
        found = self._variables(scope, handle).get(name)
        if found is None:
            # The library has it with handles of another scope.
            found = self._asked(self._library.batch(), scope, handle, self._icvs[name][0])
        return found

    def _variables(self, scope: Scope, handle: Ref | None) -> _Variables:
        # Of one handle all are asked for in one exchange, and of the address space some of a wrong scope, too.
        whose = self._space if handle is None else handle
        key = scope, whose.number
        if self._last is None or self._last[0] != key:
            batch = self._library.batch()
            scopes = (scope,) if handle is not None else (scope, Scope.PARALLEL)
            numbers = {name: number for name, (number, own) in self._icvs.items() if own in scopes}
            self._last = (
                key,
                {name: self._asked(batch, scope, handle, number) for name, number in numbers.items()},
            )
        return self._last[1]

    def _asked(
        self, batch: Batch, scope: Scope, handle: Ref | None, number: int
    ) -> tuple[Pending[IcvWord], Pending[str]]:
        whose = self._space if handle is None else handle
        return batch.get_icv_from_scope(whose, scope, number), batch.get_icv_string_from_scope(whose, scope, number)

    def key(self, scope: Scope, handle: Ref) -> Hashable:
        if scope == Scope.THREAD:
            kind = ThreadIdKind.PTHREAD
            own = self._library.batch().get_thread_id(handle, kind, self._id_size(kind))  # type: ignore[arg-type]
            if own.error() is None:
                return own.value()
        group = self._seen.setdefault((scope, self._group(scope, handle)), [])
        if len(group) >= _MAX_ALIKE:
            raise OmpdError(f"{self._library.name}: more than {_MAX_ALIKE} handles that differ in nothing else")
        batch = self._library.batch()
        results = [_compare(batch, scope, handle, other) for other in group]
        for other, result in zip(group, results, strict=True):
            if result.error() is None and result.value() == 0:
                return other.number
        group.append(handle)
        return handle.number

    def _group(self, scope: Scope, handle: Ref) -> Hashable:
        # What is equal for handles of one and the same task or region, so that fewer have to be compared.
        batch = self._library.batch()
        asked: Pending[Any] = (
            batch.get_task_frame(handle) if scope == Scope.TASK else batch.get_tool_data(handle, scope)  # type: ignore[arg-type]
        )
        return asked.value() if asked.error() is None else None

    @cached_property
    def _icvs(self) -> Mapping[str, tuple[int, Scope | int]]:
        # Of a name that is there twice the first one counts.
        found = self._library.batch().enumerate_icvs(self._space).value()
        return {each.name: (each.number, each.scope) for each in reversed(found)}


def _compare(batch: Batch, scope: Scope, one: Any, other: Any) -> Pending[int]:
    if scope == Scope.THREAD:
        return batch.thread_handle_compare(one, other)
    if scope == Scope.PARALLEL:
        return batch.parallel_handle_compare(one, other)
    return batch.task_handle_compare(one, other)


def _or_none(pending: Pending[_T]) -> _T | None:
    # The standard has one code for "there is none".
    error = pending.error()
    if error is not None and error.rc == Rc.UNAVAILABLE:
        return None
    return pending.value()
