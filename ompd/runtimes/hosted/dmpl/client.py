"""A DMPL library in C, in a separate process, as a :class:`~ompd.contract.dmpl.Library`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ompd.contract.dmpl import (
    INTERFACE_COMPATIBILITY,
    CallbackTable,
    DemangledName,
    DmplType,
    Info,
    ProcessRef,
    Result,
    RtlNames,
    SourceOf,
    ThreadRef,
    TypeFunctions,
)
from ompd.errors import BadInput, LibraryError, OmpdError, Unsupported
from ompd.runtimes.hosted.connection import Connection
from ompd.runtimes.hosted.dmpl.protocol import (
    CALLBACKS,
    CALLS,
    MAX_DATA,
    MAX_NAME,
    NAMES,
    Call,
    Callback,
    Field,
    packed,
    unpacked,
)
from ompd.runtimes.hosted.process import Interface, Limits, Loads
from ompd.runtimes.hosted.protocol import BATCH, DMPL, NUMBER, PAPER, RESULTS
from ompd.runtimes.hosted.results import Malformed

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_DMPL, _PAPER = (Interface(word, "a DMPL library", NAMES) for word in (DMPL, PAPER))
# Reading a list of 65,536 variables takes 6 callbacks for each.
_LIMITS = Limits(callbacks=1 << 19)
_MAX_TYPES = 1 << 12
_MAX_INFOS = 1 << 16

_Serving = Callable[..., Sequence[Field]]

# The code with which this debugger answers a callback for a symbol, a type or memory that does not exist.
_NO_SUCH = Result.FIRST_USER_CODE + 1


class HostedLibrary:
    """A DMPL library that runs in a separate process.

    :param warn: called with each cleaned line that the library prints to its own output, and with warnings about its
        misbehaviour
    :param program: a worker to use instead of the Python worker, for a library of another architecture
        (``runtime_stub/host/``)
    :param extends: whether to pass the extension to the library, if it accepts one
    :raises LibraryError: if the library cannot be loaded, or lacks a function
    :raises Unsupported: if the library implements another version of the interface
    """

    def __init__(
        self,
        loadable: Loads,
        *,
        limits: Limits = _LIMITS,
        warn: Callable[[str], None] = lambda text: None,
        program: Path | None = None,
        extends: bool = True,
    ) -> None:
        self._callbacks: CallbackTable | None = None
        self._types: TypeFunctions | None = None
        self._sources: SourceOf | None = None
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._objects: WeakValueDictionary[int, object] = WeakValueDictionary()
        self._last_number = 0
        self._found_types: list[DmplType] = []
        self._infos: dict[int, Info] = {}
        self._addresses: dict[int, int] = {}
        self._serving = self._table()
        interface = _DMPL if extends else _PAPER
        self._connection = Connection(loadable, interface, self._serve, limits=limits, warn=warn, program=program)
        ready = self._connection.wait()
        self._version, self._version_string = ready.api_version, ready.version_string
        if self._version != INTERFACE_COMPATIBILITY:
            self.close()
            raise Unsupported(
                f"{loadable.name}: version {self._version:#x} of DMPL is not known, only {INTERFACE_COMPATIBILITY} is; "
                f"the library says that it is {self._version_string!r}"
            )

    # Start and end

    @property
    def process_id(self) -> int:
        """The id of the library's process."""
        return self._connection.process_id

    @property
    def error(self) -> LibraryError | None:
        """The reason why the library's process has ended, None while it runs."""
        return self._connection.error

    def close(self) -> None:
        """End the library's process, whatever its state."""
        self._connection.fail("it has been closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ompd.contract.dmpl.Library

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        self._callbacks, self._types = callbacks, types
        return int(self._ask(Call.INITIALISE)[0])

    initialize = initialise

    def version_compatibility(self) -> int:
        return self._version

    def version_string(self) -> str:
        return self._version_string

    def error_string(self, code: int) -> str:
        return _text(self._ask(Call.ERROR_STRING, code)[0])

    def destroy_process_info(self, info: Info) -> int:
        return int(self._ask(Call.DESTROY_PROCESS_INFO, self._addresses.get(id(info), 0))[0])

    def destroy_thread_info(self, info: Info) -> int:
        return int(self._ask(Call.DESTROY_THREAD_INFO, self._addresses.get(id(info), 0))[0])

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        self._sources = source_of
        try:
            code, length, name, flags, line = self._ask(Call.DEMANGLE_NAME, _bytes(mangled), buf_len)
        finally:
            self._sources = None
        return DemangledName(code, length, "" if code == Result.NAME_TOO_LONG else _text(name), flags, line)

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        code, found = self._ask(Call.GET_TLS_ADDRESS, self._number(thread), address)
        return code, found % (1 << 64) if code == Result.OK else 0

    def get_rtl_names(self, language: int) -> RtlNames | None:
        is_known, dispatcher, invoker = self._ask(Call.GET_RTL_NAMES, language)
        return RtlNames(_text(dispatcher), _text(invoker)) if is_known else None

    # Calls

    def _ask(self, call: Call, *fields: Field) -> list[Any]:
        return self._connection.exchange(
            BATCH, (NUMBER.pack(call), packed(fields)), RESULTS, lambda body: unpacked(body, CALLS[call][1])
        )

    def _serve(self, body: bytes) -> bytes:
        (number,) = NUMBER.unpack_from(body)
        if number not in self._serving:
            raise Malformed(f"callback {number}")
        fields = unpacked(body, CALLBACKS[Callback(number)][0], NUMBER.size)
        serve, otherwise = self._serving[number]
        try:
            return packed(serve(*fields))
        except OmpdError:
            return packed(otherwise)

    # The library's process refers to processes, threads and types by number

    def _number(self, thing: Any) -> int:
        number = self._numbers.get(thing)
        if number is None:
            self._last_number += 1
            number = self._numbers[thing] = self._last_number
            self._objects[number] = thing
        return number

    def _process_of(self, number: int) -> ProcessRef:
        return ProcessRef(self._objects.get(number))

    def _thread_of(self, number: int) -> ThreadRef:
        return ThreadRef(self._objects.get(number))

    def _type_of(self, number: int) -> DmplType:
        if not 0 < number <= len(self._found_types):
            raise BadInput(f"there is no type {number}")
        return self._found_types[number - 1]

    # The library's storage is in its process. On this side, each piece of storage is an object with an address

    def _info(self, address: int) -> Info | None:
        if not address:
            return None
        if address not in self._infos:
            self._keep(address, Info())  # the library did not get this storage from the debugger
        return self._infos[address]

    def _keep(self, address: int, info: Info) -> None:
        if len(self._infos) >= _MAX_INFOS:
            raise BadInput(f"more than {_MAX_INFOS} pieces of storage")
        self._infos[address] = info
        self._addresses[id(info)] = address

    def _address(self, info: Info | None) -> int:
        return self._addresses.get(id(info), 0) if info is not None else 0

    # Callbacks

    def _table(self) -> dict[int, tuple[_Serving, Sequence[Field]]]:
        # For each callback, the method that serves it, and the answer if that method fails.
        return {
            Callback.PUT_PROCESS_INFO: (self._put_process_info, ()),
            Callback.GET_PROCESS_INFO: (self._get_process_info, (0,)),
            Callback.PUT_THREAD_INFO: (self._put_thread_info, ()),
            Callback.GET_THREAD_INFO: (self._get_thread_info, (0,)),
            Callback.GET_PROCESS: (self._get_process, (0,)),
            Callback.GET_TYPE_SIZES: (self._get_type_sizes, (_NO_SUCH, 0, 0, 0, 0, 0)),
            Callback.FIND_SYMBOL: (self._find_symbol, (_NO_SUCH, 0)),
            Callback.FIND_TYPE: (self._find_type, (0,)),
            Callback.GET_DATA: (self._get_data, (_NO_SUCH, b"")),
            Callback.GET_PTHREAD_KEY: (self._get_pthread_key, (_NO_SUCH, 0)),
            Callback.TARGET_TO_HOST: (self._target_to_host, (b"",)),
            Callback.MALLOC: (self._malloc, (0,)),
            Callback.FREE: (self._free, (0,)),
            Callback.ERROR_STRING: (self._error_string, (b"",)),
            Callback.PRINTS: (self._prints, ()),
            Callback.SIZEOF: (self._sizeof, (-1,)),
            Callback.FIELD_OFFSET: (self._field_offset, (-1,)),
            Callback.SOURCE_OF: (self._source_of, (0, b"", 0)),
        }

    @property
    def _own(self) -> CallbackTable:
        if self._callbacks is None:
            raise BadInput("the library calls back before it was initialised")
        return self._callbacks

    @property
    def _own_types(self) -> TypeFunctions:
        if self._types is None:
            raise BadInput("the library calls back before it was initialised")
        return self._types

    def _put_process_info(self, process: int, info: int) -> Sequence[Field]:
        self._own.put_process_info(self._process_of(process), self._info(info))
        return ()

    def _get_process_info(self, process: int) -> Sequence[Field]:
        return (self._address(self._own.get_process_info(self._process_of(process))),)

    def _put_thread_info(self, thread: int, info: int) -> Sequence[Field]:
        self._own.put_thread_info(self._thread_of(thread), self._info(info))
        return ()

    def _get_thread_info(self, thread: int) -> Sequence[Field]:
        return (self._address(self._own.get_thread_info(self._thread_of(thread))),)

    def _get_process(self, thread: int) -> Sequence[Field]:
        return (self._number(self._own.get_process(self._thread_of(thread))),)

    def _get_type_sizes(self, process: int) -> Sequence[Field]:
        code, sizes = self._own.get_type_sizes(self._process_of(process))
        return (code, *sizes)

    def _find_symbol(self, process: int, name: bytes) -> Sequence[Field]:
        return self._own.find_symbol(self._process_of(process), _text(name))

    def _find_type(self, process: int, name: bytes, language: int) -> Sequence[Field]:
        found = self._own.find_type(self._process_of(process), _text(name), language)
        if found is None or len(self._found_types) >= _MAX_TYPES:
            return (0,)
        self._found_types.append(found)
        return (len(self._found_types),)

    def _get_data(self, thread: int, address: int, size: int) -> Sequence[Field]:
        if not 0 <= size <= MAX_DATA:
            return _NO_SUCH, b""
        return self._own.get_data(self._thread_of(thread), address % (1 << 64), size)

    def _get_pthread_key(self, thread: int, key: int) -> Sequence[Field]:
        return self._own.get_pthread_key(self._thread_of(thread), key)

    def _target_to_host(self, thread: int, data: bytes) -> Sequence[Field]:
        return (self._own.target_to_host(self._thread_of(thread), data),)

    def _malloc(self, size: int, address: int) -> Sequence[Field]:
        storage = self._own.malloc(size) if address or not size else None
        if storage is None or not address:
            return (0,)
        self._keep(address, storage)
        return (1,)

    def _free(self, address: int) -> Sequence[Field]:
        storage = self._infos.pop(address, None)
        if storage is None:
            return (0,)
        self._addresses.pop(id(storage), None)
        self._own.free(storage)
        return (1,)

    def _error_string(self, code: int) -> Sequence[Field]:
        return (_bytes(self._own.error_string(code)),)

    def _sizeof(self, type_: int) -> Sequence[Field]:
        return (self._own_types.sizeof(self._type_of(type_)),)

    def _field_offset(self, type_: int, name: bytes) -> Sequence[Field]:
        return (self._own_types.field_offset(self._type_of(type_), _text(name)),)

    def _prints(self, text: bytes) -> Sequence[Field]:
        self._own.prints(_text(text))
        return ()

    def _source_of(self, mangled: bytes) -> Sequence[Field]:
        if self._sources is None:
            return 0, b"", 0
        name, line = self._sources(_text(mangled))
        return int(name is not None), _bytes(name or ""), line or 0


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").partition(b"\0")[0][:MAX_NAME]
