"""What a plugin returns: handles that mirror OMPD's, for one runtime of one process at one stop.

A plugin returns addresses and numbers; names, files and lines are the debugger's. Every method may raise
:class:`~ompd.errors.MemoryFault` or :class:`~ompd.errors.CorruptState` (reading failed) and
:class:`~ompd.errors.Unavailable` (this target does not have the fact). None always means that there is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ompd.contract.kept import Numbered, NumberedTask, NumberedThread
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.process import Frame, Module, Process
from ompd.contract.waits import BarrierState, GoneThread, LockState
from ompd.errors import CorruptState
from ompd.records import record

if TYPE_CHECKING:  # no command needs the rest of it
    from ompd.contract.dmpl import NamedVariable, RtlNames


@record
class FrameAddress:
    """A frame of ``ompt_frame_t``: its address and its ``ompt_frame_flag_t``, None if these are unknown."""

    address: int
    flags: int | None


@record
class ThreadState:
    """A thread's state: an ``ompt_state_t``, and the wait identifier if the thread waits.

    ``source`` is ``runtime`` if the runtime records states, ``derived`` if the state follows from other facts.
    """

    state: int
    wait_id: int | None
    source: str


@record
class IcvDescription:
    """An internal control variable of the runtime: its name with hyphens, and the scope of its handle."""

    name: str
    scope: Scope


class Dependence(NamedTuple):
    """An item of a ``depend`` clause: its *address*, and whether the task only reads it (``in``); ``is_in`` is None if
    the runtime does not record that.
    """

    address: int
    is_in: bool | None


@record
class TaskWait:
    """The wait of a task that no thread executes.

    ``kind`` is ``dependence`` for a task that has not begun because it depends on others, ``event`` for a detached task
    whose code has ended. For a dependence ``count`` is the number of tasks that the runtime still waits for, ``tasks``
    are the known ones, ``dependences`` the items of its ``depend`` clause, None if they are unknown. For an
    event ``event`` is the value of the user's ``omp_event_handle_t``.
    """

    kind: str
    count: int | None = None
    tasks: Sequence[TaskHandle] = ()
    dependences: Sequence[Dependence] | None = None
    event: int | None = None


# The tasks of its team that a waiting thread may begin.
ANY, CHILDREN, GROUP, DESCENDANTS, TIED_DESCENDANTS = "any", "children", "group", "descendants", "tied_descendants"


@record
class SchedulingPoint:
    """A place in the runtime at which a thread waits and may execute other tasks meanwhile.

    ``kind`` is ``barrier``, ``taskwait``, ``taskgroup`` (its end), or ``dependence`` (of a task that is not deferred,
    or of a taskwait). ``task`` is the one whose code waits there. ``takes`` says which tasks of its team
    the thread may begin here: ``any``; ``children`` of ``task``; ``group``, the members of the task group
    that ends, or while none of these is free to begin the children of ``task``; ``descendants`` of ``task``;
    ``tied_descendants``, all that are untied, and of the tied ones the descendants of ``task``. It may have to be woken
    up for them.

    At a barrier the region says how many tasks are not complete. For the others ``count`` is how many tasks the
    runtime counts for which the thread waits, None if it keeps no count; ``address`` and ``value`` are the word that
    shows it, None if there is none. ``tasks`` are the known ones, ``is_whole`` says whether these are all.
    """

    kind: str
    task: TaskHandle | None
    takes: str
    count: int | None = None
    address: int | None = None
    value: int | None = None
    tasks: Sequence[TaskHandle] = ()
    is_whole: bool = False


class TaskHandle(NumberedTask, Protocol):
    """A task (``ompd_task_handle_t``)."""

    @property
    def id(self) -> str:
        """Opaque, unique among the tasks of one stop."""

    def likeness(self) -> Hashable | None:
        """Return a key that is equal for tasks that differ only in their ids, such as queued ones. None if each fact of
        the task has to be queried.

        :raises OmpdError: if it is unknown
        """

    def kind(self) -> str:
        """Return ``initial``, ``implicit`` or ``explicit`` (implicit-task-var)."""

    def status(self) -> str:
        """Return ``executing``, ``suspended``, ``queued`` (created, not begun, and free to begin), ``waiting`` (not
        begun, since it depends on tasks that are not complete), ``detached`` (its code has ended, and its event is not
        fulfilled) or ``complete``.

        A complete task is kept while tasks that it generated are not complete.
        """

    def waits_for(self) -> TaskWait | None:
        """Return the wait of a ``waiting`` or ``detached`` task, None for any other task."""

    def unfinished_children(self) -> int:
        """Return how many explicit tasks it generated that are not complete, those in no list of the runtime, too."""

    def thread(self) -> ThreadHandle | None:
        """Return the thread that executes it, or on which it is suspended, None if there is none."""

    def is_final(self) -> bool:
        """Return whether it is a final task (final-task-var)."""

    def is_tied(self) -> bool:
        """Return whether it stays on the thread that began it. A runtime may tie tasks of untied constructs, too.

        :raises Unavailable: if the runtime does not record it
        """

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
        """Return the word that a tool stored with the task. ``ompd_get_tool_data``."""

    def source(self) -> str | None:
        """Return the compiler's note of the construct that created an explicit task, None if there is none.

        The text of an ``ident_t``: file, function, line and column, each after a semicolon.
        """


class ParallelHandle(Numbered, Protocol):
    """A parallel region (``ompd_parallel_handle_t``); serialized regions that share a team have one each."""

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
        """Return the start of the function that the compiler made of the region's code."""

    def encountering_frames(self) -> Sequence[Frame]:
        """Return the primary thread's frames outside of the region, from the user function that encountered it.

        If that function ended by a jump, the first frame is that of the function to which it jumped.
        """

    def tool_data(self) -> int:
        """Return the word that a tool stored with the region. ``ompd_get_tool_data``."""

    def source(self) -> str | None:
        """Return the compiler's note of the construct of a region of several threads, as :meth:`TaskHandle.source`."""

    def barriers(self) -> Sequence[BarrierState]:
        """Return the barriers of the region's team at which threads wait, empty if none does.

        No thread is present at two of them. A thread that is leaving a barrier which all have reached is at none.

        :raises Unavailable: if it is unknown at which of them some thread is
        """

    def unfinished_tasks(self) -> int:
        """Return how many explicit tasks of the region are not complete: at least those that the runtime counts.
        Threads at a barrier wait for them once all have arrived.

        :raises Unavailable: if the place of the count is unknown
        """


