"""Records of code and data: places, frames of stacks, variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ompd.model.base import Record
from ompd.records import record


@record
class Place(Record):
    """A place in the code. ``function`` is the name in the source if debug information has it, else the symbol's name.

    ``line`` counts from 1. ``file`` is the name in the debug information. Without debug information both are None.
    ``address`` is the program counter; for a caller, the last byte of its call instruction; for a function that ended
    by a jump and has no frame any more, the jump, or None if it is unknown which jump it was. ``calling`` is the
    function of a library without debug information that this code called and in which the thread is; None if there is
    none, and for the C library and OpenMP runtimes. ``unproven`` says why the files behind this place may not be those
    that ran, None if they are verified.
    """

    address: int | None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    unproven: str | None = None
    calling: str | None = None


@record
class SourceExcerpt(Record):
    """Lines of a source file around ``line``. ``first`` is the number of the first of ``lines``, ``path`` the file on
    this machine.

    ``note`` says why these may not be the lines that were compiled, None if they are, as far as debug information and
    times of files show.
    """

    file: str
    line: int
    first: int
    lines: tuple[str, ...]
    path: str
    note: str | None = None


@record
class RegionFunction(Record):
    """The function that the compiler made of a region's code: where it starts, and its ``construct``.

    ``unproven`` is as in :class:`Place`.
    """

    address: int
    function: str | None = None
    file: str | None = None
    line: int | None = None
    construct: str | None = None
    unproven: str | None = None


@record
class Construct(Record):
    """The construct of a function that a compiler made: ``kind`` is ``parallel``, ``task``, ``taskloop``, ``target`` or
    ``teams``, None if it is unknown. ``file`` and ``line`` are where it begins, as in :class:`Place`.
    """

    kind: str | None
    file: str | None = None
    line: int | None = None


@record
class LoopIteration(Record):
    """Where a thread is in a worksharing loop: the ``number`` of the iteration, counted from 0 over the whole loop, and
    the ``first`` and ``last`` of the range that the thread was given.
    """

    number: int
    first: int
    last: int


@record
class LocalRecord(Record):
    """A variable or parameter of a frame.

    ``value``, ``text`` and ``truncated`` are as in :class:`VariableRecord`; ``address`` is None for a variable that is
    not in memory. A reference is shown as what it refers to. ``sharing`` is how the frame's construct shares it, as far
    as the debug information says: ``shared``, ``firstprivate``, ``private`` (the thread's own, by any clause or
    declared inside), ``loop`` (the private variable of a worksharing loop, see ``iteration``), ``copy`` (the thread's
    own copy, also of a shared variable that it only reads), or the clause that a name says which a preprocessor made
    (``lastprivate``, ``firstlastprivate``, ``reduction``, ``threadprivate``, ``threadshared``, ``copyin``), else None.
    ``line`` is that of the declaration.
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


@record
class StackFrame(Record):
    """One frame of a stack as the source reads; inlined functions have frames, too.

    ``function``, ``file`` and ``line`` are the source's: code that a compiler put into a function of its own belongs to
    the function that contains the construct, and its outermost frame has the ``construct``. ``address`` is the program
    counter (for a caller, that behind the call), ``cfa`` the canonical frame address, None if no unwind data gives it.
    Code of a construct that ended by a jump has no frame on the stack any more; it is listed all the same, with the
    address of the jump (None if it is unknown which jump it was) and without ``cfa``. ``kind`` is the owner of the
    code: ``user``, ``runtime``, ``system`` for the C and compiler libraries, or ``unknown``. ``task`` is the id of the
    task that executes it, ``thread`` the native id of the thread on whose stack it is. ``inlined`` frames share the
    address of the function that contains them. ``module`` is the file with the code. ``how`` says how the frame was
    found: ``innermost`` or ``cfi``, ``tail-call`` for a function that ended by a jump, or by a guess, ``frame-pointer``
    or ``scan``; ``guessed`` is True if it or a frame inside of it was guessed. ``callee`` in ``unavailable`` says why
    frames between this one and the one before are unknown. ``signal`` marks the kernel's frame below a signal handler.
    ``idle_loop`` marks the runtime's routine in which a thread waits for work and executes it, as far as the
    runtime records that; only of ``--raw`` stacks. ``unproven`` is as in :class:`Place`. ``locals`` are the
    variables of user frames, those of inner blocks first, None if they were not requested.
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
    idle_loop: bool = False
    unproven: str | None = None
    locals: tuple[LocalRecord, ...] | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class StackRecord(Record):
    """The stack of a thread, innermost frame first; a thread outside of OpenMP has no ``runtime``.

    After a worker's own frames follow those of another ``thread``: of the task that encountered the region's construct,
    on the thread that runs it. ``frames`` is empty for a thread that is idle in the pool (``idle`` is True).
    ``boundaries`` says how the beginnings of tasks are known: ``runtime`` by the frames that the runtime records,
    ``derived`` by its functions on the stack. ``stopped`` says why the stack could not be followed to its end, None for
    a complete one. ``threads`` are the native ids of all threads with this stack, if equal ones are grouped.
    ``thread_nums`` are their thread numbers, ``ancestors`` the ancestors' numbers of each. ``about_to_begin``,
    ``signal`` and the fields after it are as in :class:`ThreadRecord`.
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


FORMATS = ("x", "d", "u", "o", "t", "c", "f", "s", "a", "z")
"""gdb's letters, for the text of a value."""


@record(kw_only=True)
class VariableRecord(Record):
    """A variable, or a part of one, in one thread.

    ``mechanism`` says how threads have copies: ``tls`` (thread-local storage), ``cached`` (copies that the OpenMP
    runtime keeps), ``emutls`` (emulated thread-local storage), ``key`` (a POSIX thread key), or ``global`` for one
    address for all threads. ``value`` is a JSON value: whole numbers beyond 2**53 and floating-point numbers that no
    double holds are strings, as are addresses, ``NaN`` and ``Infinity``. ``text`` is the value as gdb's ``print``
    writes it, None without a value. ``truncated`` says that the end of an array or string is left out; ``digest`` then
    distinguishes values that differ only there, as far as they were compared. A thread that has no storage yet has
    neither ``address`` nor ``value``. ``initialized`` says whether the dynamic initialiser of a C++ variable has run in
    this thread, None for a variable without one. ``outlier`` marks a value that differs from those of the other
    threads. ``ancestors`` are as in :class:`ThreadRecord`.
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


@record
class DistinctValue(Record):
    """A value as in :class:`VariableRecord`, and the native ids of the threads that have it."""

    value: Any
    text: str
    threads: tuple[int | None, ...]


@record
class VariableStats(Record):
    """Statistics of a variable's values: how many threads have one, and the distinct values, the most frequent first.

    ``minimum``, ``maximum`` and ``mean`` are for numbers, None for other values. ``outliers`` are the native ids of
    threads whose value is an outlier.
    """

    count: int
    distinct: tuple[DistinctValue, ...]
    minimum: Any
    maximum: Any
    mean: float | None
    outliers: tuple[int | None, ...]
