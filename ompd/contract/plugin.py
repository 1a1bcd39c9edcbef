"""The handles that a plugin returns. They mirror OMPD's handles, for one runtime of one process at one stop.

A plugin returns addresses and numbers; names, files and lines are the debugger's. Every method may raise
:class:`~ompd.errors.MemoryFault` or :class:`~ompd.errors.CorruptState` (reading failed) and
:class:`~ompd.errors.Unavailable` (this target does not have the fact). None always means that the fact does not exist.
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

if TYPE_CHECKING:  # commands do not need the rest of that module
    from ompd.contract.dmpl import NamedVariable, RtlNames


@record
class FrameAddress:
    """A frame of ``ompt_frame_t``: its address, and its ``ompt_frame_flag_t`` in ``flags``, None if the flags are
    unknown.
    """

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
    """An internal control variable of the runtime: its hyphenated name, and its scope, which is the kind of handle that
    has a value.
    """

    name: str
    scope: Scope


class Dependence(NamedTuple):
    """An item of a ``depend`` clause. ``address`` is the item's address. ``is_in`` is True if the task only reads the
    item (``in``), None if the runtime does not record that.
    """

    address: int
    is_in: bool | None


@record
class TaskWait:
    """The wait of a task that no thread executes.

    ``kind`` is ``dependence`` for a task that has not begun because it depends on others, ``event`` for a detached task
    whose code has ended. For a dependence, ``count`` is the number of incomplete tasks on which the task depends,
    ``tasks`` are the known ones among them, and ``dependences`` are the items of the task's ``depend`` clause, None if
    they are unknown. For an event, ``event`` is the value of the user's ``omp_event_handle_t``.
    """

    kind: str
    count: int | None = None
    tasks: Sequence[TaskHandle] = ()
    dependences: Sequence[Dependence] | None = None
    event: int | None = None


# Which tasks of its team a waiting thread may begin.
ANY, CHILDREN, GROUP, DESCENDANTS, TIED_DESCENDANTS = "any", "children", "group", "descendants", "tied_descendants"


@record
class SchedulingPoint:
    """A place in the runtime at which a thread waits and may execute other tasks meanwhile.

    ``kind`` is ``barrier``, ``taskwait``, ``taskgroup`` (its end), or ``dependence`` (of a task that is not deferred,
    or of a taskwait). ``task`` is the task whose code waits there. ``takes`` names the tasks of the team that the
    thread may begin here: ``any``; ``children`` of ``task``; ``group``, the members of the ending task group, or the
    children of ``task`` while no member is free to begin; ``descendants`` of ``task``; ``tied_descendants``, all untied
    tasks, and those tied tasks that are descendants of ``task``. The thread may have to be woken up for them.

    For a barrier, the region has the number of incomplete tasks (:meth:`ParallelHandle.unfinished_tasks`). For the
    other kinds, ``count`` is the number of tasks that the thread waits for, by the runtime's count, None if the runtime
    keeps none. ``address`` and ``value`` belong to the word with the count, None if there is no such word. ``tasks``
    are the known tasks that the thread waits for; ``is_whole`` is True if these are all.
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
        """Return a key that is equal for tasks that differ only in their ids, such as queued tasks. Return None if each
        fact of the task has to be queried.

        :raises OmpdError: if the key is unknown
        """

    def kind(self) -> str:
        """Return ``initial``, ``implicit`` or ``explicit`` (implicit-task-var)."""

    def status(self) -> str:
        """Return ``executing``, ``suspended``, ``queued`` (created, not begun, and free to begin), ``waiting`` (not
        begun, because it depends on incomplete tasks), ``detached`` (its code has ended, but its event is not
        fulfilled) or ``complete``.

        The runtime keeps a complete task until the tasks that the complete task generated are complete, too.
        """

    def waits_for(self) -> TaskWait | None:
        """Return the wait of a ``waiting`` or ``detached`` task, None for any other task."""

    def unfinished_children(self) -> int:
        """Return the number of incomplete explicit tasks that this task generated, including tasks in no list of the
        runtime.
        """

    def thread(self) -> ThreadHandle | None:
        """Return the thread that executes the task or on which the task is suspended, None if there is no such
        thread.
        """

    def is_final(self) -> bool:
        """Return whether the task is final (final-task-var)."""

    def is_tied(self) -> bool:
        """Return whether the task stays on the thread that began it. A runtime may tie tasks of untied constructs, too.

        :raises Unavailable: if the runtime does not record that
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

        The note is the text of an ``ident_t``: file, function, line and column, each after a semicolon.
        """


