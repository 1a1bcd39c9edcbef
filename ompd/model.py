"""Frozen records: what a question answers, in the OpenMP specification's words.

In every record a None means that the specification says there is none, unless the record's ``unavailable`` names the
field: then it exists and could not be told, and the text says why. Addresses are target virtual addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the code. ``function`` is the source's name where it can be told, else the symbol's.

    ``line`` counts from 1. ``file`` is as the debug information names it. Without debug information both are None.
    ``address`` is the program counter, or, of code that has called something, the last byte of the call; of a function
    that ended by a jump to what it called, and has no frame any more, it is that of the jump, None if which one it was
    is not known. ``calling`` is the function of a library without debug information that this code called, and that the
    thread is in; None if it is in none, and for the C library's and OpenMP runtimes'.
    ``unproven`` says why the files that it was found by may not be those that ran, None where they are proven.
    """

    address: int | None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    unproven: str | None = None
    calling: str | None = None


@dataclass(frozen=True, slots=True)
class RegionFunction:
    """The function the compiler made of a region's code: where it starts, and which ``construct`` it is of.

    ``unproven`` is as in :class:`Place`."""

    address: int
    function: str | None = None
    file: str | None = None
    line: int | None = None
    construct: str | None = None
    unproven: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for.

    ``kind`` is ``barrier``, ``lock``, ``critical``, ``ordered``, ``atomic``, ``taskwait``, ``taskgroup`` …; ``object``
    the address that identifies it (a wait identifier of OMPT), ``symbol`` the user's name for it. ``arrived`` and
    ``expected`` count the threads of the barrier at which it is, ``missing`` are the native ids of the team's others; a
    team may be at several barriers. ``unfinished_tasks`` is for how many tasks, at least, the threads of a barrier wait
    that all have reached, None for any other. ``owner`` is the native id of a lock's holder, ``owner_source`` says how
    that is known. ``how`` is ``blocked`` if the thread sleeps, ``spinning`` if it uses processor time, and ``released``
    if it sleeps still, but need not any more.
    """

    kind: str
    object: int | None = None
    symbol: str | None = None
    arrived: int | None = None
    expected: int | None = None
    missing: tuple[int, ...] | None = None
    unfinished_tasks: int | None = None
    owner: int | None = None
    owner_source: str | None = None
    how: str | None = None


@dataclass(frozen=True, slots=True)
class DllRecord:
    """A library for debuggers that a runtime names in ``ompd_dll_locations``.

    ``plugin`` is the kind of the plugin of ours that its name selects, None for none. ``suitable`` is whether it could
    serve this program on this machine, ``chosen`` whether it is the one that does, ``reason`` why. ``file`` is where it
    was looked for, None where only its name counts.
    """

    name: str
    plugin: str | None
    suitable: bool
    chosen: bool
    reason: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class RuntimeRecord:
    """An OpenMP runtime in the process.

    ``kind`` is ``libomp``, ``libiomp5``, ``libgomp``, ``stub`` or ``unknown``; ``version`` its own version;
    ``file`` what the target calls its module; ``build_id`` hexadecimal, None for a file without one. ``layout``
    says how its structures are known, and ``layouts`` those that this answer knows otherwise; ``layout_proof`` what
    shows that a layout from a table fits, None for one that the target itself tells. ``dll_locations`` is the content
    of ``ompd_dll_locations``, ``dlls`` what became of each. ``keeps_states`` tells whether it keeps thread states.
    ``plugin`` is the distribution whose plugin reads it, and where that is; None for one of ompd's own.
    """

    id: str
    kind: str
    version: str | None
    file: str
    build_id: str | None
    layout: str | None
    dll_locations: tuple[str, ...] | None
    keeps_states: bool | None
    omp_version: int | None = None
    layouts: Mapping[str, str] = field(default_factory=dict)
    layout_proof: str | None = None
    dlls: tuple[DllRecord, ...] | None = None
    plugin: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutsideRecord:
    """What a thread is outside of the target region that it executes itself: ``thread_num`` in the ``team_size``
    threads of the region ``parallel`` at ``level``, and the ``task`` that met the target construct. Outside of all
    regions ``parallel`` is None, and the thread is number 0 of 1 at level 0.
    """

    parallel: str | None
    thread_num: int
    team_size: int
    level: int
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRecord:
    """A thread of the process as it was at this stop; one that is not OpenMP's has no ``runtime``.

    ``thread_num`` is its number in its team, 0 for the primary thread; ``team_size``, ``level`` and ``active_level``
    are those of the innermost region it executes, None for an idle one. ``ancestors`` are the thread numbers of its
    ancestors at the levels around, from level 1 on (``omp_get_ancestor_thread_num``). ``state`` is a name of OMPT
    without its prefix, ``state_source`` ``runtime`` or ``derived``. ``parallel`` and ``task`` are ids. ``where`` is its
    innermost frame outside of the OpenMP runtime and the C library, None if it has none (a pool thread); where its
    stack cannot be followed so far, ``innermost`` is its innermost frame of all. ``about_to_begin`` is True for a
    thread that is known to have its number in a team and not to have begun the code of the region. Where what a damaged
    target still holds does not tell whether the thread is OpenMP's, ``runtime`` and ``thread_type`` are unavailable.

    ``signal`` is the signal that the thread took, by number and name, None for the others; ``failed`` whether the
    thread itself is why: by a fault, or by sending it to itself as ``abort()`` does. ``si_code`` is the kernel's word
    on where the signal came from; ``si_addr`` the address of a fault, None for a signal that has none.
    ``outside_of_target`` is None but for a thread that executes a target region itself, as an initial thread.
    ``at_end_of`` is the construct of the region at whose end the thread waits, None for one that is elsewhere, or in
    code of the user's there, as a task's; a worker that waits there has no ``where``.
    """

    runtime: str | None = None
    thread_num: int | None = None
    team_size: int | None = None
    level: int | None = None
    active_level: int | None = None
    ancestors: tuple[int, ...] | None = ()
    native_thread_id: int | None
    thread_type: str | None
    state: str | None = None
    state_source: str | None = None
    wait_id: int | None = None
    wait: Wait | None = None
    parallel: str | None = None
    task: str | None = None
    where: Place | None = None
    innermost: Place | None = None
    about_to_begin: bool = False
    address: int | None = None
    tool_data: int | None = None
    signal: int | None = None
    signal_name: str | None = None
    si_code: int | None = None
    si_addr: int | None = None
    failed: bool | None = False
    outside_of_target: OutsideRecord | None = None
    at_end_of: RegionFunction | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParallelRecord:
    """A parallel region that is being executed.

    ``id`` is unique in one answer; ``enclosing`` is the id of the enclosing region, None at level 1. ``threads`` are
    the native ids of its team in thread-number order, None in the place of one that could not be read.
    """

    id: str
    runtime: str
    level: int | None
    active_level: int | None
    team_size: int | None
    enclosing: str | None
    function: RegionFunction | None
    threads: tuple[int | None, ...]
    tool_data: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskFrame:
    """A frame of ``ompt_frame_t``: ``address`` in the stack, ``flags`` say whose it is and what the address is."""

    address: int
    flags: int


@dataclass(frozen=True, slots=True)
class DependenceRecord:
    """An item of a task's ``depend`` clause: the ``address`` that it names, the variable there as ``symbol`` (with an
    offset, as ``x+0x8``), None where no symbol covers it, and how the task depends on it: ``access`` is ``in`` or
    ``out`` (that is, any but ``in``), None where the runtime does not keep it.
    """

    address: int
    symbol: str | None
    access: str | None


@dataclass(frozen=True, slots=True)
class TaskWaitRecord:
    """What a task that no thread executes waits for.

    ``kind`` is ``dependence`` or ``event``. A ``waiting`` task depends on ``count`` tasks that are not complete;
    ``tasks`` are the ids of those that were found, ``dependences`` the items of its ``depend`` clause. A ``detached``
    one waits for its ``event``: the value of the program's ``omp_event_handle_t``.
    """

    kind: str
    count: int | None = None
    tasks: tuple[str, ...] = ()
    dependences: tuple[DependenceRecord, ...] | None = None
    event: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task that exists.

    ``kind`` is ``initial``, ``implicit`` or ``explicit``. ``thread`` is the native id of the thread that executes or
    has suspended it, None for a queued one. ``generating`` is the id of the task that created it, for an implicit task
    the one that encountered the region; ``scheduling`` of the one that was suspended for it, which explicit tasks alone
    have. ``exit_frame`` is where the runtime called its code, ``enter_frame`` where it called the runtime, None while
    it has not. ``status`` is ``executing``, ``suspended``, ``queued``, ``waiting`` (not begun: it depends on tasks that
    are not complete), ``detached`` (its code is done, its event has not come) or ``complete`` (kept for tasks it
    generated). ``waits_for`` tells more of waiting and detached ones. ``unfinished_children`` is how many explicit
    tasks it generated that are not complete: there may be more than could be listed."""

    id: str
    runtime: str
    kind: str | None
    thread: int | None
    generating: str | None
    scheduling: str | None
    parallel: str | None
    function: RegionFunction | None
    exit_frame: TaskFrame | None
    enter_frame: TaskFrame | None
    status: str | None
    final: bool | None = None
    tool_data: int | None = None
    unfinished_children: int | None = None
    waits_for: TaskWaitRecord | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Construct:
    """The construct that code is of: ``kind`` is ``parallel``, ``task``, ``taskloop`` or ``target``, None
    where gcc's name for it does not tell and nothing else does. ``file`` and ``line`` are where it begins, as in
    :class:`Place`.
    """

    kind: str | None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class LoopIteration:
    """Where a thread is in a worksharing loop: the ``number`` of the iteration, counted from 0 over the whole loop, and
    the ``first`` and ``last`` of those that the thread was given with it.
    """

    number: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LocalRecord:
    """A variable or parameter of a frame.

    ``value``, ``text`` and ``truncated`` are as in :class:`VariableRecord`; ``address`` is None for what lies in no
    memory. A reference stands for what it refers to. ``sharing`` is how the construct that the frame is the body of
    has it, as far as the debug information tells: ``shared``, ``firstprivate``, ``private`` (the thread's own, by
    whatever clause, or declared inside), ``loop`` (private as the variable of a worksharing loop, of which
    ``iteration`` tells more), ``copy`` (the thread's own copy, also of a shared variable that it only reads); None
    where it does not tell. ``line`` is where it is declared.
    """

    name: str
    type: str | None
    value: Any
    text: str | None
    truncated: bool = False
    address: int | None = None
    sharing: str | None = None
    iteration: LoopIteration | None = None
    line: int | None = None
    parameter: bool = False
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a stack as the source reads; functions that a compiler inlined have frames, too.

    ``function``, ``file`` and ``line`` are the source's: code that a compiler put into a function of its own belongs to
    the function that has the construct, and its outermost frame has the ``construct``. ``address`` is the program
    counter (behind the call, of a caller), ``cfa`` the canonical frame address, None where no unwind data tells it.
    Code of a construct that ended by a jump to what it called last has no frame any more; it is there nonetheless, with
    the address of the jump, None if which one it was is not known, and without ``cfa``.
    ``kind`` is whose code it is: ``user``, ``runtime``, ``system`` for the C and compiler libraries, ``unknown`` where
    nothing tells. ``task`` is the id of the task that executes it, ``thread`` the native id of the thread on whose
    stack it is. ``inlined`` frames share the address of the one they are inlined into. ``module`` is the file that
    holds the code. ``how`` is how the frame was found: ``innermost`` or ``cfi``, ``tail-call`` for one that was left by
    a jump, or as a guess, ``frame-pointer`` or ``scan``; it is ``guessed`` if it or a frame inside of it was. Of one
    that was left ``callee`` in ``unavailable`` says why frames between it and the one before are not known. ``signal``
    marks the kernel's frame below a signal handler. ``unproven`` is as in :class:`Place`. ``locals`` are the variables
    of the user's frames, those of inner blocks first, None where they were not asked for.
    """

    function: str | None
    file: str | None
    line: int | None
    address: int | None
    cfa: int | None
    kind: str
    task: str | None
    thread: int | None
    inlined: bool = False
    construct: Construct | None = None
    module: str | None = None
    how: str = "cfi"
    guessed: bool = False
    signal: bool = False
    unproven: str | None = None
    locals: tuple[LocalRecord, ...] | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The stack of a thread, innermost frame first; of one that is not OpenMP's without a ``runtime``.

    ``frames`` of another ``thread`` follow where a worker's own end: those of the task that met the region's construct,
    on the thread that runs it. They are empty for a thread that is idle in the pool, of which ``idle`` is True.
    ``boundaries`` says how it is known where tasks begin: ``runtime`` by the frames that the runtime keeps, ``derived``
    by its routines on the stack. ``stopped`` says why the stack could not be followed to its end, None for a whole one.
    ``threads`` are the native ids of all threads that have this stack, where equal ones are one. ``thread_nums``
    are their thread numbers, ``ancestors`` the numbers of the ancestors of each. ``about_to_begin``, ``signal`` and
    what follows it are as in :class:`ThreadRecord`.
    """

    native_thread_id: int | None
    runtime: str | None
    thread_num: int | None
    team_size: int | None
    level: int | None
    parallel: str | None
    idle: bool | None
    boundaries: str | None
    stopped: str | None
    frames: tuple[StackFrame, ...]
    threads: tuple[int | None, ...]
    thread_nums: tuple[int | None, ...]
    ancestors: tuple[tuple[int, ...] | None, ...] = ()
    about_to_begin: bool = False
    signal: int | None = None
    signal_name: str | None = None
    si_code: int | None = None
    si_addr: int | None = None
    failed: bool | None = False
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IcvRecord:
    """An internal control variable: its ``name`` with hyphens, its ``scope``, and its ``value`` for one ``handle``.

    ``handle`` is the id of the runtime, a thread's native id, or the id of a region or task, as ``scope`` says. Of
    scope ``display`` are settings as the runtime displays them, by the names of environment variables."""

    runtime: str
    name: str
    scope: str
    value: int | bool | str | None
    handle: str
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableRecord:
    """A variable, or the part of one that was asked for, as one thread has it.

    ``mechanism`` says by what a thread has a copy of its own: ``tls`` (thread-local storage), ``cached`` (copies that
    the OpenMP runtime keeps), ``emutls`` (emulated thread-local storage), ``key`` (a POSIX thread key); ``global`` is
    one place for all threads. ``value`` is what JSON can hold: whole numbers beyond 2**53 and floating-point numbers
    that no double holds are strings, as are addresses, ``NaN`` and ``Infinity``. ``text`` is the value as gdb's
    ``print`` writes it, None without a value. ``truncated`` says that the end of an array or string is left out;
    ``digest`` then tells values apart that differ only there, as far as they were compared. A
    thread that has no storage yet has neither ``address`` nor ``value``. ``initialized`` tells of a variable of C++
    whether its initialisation has run in this thread, None of one that needs none. ``outlier`` marks a value that
    stands out from those of the other threads. ``ancestors`` are as in :class:`ThreadRecord`.
    """

    native_thread_id: int | None
    runtime: str | None = None
    parallel: str | None = None
    thread_num: int | None = None
    team_size: int | None = None
    ancestors: tuple[int, ...] | None = ()
    name: str
    module: str
    type: str | None = None
    mechanism: str | None = None
    address: int | None = None
    value: Any = None
    text: str | None = None
    truncated: bool = False
    digest: str | None = None
    initialized: bool | None = None
    outlier: bool = False
    file: str | None = None
    line: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DistinctValue:
    """A value that threads have, as in :class:`VariableRecord`, and the native ids of these threads."""

    value: Any
    text: str
    threads: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class VariableStats:
    """What the values of a variable have in common: how many threads have one, and those that differ, commonest first.

    ``minimum``, ``maximum`` and ``mean`` are of numbers, None of other values. ``outliers`` are the native ids of
    threads whose value stands out.
    """

    count: int
    distinct: tuple[DistinctValue, ...]
    minimum: Any
    maximum: Any
    mean: float | None
    outliers: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """What was asked. ``kind`` is ``core`` or ``live``; ``signal`` the signal that ended it, by number and name.

    ``file`` is the core file. ``incomplete`` says what the target has lost of what it was meant to hold, None if it is
    whole. ``thread_count`` is None where that leaves the number of threads unknown. ``unproven`` are files that places
    are told by and that are not proven to be those that ran, since the pages that would tell are lost. Of a live
    process ``stops_ns`` are the lengths of the stops that this answer took, in nanoseconds, and ``own_thread_ids`` what
    its threads are called in their own container, by their native id.
    """

    kind: str
    file: str | None
    executable: str | None
    process_id: int | None
    command: str | None
    signal: int | None
    signal_name: str | None
    architecture: str
    thread_count: int | None
    incomplete: str | None = None
    unproven: tuple[str, ...] = ()
    stops_ns: tuple[int, ...] = ()
    own_thread_ids: Mapping[str, int] = field(default_factory=dict)


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Row]):
    """The rows of one question, and what was not readable on the way.

    ``complete`` is False when something of the target could not be read or contradicted itself; ``warnings`` then says
    what. Facts this kind of target does not have are no defect: they are named in their row's ``unavailable``.
    """

    target: TargetRecord
    runtimes: tuple[RuntimeRecord, ...]
    rows: tuple[Row, ...]
    complete: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariableAnswer(Answer[VariableRecord]):
    """The answer to ``var``. ``stats`` is None unless they were asked for."""

    stats: VariableStats | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot that was taken: its file and size, and what it holds, in bytes.

    ``modules`` are those whose symbols, unwind tables and debug information it carries; ``problems`` what it lacks.
    """

    file: str
    size: int
    threads: int
    memory_bytes: int
    extract_bytes: int
    modules: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """A table of the layouts of a runtime's structures, which serves where the runtime is stripped.

    ``name`` is that of its ``file``; ``origin`` is ``shipped`` or ``user``. ``releases`` are those whose layouts it
    has, ``architectures`` the psABI's names of machines, ``build_ids`` tells of files that are known to be laid out so
    what each is. Its releases export ``has_exports`` and do not export ``lacks_exports``. ``provenance`` says how it
    was made.
    """

    name: str
    runtime: str
    origin: str
    file: str
    releases: tuple[str, ...]
    architectures: tuple[str, ...]
    build_ids: Mapping[str, str]
    has_exports: tuple[str, ...]
    lacks_exports: tuple[str, ...]
    provenance: str


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member of a structure, or of one that lies in it, by its names with dots between them.

    ``offset`` from the structure's start and ``size`` are bytes. A bit field has them of the bytes that it lies in, and
    ``bits`` bits from ``first_bit`` on, the least significant of the first byte being 0; both are None for others.
    """

    name: str
    offset: int
    size: int
    first_bit: int | None = None
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class StructRecord:
    """A structure of a runtime: the type's name, its size in bytes, its members by their offsets."""

    name: str
    size: int
    members: tuple[MemberRecord, ...]


@dataclass(frozen=True, slots=True)
class LayoutAnswer:
    """The tables that are known, or the one that was asked for: then ``structs`` is what it holds, else None.

    ``warnings`` say which files are left out, and then the answer is not ``complete``.
    """

    rows: tuple[LayoutRecord, ...]
    structs: tuple[StructRecord, ...] | None
    complete: bool
    warnings: tuple[str, ...]
