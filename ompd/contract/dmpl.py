"""DMPL: the names, numbers and tables of the white paper's header (2004), in its order.

Both halves are here as Python has them: :class:`CallbackTable` is what a debugger offers a library, :class:`Library`
what a library exports. Results are codes, as in the header, and not exceptions, so that a library written in C can
stand behind the same names. An output parameter is a second result.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, NewType, Protocol

from ompd.records import record

INTERFACE_COMPATIBILITY = 1
"""``XLD_INTERFACE_COMPATIBILITY``: version of the interface."""

VARINFO_NEEDS_DEREFERENCE = 0x8000
"""Bit that may be or-ed into any :class:`VarInfo`: the variable's storage holds its address."""


class Result(IntEnum):
    """Result codes; both halves may use their own from ``FIRST_USER_CODE`` on."""

    OK = 0
    TLS_UNALLOCATED = 1
    NAME_TOO_LONG = 2
    NAME_UNCHANGED = 3
    FIRST_USER_CODE = 100


class Language(IntEnum):
    """Language codes; the paper spells C++ ``cplus`` in its figure and ``cplusplus`` in its header."""

    UNKNOWN = 0
    C = ord("c")
    CPLUSPLUS = ord("C")
    CPLUS = CPLUSPLUS
    F77 = ord("f")
    F9X = ord("F")


class VarInfo(IntEnum):
    """What a demangled name says of a variable: the clause it was listed in."""

    NONE = 0
    PRIVATE = 1
    SHARED = 2
    FIRSTPRIVATE = 3
    LASTPRIVATE = 4
    FIRSTLASTPRIVATE = 5
    REDUCTION = 6
    THREADPRIVATE = 7
    THREADSHARED = 8
    COPYIN = 9


ProcessRef = NewType("ProcessRef", object)
"""A process, opaque to the library (``DMPL_process_t *``)."""

ThreadRef = NewType("ThreadRef", object)
"""A thread of a process, opaque to the library (``DMPL_thread_t *``)."""

DmplType = NewType("DmplType", object)
"""A type of a process, opaque to the library (``DMPL_type_t *``)."""

Info = bytearray
"""What a library keeps with a process or a thread, opaque to the debugger (``DMPL_process_info_t *``,
``DMPL_thread_info_t *``): storage that :attr:`CallbackTable.malloc` gave.
"""


class TargetTypeSizes(NamedTuple):
    """``DMPL_target_type_sizes_t``: sizes of the target's fundamental types, in bytes."""

    short_size: int
    int_size: int
    long_size: int
    long_long_size: int
    pointer_size: int


class RtlNames(NamedTuple):
    """``DMPL_rtl_names``: the routine that the encountering task calls to start a construct, and the one that calls the
    function which the compiler made of the construct's code.
    """

    main_task_dispatcher: str
    microtask_invoker: str


class NamedVariable(NamedTuple):
    """What a compiler-made name says of a variable: its name in the source, and how the construct shares it.

    ``sharing`` is a :class:`VarInfo`. If ``is_address`` is True the storage holds the variable's address.
    """

    name: str
    sharing: VarInfo
    is_address: bool


@record
class CallbackTable:
    """``DMPL_callbacks_t``: what a debugger offers, in the header's order.

    A code that is not :attr:`Result.OK` makes the second result mean nothing.
    """

    put_process_info: Callable[[ProcessRef, Info | None], None]
    get_process_info: Callable[[ProcessRef], Info | None]
    put_thread_info: Callable[[ThreadRef, Info | None], None]
    get_thread_info: Callable[[ThreadRef], Info | None]
    get_process: Callable[[ThreadRef], ProcessRef]
    get_type_sizes: Callable[[ProcessRef], tuple[int, TargetTypeSizes]]
    # a process and a name; the symbol's address
    find_symbol: Callable[[ProcessRef, str], tuple[int, int]]
    # a process, a name and a Language; None for no such type
    find_type: Callable[[ProcessRef, str, int], DmplType | None]
    # a thread, an address and a size in bytes; the bytes as the target has them
    get_data: Callable[[ThreadRef, int, int], tuple[int, bytes]]
    # a thread and a POSIX thread key; its value, 0 if it has none
    get_pthread_key: Callable[[ThreadRef, int], tuple[int, int]]
    # a thread and one datum as the target has it; the same in the byte order of this machine
    target_to_host: Callable[[ThreadRef, bytes], bytes]
    malloc: Callable[[int], Info | None]
    free: Callable[[Info], None]
    error_string: Callable[[int], str]
    prints: Callable[[str], None]


@record
class TypeFunctions:
    """``DMPL_sizeof_ft`` and ``DMPL_field_offset_ft``: the header has their types and no member of the table for them.
    They are handed over beside it, in C by ``DMPL_extend``. Both give -1 for what there is not. The second takes a
    member's name.
    """

    sizeof: Callable[[DmplType], int]
    field_offset: Callable[[DmplType, str], int]


class DemangledName(NamedTuple):
    """What ``DMPL_demangle_name`` says of a name that a compiler made.

    ``code`` is a :class:`Result`: OK, NAME_UNCHANGED for a name that no compiler made of another, or NAME_TOO_LONG.
    ``length`` is that of the name in bytes, without a NUL at its end; where the name is too long it is the size of a
    buffer that holds it, with the NUL. ``demangled`` is "" then. ``flags`` is a :class:`VarInfo`, perhaps with
    :data:`VARINFO_NEEDS_DEREFERENCE`. ``decl_line`` is the line on which the source has what is named, 0 where that is
        unknown.
    """

    code: int
    length: int
    demangled: str
    flags: int
    decl_line: int


SourceOf = Callable[[str], tuple["str | None", "int | None"]]
"""From a linker's name to the function of the source that it belongs to, and the line where the source has it; None for
what is unknown. DMPL has no callback for it: a library asks it if it was handed one.
"""


class Library(Protocol):
    """What a DMPL library exports, in the header's order; it keeps nothing of a process but by the callbacks' put."""

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        """Take the callbacks. ``DMPL_initialise``; the paper's figures spell it ``DMPL_initialize``."""

    def version_compatibility(self) -> int:
        """Return the version of the interface that the library implements: :data:`INTERFACE_COMPATIBILITY`."""

    def version_string(self) -> str:
        """Return what the library calls itself."""

    def error_string(self, code: int) -> str:
        """Return what one of the library's codes means."""

    def destroy_process_info(self, info: Info) -> int:
        """Release what the library has kept with a process."""

    def destroy_thread_info(self, info: Info) -> int:
        """Release what the library has kept with a thread."""

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        """Return what the source calls what a compiler called *mangled*.

        :param buf_len: how many bytes, with a NUL at the end, the demangled name may take
        """

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        """Return where *thread* has its copy of the threadprivate object that debug information says is at *address*.

        :attr:`Result.TLS_UNALLOCATED` if it has none yet.
        """

    def get_rtl_names(self, language: int) -> RtlNames | None:
        """Return the routines around a construct's code in a :class:`Language`, None for one that is unknown."""