@record
class TeamSizing:
    """The settings by which a runtime chose the size of a region's team.

    ``nthreads`` (nthreads-var), ``dynamic`` (dyn-var), ``thread_limit`` (thread-limit-var, None for no limit) and
    ``max_active_levels`` (max-active-levels-var) are those of the task that encountered the region; ``active_level`` is
    the active level of that task. ``max_active_levels`` is None if the runtime decides by another variable.
    ``others`` are the names of further settings that may have given the team fewer threads.
    """

    nthreads: int
    dynamic: bool
    thread_limit: int | None
    max_active_levels: int | None
    active_level: int
    others: tuple[str, ...] = ()


class ParallelHandle(Numbered, Protocol):
    """A parallel region (``ompd_parallel_handle_t``); serialized regions that share a team have a handle each."""

    @property
    def id(self) -> str:
        """Opaque, unique among the regions of one stop."""

    def enclosing(self) -> ParallelHandle | None:
        """Return the enclosing region, None for a region at level 1. ``ompd_get_enclosing_parallel_handle``."""

    def size(self) -> int:
        """Return the number of threads of the region's team (team-size-var)."""

    def sizing(self) -> TeamSizing:
        """Return the settings by which the runtime chose the size of the region's team.

        :raises Unavailable: if one of them is unknown, or if other rules apply to the region
        """

    def level(self) -> int:
        """Return the number of enclosing regions, including this one (levels-var)."""

    def active_level(self) -> int:
        """Return the number of active regions among the enclosing regions and this one (active-levels-var)."""

    def thread(self, thread_num: int) -> ThreadHandle:
        """Return the thread whose number in the team is *thread_num*. ``ompd_get_thread_in_parallel``.

        :raises BadInput: if *thread_num* is not below :meth:`size`
        """

    def implicit_task(self, thread_num: int) -> TaskHandle:
        """Return the implicit task of the thread with number *thread_num*. ``ompd_get_task_in_parallel``."""

    def function(self) -> int | None:
        """Return the start of the function that the compiler made of the region's code."""

    def encountering_frames(self) -> Sequence[Frame]:
        """Return the primary thread's frames outside of the region, starting with the user function that encountered
        the region.

        If that function ended by a jump, the first frame belongs to the function to which it jumped.
        """

    def tool_data(self) -> int:
        """Return the word that a tool stored with the region. ``ompd_get_tool_data``."""

    def source(self) -> str | None:
        """Return the compiler's note of the construct, in the form of :meth:`TaskHandle.source`. None if there is none,
        and for a region with one thread.
        """

    def barriers(self) -> Sequence[BarrierState]:
        """Return the barriers at which threads of the region's team wait, empty if no thread waits.

        No thread is present at two barriers. A thread that is leaving a barrier that all threads have reached is
        present at none.

        :raises Unavailable: if it is unknown at which barrier a thread is
        """

    def unfinished_tasks(self) -> int:
        """Return the number of incomplete explicit tasks of the region, at least those that the runtime counts. Once
        all threads have arrived at a barrier, they wait there for these tasks.

        :raises Unavailable: if the place of the count is unknown
        """


class Outside(NamedTuple):
    """The place of a thread outside of the target region that the thread itself executes. ``region`` is the innermost
    parallel region there, None at level 0. ``thread_num`` is the thread's number in that region's team. ``task`` is the
    task that encountered the target construct.
    """

    region: ParallelHandle | None
    thread_num: int
    task: TaskHandle


