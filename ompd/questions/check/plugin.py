"""Our plugin's answers to the questions that OMPD's routines answer, with the return codes of the standard.

A plugin has handles with methods. A library for debuggers has routines, which give return codes and numbers.
:class:`PluginAnswers` has the methods of :class:`~ompd.questions.check.ompd_library.LibraryAnswers`, so that the
answers of both can be compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import BadInput, CorruptState, OmpdError, Rc, Unavailable
from ompd.records import record
from ompd.runtimes.hosted.signatures import SIGNATURES, Function

ROUTINES = tuple(signature.name for number, signature in SIGNATURES.items() if number != Function.LOAD)
"""All routines of OMPD (OpenMP 5.2, 20.5)."""
MAX_CHAIN = 10_000
"""The limit for regions or tasks around one thread. Recursion of tasks goes thousands of levels deep."""

Handle = Any
"""A handle of a thread, a region or a task, for the side that made it."""


class NativeThread(NamedTuple):
    """A thread of the process: the system's number for it, and its ``pthread_t``, None if that is unknown."""

    native_thread_id: int
    pthread: int | None

    def identifiers(self) -> Iterator[tuple[ThreadIdKind, int]]:
        """Yield the thread's identifiers, each with its kind."""
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
    """The result of ``ompd_get_task_frame``: addresses and ``ompt_frame_flag_t`` of the exit and the enter frame.

    An address is 0 if there is no such frame. A flag is None if the runtime did not write it.
    """

    exit: int
    enter: int
    exit_flag: int | None
    enter_flag: int | None


@record
class InitialRegion:
    """The implicit region around the whole program, for which plugins have no handle. *task* is the initial task."""

    task: TaskHandle

    @property
    def id(self) -> str:
        """The id of the initial task with a prefix, so that it differs from the ids of all regions."""
        return f"initial {self.task.id}"


