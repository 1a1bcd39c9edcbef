"""DMPL: the names, numbers and tables of the white paper's header (2004), in its order.

Both halves are declared here in Python: a debugger offers a :class:`CallbackTable`, and a library exports a
:class:`Library`. Functions return codes, as in the header, instead of raising exceptions, so that a library in C can
have the same names. An output parameter of the header is a second result here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, NewType, Protocol

from ompd.records import record

INTERFACE_COMPATIBILITY = 1
"""``XLD_INTERFACE_COMPATIBILITY``: version of the interface."""

VARINFO_NEEDS_DEREFERENCE = 0x8000
"""Flag that may be or-ed into any :class:`VarInfo`: the storage holds the variable's address, not its value."""


class Result(IntEnum):
    """Result codes. Both halves may define their own codes from ``FIRST_USER_CODE`` on."""

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
    """The data-sharing clause that lists a variable, as the variable's compiler-made name shows it."""

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
"""Storage that a library keeps for a process or a thread, opaque to the debugger (``DMPL_process_info_t *``,
``DMPL_thread_info_t *``). The library allocates it with :attr:`CallbackTable.malloc`.
"""


class TargetTypeSizes(NamedTuple):
    """``DMPL_target_type_sizes_t``: sizes of the target's fundamental types, in bytes."""

    short_size: int
    int_size: int
    long_size: int
    long_long_size: int
    pointer_size: int


class RtlNames(NamedTuple):
    """``DMPL_rtl_names``: the routine that the encountering task calls to start a construct, and the routine that calls
    the function into which the compiler put the construct's code.
    """

    main_task_dispatcher: str
    microtask_invoker: str


class NamedVariable(NamedTuple):
    """The meaning of a variable's compiler-made name: the name in the source, and how the construct shares the
    variable.

    ``sharing`` is a :class:`VarInfo`. If ``is_address`` is True the storage holds the variable's address.
    """

    name: str
    sharing: VarInfo
    is_address: bool


@record
class CallbackTable:
    """``DMPL_callbacks_t``: the callbacks of a debugger, in the header's order.

    If a callback has two results, the first one is a result code. Other codes than :attr:`Result.OK` make the second
    result meaningless. Comments name the parameters of a callback and, after a semicolon, its result.
    """

    put_process_info: Callable[[ProcessRef, Info | None], None]
    get_process_info: Callable[[ProcessRef], Info | None]
    put_thread_info: Callable[[ThreadRef, Info | None], None]
    get_thread_info: Callable[[ThreadRef], Info | None]
    get_process: Callable[[ThreadRef], ProcessRef]
    get_type_sizes: Callable[[ProcessRef], tuple[int, TargetTypeSizes]]
    # a process and a name; the symbol's address
    find_symbol: Callable[[ProcessRef, str], tuple[int, int]]
    # a process, the type's name and a Language; the type, None if there is none
    find_type: Callable[[ProcessRef, str, int], DmplType | None]
    # a thread, an address and a size in bytes; the bytes as the target has them
    get_data: Callable[[ThreadRef, int, int], tuple[int, bytes]]
    # a thread and a POSIX thread key; the thread's value of the key, 0 if the thread has none
    get_pthread_key: Callable[[ThreadRef, int], tuple[int, int]]
    # a thread and one datum as the target has it; the same datum in the byte order of this machine
    target_to_host: Callable[[ThreadRef, bytes], bytes]
    malloc: Callable[[int], Info | None]
    free: Callable[[Info], None]
    error_string: Callable[[int], str]
    prints: Callable[[str], None]


@record
class TypeFunctions:
    """``DMPL_sizeof_ft`` and ``DMPL_field_offset_ft``: the header has their types, but the table has no members for
    them.

    They are passed besides the table, in C by ``DMPL_extend``. Both return -1 for an unknown type or member.
    """

    sizeof: Callable[[DmplType], int]
    field_offset: Callable[[DmplType, str], int]


class DemangledName(NamedTuple):
    """The result of ``DMPL_demangle_name`` for a compiler-made name.

    ``code`` is a :class:`Result`: OK, NAME_UNCHANGED for a name that a compiler did not derive from another, or
    NAME_TOO_LONG. ``length`` is the length of the demangled name in bytes, without a NUL. If the name is too long for
    the buffer, ``length`` is the size of a buffer that has room for the name and its NUL, and ``demangled`` is "".
    ``flags`` is a :class:`VarInfo`, perhaps with :data:`VARINFO_NEEDS_DEREFERENCE`. ``decl_line`` is the line of the
    declaration in the source, 0 if it is unknown.
    """

    code: int
    length: int
    demangled: str
    flags: int
    decl_line: int


SourceOf = Callable[[str], tuple["str | None", "int | None"]]
"""Function that returns the source name and the line of a function, given its linker name; None if they are unknown.
DMPL has no such callback, so a library may be called without one.
"""


class Library(Protocol):
    """The functions of a DMPL library, in the header's order. A library stores facts only through the callbacks
    ``put_process_info`` and ``put_thread_info``.
    """

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        """Store the debugger's callbacks. ``DMPL_initialise``; the paper's figures spell it ``DMPL_initialize``."""

    def version_compatibility(self) -> int:
        """Return the version of the interface that the library implements: :data:`INTERFACE_COMPATIBILITY`."""

    def version_string(self) -> str:
        """Return the name and version of the library."""

    def error_string(self, code: int) -> str:
        """Return the meaning of one of the library's codes."""

    def destroy_process_info(self, info: Info) -> int:
        """Release the library's storage of a process."""

    def destroy_thread_info(self, info: Info) -> int:
        """Release the library's storage of a thread."""

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        """Return the source name from which a compiler made *mangled*.

        :param buf_len: size in bytes of the buffer for the demangled name and its NUL
        """

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        """Return the address of *thread*'s copy of a threadprivate object. *address* is the object's address in debug
        information.

        The code is :attr:`Result.TLS_UNALLOCATED` if the thread has no copy yet.
        """

    def get_rtl_names(self, language: int) -> RtlNames | None:
        """Return the routines around a construct's code in a :class:`Language`, None for an unknown language."""
