"""What a plugin gives back: handles that mirror OMPD's, one runtime of one process at one stop.

A plugin returns addresses and numbers; names, files and lines are the debugger's. Every method may raise
:class:`~ompd.errors.MemoryFault` or :class:`~ompd.errors.CorruptState` (trying failed) and
:class:`~ompd.errors.Unavailable` (this target cannot tell). None always means: the specification says there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.process import Frame, Module, Process
from ompd.errors import CorruptState

if TYPE_CHECKING:  # no command needs the rest of it
    from ompd.contract.dmpl import RtlNames


@dataclass(frozen=True, slots=True)
class FrameAddress:
    """A frame of ``ompt_frame_t``: its address and its ``ompt_frame_flag_t``."""

    address: int
    flags: int


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread's state: an ``ompt_state_t``, and the wait identifier where the state is one of waiting.

    ``source`` is ``runtime`` where the runtime keeps states, ``derived`` where it was worked out from what it did keep.
    """

    state: int
    wait_id: int | None
    source: str


@dataclass(frozen=True, slots=True)
class IcvDescription:
    """An internal control variable the runtime has: its name with hyphens, and the scope of its handle."""

    name: str
    scope: Scope


class Dependence(NamedTuple):
    """An item of a ``depend`` clause: the *address* that it names, and whether the task only reads what is there
    (``in``); ``is_in`` is None where the runtime does not keep that.
    """

    address: int
    is_in: bool | None


@dataclass(frozen=True, slots=True)
class TaskWait:
    """What a task that no thread executes waits for.

    ``kind`` is ``dependence`` for one that has not begun because it depends on others, ``event`` for a detached one
    whose code is done. Of the former ``count`` is how many tasks the runtime has it wait for yet, ``tasks`` are those
    of them that were found, ``dependences`` the items of its ``depend`` clause, None where the runtime does not lead to
    them. Of the latter ``event`` is the event, what the user's ``omp_event_handle_t`` holds.
    """

    kind: str
    count: int | None = None
    tasks: Sequence[TaskHandle] = ()
    dependences: Sequence[Dependence] | None = None
    event: int | None = None


class TaskHandle(Protocol):
    """A task (``ompd_task_handle_t``)."""

    @property
    def id(self) -> str:
        """Opaque, unique among the tasks of one stop."""

    def likeness(self) -> Hashable | None:
        """Return what tells that all facts of two tasks of one stop are the same but their ids: two that have not begun
        and are equal in it. None for a task of which each fact has to be asked for.

        :raises OmpdError: if it cannot be told
        """

    def kind(self) -> str:
        """Return ``initial``, ``implicit`` or ``explicit`` (implicit-task-var)."""

    def status(self) -> str:
        """Return ``executing``, ``suspended``, ``queued`` (created, not begun, and nothing keeps it from beginning),
        ``waiting`` (not begun, since it depends on tasks that are not complete), ``detached`` (its code is done, and
        the event that it waits for has not come) or ``complete``.

        A task that is complete is kept while tasks that it generated are not.
        """

    def waits_for(self) -> TaskWait | None:
        """Return what a ``waiting`` or ``detached`` task waits for, None for any other."""

    def unfinished_children(self) -> int:
        """Return how many explicit tasks it has generated that are not complete, those among them that are in no list
        of the runtime's.
        """

    def thread(self) -> ThreadHandle | None:
        """Return the thread that executes it, or on which it is suspended, None for one that is on none."""

    def is_final(self) -> bool:
        """Tell whether it is a final task (final-task-var)."""

    def generating(self) -> TaskHandle | None:
        """Return the task whose code created this one. ``ompd_get_generating_task_handle``."""

    def scheduling(self) -> TaskHandle | None:
        """Return the task that was suspended for this one. ``ompd_get_scheduling_task_handle``."""

    def parallel(self) -> ParallelHandle | None:
        """Return the innermost region the task belongs to, None at level 0. ``ompd_get_task_parallel_handle``."""

    def function(self) -> int | None:
        """Return the entry of the code the task runs. ``ompd_get_task_function``."""

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Return exit and enter frame. ``ompd_get_task_frame``."""

    def tool_data(self) -> int:
        """Return the word a tool keeps with the task. ``ompd_get_tool_data``."""


class ParallelHandle(Protocol):
    """A parallel region (``ompd_parallel_handle_t``); serialized regions that share a team are one each."""

    @property
    def id(self) -> str:
        """Opaque, unique among the regions of one stop."""

    def enclosing(self) -> ParallelHandle | None:
        """Return the enclosing region, None for one at level 1. ``ompd_get_enclosing_parallel_handle``."""

    def size(self) -> int:
        """Return the number of threads of the region's team (team-size-var)."""

    def level(self) -> int:
        """Return the number of enclosing regions and itself (levels-var)."""

    def active_level(self) -> int:
        """Return the number of active ones among them (active-levels-var)."""

    def thread(self, thread_num: int) -> ThreadHandle:
        """Return the thread with that number. ``ompd_get_thread_in_parallel``.

        :raises BadInput: if *thread_num* is not below :meth:`size`
        """

    def implicit_task(self, thread_num: int) -> TaskHandle:
        """Return that thread's implicit task. ``ompd_get_task_in_parallel``."""

    def function(self) -> int | None:
        """Return the entry of the function the compiler made of the region's code."""

    def encountering_frames(self) -> Sequence[Frame]:
        """Return the primary thread's frames outside of the region, from the user's that encountered it on.

        If that was code of another region and ended by a jump, the first one is what it jumped to.
        """

    def tool_data(self) -> int:
        """Return the word a tool keeps with the region. ``ompd_get_tool_data``."""


