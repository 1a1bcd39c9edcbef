"""Records of ``ompd why``: what threads wait for outside of OpenMP, the verdicts, and the wait-for graph on which the
verdicts rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ompd.model.base import Record
from ompd.model.kinds import Confidence, EdgeKind, Kind, VerdictKind
from ompd.model.openmp import Answer
from ompd.model.places import DistinctValue, Place, SourceExcerpt, StackRecord
from ompd.records import record


@record(kw_only=True)
class SystemWait(Record):
    """What a thread waits for outside of OpenMP, by its system call and the C library's objects.

    ``kind`` is ``mutex``, ``condition``, ``join``, ``semaphore``, ``rwlock``, ``pthread_barrier``, ``once`` (an
    initialization that one thread does for all), ``stream`` (the lock of a ``FILE``), ``future``, ``latch`` and
    ``std_barrier`` (of C++), ``futex`` (a futex of unknown purpose), ``sleep``, ``io`` (read, write, poll, accept …),
    ``signal`` (sigwait, pause), ``child`` (waitpid), ``gil`` (Python's interpreter lock), ``mpi`` (inside of an MPI
    call, whether it sleeps or polls), ``spin`` (a loop of the program that only a change of a word in memory ends;
    ``loop`` is a sentence on it) or ``system_call`` (any other). ``routine`` is the function that was called
    (``pthread_cond_wait``, ``MPI_Recv``), ``system_call`` the kernel's name of the call; None if unknown. ``object`` is
    the address of the mutex, condition variable or futex word, ``symbol`` the name of the variable there. ``owner`` is
    the native id of the holder or of the thread to be joined. ``owner_source`` is ``runtime`` if the id was read from
    the object, ``derived`` if reasoning led to it. ``is_owner_alive`` is True if the process still has that thread,
    None without an owner. ``descriptor`` is the file descriptor of an ``io`` wait. ``peer`` is the file of the
    descriptor, the process of a ``child`` wait, or the other side of a call of MPI, None if unknown. ``is_timed`` is
    True for a wait that ends by itself, ``is_shared`` for a futex that other processes may wake. Each is None if
    unknown. ``is_recursive`` is True if the owner of the mutex may lock it again. ``expected`` is the number of threads
    that a barrier needs. ``missing`` is the number of those that have not arrived, or the remaining count of a latch.
    ``readers`` is the number of threads that hold a read-write lock for reading. Each is None for other kinds, and if
    unknown. ``pool`` names the pool of an idle thread, such as ``the thread pool of OpenBLAS``, None for other threads.
    """

    kind: Kind
    routine: str | None = None
    system_call: str | None = None
    object: int | None = None
    symbol: str | None = None
    owner: int | None = None
    owner_source: str | None = None
    is_owner_alive: bool | None = None
    descriptor: int | None = None
    peer: str | None = None
    is_timed: bool | None = None
    is_shared: bool | None = None
    is_recursive: bool | None = None
    pool: str | None = None
    expected: int | None = None
    missing: int | None = None
    readers: int | None = None
    loop: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record(kw_only=True)
class HeldRecord(Record):
    """A construct that a thread is inside of, or a lock that it holds, according to the code of its frames. No runtime
    records this; it is the result of reasoning.

    ``kind`` is ``lock``, ``nest_lock``, ``critical``, ``atomic``, ``ordered``, ``single``, ``master``, ``masked``,
    ``section``, ``mutex`` (POSIX) or ``once`` (an initialization that one thread does for all). ``object`` is the
    address of the lock, None for a construct without a lock or if the code does not show it. ``symbol`` is the name as
    in a thread's wait. ``place`` is the call that acquired the lock or began the construct. ``is_certain`` is False if
    the thread may have come another way, without that call. ``reason`` is the explanation in words.
    """

    kind: Kind
    object: int | None = None
    symbol: str | None = None
    place: Place | None = None
    is_certain: bool = True
    reason: str = ""


@record(kw_only=True)
class SchedulingRecord(Record):
    """A wait during which a thread may execute other tasks.

    ``kind`` is ``barrier``, ``taskwait``, ``taskgroup`` (the end of one) or ``dependence``; ``task`` is the id of the
    task whose code waits. ``takes`` selects the tasks of the team that the thread may begin there: ``any``;
    ``children`` of ``task``; ``group``, members of the task group (and children of ``task`` while no member is free to
    begin); ``descendants`` of ``task``; ``tied_descendants``, descendants and all untied tasks. The other fields are
    for kinds other than ``barrier``. ``count`` is the runtime's count of the tasks that the thread waits for, None
    without one; ``address`` and ``value`` are the word with the count. ``tasks`` are the ids of the tasks that were
    found; ``is_whole`` is True if these are all that the thread waits for.
    """

    native_thread_id: int
    kind: Kind
    task: str | None
    takes: str
    count: int | None = None
    address: int | None = None
    value: int | None = None
    tasks: tuple[str, ...] = ()
    is_whole: bool = False


@record
class Evidence(Record):
    """Something that was read or seen, on which a verdict rests.

    ``source`` is ``runtime`` (a counter, owner or queue word was read), ``derived`` (elimination, reasoning) or
    ``stack`` (frames of a stack). ``address`` and ``value`` are those of the word that was read, None if none was read.
    """

    text: str
    source: str
    address: int | None = None
    value: int | None = None


@record
class GraphNode(Record):
    """A node of the wait-for graph.

    ``kind`` is ``thread``, ``task``, ``team``, ``barrier``, ``lock``, ``critical``, ``nest_lock``, ``ordered``,
    ``doacross``, ``taskwait``, ``taskgroup``, ``dependence``, ``event``, ``single``, ``mutex``, ``once``,
    ``condition``, ``join``, ``internal_lock``, ``gil``, ``call`` (a system or MPI call), ``outside`` (everything
    outside of the process) or ``parent`` (the process that forked this one). ``name`` is the node's name in the text.
    ``thread`` is the native id of a thread node. ``stuck`` is ``proven``, ``likely``, ``possible``, or None for a node
    that can go on.
    """

    id: str
    kind: Kind
    name: str
    object: int | None = None
    thread: int | None = None
    stuck: Confidence | None = None


@record
class GraphEdge(Record):
    """An edge of the wait-for graph, from ``origin`` to ``target``, by the nodes' ids.

    ``kind`` is ``waits_for``, ``held_by``, ``member``, ``executes``, ``child``, ``depends_on`` or ``may_run``. Edges of
    one node with the same ``group`` are alternatives: it suffices if ``need`` of their targets can go on. ``source`` is
    as in :class:`Evidence`.
    """

    origin: str
    target: str
    kind: EdgeKind
    source: str
    group: int = 0
    need: int = 1
    evidence: str | None = None


def thread_name(native: int | None, thread_num: int | None, ancestors: Sequence[int] | None = ()) -> str:
    """Return the name of a thread in sentences: ``thread 3 (4711)``, in a nested team ``thread 1.0 (4712)``.

    :param ancestors: as of :class:`~ompd.model.ThreadRecord`
    """
    if thread_num is None:
        return f"thread {native}"
    numbers = ".".join(map(str, (*(ancestors if ancestors is not None else ("?",)), thread_num)))
    return f"thread {numbers} ({native})"


@record
class Link(Record):
    """A link of a cycle or a chain: ``thread`` waits for ``object`` at ``where``; the next link's thread holds it.

    ``thread`` is a native id; ``threads`` are the ids of all threads that wait in the same place, including this one.
    All other threads depend on the threads of the last links. ``thread_num`` and ``ancestors`` belong to ``thread``.
    ``holder`` describes how the next thread holds ``object``, None at the end of a chain.
    """

    thread: int | None
    threads: tuple[int, ...]
    object: str
    kind: Kind
    where: Place | None
    holder: str | None = None
    thread_num: int | None = None
    ancestors: tuple[int, ...] | None = ()

    @property
    def name(self) -> str:
        """The name of ``thread`` in sentences."""
        return thread_name(self.thread, self.thread_num, self.ancestors) if self.thread is not None else "a thread"


@record(kw_only=True)
class DifferingVariable(Record):
    """A variable of the function with the branch in front of a barrier, which differs between threads or may do so.

    ``is_read`` is True if the branch's line reads the variable; such variables come first. ``arrived`` are the values
    in threads at the barrier. ``absent`` are the values in threads that did not come but have a frame of the function.
    If there are many threads, only some are examined. All values are current ones. ``line`` is the line of the
    declaration. ``unavailable`` has the reasons for unknown values under ``arrived`` and ``absent``.
    """

    name: str
    type: str | None
    function: str | None
    line: int | None
    is_read: bool
    arrived: tuple[DistinctValue, ...] = ()
    absent: tuple[DistinctValue, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record(kw_only=True)
class VerdictRecord(Record):
    """One reason why threads do not go on.

    ``kind`` is a verdict of docs/why.md. ``stuck`` is the confidence that the threads never go on, ``confidence`` the
    confidence in the cause. ``summary`` is one sentence; ``others`` is one more, on further threads that wait or on the
    team that is too small, None without it. ``advice`` are sentences on what to change in the program or to look at
    next. ``roots`` are the native ids of the threads that all others depend on, ``cycle`` the links of the cycle or
    chain that begins at a root. ``explains`` are the native ids of all threads that this verdict explains. ``unknowns``
    are the missing facts that would have been decisive, ``what_if`` an event that would set threads free, ``next_step``
    a command to type. ``place`` is the line to look at first. ``branch`` is set if a thread does not come to a barrier:
    the branch in front of the barrier whose other side goes to that thread's place, None if no such branch is found.
    ``branch_calls`` are the functions whose results the branch depends on; ``variables`` are variables of its function,
    if debug information describes them. ``stacks`` are at most two stacks of threads that the verdict names, with the
    user's frames only; empty for all but the first verdicts. ``sources`` are the lines of source at the places of
    ``cycle``, and at the places where its locks were set, if the source files are on this machine; only the first
    verdict has them. In ``next_step`` the word ``TARGET`` stands for the target.
    """

    kind: VerdictKind
    stuck: Confidence
    confidence: Confidence
    summary: str
    others: str | None = None
    advice: tuple[str, ...] = ()
    roots: tuple[int, ...] = ()
    cycle: tuple[Link, ...] = ()
    explains: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    unknowns: tuple[str, ...] = ()
    what_if: str | None = None
    next_step: str | None = None
    place: Place | None = None
    branch: Place | None = None
    branch_calls: tuple[str, ...] = ()
    variables: tuple[DifferingVariable, ...] = ()
    stacks: tuple[StackRecord, ...] = ()
    sources: tuple[SourceExcerpt, ...] = ()

    @property
    def is_about_supply(self) -> bool:
        """Whether the verdict is about what the process gets from its machine. Its threads go on, but slowly."""
        return self.kind.is_about_supply or (self.kind is VerdictKind.OVERSUBSCRIBED and not self.roots)


@record
class GraphRecord(Record):
    """The wait-for graph: its nodes, and its edges by the nodes' ids."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()


