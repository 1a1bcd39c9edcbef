"""The questions of OMPD's routines, and our plugins' answers in their form.

A library for debuggers answers with return codes and numbers, a plugin with handles that have methods.
:class:`Interface` has the questions for both; :class:`PluginAnswers` answers them for a plugin's address space, with
the return codes of the standard.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import BadInput, CorruptState, OmpdError, Rc, Unavailable
from ompd.questions.check.facts import ROUTINES
from ompd.records import record

MAX_CHAIN = 10_000
"""Regions and tasks around one thread: recursion of tasks goes thousands of levels deep."""

Handle = Any
"""A handle of a thread, a region or a task, for the interface that made it."""


class NativeThread(NamedTuple):
    """A thread of the process: the system's number for it, and its ``pthread_t``, None if that is unknown."""

    native_thread_id: int
    pthread: int | None

    def identifiers(self) -> Iterator[tuple[ThreadIdKind, int]]:
        """Yield the identifiers by which a library may find the thread."""
        yield ThreadIdKind.LWP, self.native_thread_id
        if self.pthread is not None:
            yield ThreadIdKind.PTHREAD, self.pthread


class Refusal(OmpdError):
    """A failure with the return code *rc* that the standard demands."""

    def __init__(self, rc: Rc, why: str) -> None:
        super().__init__(why)
        self.rc = rc


@record
class Frames:
    """The result of ``ompd_get_task_frame``: address and ``ompt_frame_flag_t`` of the exit and the enter frame.

    The address is 0 if there is no frame. The flag is None if it was not written.
    """

    exit: int
    enter: int
    exit_flag: int | None
    enter_flag: int | None


class Interface(Protocol):
    """The questions of OMPD about one runtime of one process.

    None means that there is none. A routine that fails raises an :class:`OmpdError` with its return code.
    """

    def routines(self) -> Mapping[str, str]:
        """The routines that exist, each with the text "there"."""

    def omp_version(self) -> int:
        """``ompd_get_omp_version``."""

    def omp_version_string(self) -> str:
        """``ompd_get_omp_version_string``."""

    def states(self) -> Mapping[int, str]:
        """``ompd_enumerate_states``: names without ``ompt_state_``, and without the one where a host begins."""

    def icvs(self) -> Mapping[str, Scope]:
        """``ompd_enumerate_icvs``."""

    def display_control_vars(self) -> Mapping[str, str]:
        """``ompd_get_display_control_vars``."""

    def thread(self, kind: ThreadIdKind, identifier: int) -> Handle | None:
        """``ompd_get_thread_handle``, None for a thread that is not an OpenMP thread."""

    def thread_id(self, thread: Handle, kind: ThreadIdKind) -> int:
        """``ompd_get_thread_id``."""

    def state(self, thread: Handle) -> tuple[int, int | None]:
        """``ompd_get_state``: the state, and the wait identifier if it is one of waiting."""

    def current_parallel(self, thread: Handle) -> Handle | None:
        """``ompd_get_curr_parallel_handle``; the initial region is one, too."""

    def current_task(self, thread: Handle) -> Handle | None:
        """``ompd_get_curr_task_handle``."""

    def enclosing(self, parallel: Handle) -> Handle | None:
        """``ompd_get_enclosing_parallel_handle``."""

    def thread_in(self, parallel: Handle, thread_num: int) -> Handle:
        """``ompd_get_thread_in_parallel``."""

    def task_in(self, parallel: Handle, thread_num: int) -> Handle:
        """``ompd_get_task_in_parallel``."""

    def generating(self, task: Handle) -> Handle | None:
        """``ompd_get_generating_task_handle``."""

    def scheduling(self, task: Handle) -> Handle | None:
        """``ompd_get_scheduling_task_handle``."""

    def parallel(self, task: Handle) -> Handle:
        """``ompd_get_task_parallel_handle``."""

    def function(self, task: Handle) -> int | None:
        """``ompd_get_task_function``."""

    def frames(self, task: Handle) -> Frames:
        """``ompd_get_task_frame``."""

    def tool_data(self, scope: Scope, handle: Handle) -> int:
        """``ompd_get_tool_data``."""

    def icv_number(self, name: str, scope: Scope, handle: Handle) -> tuple[int, bool]:
        """``ompd_get_icv_from_scope``: the number, and whether it is the whole value. None is the address space."""

    def icv_text(self, name: str, scope: Scope, handle: Handle) -> str:
        """``ompd_get_icv_string_from_scope``."""

    def key(self, scope: Scope, handle: Handle) -> Hashable:
        """Return a key that handles of the same thread, region or task share (``ompd_..._handle_compare``)."""

    # Announcements of the next questions, so that a library can be asked all of them at once.

    def expect_threads(self, threads: Sequence[NativeThread]) -> None:
        """Announce all questions about these threads, and about the regions and tasks around them."""

    def expect(self, scope: Scope, handles: Sequence[Handle]) -> None:
        """Announce all questions about these regions or tasks, except those about members."""

    def expect_members(self, parallel: Handle, thread_nums: Sequence[int]) -> None:
        """Announce questions about the threads and implicit tasks with these numbers."""


