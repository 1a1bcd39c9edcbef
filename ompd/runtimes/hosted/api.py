"""The OMPD routines (OpenMP 5.0 to 6.0) as methods that record calls of a hosted library.

A method returns a :class:`Pending` result at once. When the first result is needed, a :class:`Batch` sends all its
calls together, in the order of recording. So a thousand calls need only one exchange with the library's process. The
pending handle of one call may be an argument of a later call of the same batch::

    batch = library.batch()
    thread = batch.get_thread_handle(space, ThreadIdKind.PTHREAD, 0x7F0000001740)
    state = batch.get_state(thread)
    region = batch.get_curr_parallel_handle(thread)
    state.value().state  # sends all three

An ``ompd_word_t`` is a signed number of 64 bits. Addresses, sizes and wait identifiers are unsigned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, NoReturn, Protocol, TypeVar, cast

from ompd.contract.callbacks import Callbacks
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.errors import BadInput, LibraryError, Rc
from ompd.runtimes.hosted.messages import Call, Row, clean
from ompd.runtimes.hosted.signatures import UNWRITTEN, Function

_T = TypeVar("_T")
_R = TypeVar("_R", bound="Ref")


class Ref:
    """A reference, by number, to a handle of the library. The handle itself stays in the library's process.

    The handle is released when this reference is garbage-collected, or together with its address space.

    :param number: the number of the handle, which is never used again
    :param library: releases the number when the reference is garbage-collected
    :param space: the handle's address space, which must outlive the handle; for a device's address space, the process's
        address space
    """

    __slots__ = ("_library", "number", "space")

    def __init__(self, number: int, library: Exchange, space: SpaceRef | None = None) -> None:
        self.number = number
        self.space = space
        self._library = library

    def __del__(self) -> None:
        self._library.release(self.number)


class SpaceRef(Ref):
    """An address space (``ompd_address_space_handle_t *``)."""

    __slots__ = ()


class ThreadRef(Ref):
    """A thread (``ompd_thread_handle_t *``)."""

    __slots__ = ()


class ParallelRef(Ref):
    """A parallel region (``ompd_parallel_handle_t *``)."""

    __slots__ = ()


class TaskRef(Ref):
    """A task (``ompd_task_handle_t *``)."""

    __slots__ = ()


class StateWords(NamedTuple):
    """A thread's ``ompt_state_t``, and its wait identifier, which is valid only in waiting states."""

    state: int
    wait_id: int


class Icv(NamedTuple):
    """An internal control variable: its number in this library, its name, and the scope of its handles.

    ``scope`` is an ``int`` if OpenMP has no such scope.
    """

    number: int
    name: str
    scope: Scope | int


class IcvWord(NamedTuple):
    """A variable's value. If ``is_whole`` is False (``ompd_rc_incomplete``), it is the first value of a list."""

    value: int
    is_whole: bool


class ToolData(NamedTuple):
    """The ``ompt_data_t`` of a thread, region or task: one word, as a number and as an address."""

    value: int
    pointer: int


class FrameInfo(NamedTuple):
    """``ompd_frame_info_t``: an address, 0 for none, and ``ompt_frame_flag_t``.

    The flag is None with LLVM's and Intel's libraries, which never write it.
    """

    address: int
    flag: int | None


class ThreadIdKindSize(NamedTuple):
    """A kind of native thread identifiers on a device, and their size in bytes."""

    kind: int
    size: int


class Outcome(NamedTuple):
    """The outcome of a call: the result's words or rows, or the error.

    ``rc`` is the library's return code; if ``ompd_get_icv_from_scope`` returns ``ompd_rc_incomplete``, there is a
    value, too.
    """

    rc: int
    words: Sequence[int]
    rows: Sequence[Row]
    error: LibraryError | None