class Outside(NamedTuple):
    """What a thread is outside of a target region that it executes itself: the innermost ``region`` there, None at
    level 0, the thread's number in its team, and the ``task`` that met the target construct.
    """

    region: ParallelHandle | None
    thread_num: int
    task: TaskHandle


class ThreadHandle(Protocol):
    """An OpenMP thread (``ompd_thread_handle_t``)."""

    @property
    def address(self) -> int:
        """Address of the runtime's thread descriptor."""

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return the thread's native identifier of that *kind*. ``ompd_get_thread_id``.

        :raises Unsupported: if the runtime does not keep that kind
        """

    def thread_type(self) -> str:
        """Return ``initial`` or ``worker``."""

    def thread_num(self) -> int | None:
        """Return the thread's number in its team (thread-num-var), None while it is in none."""

    def current_parallel(self) -> ParallelHandle | None:
        """Return the innermost region it executes, None outside of all. ``ompd_get_curr_parallel_handle``."""

    def current_task(self) -> TaskHandle | None:
        """Return the task it executes, None while it is idle. ``ompd_get_curr_task_handle``."""

    def outside_of_target(self) -> Outside | None:
        """Return what the thread is outside of a target region that it executes itself, since there is no device, and
        for whose code the runtime has made it an initial thread. None if it executes none.
        """

    def state(self) -> ThreadState:
        """Return what it is doing. ``ompd_get_state``."""

    def is_about_to_begin(self) -> bool:
        """Tell whether it is known to have its place in a team, and not to have begun the region's code yet."""

    def tool_data(self) -> int:
        """Return the word a tool keeps with the thread. ``ompd_get_tool_data``."""

    def construct_code(self) -> Sequence[ConstructCode]:
        """Return the code of regions and explicit tasks on its native stack, innermost first.

        :raises Unavailable: if that cannot be told
        """

    def threadprivate_address(self, address: int) -> int | None:
        """Return where this thread's copy of the variable at *address* lies, None where it has no storage yet.

        Of variables of which the runtime keeps the copies. DMPL ``DMPL_get_tls_address``.

        :raises BadInput: if it keeps none of it: it is not threadprivate, or thread-local storage has the copies
        """


class ConstructCode(NamedTuple):
    """The code of a region or of an explicit task on a thread's stack.

    ``frame`` is the index of its outermost frame, counted from the thread's innermost; those inside of it up to the
    next construct's are the task's too. ``kind`` is ``parallel`` or ``task``, or ``target`` for a target region that
    the thread executes itself; ``region`` is the parallel region whose code it is, ``task`` the task that executes it;
    both are None where that cannot be told. ``source`` says how the task is known:
    ``runtime`` by the frames that the runtime keeps, ``derived`` by its routines on the stack, None where it is not.
    """

    frame: int
    kind: str
    region: ParallelHandle | None
    task: TaskHandle | None
    source: str | None