class Outside(NamedTuple):
    """The place of a thread outside of a target region that it executes itself: the innermost ``region`` there, None at
    level 0, the thread's number in its team, and the ``task`` that encountered the target construct.
    """

    region: ParallelHandle | None
    thread_num: int
    task: TaskHandle


class ThreadHandle(NumberedThread, Protocol):
    """An OpenMP thread (``ompd_thread_handle_t``)."""

    @property
    def address(self) -> int:
        """Address of the runtime's thread descriptor, or with a hosted library, which does not have it, another number
        that no other thread has.
        """

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return the thread's native identifier of that *kind*. ``ompd_get_thread_id``.

        :raises Unsupported: if the runtime does not record that kind
        """

    def native_thread_id(self) -> int:
        """Return the operating system's identifier of the thread.

        :raises BadInput: if the process has no such thread
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
        """Return the thread's place outside of a target region that it executes itself because there is no device. The
        runtime has made it an initial thread for the region. None if it executes none.
        """

    def state(self) -> ThreadState:
        """Return the thread's state. ``ompd_get_state``."""

    def is_about_to_begin(self) -> bool:
        """Return whether the thread has its place in a team and has not begun the region's code yet."""

    def tool_data(self) -> int:
        """Return the word that a tool stored with the thread. ``ompd_get_tool_data``."""

    def lock(self) -> LockState | None:
        """Return the lock the thread waits for, of the user's or of the runtime's own, None if it waits for none."""

    def wait_kind(self) -> str | None:
        """Return the kind of a wait for which OMPT has no state: ``dependence`` (of a task that is not deferred, or of
        a taskwait), ``doacross``, or ``copyprivate``. None if the thread's state is enough.
        """

    def scheduling_point(self) -> SchedulingPoint | None:
        """Return the place at which it waits and may execute other tasks. None if it executes user code, waits for
        something else, or is idle.

        :raises Unavailable: if that, or the task that waits, is unknown
        """

    def barrier_source(self) -> str | None:
        """Return the note of the barrier that its innermost code has called (:meth:`TaskHandle.source`), or None."""

    def idle_frame(self) -> int | None:
        """Return an address in the frame of its idle loop, None without one, or if the runtime does not record it."""

    def construct_code(self) -> Sequence[ConstructCode]:
        """Return the code of regions and explicit tasks on its native stack, innermost first.

        :raises Unavailable: if that is unknown
        """

    def threadprivate_address(self, address: int) -> int | None:
        """Return the address of this thread's copy of the variable at *address*, None if it has no storage yet.

        For variables whose copies the runtime keeps. DMPL ``DMPL_get_tls_address``.

        :raises BadInput: if the runtime keeps none of it: it is not threadprivate, or thread-local storage has the
            copies
        """


