"""Records of a program's OpenMP: its runtimes, threads, regions, tasks and control variables, and whole answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from ompd.errors import BadInput
from ompd.model import texts
from ompd.model.base import Record, to_dataframe
from ompd.model.kinds import Kind
from ompd.model.places import Place, RegionFunction, VariableRecord, VariableStats
from ompd.records import record

if TYPE_CHECKING:
    from ompd.model.base import DataFrame


@record
class DllRecord(Record):
    """A debugger library that a runtime names in ``ompd_dll_locations``.

    ``plugin`` is the kind of ompd's plugin that the library's name selects, None if the name selects none. ``suitable``
    is True if the library can serve this program on this machine, ``chosen`` is True if it does. ``reason`` explains
    both. ``file`` is the path that was tried, None if only the name was looked at.
    """

    name: str
    plugin: str | None
    suitable: bool
    chosen: bool
    reason: str
    file: str | None = None


@record
class RuntimeRecord(Record):
    """An OpenMP runtime in the process.

    ``kind`` is ``libomp``, ``libiomp5``, ``libgomp``, ``stub`` or ``unknown``; ``version`` is the runtime's own.
    ``file`` is the target's name of the module, ``build_id`` its build-id in hexadecimal, None without one. ``layout``
    is the source of the structures' layout: ``published``, ``dwarf``, ``table``, or ``library`` if an OMPD library
    knows it. ``layouts`` names structures whose layout has another source. ``layout_proof`` is the proof that a table
    fits, None for a layout from the target itself. ``dll_locations`` is the content of ``ompd_dll_locations``; ``dlls``
    has the result for each entry. ``keeps_states`` is True if the runtime records thread states. ``plugin`` is the
    reader of the runtime: a plugin's distribution and its path, or an OMPD or DMPL library; None for a plugin of ompd
    itself.
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


@record
class TargetRecord(Record):
    """The target of a query. ``kind`` is ``core``, ``live``, ``lldb`` or ``gdb``; it is ``machine`` for ``doctor``
    without a target. ``signal`` and ``signal_name`` are number and name of the signal that ended it.

    ``file`` is the core file. ``incomplete`` names the missing part of the target, None if the target is complete.
    ``thread_count`` is None if the missing part leaves the number of threads unknown. ``unproven`` are files that
    places rely on without proof that they are the files that ran, because pages are lost. For a live process,
    ``stops_ns`` are the lengths of the stops for this answer, in nanoseconds. ``own_thread_ids`` are the ids of its
    threads in their container, by native id.
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


@record
class Answer(Record, Generic[Row]):
    """The answer to one query, with its ``rows``, and what could not be read.

    ``complete`` is False if a part of the target could not be read or contradicted itself; ``warnings`` then has the
    details. A fact that this kind of target never has does not make the answer incomplete; its row lists the fact in
    ``unavailable``. ``query`` is the command that gives this answer, ``""`` without one. Iteration and ``len()`` are
    over the rows, so an answer without rows is false.
    """

    target: TargetRecord
    runtimes: tuple[RuntimeRecord, ...]
    rows: tuple[Row, ...]
    complete: bool
    warnings: tuple[str, ...]
    query: str = field(default="", kw_only=True, compare=False)

    def __iter__(self) -> Iterator[Row]:
        """Return an iterator over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        """Return the row at *index*, or the rows of a slice."""
        return self.rows[index]

    def __str__(self) -> str:
        """Return the text that the answer's command prints into a pipe. An answer of no command returns the text of
        ``repr()``.
        """
        return texts.formatter(self) if texts.formatter is not None and self.query else repr(self)

    def _repr_html_(self) -> str:
        # Jupyter shows this text as an answer's value. Only there is the module worth its import.
        from html import escape

        return f'<pre style="line-height: 1.2">{escape(str(self), quote=False)}</pre>'

    def __repr__(self) -> str:
        """Return query, number of rows, target and completeness as readable text."""
        rows = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        kind = f" of {type(self.rows[0]).__name__}" if self.rows else ""
        target = self.target
        name = target.file or (f"process {target.process_id}" if target.process_id is not None else target.kind)
        completeness = "complete"
        if not self.complete:
            completeness = f"incomplete: {self.warnings[0] if self.warnings else 'unknown why'}"
        text = f"{type(self).__name__} {self.query}: {rows}{kind}, {name}, {completeness}"
        return f"<{repr(text)[1:-1]}>"

    def to_json(self) -> str:
        """Return the answer as text: the JSON object of the command's ``--json`` (``ompd schema COMMAND``).

        :raises BadInput: if the answer belongs to no command
        """
        from ompd.model.json import format_answer

        if not self.query:
            raise BadInput("this is the answer of no command")
        return format_answer(self.query, self)

    def to_dataframe(self) -> DataFrame:
        """Return the rows as a table of pandas with a column for each member. Members of inner records have columns of
        their own (``where.line``).

        :raises Unsupported: if pandas is not installed
        """
        return to_dataframe(self.rows)