class Exchange(Protocol):
    """A hosted library, as batches see it."""

    def run(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Return the outcome of each call.

        :raises LibraryError: if the library's process has ended, or ends meanwhile
        """

    def new_number(self) -> int:
        """Return a number for a handle."""

    def release(self, number: int) -> None:
        """Release a handle at the next opportunity."""

    def add_context(self, callbacks: Callbacks, ahead: int) -> int:
        """Register *callbacks* of a process or device, and return the number by which they are served. It is never 0,
        and is also the number of the address space.

        :param ahead: see :meth:`Batch.process_initialize`
        """


class Pending(Generic[_T]):
    """The result of a call that may not have been made yet."""

    __slots__ = ("_batch", "_make", "_outcome", "handle")

    def __init__(self, batch: Batch, make: Callable[[Outcome], _T], handle: Ref | None = None) -> None:
        self._batch = batch
        self._make = make
        self._outcome: Outcome | None = None
        self.handle = handle

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome of the call."""
        self._outcome = outcome

    def _settled(self) -> Outcome:
        while self._outcome is None:
            self._batch.run()  # gives every Pending of the batch its outcome, also this one
        return self._outcome

    def error(self) -> LibraryError | None:
        """Return the reason why there is no value, None if there is a value. Sends the batch if necessary."""
        return self._settled().error

    def value(self) -> _T:
        """Return the result. Sends the batch if necessary.

        :raises LibraryError: if the library refused (``error.rc`` is its return code), broke the rules of the
            interface, or its process has ended (``error.has_ended``)
        """
        outcome = self._settled()
        if outcome.error is not None:
            raise outcome.error.with_traceback(None)
        if self.handle is not None:
            return cast("_T", self.handle)
        return self._make(outcome)


Space = SpaceRef | Pending[SpaceRef]
Thread = ThreadRef | Pending[ThreadRef]
Parallel = ParallelRef | Pending[ParallelRef]
Task = TaskRef | Pending[TaskRef]
AnyRef = Ref | Pending[SpaceRef] | Pending[ThreadRef] | Pending[ParallelRef] | Pending[TaskRef]
Argument = AnyRef | int | bytes


class Batch:
    """Calls that are sent together. A batch can be used again after it has run.

    A failing call affects only its own result: :meth:`Pending.value` raises the error. A call whose argument is the
    result of a failed call is not made, and fails with the same code.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._calls: list[Call] = []
        self._pending: list[Pending[object]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def run(self) -> None:
        """Make all recorded calls. This raises nothing, because the result of each call has its own error."""
        calls, pending = self._calls, self._pending
        self._calls, self._pending = [], []
        if not calls:
            return
        try:
            outcomes = self._exchange.run(calls)
        except LibraryError as error:
            outcomes = [Outcome(error.rc, (), (), error)] * len(calls)
        for result, outcome in zip(pending, outcomes, strict=True):
            result.settle(outcome)

    # Address spaces

    def process_initialize(self, callbacks: Callbacks, *, ahead: int = 0) -> Pending[SpaceRef]:
        """Return the address space, for this stop, of a process that the library reads through *callbacks*.

        :param ahead: the number of bytes that may be read in addition to those that the library reads. With a core,
            reading ahead costs nothing. 0 reads only whole pages, for targets that record reads
        """
        context = self._exchange.add_context(callbacks, ahead)
        return self._made(Function.PROCESS_INITIALIZE, SpaceRef, context, number=context)

    def device_initialize(
        self, process: Space, callbacks: Callbacks, kind: int, identifier: bytes, *, ahead: int = 0
    ) -> Pending[SpaceRef]:
        """Return the address space of a device of *process*, which the library reads through *callbacks*."""
        context = self._exchange.add_context(callbacks, ahead)
        return self._made(Function.DEVICE_INITIALIZE, SpaceRef, process, context, kind, identifier, number=context)

    def get_omp_version(self, space: Space) -> Pending[int]:
        """Return the version of OpenMP that the runtime implements, as a value of ``_OPENMP``."""
        return self._word(Function.GET_OMP_VERSION, space)

    def get_omp_version_string(self, space: Space) -> Pending[str]:
        """Return the runtime's version as text."""
        return self._text(Function.GET_OMP_VERSION_STRING, space)

    def get_device_thread_id_kinds(self, space: Space) -> Pending[Sequence[ThreadIdKindSize]]:
        """Return the kinds of native thread identifiers of an address space (OpenMP 6.0)."""
        return self._add(Function.GET_DEVICE_THREAD_ID_KINDS, _id_kinds, space)

    def enumerate_states(self, space: Space) -> Pending[Mapping[int, str]]:
        """Return all states of the runtime, by number, with the library's names."""
        return self._add(Function.ENUMERATE_STATES, _names, space)

    def enumerate_icvs(self, space: Space) -> Pending[Sequence[Icv]]:
        """Return all variables that the library lists, in its order. Several entries may describe the same variable."""
        return self._add(Function.ENUMERATE_ICVS, _icvs, space)

    def get_display_control_vars(self, space: Space) -> Pending[Sequence[str]]:
        """Return the texts ``NAME=VALUE`` of the runtime's settings."""
        return self._add(Function.GET_DISPLAY_CONTROL_VARS, _texts, space)

    # Threads

    def get_thread_handle(
        self, space: Space, kind: int, identifier: int, size: int | None = None
    ) -> Pending[ThreadRef]:
        """Return the thread with a native identifier of this *kind*. Codes: ``bad_input`` (the size), ``unsupported``
        (the kind), ``unavailable`` (not an OpenMP thread).

        :param size: size of the identifier in bytes; None means the size of a pointer for a pthread, and 4 for the
            system's number
        """
        raw = identifier.to_bytes(size or id_size(kind), sys.byteorder)
        return self._made(Function.GET_THREAD_HANDLE, ThreadRef, space, kind, raw)

    def get_thread_in_parallel(self, region: Parallel, thread_num: int) -> Pending[ThreadRef]:
        """Return the thread whose number in the region's team is *thread_num*. Codes: ``bad_input`` (no such number).

        LLVM's library returns handles without the context of the thread. Other calls with them fail, such as
        :meth:`get_curr_parallel_handle`. Use them only for :meth:`get_thread_id`, then call :meth:`get_thread_handle`.
        """
        return self._made(Function.GET_THREAD_IN_PARALLEL, ThreadRef, region, thread_num)

    def get_thread_id(self, thread: Thread, kind: int, size: int | None = None) -> Pending[int]:
        """Return a thread's native identifier of this *kind*. Codes: ``bad_input`` (size), ``unsupported`` (kind)."""
        return self._word(Function.GET_THREAD_ID, thread, kind, size or id_size(kind))

    def thread_handle_compare(self, one: Thread, other: Thread) -> Pending[int]:
        """Return 0 for the same thread, else a positive or negative number, which does not define an order."""
        return self._word(Function.THREAD_HANDLE_COMPARE, one, other)

    def get_state(self, thread: Thread) -> Pending[StateWords]:
        """Return a thread's state. Codes: ``needs_state_tracking``."""
        return self._add(Function.GET_STATE, _state, thread)

    def get_device_from_thread(self, thread: Thread) -> Pending[bool]:
        """Return whether the library names an address space for a thread (OpenMP 6.0). The caller already has this
        address space.
        """
        return self._add(Function.GET_DEVICE_FROM_THREAD, _truth, thread)

    # Parallel regions

    def get_curr_parallel_handle(self, thread: Thread) -> Pending[ParallelRef]:
        """Return the region that a thread executes. Codes for none: ``unavailable``, LLVM's ``unsupported``."""
        return self._made(Function.GET_CURR_PARALLEL_HANDLE, ParallelRef, thread)

    def get_enclosing_parallel_handle(self, region: Parallel) -> Pending[ParallelRef]:
        """Return the region around a region. Codes for none: ``unavailable``, LLVM's ``unsupported``."""
        return self._made(Function.GET_ENCLOSING_PARALLEL_HANDLE, ParallelRef, region)

    def get_task_parallel_handle(self, task: Task) -> Pending[ParallelRef]:
        """Return the region of a task."""
        return self._made(Function.GET_TASK_PARALLEL_HANDLE, ParallelRef, task)

    def parallel_handle_compare(self, one: Parallel, other: Parallel) -> Pending[int]:
        """Return 0 for the same region, else a positive or negative number, which does not define an order."""
        return self._word(Function.PARALLEL_HANDLE_COMPARE, one, other)

    # Tasks

    def get_curr_task_handle(self, thread: Thread) -> Pending[TaskRef]:
        """Return the task that a thread executes. Codes for none: ``unavailable``, LLVM's ``unsupported``."""
        return self._made(Function.GET_CURR_TASK_HANDLE, TaskRef, thread)

    def get_generating_task_handle(self, task: Task) -> Pending[TaskRef]:
        """Return the task whose code created a task. Codes for none: ``unavailable``, LLVM's ``unsupported``."""
        return self._made(Function.GET_GENERATING_TASK_HANDLE, TaskRef, task)

    def get_scheduling_task_handle(self, task: Task) -> Pending[TaskRef]:
        """Return the task that was suspended for a task. Code for none: ``unavailable``."""
        return self._made(Function.GET_SCHEDULING_TASK_HANDLE, TaskRef, task)

    def get_task_in_parallel(self, region: Parallel, thread_num: int) -> Pending[TaskRef]:
        """Return the implicit task of the region's thread with number *thread_num*. Codes: ``bad_input`` (no such
        number).
        """
        return self._made(Function.GET_TASK_IN_PARALLEL, TaskRef, region, thread_num)

    def task_handle_compare(self, one: Task, other: Task) -> Pending[int]:
        """Return 0 for the same task, else a positive or negative number, which does not define an order."""
        return self._word(Function.TASK_HANDLE_COMPARE, one, other)

    def get_task_function(self, task: Task) -> Pending[int]:
        """Return the address of a task's code. Codes: ``needs_state_tracking``."""
        return self._word(Function.GET_TASK_FUNCTION, task)

    def get_task_frame(self, task: Task) -> Pending[tuple[FrameInfo, FrameInfo]]:
        """Return exit and enter frame of a task, in this order. Codes: ``needs_state_tracking``."""
        return self._add(Function.GET_TASK_FRAME, _frames, task)

    # Variables and tool data

    def get_icv_from_scope(self, handle: AnyRef, scope: int, number: int) -> Pending[IcvWord]:
        """Return a variable's value as a number. Codes: ``bad_input`` (no variable has this *number*), ``incompatible``
        (the value is not a number, or the scope is wrong).
        """
        return self._add(Function.GET_ICV_FROM_SCOPE, _icv_word, handle, scope, number)

    def get_icv_string_from_scope(self, handle: AnyRef, scope: int, number: int) -> Pending[str]:
        """Return a variable's value as text. Codes: as for a number; LLVM's library returns ``unsupported`` for
        numbers.
        """
        return self._text(Function.GET_ICV_STRING_FROM_SCOPE, handle, scope, number)

    def get_tool_data(self, handle: AnyRef, scope: int) -> Pending[ToolData]:
        """Return the data that a tool keeps with a thread, region or task. Codes: ``unsupported`` (a runtime without
        OMPT).
        """
        return self._add(Function.GET_TOOL_DATA, _tool_data, handle, scope)

    # Recording

    def _add(self, function: int, make: Callable[[Outcome], _T], *arguments: Argument) -> Pending[_T]:
        return self._record(Call(function, [_plain(argument) for argument in arguments]), Pending(self, make))

    def _word(self, function: int, *arguments: Argument) -> Pending[int]:
        return self._add(function, _word, *arguments)

    def _text(self, function: int, *arguments: Argument) -> Pending[str]:
        return self._add(function, _text, *arguments)

    def _made(self, function: int, kind: type[_R], *arguments: Argument, number: int = 0) -> Pending[_R]:
        plain = [_plain(argument) for argument in arguments]
        origin = plain[0] if isinstance(plain[0], Ref) else None
        space = origin if isinstance(origin, SpaceRef) else origin.space if origin is not None else None
        handle = kind(number or self._exchange.new_number(), self._exchange, space)
        return self._record(Call(function, plain, handle.number), Pending(self, _no_value, handle))

    def _record(self, call: Call, pending: Pending[_T]) -> Pending[_T]:
        self._calls.append(call)
        self._pending.append(pending)  # type: ignore[arg-type]
        return pending


def _plain(argument: Argument) -> Ref | int | bytes:
    # Use the reference itself, so that the handle is not released before the call is made.
    if not isinstance(argument, Pending):
        return argument
    if argument.handle is None:
        raise BadInput("the result of this call is no handle")
    return argument.handle


def id_size(kind: int) -> int:
    """Return the size in bytes of a native identifier of this kind in 64-bit libraries."""
    return 4 if kind == ThreadIdKind.LWP else 8


def _scope(number: int) -> Scope | int:
    try:
        return Scope(number)
    except ValueError:
        return number


# Conversion of outcomes to results


def _no_value(outcome: Outcome) -> NoReturn:
    raise AssertionError("the result is a handle")


def _word(outcome: Outcome) -> int:
    return outcome.words[0]


def _truth(outcome: Outcome) -> bool:
    return bool(outcome.words[0])


def _text(outcome: Outcome) -> str:
    return outcome.rows[0].text


def _texts(outcome: Outcome) -> Sequence[str]:
    return [row.text for row in outcome.rows]


def _names(outcome: Outcome) -> Mapping[int, str]:
    return {row.first: clean(row.text) for row in outcome.rows}


def _icvs(outcome: Outcome) -> Sequence[Icv]:
    return [Icv(row.first, clean(row.text), _scope(row.second)) for row in outcome.rows]


def _id_kinds(outcome: Outcome) -> Sequence[ThreadIdKindSize]:
    return [ThreadIdKindSize(row.first, row.second) for row in outcome.rows]


def _state(outcome: Outcome) -> StateWords:
    return StateWords(outcome.words[0], outcome.words[1])


def _icv_word(outcome: Outcome) -> IcvWord:
    return IcvWord(outcome.words[0], outcome.rc != Rc.INCOMPLETE)


def _tool_data(outcome: Outcome) -> ToolData:
    return ToolData(outcome.words[0], outcome.words[1])


def _frames(outcome: Outcome) -> tuple[FrameInfo, FrameInfo]:
    exit_address, exit_flag, enter_address, enter_flag = outcome.words
    return FrameInfo(exit_address, _flag(exit_flag)), FrameInfo(enter_address, _flag(enter_flag))


def _flag(word: int) -> int | None:
    return None if word == UNWRITTEN else word