class ConstructCode(NamedTuple):
    """The code of a region or of an explicit task on a thread's stack.

    ``frame`` is the index of its outermost frame, counted from the thread's innermost; the frames inside of it up to
    the next construct's also belong to the task. ``kind`` is ``parallel`` or ``task``, or ``target`` for a target
    region that the thread executes itself; ``region`` is the parallel region of the code, ``task`` the task that
    executes it; both are None if that is unknown. ``source`` says how the task is known: ``runtime`` by the frames that
    the runtime records, ``derived`` by its functions on the stack, None if the task is unknown.
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
        """The source of its structures' layout: ``published``, ``dwarf``, ``table`` or ``queried``."""

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """The same for each structure that was used so far, by its name."""

    @property
    def layout_proof(self) -> str | None:
        """The proof that a layout from a table fits this very image, None for a layout from the target itself."""

    @property
    def threadprivate_mechanism(self) -> str:
        """How the runtime keeps copies of threadprivate variables: ``cached`` in its own lists, ``key`` under a POSIX
        thread key.
        """

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """Return the same as :meth:`ThreadHandle.threadprivate_address` for a thread of the process that the runtime
        does not know, by its native id; None if it keeps copies only for its own threads.
        """

    def omp_version(self) -> int:
        """Return the version of OpenMP as ``_OPENMP`` spells it. ``ompd_get_omp_version``."""

    def version(self) -> str | None:
        """Return the runtime's own version, None if it records none."""

    def keeps_states(self) -> bool:
        """Return whether the runtime records thread states, frames and tool data in this process."""

    def damage(self) -> Sequence[CorruptState]:
        """Return contradictions in the runtime's structures that are found without any query; empty if the plugin does
        not check.
        """

    def threads(self) -> Sequence[ThreadHandle]:
        """Return all of the runtime's threads that exist, idle ones too."""

    def gone_threads(self) -> Sequence[GoneThread]:
        """Return the threads that the runtime has among its own and that the process does not have. fork() leaves them
        in the child, where they are waited for in vain.

        :raises Unavailable: if the runtime keeps no list of its threads
        """

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> ThreadHandle | None:
        """Return the thread with that native identifier, None if it is not one. ``ompd_get_thread_handle``."""

    def states(self) -> Mapping[int, str]:
        """Return the states the runtime may report, by number. ``ompd_enumerate_states``."""

    def icvs(self) -> Sequence[IcvDescription]:
        """Return the available ICVs. ``ompd_enumerate_icvs``."""

    def icv(self, name: str, handle: object) -> int | str:
        """Return the value of an ICV for a handle of its scope. ``ompd_get_icv_from_scope`` and its string form.

        A bool for a variable that is true or false, a string for a list or a name.

        :raises BadInput: if there is no such variable, or *handle* has another scope
        """

    def queued_tasks(self) -> Iterable[TaskHandle]:
        """Return the explicit tasks in task queues: not begun, or untied and free to be resumed by any thread. Those
        that can be read come before an exception for the others.

        Tasks with a priority may be in queues of their own (:meth:`prioritized_tasks`). Tasks that no thread may
        execute yet are in none (:meth:`waiting_tasks`).

        :raises LayoutUnavailable: if their place is unknown
        """

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks that are known to wait for a dependence or an event, without those of
        :meth:`queued_tasks`.

        :raises LayoutUnavailable: if their place is unknown
        """

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks in queues of tasks with a priority.

        :raises LayoutUnavailable: if their place is unknown
        """

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return, by the ids of regions, how many explicit tasks the runtime counts as not complete and has in no list;
        regions without such tasks are left out.
        """

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return address and size of each copy of a threadprivate variable that the runtime keeps.

        :raises LayoutUnavailable: if there are some, and their place is unknown
        """

    def display_control_vars(self) -> Mapping[str, str]:
        """Return the settings the runtime displays, by name. ``ompd_get_display_control_vars``."""


class ThreadprivateCopies(Protocol):
    """Copies of threadprivate variables, for any thread of the process."""

    def address(self, thread: int, address: int) -> int | None:
        """Return the address of a thread's copy of the variable at *address*, by native id, None if it has no storage
        yet.

        :raises BadInput: if these are not copies of it
        """


class Plugin(Protocol):
    """Knows one kind of runtime. Holds nothing about any process."""

    @property
    def kind(self) -> str:
        """``libomp``, ``libgomp``, ``stub`` …"""

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime that *module* holds. ``ompd_process_initialize``.

        :raises NotInitialised: if no OpenMP code has run yet
        :raises LayoutUnavailable: if the layout of its structures is unknown
        """

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        """Return copies of threadprivate variables that threads may have before the runtime in *module* is initialised,
        or if it has no handles (:class:`~ompd.errors.NoCall`). None if there are none.

        :raises OmpdError: if that is unknown
        """

    def rtl_names(self, language: int) -> RtlNames | None:
        """Return the functions around a construct's code in a :class:`ompd.contract.dmpl.Language`, None for a language
        that the runtime does not support. ``DMPL_get_rtl_names``.
        """

    def demangle_name(self, name: str) -> str | None:
        """Return a compiler-made function's name in the source, None if *name* is not one. ``DMPL_demangle_name``."""

    def named_variable(self, name: str) -> NamedVariable | None:
        """Return what a compiler-made name says of a variable, None if *name* does not say how it is shared.
        ``DMPL_demangle_name``.
        """