@record
class Wait(Record):
    """What a thread waits for.

    ``kind`` is ``barrier``, ``lock``, ``critical``, ``ordered``, ``doacross``, ``atomic``, ``taskwait``, ``taskgroup``,
    ``dependence`` (of an undeferred task or of a taskwait), ``internal_lock`` (a lock of the runtime itself) …;
    ``object`` is the identifying address: OMPT's wait identifier, or the word that counts arrivals at a barrier.
    ``symbol`` is the name in the source, the runtime's name for an internal lock, or the number of the iteration of a
    doacross loop that ``owner`` executes. ``arrived`` and ``expected`` count the threads of the barrier at which the
    thread is; ``missing`` are the native ids of the team's other threads. A team may be at several barriers.
    ``unfinished_tasks`` is the least number of tasks that a barrier reached by all threads waits for, None for any
    other barrier. ``owner`` is the native id of the holder of a lock, ``owner_source`` the source of that id. ``how``
    is ``blocked`` if the thread sleeps, ``spinning`` if it uses processor time, ``released`` if it still sleeps but is
    free to go on.

    The other fields are evidence, None if a runtime has no such word. ``owner_address`` and ``owner_value`` are the
    word that names the owner. ``owner_gone`` describes an owner that no thread executes: a thread that has ended, or a
    complete task that holds the lock (then ``owner`` is the thread that had it, if it still exists). ``value`` is the
    content of a barrier's ``object``, ``generation`` the number of times that the team has passed it. If two looks at a
    process agree in ``object`` and ``generation``, no thread went on in between. ``construct`` is ``loop``,
    ``sections`` or ``single`` for the barrier at the end of such a construct, if code or runtime show that, and
    ``copyprivate`` for a barrier of such a ``single`` construct; None for any other. ``loop`` is an address that all
    threads of one doacross loop share. ``iteration`` counts its iterations from 0, those of nested loops as if they
    were one loop. On libgomp it is None for nested loops.
    """

    kind: Kind
    object: int | None = None
    symbol: str | None = None
    arrived: int | None = None
    expected: int | None = None
    missing: tuple[int, ...] | None = None
    unfinished_tasks: int | None = None
    owner: int | None = None
    owner_source: str | None = None
    how: str | None = None
    owner_address: int | None = None
    owner_value: int | None = None
    owner_gone: str | None = None
    value: int | None = None
    generation: int | None = None
    construct: str | None = None
    loop: int | None = None
    iteration: int | None = None


@record
class OutsideRecord(Record):
    """What a thread is outside of the target region that it executes itself: ``thread_num`` among the ``team_size``
    threads of the region ``parallel`` at ``level``, and the ``task`` that encountered the target construct. Outside of
    all regions ``parallel`` is None, and the thread is number 0 of 1 at level 0.
    """

    parallel: str | None
    thread_num: int
    team_size: int
    level: int
    task: str


@record
class OwnStateRecord(Record):
    """A thread's state as its runtime has noted it: the state's ``number`` in the runtime, and its ``name`` without the
    prefix.
    """

    number: int
    name: str


@record(kw_only=True)
class ThreadRecord(Record):
    """A thread of the process at this stop; a thread outside of OpenMP has no ``runtime``.

    ``thread_num`` is the number in the team, 0 for the primary thread. ``team_size``, ``level`` and ``active_level``
    belong to the innermost region that the thread executes, None for an idle thread. ``ancestors`` are the thread
    numbers of the thread's ancestors, from level 1 on (``omp_get_ancestor_thread_num``). ``state`` is OMPT's name
    without its prefix, ``state_source`` is ``runtime`` or ``derived``. ``parallel`` and ``task`` are ids. ``where`` is
    the innermost frame outside of the OpenMP runtime and the C library, None without such a frame (a pool thread). If
    the stack cannot be followed to that frame, ``innermost`` is the innermost frame of all. ``about_to_begin`` is True
    for a thread that has its number in a team and has not begun the region's code. ``runtime`` and ``thread_type`` are
    unavailable if damage to the target hides whether it is an OpenMP thread.

    ``signal`` is the signal that the thread took, by number and name, None for other threads. ``failed`` is True if the
    thread itself caused the signal: by a fault, or by sending it to itself as ``abort()`` does. ``si_code`` is the
    kernel's code for the signal's origin; ``si_addr`` is the address of a fault, None for other signals.
    ``outside_of_target`` is None except for a thread that executes a target region itself, as an initial thread.
    ``at_end_of`` is the construct of the region at whose end the thread waits; None elsewhere, and if the thread
    executes user code there, such as a task. A worker that waits there has no ``where``. ``ompt_id`` is the thread's
    number in a runtime with OMPT of 2015. ``ompt_state`` is the state in the runtime's own numbers, which may be more
    precise than ``state`` (``wait_nest_lock``).

    ``threads`` are the native ids of all threads of the row if equal threads are grouped, ``thread_nums`` their thread
    numbers. All else is then from the first one. Both are empty unless that was requested.
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
    ompt_id: int | None = None
    ompt_state: OwnStateRecord | None = None
    threads: tuple[int | None, ...] = ()
    thread_nums: tuple[int | None, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class ParallelRecord(Record):
    """A parallel region that is being executed.

    ``id`` is unique in one answer; ``enclosing`` is the id of the enclosing region, None at level 1. ``threads`` are
    the native ids of the team in thread-number order, with None for an unreadable thread. ``ompt_id`` is the region's
    number in a runtime with OMPT of 2015.

    ``requested`` is the number of threads that the region requested. ``requested_by`` is ``num_threads`` for the value
    of that clause, ``if`` for the one thread of a false ``if`` clause, ``nthreads-var`` for a region without either.
    ``reduced_by`` is the variable that gave the team fewer threads: ``max-active-levels-var``, ``dyn-var`` or
    ``thread-limit-var``; None if the team has all. ``reduction`` is the variable's value in words.
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
    ompt_id: int | None = None
    requested: int | None = None
    requested_by: str | None = None
    reduced_by: str | None = None
    reduction: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class TaskFrame(Record):
    """A frame of a task (``ompt_frame_t``). ``address`` is an address on the stack. ``flags`` are OMPT's flags: whose
    frame it is, and what the address is. They are None if an OMPD library does not tell them.
    """

    address: int
    flags: int | None


