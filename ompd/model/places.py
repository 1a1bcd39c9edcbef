"""Records of code and data: places, frames of stacks, variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ompd.model.base import Record
from ompd.records import record


@record
class Place(Record):
    """A place in the code. ``function`` is the function's name in the source if debug information has it, else the
    symbol's name.

    ``line`` counts from 1. ``file`` is the name in the debug information. Without debug information both are None.
    ``address`` is the program counter; for a caller, the last byte of its call instruction. A function that ended by a
    jump has no frame any more. Its ``address`` is that of the jump, None if the jump is unknown. ``calling`` is the
    library function that this code called and that the thread is in, if that library has no debug information; None
    otherwise, and for the C library and OpenMP runtimes. ``unproven`` is the reason why the files of this place may not
    be the files that ran, None if they are verified.
    """

    address: int | None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    unproven: str | None = None
    calling: str | None = None


@record
class SourceMark(Record):
    """A mark at a line of source. ``text`` says what happened there, and in which threads. ``is_main`` is True if a
    thread waits or works there.
    """

    line: int
    text: str
    is_main: bool = True


@record
class SourceExcerpt(Record):
    """Lines of a source file around ``line``. ``first`` is the number of the first of ``lines``, ``path`` the file on
    this machine.

    ``note`` says why the lines may not be those that were compiled, or why there are no ``lines``. It is None if debug
    information and the times of the files give no reason for doubt. ``path`` is None if there are no lines, or if they
    are from a snapshot. ``marks`` are in the order of their lines.
    """

    file: str
    line: int
    first: int
    lines: tuple[str, ...]
    path: str | None = None
    note: str | None = None
    marks: tuple[SourceMark, ...] = ()


@record
class RegionFunction(Record):
    """The function that the compiler made of a region's code: the place where it starts, and its ``construct``.

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
    ``teams``, None if it is unknown. ``file`` and ``line`` are where the construct begins, as in :class:`Place`.
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
    not in memory. A reference is shown as its referent. ``sharing`` is the data-sharing in the frame's construct, None
    if the debug information does not have it: ``shared``, ``firstprivate``, ``private`` (by any clause, or declared
    inside), ``loop`` (the private variable of a worksharing loop, see ``iteration``), ``copy`` (the thread's own copy,
    perhaps of a shared variable that it only reads), or the clause named by a preprocessor's identifier
    (``lastprivate``, ``firstlastprivate``, ``reduction``, ``threadprivate``, ``threadshared``, ``copyin``). ``line`` is
    the line of the declaration.
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
    """One frame of a stack, as the source code has it: inlined functions have frames, too.

    ``function``, ``file`` and ``line`` are names and lines of the source: outlined code belongs to the function that
    contains the construct, and its outermost frame has the ``construct``. ``address`` is the program counter, for a
    caller the address behind the call. ``cfa`` is the canonical frame address, None if no unwind data gives it. Code of
    a construct that ended by a jump has no frame on the stack any more. It is listed anyway, without ``cfa`` and with
    the address of the jump, None if the jump is unknown. ``kind`` is the owner of the code: ``user``, ``runtime``,
    ``system`` for the C and compiler libraries, or ``unknown``. ``task`` is the id of the task that executes the code,
    ``thread`` the native id of the thread whose stack has the frame. ``inlined`` frames share the address of the
    function that contains them. ``module`` is the file with the code. ``how`` is the way in which the frame was found:
    ``innermost``, ``cfi``, ``tail-call`` for a function that ended by a jump, or a guess: ``frame-pointer`` or
    ``scan``. ``guessed`` is True if this frame or one inside of it was guessed. ``unavailable`` has ``callee`` if
    frames between this one and the one before are unknown. ``signal`` marks the kernel's frame below a signal handler.
    ``idle_loop`` marks the runtime's routine in which a thread waits for work and executes it, if the runtime records
    that; only in ``--raw`` stacks. ``unproven`` is as in :class:`Place`. ``locals`` are the variables of user frames,
    inner blocks first, None if they were not requested.
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

    A worker's own frames are followed by frames of another ``thread``: the frames of the task that encountered the
    region's construct. ``frames`` is empty for a thread that is idle in the pool (``idle`` is True). ``boundaries`` is
    the source of the beginnings of tasks: ``runtime`` for frames that the runtime records, ``derived`` for the
    runtime's functions on the stack. ``stopped`` is the reason why the stack could not be followed to its end, None for
    a complete stack. ``threads`` are the native ids of all threads with this stack if equal stacks are grouped.
    ``thread_nums`` are their thread numbers, ``ancestors`` the numbers of each thread's ancestors. ``about_to_begin``,
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
"""gdb's format letters for the text of a value."""


@record(kw_only=True)
class VariableRecord(Record):
    """A variable, or a part of one, in one thread.

    ``mechanism`` is the storage of the threads' copies: ``tls`` (thread-local storage), ``cached`` (copies that the
    OpenMP runtime keeps), ``emutls`` (emulated thread-local storage), ``key`` (a POSIX thread key), ``global`` for one
    address for all threads, or ``local`` for a variable of a function. A local one has the ``function`` on the thread's
    stack, and ``sharing`` as in :class:`LocalRecord`; both are None for others. ``value`` is a JSON value. It is a
    string for whole numbers beyond 2**53, for floating-point numbers that do not fit a double, and for addresses,
    ``NaN`` and ``Infinity``. ``text`` is the value as gdb's ``print`` writes it, None without a value. ``truncated`` is
    True if the end of an array or string is left out. ``digest`` then distinguishes values with the same beginning; of
    very large values only the first megabytes count. A thread that has no storage yet has neither ``address`` nor
    ``value``. ``initialized`` is True if the dynamic initialiser of a C++ variable has run in this thread, None for a
    variable without one. ``outlier`` marks a value that differs from the values of the other threads. ``ancestors`` are
    as in :class:`ThreadRecord`.
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
    function: str | None = None
    sharing: str | None = None
    file: str | None = None
    line: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class DistinctValue(Record):
    """A value of a variable, as in :class:`VariableRecord`, and the native ids of the threads in which it has this
    value.
    """

    value: Any
    text: str
    threads: tuple[int | None, ...]


@record
class VariableStats(Record):
    """Statistics of a variable's values: how many threads have a value, and the distinct values, the most frequent
    first.

    ``minimum``, ``maximum`` and ``mean`` are for numbers, None for other values. ``outliers`` are the native ids of
    threads whose value is an outlier.
    """

    count: int
    distinct: tuple[DistinctValue, ...]
    minimum: Any
    maximum: Any
    mean: float | None
    outliers: tuple[int | None, ...]