class AddressSpace(Protocol):
    """One runtime of one process (``ompd_address_space_handle_t``)."""

    @property
    def module(self) -> Module:
        """The module that holds the runtime."""

    @property
    def layout_source(self) -> str:
        """How the layout of its structures is known: ``published``, ``dwarf``, ``table`` or ``queried``."""

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """The same for each structure that was asked about so far, by its name."""

    @property
    def layout_proof(self) -> str | None:
        """What shows that a layout from a table fits this very image; None for one that the target itself tells."""

    @property
    def threadprivate_mechanism(self) -> str:
        """By what threads have the copies of threadprivate variables that the runtime keeps: ``cached`` in lists of its
        own, ``key`` under a POSIX thread key.
        """

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """Return the same as :meth:`ThreadHandle.threadprivate_address` for a thread of the process that the runtime
        does not know, by its native id; None where it keeps copies for its own threads alone.
        """

    def omp_version(self) -> int:
        """Return the version of OpenMP as ``_OPENMP`` spells it. ``ompd_get_omp_version``."""

    def version(self) -> str | None:
        """Return the runtime's own version, None where it keeps none."""

    def keeps_states(self) -> bool:
        """Tell whether the runtime keeps thread states, frames and tool data in this process."""

    def damage(self) -> Sequence[CorruptState]:
        """Return what of the runtime's structures contradicts itself, as far as that can be told without a question:
        none where only those say so that ask for it.
        """

    def threads(self) -> Sequence[ThreadHandle]:
        """Return all of the runtime's threads that exist, idle ones too."""

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> ThreadHandle | None:
        """Return the thread with that native identifier, None if it is not one. ``ompd_get_thread_handle``."""

    def states(self) -> Mapping[int, str]:
        """Return the states the runtime may report, by number. ``ompd_enumerate_states``."""

    def icvs(self) -> Sequence[IcvDescription]:
        """Return the ICVs that can be asked for. ``ompd_enumerate_icvs``."""

    def icv(self, name: str, handle: object) -> int | str:
        """Return the value of an ICV for a handle of its scope. ``ompd_get_icv_from_scope`` and its string form.

        A truth value for a variable that is true or false, a text for one that is a list or a name.

        :raises BadInput: if there is no such variable, or *handle* is of another scope
        """

    def internals(self) -> RuntimeInternals:
        """Return what the runtime keeps beyond OMPD.

        :raises LayoutUnavailable: if nothing tells where
        """

    def display_control_vars(self) -> Mapping[str, str]:
        """Return the settings the runtime displays, by name. ``ompd_get_display_control_vars``."""


class ThreadprivateCopies(Protocol):
    """Copies of threadprivate variables, for any thread of the process."""

    def address(self, thread: int, address: int) -> int | None:
        """Return where a thread, by its native id, has its copy of the variable at *address*, None if it has no storage
        yet.

        :raises BadInput: if these are no copies of it
        """


class Plugin(Protocol):
    """Knows one kind of runtime. Holds nothing about any process."""

    @property
    def kind(self) -> str:
        """``libomp``, ``libgomp``, ``stub`` …"""

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime that *module* holds. ``ompd_process_initialize``.

        :raises NotInitialised: if nothing of OpenMP has run yet
        :raises LayoutUnavailable: if the layout of its structures is not known
        """

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        """Return the copies of threadprivate variables that threads may have though the runtime in *module* has not
        been initialised, None if there are none before.

        :raises OmpdError: if that cannot be told
        """

    def rtl_names(self, language: int) -> RtlNames | None:
        """Return the routines around a construct's code in a :class:`ompd.contract.dmpl.Language`, None for one that
        the runtime does not know. ``DMPL_get_rtl_names``.
        """

    def demangle_name(self, name: str) -> str | None:
        """Return the source's name of a compiler-made one, None if it is none. ``DMPL_demangle_name``."""


