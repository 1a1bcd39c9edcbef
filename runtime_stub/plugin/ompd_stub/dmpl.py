"""The stub's DMPL library in Python. It uses only DMPL's callbacks; ``runtime_stub/dmpl`` is the same in C.

Each thread has its threadprivate variables in storage under a POSIX thread key, as in the paper's Figure 10. The key is
in ``__omp_stub_tls_key``. Its value in a thread is the address of the thread's storage, and a variable has an offset in
that storage. Debug information has the address of the variable's initial value. The runtime has a record of each
variable with both the offset and that address (``struct omp_stub_private``, ``runtime_stub/include/omp_stub.h``).

The library itself keeps only the callbacks. It stores its facts about a process or a thread with the debugger, in
storage that the debugger allocates.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from ompd.contract.dmpl import (
    INTERFACE_COMPATIBILITY,
    CallbackTable,
    DemangledName,
    Info,
    Language,
    Result,
    RtlNames,
    SourceOf,
    ThreadRef,
    TypeFunctions,
    VarInfo,
)
from ompd.contract.helpers import demangling
from ompd.contract.memory import StructLayout
from ompd.errors import OmpdError
from ompd_stub import structures

KEY = "__omp_stub_tls_key"
PROCESS = "omp_stub_process"
RECORD = "omp_stub_private"
# The names of records of threadprivate variables, and of variables that OMP_STUB_VARIABLE declares.
_NAME = r"(?P<name>[0-9A-Za-z_\x80-\U0010ffff]+)"
_CLAUSES = "|".join(info.name.lower() for info in VarInfo if info)
VARIABLES = (
    re.compile(rf"omp_stub_private_{_NAME}"),
    re.compile(rf"omp_stub_(?:var|(?P<address>at))_(?P<clause>{_CLAUSES})_{_NAME}"),
)
_MEMBERS = ("next", "variable", "size", "offset", "number")

NO_MEMORY = Result.FIRST_USER_CODE
NOT_THREADPRIVATE = Result.FIRST_USER_CODE + 1
DAMAGED = Result.FIRST_USER_CODE + 2
_NOT_INITIALISED = Result.FIRST_USER_CODE + 3

_MEANINGS = {
    Result.OK: "ok",
    Result.TLS_UNALLOCATED: "the thread has no storage for its copy yet",
    Result.NAME_TOO_LONG: "the name is longer than the buffer",
    Result.NAME_UNCHANGED: "no compiler made this name",
    NO_MEMORY: "the debugger gives no memory",
    NOT_THREADPRIVATE: "the runtime keeps no copies of what is there",
    DAMAGED: "the runtime's list of threadprivate variables is damaged",
    _NOT_INITIALISED: "the library has not been initialised",
}

_MAX_VARIABLES = 1 << 16
# A thread's storage is one mapping of this size.
_CAPACITY = 1 << 20

# The encountering thread calls the first routine; the second one calls the region's code on each thread.
ROUTINES = ("GOMP_parallel", "run_implicit")


class _ProcessInfo(NamedTuple):
    # A process: the size of a pointer, the addresses of the key and of the pointer to the first record, the size of a
    # record, and the offsets of its members.
    pointer_size: int
    key: int
    first: int
    size: int
    next: int
    variable: int
    extent: int
    offset: int
    number: int

    @classmethod
    def unpack(cls, info: Info) -> _ProcessInfo:
        return cls(*_PROCESS_INFO.unpack(info))


_PROCESS_INFO = struct.Struct("=9Q")
_THREAD_INFO = struct.Struct("=Q")  # the address of the thread's storage


class _Variable(NamedTuple):
    # A record (struct omp_stub_private).
    variable: int
    size: int
    offset: int
    number: int


class Failed(Exception):
    """A function of the library ends with ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class StubLibrary:
    """The library, as :class:`ompd.contract.dmpl.Library` declares it."""

    def __init__(self) -> None:
        self._callbacks: CallbackTable | None = None
        self._types: TypeFunctions | None = None

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        self._callbacks, self._types = callbacks, types
        return Result.OK

    initialize = initialise

    def version_compatibility(self) -> int:
        return INTERFACE_COMPATIBILITY

    def version_string(self) -> str:
        return "ompd: DMPL for libomp_stub 1.0"

    def error_string(self, code: int) -> str:
        """Return the meaning of *code*. For a code of the debugger it is the debugger's text."""
        own = _MEANINGS.get(code)
        if own is not None or self._callbacks is None:
            return own or "a code that is not this library's"
        return self._callbacks.error_string(code)

    def destroy_process_info(self, info: Info) -> int:
        return self._free(info)

    def destroy_thread_info(self, info: Info) -> int:
        return self._free(info)

    def _free(self, info: Info) -> int:
        if self._callbacks is None:
            return _NOT_INITIALISED
        self._callbacks.free(info)
        return Result.OK

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        return demangling.demangle(mangled, buf_len, source_of, VARIABLES)

    def get_rtl_names(self, language: int) -> RtlNames | None:
        # The routines are the same for all languages that gcc compiles.
        return demangling.rtl_names(language, *ROUTINES)

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        """Return a result code, and the address of the copy that *thread* has of a threadprivate variable.

        :param address: the address of the initial value, as in debug information; or the variable's offset in the
            storage, as in Figure 10
        """
        if self._callbacks is None or self._types is None:
            return _NOT_INITIALISED, 0
        try:
            return Result.OK, _Lookup(self._callbacks, self._types, thread).address(address)
        except Failed as end:
            return end.code, 0
        except OmpdError:
            return DAMAGED, 0