@record
class ChildRecord(Record):
    """The first verdict on another process: a child of a live process, a child of a child, or another rank of its job.

    ``program`` is the name of its program's file. ``kind``, ``stuck`` and ``summary`` are those of the verdict.
    ``rank`` is the number of its MPI rank, None if it is no rank.
    """

    process_id: int
    program: str | None
    kind: VerdictKind
    stuck: Confidence
    summary: str
    rank: int | None = None


@record
class OtherRanksRecord(Record):
    """The other ranks of a live process's MPI job that are on this host and use OpenMP.

    ``on_host`` is their number, ``inspected`` the number of those that could be looked at. ``waiting`` are the ranks
    in which threads wait for something else than threads at work, the surest verdicts first.
    """

    on_host: int
    inspected: int
    waiting: tuple[ChildRecord, ...] = ()


@record
class WhyAnswer(Answer[VerdictRecord]):
    """The answer of ``why``: the verdicts, beginning with the one to read first, and the graph on which they rest.

    ``children`` are child processes in which threads wait for something else than threads at work. ``other_ranks`` is
    None if the process is no rank of MPI, or no other rank is on this host.
    """

    graph: GraphRecord = field(default_factory=GraphRecord)
    children: tuple[ChildRecord, ...] = ()
    other_ranks: OtherRanksRecord | None = None