class ThreadHandle(NumberedThread, Protocol):
    """An OpenMP thread (``ompd_thread_handle_t``)."""

    @property
    def address(self) -> int:
        """Address of the runtime's thread descriptor. A hosted library does not provide it; the value is then another
        number, unique to the thread.
        """

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return the thread's native identifier of this *kind*. ``ompd_get_thread_id``.

        :raises Unsupported: if the runtime does not record this kind
        """

    def native_thread_id(self) -> int:
        """Return the operating system's identifier of the thread.

        :raises BadInput: if the process has no such thread
        """

    def thread_type(self) -> str:
        """Return ``initial`` or ``worker``."""

    def thread_num(self) -> int | None:
        """Return the thread's number in its team (thread-num-var), None while the thread is in no team."""

    def current_parallel(self) -> ParallelHandle | None:
        """Return the innermost region that the thread executes, None outside of all regions.
        ``ompd_get_curr_parallel_handle``.
        """

    def current_task(self) -> TaskHandle | None:
        """Return the task that the thread executes, None while the thread is idle. ``ompd_get_curr_task_handle``."""

    def outside_of_target(self) -> Outside | None:
        """Return the thread's place outside of the target region that the thread itself executes because there is no
        device. For such a region the runtime makes the thread an initial thread. None if the thread executes no target
        region.
        """

    def state(self) -> ThreadState:
        """Return the thread's state. ``ompd_get_state``."""

    def is_about_to_begin(self) -> bool:
        """Return whether the thread already has a place in a team but has not begun the region's code."""

    def tool_data(self) -> int:
        """Return the word that a tool stored with the thread. ``ompd_get_tool_data``."""

    def lock(self) -> LockState | None:
        """Return the lock that the thread waits for, a user's or one of the runtime's own; None if the thread waits for
        no lock.
        """

    def wait_kind(self) -> str | None:
        """Return the kind of a wait for which OMPT has no state: ``dependence`` (of a task that is not deferred, or of
        a taskwait), ``doacross``, ``copyprivate``; or ``loop``, ``sections`` or ``single`` at the end of this
        construct. None if the thread's state already describes the wait, or if nothing shows which construct ends.
        """

    def scheduling_point(self) -> SchedulingPoint | None:
        """Return the place at which the thread waits and may execute other tasks. None if the thread executes user
        code, waits for something else, or is idle.

        :raises Unavailable: if the place or the waiting task is unknown
        """

    def barrier_source(self) -> str | None:
        """Return the compiler's note of the barrier that the thread's innermost code has called, in the form of
        :meth:`TaskHandle.source`, None if there is none.
        """

    def idle_frame(self) -> int | None:
        """Return an address in the frame of the thread's idle loop. None if there is no such frame, or if the runtime
        does not record it.
        """

    def construct_code(self) -> Sequence[ConstructCode]:
        """Return the code of regions and explicit tasks on the thread's native stack, innermost first.

        :raises Unavailable: if the code is unknown
        """

    def threadprivate_address(self, address: int) -> int | None:
        """Return the address of this thread's copy of the variable at *address*, None if it has no storage yet.

        Only for variables whose copies the runtime keeps. DMPL ``DMPL_get_tls_address``.

        :raises BadInput: if the runtime keeps no copies of the variable, because it is not threadprivate or because its
            copies are in thread-local storage
        """