class _Lookup:
    """One call of ``DMPL_get_tls_address``."""

    def __init__(self, callbacks: CallbackTable, types: TypeFunctions, thread: ThreadRef) -> None:
        self._callbacks, self._types, self._thread = callbacks, types, thread
        self._process = callbacks.get_process(thread)
        self._info = self._process_info()

    def address(self, address: int) -> int:
        """Return the address of the thread's copy.

        :raises Failed: if the thread has none
        """
        variable, inside = self._find(address)
        base = self._base()
        # The word before the storage counts the variables whose initial values the storage has.
        if variable.number >= self._read(base - self._info.pointer_size):
            raise Failed(Result.TLS_UNALLOCATED)
        return base + variable.offset + inside

    def _find(self, address: int) -> tuple[_Variable, int]:
        found = None
        for variable in self._variables():
            if variable.variable <= address < variable.variable + variable.size:
                return variable, address - variable.variable
            if variable.offset <= address < variable.offset + variable.size:
                found = variable, address - variable.offset
        if found is None:
            raise Failed(NOT_THREADPRIVATE)
        return found

    def _variables(self) -> Iterator[_Variable]:
        info = self._info
        here, seen = self._read(info.first), set[int]()
        while here:
            if here in seen or len(seen) >= _MAX_VARIABLES:
                raise Failed(DAMAGED)
            seen.add(here)
            members = (info.variable, info.extent, info.offset, info.number)
            variable = _Variable(*(self._read(here + member) for member in members))
            if variable.offset + variable.size > _CAPACITY:
                raise Failed(DAMAGED)
            yield variable
            here = self._read(here + info.next)

    # Storage of the thread and the process

    def _base(self) -> int:
        info = self._callbacks.get_thread_info(self._thread)
        if info is None:
            # The address can be kept, because a thread's storage never moves.
            base = self._ask_base()
            info = self._callbacks.malloc(_THREAD_INFO.size)
            if info is None:
                raise Failed(NO_MEMORY)
            _THREAD_INFO.pack_into(info, 0, base)
            self._callbacks.put_thread_info(self._thread, info)
        return int(_THREAD_INFO.unpack(info)[0])

    def _ask_base(self) -> int:
        key = self._read(self._info.key)
        if key == (1 << 8 * self._info.pointer_size) - 1:
            raise Failed(Result.TLS_UNALLOCATED)  # no thread has used any such variable
        code, base = self._callbacks.get_pthread_key(self._thread, key)
        self._check(code)
        if not base:
            raise Failed(Result.TLS_UNALLOCATED)
        return base

    def _process_info(self) -> _ProcessInfo:
        info = self._callbacks.get_process_info(self._process)
        if info is None:
            found = self._ask_process()
            info = self._callbacks.malloc(_PROCESS_INFO.size)
            if info is None:
                raise Failed(NO_MEMORY)
            _PROCESS_INFO.pack_into(info, 0, *found)
            self._callbacks.put_process_info(self._process, info)
        return _ProcessInfo.unpack(info)

    def _ask_process(self) -> _ProcessInfo:
        code, sizes = self._callbacks.get_type_sizes(self._process)
        self._check(code)
        if not 0 < sizes.pointer_size <= 8:
            raise Failed(DAMAGED)
        key, process = self._symbol(KEY), self._symbol(PROCESS)
        size, members = self._layout()
        if any(not 0 <= member < size for member in members):
            raise Failed(DAMAGED)
        first = process + self._published("stub_process").field("privates").offset
        return _ProcessInfo(sizes.pointer_size, key, first, size, *members)

    def _symbol(self, name: str) -> int:
        code, address = self._callbacks.find_symbol(self._process, name)
        self._check(code)
        return address

    def _layout(self) -> tuple[int, list[int]]:
        # DMPL's callbacks read debug information. For a stub without it use the published table.
        found = self._callbacks.find_type(self._process, f"struct {RECORD}", Language.C)
        if found is not None:
            return self._types.sizeof(found), [self._types.field_offset(found, name) for name in _MEMBERS]
        layout = self._published(RECORD)
        return layout.size or 0, [layout.field(name).offset for name in _MEMBERS]

    def _published(self, name: str) -> StructLayout:
        try:
            return structures.read_table(self._symbol(structures.TABLE), self._bytes, self._host)[name]
        except (OmpdError, KeyError) as error:
            raise Failed(DAMAGED) from error

    # Reading

    def _bytes(self, address: int, size: int) -> bytes:
        code, raw = self._callbacks.get_data(self._thread, address, size)
        self._check(code)
        return raw

    def _host(self, raw: bytes) -> int:
        return int.from_bytes(self._callbacks.target_to_host(self._thread, raw), sys.byteorder)

    def _read(self, address: int) -> int:
        return self._host(self._bytes(address, self._info.pointer_size))

    def _check(self, code: int) -> None:
        if code != Result.OK:
            self._callbacks.prints(f"DMPL for libomp_stub: {self._callbacks.error_string(code)}")
            raise Failed(code)