@record
class InitialRegion:
    """The implicit region around the whole program, for which plugins have no handle. *task* is the initial task."""

    task: TaskHandle

    @property
    def id(self) -> str:
        """The id of its task, as no region has it."""
        return f"initial {self.task.id}"


# The words of variables that are numbers, too: omp_proc_bind_t with libomp's additions, and libomp's enum __kmp_tool.
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "bind-var": ("false", "true", "primary", "close", "spread", "intel", "default"),
    "tool-var": ("error", "unset", "disabled", "enabled"),
}
# Variables whose text is neither a number nor a list of numbers.
_TEXTS = frozenset(
    ("run-sched-var", "affinity-format-var", "tool-libraries-var", "tool-verbose-init-var", "wait-policy-var",
     "target-offload-var")
)  # fmt: skip


class PluginAnswers:
    """The answers of a plugin's address space, in the form of OMPD's routines."""

    def __init__(self, space: AddressSpace) -> None:
        self._space = space

    def routines(self) -> Mapping[str, str]:
        return dict.fromkeys(ROUTINES, "there")

    def omp_version(self) -> int:
        return self._space.omp_version()

    def omp_version_string(self) -> str:
        return str(self._space.omp_version())

    def states(self) -> Mapping[int, str]:
        return {number: name for number, name in self._space.states().items() if number != State.UNDEFINED}

    def icvs(self) -> Mapping[str, Scope]:
        return self._icvs

    def display_control_vars(self) -> Mapping[str, str]:
        return self._space.display_control_vars()

    def thread(self, kind: ThreadIdKind, identifier: int) -> ThreadHandle | None:
        return self._space.thread_by_native_id(kind, identifier)

    def thread_id(self, thread: ThreadHandle, kind: ThreadIdKind) -> int:
        return thread.native_id(kind)

    def state(self, thread: ThreadHandle) -> tuple[int, int | None]:
        found = thread.state()
        return found.state, found.wait_id or None

    def current_parallel(self, thread: ThreadHandle) -> ParallelHandle | InitialRegion | None:
        region = thread.current_parallel()
        return region if region is not None else self._initial(thread.current_task())

    def current_task(self, thread: ThreadHandle) -> TaskHandle | None:
        return thread.current_task()

    def enclosing(self, parallel: ParallelHandle | InitialRegion) -> ParallelHandle | InitialRegion | None:
        if isinstance(parallel, InitialRegion):
            return None
        region = parallel.enclosing()
        return region if region is not None else self._initial(parallel.implicit_task(0))

    def thread_in(self, parallel: ParallelHandle | InitialRegion, thread_num: int) -> ThreadHandle:
        if not isinstance(parallel, InitialRegion):
            return parallel.thread(thread_num)
        if thread_num != 0:
            raise BadInput("the initial region has one thread")
        thread = parallel.task.thread()
        if thread is None:
            raise Unavailable("the thread of the initial task is unknown")
        return thread

    def task_in(self, parallel: ParallelHandle | InitialRegion, thread_num: int) -> TaskHandle:
        if not isinstance(parallel, InitialRegion):
            return parallel.implicit_task(thread_num)
        if thread_num != 0:
            raise BadInput("the initial region has one thread")
        return parallel.task

    def generating(self, task: TaskHandle) -> TaskHandle | None:
        return task.generating()

    def scheduling(self, task: TaskHandle) -> TaskHandle | None:
        return task.scheduling()

    def parallel(self, task: TaskHandle) -> ParallelHandle | InitialRegion:
        region = task.parallel()
        if region is not None:
            return region
        initial = self._initial(task)
        if initial is None:
            raise Unavailable("no task is the initial one")
        return initial

    def function(self, task: TaskHandle) -> int | None:
        return task.function()

    def frames(self, task: TaskHandle) -> Frames:
        found = task.frames()
        address, flag = ([None if frame is None else (frame.address, frame.flags)[part] for frame in found]
                         for part in (0, 1))  # fmt: skip
        return Frames(address[0] or 0, address[1] or 0, flag[0], flag[1])

    def tool_data(self, scope: Scope, handle: Handle) -> int:
        if isinstance(handle, InitialRegion):
            raise Unavailable("plugins have no handle of the initial region")
        found: int = handle.tool_data()
        return found

    def icv_number(self, name: str, scope: Scope, handle: Handle) -> tuple[int, bool]:
        value = self._value(name, scope, handle)
        if not isinstance(value, str):
            return int(value), True
        first, *others = value.split(",")
        words = _NUMBERS.get(name, ())
        if name in _TEXTS or (first not in words and not first.lstrip("-").isdecimal()):
            raise Refusal(Rc.INCOMPATIBLE, f"{name} is a text")
        return (words.index(first) if first in words else int(first)), not others

    def icv_text(self, name: str, scope: Scope, handle: Handle) -> str:
        value = self._value(name, scope, handle)
        return str(value).lower() if isinstance(value, bool) else str(value)

    @cached_property
    def _icvs(self) -> Mapping[str, Scope]:
        return {each.name: each.scope for each in self._space.icvs()}

    def _value(self, name: str, scope: Scope, handle: Handle) -> int | str:
        known = self._icvs
        if name not in known:
            raise Refusal(Rc.BAD_INPUT, f"no internal control variable {name!r}")
        if known[name] != scope:
            raise Refusal(Rc.INCOMPATIBLE, f"{name} is a variable of scope {known[name].name.lower()}")
        if not isinstance(handle, InitialRegion):
            return self._space.icv(name, self._space if handle is None else handle)
        initial = {"levels-var": 0, "active-levels-var": 0, "team-size-var": 1, "ompd-team-size-var": 1}
        if name not in initial:
            raise Unavailable("plugins have no handle of the initial region")
        return initial[name]

    def key(self, scope: Scope, handle: Handle) -> Hashable:
        key: Hashable = handle.address if scope == Scope.THREAD else handle.id
        return key

    def expect_threads(self, threads: Sequence[NativeThread]) -> None:
        """Nothing is gained by it here, nor by the following."""

    def expect(self, scope: Scope, handles: Sequence[Handle]) -> None:
        """See :meth:`expect_threads`."""

    def expect_members(self, parallel: Handle, thread_nums: Sequence[int]) -> None:
        """See :meth:`expect_threads`."""

    def _initial(self, task: TaskHandle | None) -> InitialRegion | None:
        # The region around the outermost of the tasks that generated this one.
        chain = follow(task, lambda each: each.generating(), lambda each: each.id)
        return InitialRegion(chain[-1]) if chain else None


def follow(first: Handle | None, following: Callable[[Any], Any], key: Callable[[Any], Hashable]) -> Sequence[Any]:
    """Return *first* and what follows it, until there is none.

    :raises CorruptState: if one comes twice, or there is no end
    """
    found: dict[Hashable, Any] = {}
    each = first
    while each is not None:
        if key(each) in found or len(found) >= MAX_CHAIN:
            raise CorruptState(0, f"the chain from {key(first)} has no end")
        found[key(each)] = each
        each = following(each)
    return tuple(found.values())