@record
class DependenceRecord(Record):
    """An item of a task's ``depend`` clause. ``address`` is the item's address. ``symbol`` is the variable there, with
    an offset as in ``x+0x8``; None if no symbol covers the address. ``access`` is ``in``, or ``out`` for every other
    kind of dependence. It is None if the runtime does not record it.
    """

    address: int
    symbol: str | None
    access: str | None


@record
class TaskWaitRecord(Record):
    """What a task that no thread executes waits for.

    ``kind`` is ``dependence`` or ``event``. A ``waiting`` task depends on ``count`` incomplete tasks. ``tasks`` has the
    ids of the tasks that were found, ``dependences`` the items of the ``depend`` clause. A ``detached`` task waits for
    its ``event``: the value of the program's ``omp_event_handle_t``.
    """

    kind: str
    count: int | None = None
    tasks: tuple[str, ...] = ()
    dependences: tuple[DependenceRecord, ...] | None = None
    event: int | None = None


@record
class TaskRecord(Record):
    """A task.

    ``kind`` is ``initial``, ``implicit`` or ``explicit``. ``thread`` is the native id of the thread that executes or
    has suspended the task, None for a queued task. ``generating`` is the id of the generating task, for an implicit
    task the task that encountered the region. ``scheduling`` is the id of the task that was suspended to execute this
    one; only explicit tasks have it. ``exit_frame`` is the frame in which the runtime called the task's code.
    ``enter_frame`` is the frame in which that code called the runtime, None if it has not. ``status`` is ``executing``,
    ``suspended``, ``queued``, ``waiting`` (not begun: it depends on incomplete tasks), ``detached`` (its code has
    ended, its event is not fulfilled) or ``complete`` (kept because of its children). ``waits_for`` is set for waiting
    and detached tasks. ``unfinished_children`` counts the incomplete explicit tasks that it generated, perhaps more
    than are listed. ``tied`` is as the runtime records it: False for a task that another thread may resume, at a point
    where the task's code permits this. gcc's code never permits it. ``ompt_id`` is the task's number in a runtime with
    OMPT of 2015. ``ompt_type`` is the type that such a runtime records, which is finer than ``kind`` (``degenerate``,
    ``target``).
    """

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
    tied: bool | None = None
    tool_data: int | None = None
    unfinished_children: int | None = None
    waits_for: TaskWaitRecord | None = None
    ompt_id: int | None = None
    ompt_type: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class IcvRecord(Record):
    """An internal control variable: its ``name`` with hyphens, its ``scope``, and its ``value`` for one ``handle``.

    ``handle`` is the id of the runtime, a thread's native id, or the id of a region or task, depending on ``scope``.
    Rows of the scope ``display`` are settings as the runtime displays them, named after environment variables.
    """

    runtime: str
    name: str
    scope: str
    value: int | bool | str | None
    handle: str
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class SnapshotRecord(Record):
    """A snapshot that was written: its file, the file's size in bytes, and what the file contains.

    ``modules`` are the modules whose symbols, unwind tables and debug information the file holds. ``problems`` are its
    gaps, in words.
    """

    file: str
    size: int
    threads: int
    memory_bytes: int
    extract_bytes: int
    modules: tuple[str, ...]
    problems: tuple[str, ...]


@record
class VariableAnswer(Answer[VariableRecord]):
    """The answer of ``var``. ``stats`` is None unless statistics were requested."""

    stats: VariableStats | None = None