# What omp.h calls the types of lock variables.
LOCK_TYPES = ("omp_lock_t", "omp_nest_lock_t")


@dataclass(frozen=True, slots=True)
class LockState:
    """A lock that a thread waits for.

    ``address`` is the runtime's object, ``kind`` what the user calls it (``lock`` or ``critical``). ``owner`` is the
    native id of its holder, None where the runtime does not store one; ``waiters`` those of all who wait, first in line
    first, empty where it keeps no list. ``variable`` is the address of the user's variable, None where that was not
    found. ``is_unnamed`` is True for the critical section without a name, which has none."""

    address: int
    kind: str
    owner: int | None
    waiters: tuple[int, ...]
    variable: int | None = None
    is_unnamed: bool = False


@dataclass(frozen=True, slots=True)
class BarrierState:
    """A barrier at which threads of a team wait for the others of the team.

    A runtime may keep several for one team, as one for the region's end and one for all else: then threads that do not
    meet at the same one wait for ever. ``present`` are the native ids of the threads that have arrived and were not let
    go, ``missing`` those of the team's other threads, both in the order of their numbers. So each thread of the team is
    in one of the two. ``doubt`` says why that is not certain, None if it is: ``missing`` is not to be shown then.
    ``flags`` are the bits of the word on which threads sleep there that change without letting anybody go.
    """

    present: tuple[int, ...]
    missing: tuple[int, ...]
    doubt: str | None = None
    flags: int = 0

    @classmethod
    def gathering(
        cls, team: Sequence[int], present: Collection[int], doubt: str | None = None, flags: int = 0
    ) -> BarrierState:
        """Return the barrier at which the threads *present* of a *team* wait.

        :param team: the native ids of all its threads, in the order of their numbers
        """
        here = tuple(thread for thread in team if thread in present)
        return cls(here, tuple(thread for thread in team if thread not in present), doubt, flags)


class RuntimeInternals(Protocol):
    """The optional protocol: what OMPD lacks but a runtime keeps."""

    def lock(self, handle: ThreadHandle) -> LockState | None:
        """Return the lock a thread waits for, None if it waits for none."""

    def barriers(self, region: ParallelHandle) -> Sequence[BarrierState]:
        """Return the barriers of a region's team at which threads wait, none if none does.

        No thread is present at two of them. A thread that is leaving a barrier which all have reached is at none.

        :raises Unavailable: if it is not known at which of them some thread is
        """

    def unfinished_tasks(self, region: ParallelHandle) -> int:
        """Return how many explicit tasks of a region are not complete, as far as the runtime counts them: at least so
        many. Threads at a barrier wait for them once all have arrived.

        :raises Unavailable: if nothing tells where the count is
        """

    def task_source(self, handle: TaskHandle) -> str | None:
        """Return what the compiler wrote down of the construct that created an explicit task, None if it wrote nothing.

        The text of an ``ident_t``: file, function, line and column, each after a semicolon.
        """

    def barrier_source(self, handle: ThreadHandle) -> str | None:
        """Return the same of the barrier that a thread's innermost code has called, None if it has called none."""

    def region_source(self, handle: ParallelHandle) -> str | None:
        """Return the same of the construct of a region of several threads."""

    def queued_tasks(self) -> Iterable[TaskHandle]:
        """Return the explicit tasks in task queues: not begun, or untied and to be resumed by any thread. Those that
        can be read come before what is raised for others.

        Those with a priority may be in queues of their own, see :meth:`prioritized_tasks`; those that nobody may
        execute yet in none, see :meth:`waiting_tasks`.
        """

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks that wait for a dependence or an event, as far as others lead to them; beside those
        that :meth:`queued_tasks` returns.

        :raises LayoutUnavailable: if nothing tells where they are
        """

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return by the ids of regions of how many explicit tasks the runtime has counted that they are not complete,
        and that none of its lists leads to; regions without such ones are left out.
        """

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return address and size of each copy of a threadprivate variable that the runtime itself keeps.

        :raises LayoutUnavailable: if there are some, and nothing tells where
        """

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks in queues of tasks that were given a priority.

        :raises LayoutUnavailable: if nothing tells where they are
        """