# Variables whose values are words here and numbers in OMPD: the index of a word is its number. The numbers are those of
# omp_proc_bind_t with libomp's additions, and of libomp's enum __kmp_tool.
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
    """The answers of a plugin's address space, in the form of OMPD's routines.

    An answer is None if there is no such region, task or thread. If the routine fails, the method raises an
    :class:`OmpdError` with the return code.
    """

    def __init__(self, space: AddressSpace) -> None:
        self._space = space

    def routines(self) -> Mapping[str, str]:
        """All routines of OMPD, because our plugin answers each. Keys are the names, each value is "there"."""
        return dict.fromkeys(ROUTINES, "there")

    def omp_version(self) -> int:
        """``ompd_get_omp_version``."""
        return self._space.omp_version()

    def omp_version_string(self) -> str:
        """``ompd_get_omp_version_string``."""
        return str(self._space.omp_version())

    def states(self) -> Mapping[int, str]:
        """``ompd_enumerate_states``: the names by number, without ``ompt_state_``; ``undefined`` is left out."""
        return {number: name for number, name in self._space.states().items() if number != State.UNDEFINED}

    def icvs(self) -> Mapping[str, Scope]:
        """``ompd_enumerate_icvs``."""
        return self._icvs

    def display_control_vars(self) -> Mapping[str, str]:
        """``ompd_get_display_control_vars``."""
        return self._space.display_control_vars()

    def thread(self, kind: ThreadIdKind, identifier: int) -> ThreadHandle | None:
        """``ompd_get_thread_handle``, None for a thread that is not an OpenMP thread."""
        return self._space.thread_by_native_id(kind, identifier)

    def thread_id(self, thread: ThreadHandle, kind: ThreadIdKind) -> int:
        """``ompd_get_thread_id``."""
        return thread.native_id(kind)

    def state(self, thread: ThreadHandle) -> tuple[int, int | None]:
        """``ompd_get_state``: the number of the state and the wait identifier, None without one."""
        state = thread.state()
        return state.state, state.wait_id or None

    def current_parallel(self, thread: ThreadHandle) -> ParallelHandle | InitialRegion | None:
        """``ompd_get_curr_parallel_handle``: the region, or the initial region outside of all parallel regions."""
        region = thread.current_parallel()
        return region if region is not None else self._initial(thread.current_task())

    def current_task(self, thread: ThreadHandle) -> TaskHandle | None:
        """``ompd_get_curr_task_handle``."""
        return thread.current_task()

    def enclosing(self, parallel: ParallelHandle | InitialRegion) -> ParallelHandle | InitialRegion | None:
        """``ompd_get_enclosing_parallel_handle``."""
        if isinstance(parallel, InitialRegion):
            return None
        region = parallel.enclosing()
        return region if region is not None else self._initial(parallel.implicit_task(0))

    def thread_in(self, parallel: ParallelHandle | InitialRegion, thread_num: int) -> ThreadHandle:
        """``ompd_get_thread_in_parallel``."""
        if not isinstance(parallel, InitialRegion):
            return parallel.thread(thread_num)
        if thread_num != 0:
            raise BadInput("the initial region has one thread")
        thread = parallel.task.thread()
        if thread is None:
            raise Unavailable("the thread of the initial task is unknown")
        return thread

    def task_in(self, parallel: ParallelHandle | InitialRegion, thread_num: int) -> TaskHandle:
        """``ompd_get_task_in_parallel``."""
        if not isinstance(parallel, InitialRegion):
            return parallel.implicit_task(thread_num)
        if thread_num != 0:
            raise BadInput("the initial region has one thread")
        return parallel.task

    def generating(self, task: TaskHandle) -> TaskHandle | None:
        """``ompd_get_generating_task_handle``."""
        return task.generating()

    def scheduling(self, task: TaskHandle) -> TaskHandle | None:
        """``ompd_get_scheduling_task_handle``."""
        return task.scheduling()

    def parallel(self, task: TaskHandle) -> ParallelHandle | InitialRegion:
        """``ompd_get_task_parallel_handle``."""
        region = task.parallel()
        if region is not None:
            return region
        initial = self._initial(task)
        if initial is None:
            raise Unavailable("no task is the initial one")
        return initial

    def function(self, task: TaskHandle) -> int | None:
        """``ompd_get_task_function``."""
        return task.function()

    def frames(self, task: TaskHandle) -> Frames:
        """``ompd_get_task_frame``."""
        exit_frame, enter_frame = task.frames()
        return Frames(
            exit_frame.address if exit_frame is not None else 0,
            enter_frame.address if enter_frame is not None else 0,
            exit_frame.flags if exit_frame is not None else None,
            enter_frame.flags if enter_frame is not None else None,
        )

    def tool_data(self, scope: Scope, handle: Handle) -> int:
        """``ompd_get_tool_data``."""
        if isinstance(handle, InitialRegion):
            raise Unavailable("plugins have no handle of the initial region")
        address: int = handle.tool_data()
        return address

    def icv_number(self, name: str, scope: Scope, handle: Handle) -> tuple[int, bool]:
        """``ompd_get_icv_from_scope``: a variable's number, and whether it is the whole value or the first of a list.

        :param handle: the thread, region or task, None for the address space
        """
        value = self._value(name, scope, handle)
        if not isinstance(value, str):
            return int(value), True
        first, *others = value.split(",")
        words = _NUMBERS.get(name, ())
        if name in _TEXTS or (first not in words and not first.lstrip("-").isdecimal()):
            raise Refusal(Rc.INCOMPATIBLE, f"{name} is a text")
        return (words.index(first) if first in words else int(first)), not others

    def icv_text(self, name: str, scope: Scope, handle: Handle) -> str:
        """``ompd_get_icv_string_from_scope``."""
        value = self._value(name, scope, handle)
        return str(value).lower() if isinstance(value, bool) else str(value)

    @cached_property
    def _icvs(self) -> Mapping[str, Scope]:
        return {variable.name: variable.scope for variable in self._space.icvs()}

    def _value(self, name: str, scope: Scope, handle: Handle) -> int | str:
        own_scope = self._icvs.get(name)
        if own_scope is None:
            raise Refusal(Rc.BAD_INPUT, f"no internal control variable {name!r}")
        if own_scope != scope:
            raise Refusal(Rc.INCOMPATIBLE, f"{name} is a variable of scope {own_scope.name.lower()}")
        if not isinstance(handle, InitialRegion):
            return self._space.icv(name, self._space if handle is None else handle)
        initial = {"levels-var": 0, "active-levels-var": 0, "team-size-var": 1, "ompd-team-size-var": 1}
        if name not in initial:
            raise Unavailable("plugins have no handle of the initial region")
        return initial[name]

    def key(self, scope: Scope, handle: Handle) -> Hashable:
        """Return a key that handles of the same thread, region or task share (``ompd_..._handle_compare``)."""
        key: Hashable = handle.address if scope == Scope.THREAD else handle.id
        return key

    # Announcements of the next questions. LibraryAnswers sends announced questions to the library at once. For a plugin
    # there is nothing to gain, so these methods do nothing.

    def expect_threads(self, threads: Sequence[NativeThread]) -> None:
        """Announce all questions about *threads*, and about the regions and tasks around them."""

    def expect(self, scope: Scope, handles: Sequence[Handle]) -> None:
        """Announce all questions about *handles* of regions or tasks, except questions about members of teams."""

    def expect_members(self, parallel: Handle, thread_nums: Sequence[int]) -> None:
        """Announce questions about the threads and implicit tasks of a region's team that have *thread_nums*."""

    def _initial(self, task: TaskHandle | None) -> InitialRegion | None:
        # Return the initial region around a task: that of the outermost task in the chain of generating tasks. None
        # without a task.
        ids: set[str] = set()
        first = outermost = task
        while task is not None:
            if task.id in ids or len(ids) >= MAX_CHAIN:
                raise CorruptState(0, f"the chain from {first.id if first is not None else None} has no end")
            ids.add(task.id)
            outermost, task = task, task.generating()
        return InitialRegion(outermost) if outermost is not None else None