class ConstructCode(NamedTuple):
    """The code of a region or of an explicit task on a thread's stack.

    ``frame`` is the index of the code's outermost frame, counted from the thread's innermost frame. The frames inside
    of that frame, up to the next construct's, also belong to the task. ``kind`` is ``parallel`` or ``task``, or
    ``target`` for a target region that the thread itself executes. ``region`` is the parallel region of the code and
    ``task`` the task that executes the code, each None if unknown. ``source`` is the evidence for the task: ``runtime``
    for the frames that the runtime records, ``derived`` for the task's functions on the stack, None if the task is
    unknown.
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
        """The source of the layouts of the runtime's structures: ``published``, ``dwarf``, ``table`` or ``queried``."""

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """The source of the layout of each structure that was used so far, by the structure's name."""

    @property
    def layout_proof(self) -> str | None:
        """The proof that a layout from a table fits this very image of the runtime, None for a layout from the target
        itself.
        """

    @property
    def threadprivate_mechanism(self) -> str:
        """How the runtime keeps copies of threadprivate variables: ``cached`` in its own lists, ``key`` under a POSIX
        thread key.
        """

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """Return what :meth:`ThreadHandle.threadprivate_address` returns, for a thread of the process that the runtime
        does not know. *thread* is its native id. The result is also None if the runtime keeps copies only for its own
        threads.
        """

    def omp_version(self) -> int:
        """Return the version of OpenMP as ``_OPENMP`` spells it. ``ompd_get_omp_version``."""

    def version(self) -> str | None:
        """Return the runtime's own version, None if it records none."""

    def keeps_states(self) -> bool:
        """Return whether the runtime records thread states, frames and tool data in this process."""

    def damage(self) -> Sequence[CorruptState]:
        """Return the contradictions in the runtime's structures that a check finds without any query. Empty if the
        plugin makes no such check.
        """

    def threads(self) -> Sequence[ThreadHandle]:
        """Return all existing threads of the runtime, including idle ones."""

    def gone_threads(self) -> Sequence[GoneThread]:
        """Return the threads that the runtime still lists but the process does not have. fork() leaves their entries in
        the child, where a wait for them never ends.

        :raises Unavailable: if the runtime keeps no list of its threads
        """

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> ThreadHandle | None:
        """Return the thread with this native identifier, None if the runtime has no such thread.
        ``ompd_get_thread_handle``.
        """

    def states(self) -> Mapping[int, str]:
        """Return the names of the states that the runtime may report, by number. ``ompd_enumerate_states``."""

    def icvs(self) -> Sequence[IcvDescription]:
        """Return the available ICVs. ``ompd_enumerate_icvs``."""

    def icv(self, name: str, handle: object) -> int | str:
        """Return the value of an ICV for a handle of its scope. ``ompd_get_icv_from_scope`` and its string form.

        The value is a bool for a truth value, a string for a list or a name, otherwise a number.

        :raises BadInput: if there is no such variable, or *handle* has another scope
        """

    def queued_tasks(self) -> Iterable[TaskHandle]:
        """Return the explicit tasks in task queues: not begun, or untied and free to be resumed by any thread. If some
        are unreadable, yield the readable tasks before raising the exception.

        Tasks with a priority may be in separate queues (:meth:`prioritized_tasks`). Tasks that no thread may execute
        yet are in no queue (:meth:`waiting_tasks`).

        :raises LayoutUnavailable: if their place is unknown
        """

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks that are known to wait for a dependence or an event and that :meth:`queued_tasks`
        does not return.

        :raises LayoutUnavailable: if their place is unknown
        """

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """Return the explicit tasks in queues of tasks with a priority.

        :raises LayoutUnavailable: if their place is unknown
        """

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return, by region id, the number of explicit tasks that the runtime counts as incomplete but has in no list.
        Regions without such tasks are left out.
        """

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return address and size of each copy of a threadprivate variable that the runtime keeps.

        :raises LayoutUnavailable: if there are copies, but their place is unknown
        """

    def display_control_vars(self) -> Mapping[str, str]:
        """Return the settings that the runtime displays, by name. ``ompd_get_display_control_vars``."""


class ThreadprivateCopies(Protocol):
    """Copies of threadprivate variables, for any thread of the process."""

    def address(self, thread: int, address: int) -> int | None:
        """Return the address of a thread's copy of the variable at *address*, None if the copy has no storage yet.
        *thread* is the thread's native id.

        :raises BadInput: if these are not copies of that variable
        """


class Plugin(Protocol):
    """The code for one kind of runtime. A plugin holds nothing about any process."""

    @property
    def kind(self) -> str:
        """``libomp``, ``libgomp``, ``stub`` …"""

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime that *module* holds. ``ompd_process_initialize``.

        :raises NotInitialised: if no OpenMP code has run yet
        :raises LayoutUnavailable: if the layout of its structures is unknown
        """

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        """Return the threads' copies of threadprivate variables where the runtime in *module* has no address space:
        before it is initialised, or if it has no handles (:class:`~ompd.errors.NoCall`). None if no thread can have a
        copy then.

        :raises OmpdError: if it is unknown whether there are copies
        """

    def rtl_names(self, language: int) -> RtlNames | None:
        """Return the functions around a construct's code in a :class:`ompd.contract.dmpl.Language`, None for a language
        that the runtime does not support. ``DMPL_get_rtl_names``.
        """

    def demangle_name(self, name: str) -> str | None:
        """Return the source name of a compiler-made function, None if *name* is not that of such a function.
        ``DMPL_demangle_name``.
        """

    def named_variable(self, name: str) -> NamedVariable | None:
        """Return the variable that a compiler-made name stands for, None if *name* does not show how the variable is
        shared. ``DMPL_demangle_name``.
        """
