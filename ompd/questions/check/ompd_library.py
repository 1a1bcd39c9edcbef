"""A library's answers to OMPD's questions. Many questions are asked in one exchange.

The library runs in a process of its own, and an exchange with the process costs more than a call. So
:class:`CallQueue` records the calls that will be needed, and the first request for a result sends all of them::

    calls = CallQueue(library)
    states = [calls.call(Batch.get_state, thread) for thread in threads]
    states[0].value()  # sends all

Recorded calls make an answer faster, and never change it.

:class:`Identities` finds out which handles are of the same thread, region or task. Handles are opaque, and each call
makes new ones. OMPD compares only two handles at a time, so a thousand handles would need half a million calls. Most
handles need one call, because another fact (an identifier, a frame) distinguishes their entity from all others.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.errors import OmpdError, Rc
from ompd.questions.check.plugin import Frames, NativeThread
from ompd.runtimes.hosted.api import Batch, ParallelRef, Pending, Ref, SpaceRef, TaskRef, ThreadRef
from ompd.runtimes.hosted.client import HostedLibrary

_P = ParamSpec("_P")
_T = TypeVar("_T")
_OMPT_STATE = "ompt_state_"
# How many results are kept. If a dropped result is needed again, the call is made again.
_MOST_KEPT = 1 << 15
# How many regions and tasks around a thread are asked for together with the thread, and how many in a later exchange.
_NEAR, _FURTHER = 6, 64

_COMPARE: Mapping[Scope, Callable[..., Pending[int]]] = {
    Scope.THREAD: Batch.thread_handle_compare,
    Scope.PARALLEL: Batch.parallel_handle_compare,
    Scope.TASK: Batch.task_handle_compare,
}
# The limit for entities of one group, that is, entities that no other fact distinguishes.
_MAX_ALIKE = 1 << 13
# How many handles of a group are compared with the rest of the group, by round; the last number holds for all further
# rounds. Often most handles of a group belong to one entity, which the single handle of the first round finds.
# At most _MAX_COMPARED comparisons are sent together.
_CANDIDATES = (1, 8, 64)
_MAX_COMPARED = 1 << 14
# A group of more than _MANY handles is split: its handles are compared with _PIVOTS of them, and handles with different
# results are of different entities. The standard demands an order of handles, so handles of one entity have the same
# results.
_MANY, _PIVOTS = 64, 32

_Group = tuple[Hashable, ...]
_Part = tuple[_Group, list[Ref]]


class CallQueue:
    """The calls of one library. The same call is made only once, as long as its result is kept."""

    def __init__(self, library: HostedLibrary) -> None:
        self.client = library
        self._batch = library.batch()
        self._kept: OrderedDict[tuple[Any, ...], Pending[Any]] = OrderedDict()

    def call(
        self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **named: _P.kwargs
    ) -> Pending[_T]:
        """Record a call, and return its pending result.

        :param routine: a method of :class:`Batch`
        """
        key = routine, *map(_number, arguments)
        pending = self._kept.get(key)
        if pending is None:
            pending = self._kept[key] = routine(self._batch, *arguments, **named)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return pending

    def has(self, routine: Callable[Concatenate[Batch, _P], Pending[_T]], *arguments: _P.args, **_: _P.kwargs) -> bool:
        """Return True if the call is recorded or its result is kept."""
        return (routine, *map(_number, arguments)) in self._kept


def _number(argument: object) -> object:
    # Return a value that identifies an argument. A handle is identified by its number, even a handle that is pending.
    handle = argument.handle if isinstance(argument, Pending) else argument
    return handle.number if isinstance(handle, Ref) else handle


class Identities:
    """The handles of one address space, and the entities (threads, regions and tasks) that they are of.

    :param pthread_size: the size of a ``pthread_t`` in the process, None for the usual size
    """

    def __init__(self, calls: CallQueue, pthread_size: int | None = None) -> None:
        self._calls = calls
        self._pthread_size = pthread_size
        # The key of each handle, by the handle's number. Numbers are not reused.
        self._keys: dict[int, Hashable] = {}
        # One handle of each entity, by group. Handles of different groups are never of the same entity.
        self._representatives: dict[_Group, list[Ref]] = defaultdict(list)
        # The pivots of each group that was split.
        self._pivots: dict[_Group, Sequence[Ref]] = {}

    def key(self, scope: Scope, handle: Ref) -> Hashable:
        """Return the key of a handle, which all handles of the same entity share.

        :raises OmpdError: if too many handles differ in no other fact
        """
        if handle.number not in self._keys:
            self.find(scope, [handle])
        if handle.number not in self._keys:
            name = self._calls.client.name
            raise OmpdError(f"{name}: more than {_MAX_ALIKE} handles that differ in nothing else")
        return self._keys[handle.number]

    def expect(self, scope: Scope, handle: Ref | Pending[Any]) -> Pending[Any]:
        """Record the call by whose result handles are grouped, and return the pending result.

        Few entities have the same result: the pthread id of a thread, the frame of a task, the tool data of a region.
        """
        argument: Any = handle
        if scope == Scope.THREAD:
            return self._calls.call(Batch.get_thread_id, argument, ThreadIdKind.PTHREAD, self._pthread_size)
        if scope == Scope.TASK:
            return self._calls.call(Batch.get_task_frame, argument)
        return self._calls.call(Batch.get_tool_data, argument, scope)

    def find(self, scope: Scope, handles: Iterable[Ref]) -> None:
        """Find the keys of *handles*, in few exchanges. :meth:`key` returns them afterwards."""
        unkeyed = {handle.number: handle for handle in handles if handle.number not in self._keys}
        expected = [(handle, self.expect(scope, handle)) for handle in unkeyed.values()]
        groups: dict[_Group, list[Ref]] = defaultdict(list)
        for handle, pending in expected:
            value = pending.value() if pending.error() is None else None
            if scope == Scope.THREAD and value is not None:
                self._keys[handle.number] = value
            else:
                groups[scope, value].append(handle)
        parts = self._split(scope, list(groups.items()))
        pairs = [
            (member, other) for group, members in parts for member in members for other in self._representatives[group]
        ]
        self._give_keys(self._equal(scope, pairs))
        for most in itertools.chain(_CANDIDATES, itertools.repeat(_CANDIDATES[-1])):
            parts = self._without_keys(parts)
            if not parts:
                return
            if most == _CANDIDATES[-1]:
                parts = self._split_large(scope, parts)
            self._find_among(scope, parts, most)

    def _without_keys(self, parts: Sequence[_Part]) -> list[_Part]:
        remaining = (
            (group, [member for member in members if member.number not in self._keys])
            for group, members in parts
            if len(self._representatives[group]) < _MAX_ALIKE
        )
        return [part for part in remaining if part[1]]

    def _find_among(self, scope: Scope, parts: Sequence[_Part], most: int) -> None:
        # Compare the first *most* handles of each part with all later handles of the part, and give keys to the first
        # ones and to the handles that equal one of them.
        pairs = [
            (member, other)
            for _, members in parts
            for place, member in enumerate(members)
            for other in members[: min(place, most)]
        ]
        equal = self._equal(scope, pairs)
        for group, members in parts:
            representatives = self._representatives[group]
            for member in members[: min(most, _MAX_ALIKE - len(representatives))]:
                if member.number not in equal:
                    self._keys[member.number] = member.number
                    representatives.append(member)
        self._give_keys(equal)

    def _give_keys(self, equal: Mapping[int, Ref]) -> None:
        for number, other in equal.items():
            if other.number in self._keys:
                self._keys[number] = self._keys[other.number]

    # Groups that are too large

    def _split_large(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        for group, members in parts:
            if len(members) > _MANY and len(group) == 2:
                # Draw at random, so that no pattern makes all pivots equal; with a fixed seed, to be reproducible.
                self._pivots[group] = Random(0).sample(members, _PIVOTS)
                for part, representatives in self._split(scope, [(group, self._representatives.pop(group, []))]):
                    self._representatives[part] = representatives
        return self._split(scope, parts)

    def _split(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        result_groups: dict[_Group, list[Ref]] = defaultdict(list)
        signs: dict[int, list[int | None]] = defaultdict(list)
        split = [(group, members) for group, members in parts if group in self._pivots]
        pairs = [(member, pivot) for group, members in split for member in members for pivot in self._pivots[group]]
        for member, _, result in self._results(scope, pairs):
            signs[member.number].append(result)
        for group, members in parts:
            for member in members:
                key = (*group, *signs[member.number]) if group in self._pivots else group
                result_groups[key].append(member)
        return list(result_groups.items())

    # Comparisons

    def _equal(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Mapping[int, Ref]:
        # Return the second handle of the first pair that is equal, by the number of the first handle.
        equal: dict[int, Ref] = {}
        for handle, other, result in self._results(scope, pairs):
            if result == 0:
                equal.setdefault(handle.number, other)
        return equal

    def _results(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Iterator[tuple[Ref, Ref, int | None]]:
        pairs = iter(pairs)
        while chunk := list(itertools.islice(pairs, _MAX_COMPARED)):
            batch = self._calls.client.batch()
            results = [(handle, other, _COMPARE[scope](batch, handle, other)) for handle, other in chunk]
            for handle, other, result in results:
                yield handle, other, result.value() if result.error() is None else None


class LibraryAnswers:
    """The answers of a library about the process of *space*, by the same methods as those of ``PluginAnswers``.

    :param id_sizes: the sizes of native identifiers in the process, in bytes, by kind; None for the usual size
    """

    def __init__(
        self, library: HostedLibrary, space: SpaceRef, id_sizes: Mapping[ThreadIdKind, int | None] | None = None
    ) -> None:
        self._library = library
        self._space = space
        self._id_sizes = id_sizes or {}
        self._calls = CallQueue(library)
        self._call = self._calls.call
        self._identities = Identities(self._calls, self._id_sizes.get(ThreadIdKind.PTHREAD))
        # The keys of the regions and tasks whose facts are announced already.
        self._expected: set[tuple[Scope, Hashable]] = set()

    def routines(self) -> Mapping[str, str]:
        return dict.fromkeys(sorted(self._library.functions), "there")

    def omp_version(self) -> int:
        return self._call(Batch.get_omp_version, self._space).value()

    def omp_version_string(self) -> str:
        return self._call(Batch.get_omp_version_string, self._space).value()

    def states(self) -> Mapping[int, str]:
        states = self._call(Batch.enumerate_states, self._space).value()
        return {number: name.removeprefix(_OMPT_STATE) for number, name in states.items() if number != State.UNDEFINED}

    def icvs(self) -> Mapping[str, Scope]:
        return {name: scope for name, (_, scope) in self._icvs.items() if isinstance(scope, Scope)}

    def display_control_vars(self) -> Mapping[str, str]:
        pairs = (text.partition("=") for text in self._call(Batch.get_display_control_vars, self._space).value())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def thread(self, kind: ThreadIdKind, identifier: int) -> ThreadRef | None:
        return _or_none(self._thread(kind, identifier))

    def thread_id(self, thread: ThreadRef, kind: ThreadIdKind) -> int:
        return self._call(Batch.get_thread_id, thread, kind, self._id_sizes.get(kind)).value()

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
        of_threads = [[self._thread(*identifier) for identifier in thread.identifiers()] for thread in threads]
        regions: list[Pending[Any]] = []
        tasks: list[Pending[Any]] = []
        for pending in of_threads:
            for thread in _made(pending)[:1]:
                for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
                    self._call(Batch.get_thread_id, thread, kind, self._id_sizes.get(kind))
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
            self._call(Batch.get_thread_id, thread, kind, self._id_sizes.get(kind))
            self._call(Batch.get_curr_parallel_handle, thread)
            tasks.append(self._call(Batch.get_task_in_parallel, parallel, number))
        self._find((), tasks)

    def _find(self, regions: Iterable[Pending[Any]], tasks: Iterable[Pending[Any]]) -> None:
        for scope, pending in ((Scope.PARALLEL, regions), (Scope.TASK, tasks)):
            for handle in pending:
                self._identities.expect(scope, handle)
            self._identities.find(scope, _made(pending))

    def _is_new(self, scope: Scope, handle: Ref) -> bool:
        key = scope, self._identities.key(scope, handle)
        is_new = key not in self._expected
        self._expected.add(key)
        return is_new

    def _chain(self, scope: Scope, first: Any, steps: int) -> list[Pending[Any]]:
        # Record the calls for the next *steps* regions or tasks outwards, and for the facts that distinguish them.
        # Return the pending handles. Beyond the outermost entity, calls fail, because they have no handle.
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
        return self._call(Batch.get_thread_handle, self._space, kind, identifier, self._id_sizes.get(kind))

    def _variable(self, name: str, scope: Scope, handle: Ref | None) -> tuple[Ref, Scope, int]:
        whose = self._space if handle is None else handle
        number, own_scope = self._icvs[name]
        if own_scope == scope and not self._calls.has(Batch.get_icv_from_scope, whose, scope, number):
            self._expect_variables(scope, whose)
        return whose, scope, number

    def _expect_variables(self, scope: Scope, whose: Ref) -> None:
        for number, own_scope in self._icvs.values():
            if own_scope == scope:
                self._call(Batch.get_icv_from_scope, whose, scope, number)
                self._call(Batch.get_icv_string_from_scope, whose, scope, number)

    @cached_property
    def _icvs(self) -> Mapping[str, tuple[int, Scope | int]]:
        # The number and scope of each variable, by name. If a name occurs twice, this is the first variable.
        variables = self._call(Batch.enumerate_icvs, self._space).value()
        return {variable.name: (variable.number, variable.scope) for variable in reversed(variables)}


def _made(pending: Iterable[Pending[Any]]) -> list[Any]:
    # Return the results of the calls that succeeded.
    return [call.value() for call in pending if call.error() is None]


def _or_none(pending: Pending[_T]) -> _T | None:
    # Return a call's result, or None for ompd_rc_unavailable: there is no such thing.
    error = pending.error()
    if error is not None and error.rc == Rc.UNAVAILABLE:
        return None
    return pending.value()
