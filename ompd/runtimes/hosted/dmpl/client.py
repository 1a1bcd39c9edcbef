"""A DMPL library in C, in a separate process, as a :class:`~ompd.contract.dmpl.Library`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
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
from ompd.errors import BadInput, OmpdError, Unsupported
from ompd.runtimes.hosted import messages
from ompd.runtimes.hosted.connection import Connection
from ompd.runtimes.hosted.dmpl.protocol import ARGUMENTS, MAX_DATA, MAX_NAME, NAMES, Call
from ompd.runtimes.hosted.messages import Malformed, Reply
from ompd.runtimes.hosted.process import Interface, Limits, Loads
from ompd.runtimes.hosted.protocol import DMPL, PAPER, signed, single_answer

_DMPL, _PAPER = (Interface(word, "a DMPL library", NAMES) for word in (DMPL, PAPER))
# Reading a list of 65,536 variables takes 6 callbacks for each.
_LIMITS = Limits(callbacks=1 << 19)
_MAX_TYPES = 1 << 12
_MAX_INFOS = 1 << 16

# The name of the method that answers a callback, and the letters of the callback's arguments
_METHODS = {int(which): (f"_{which.name.lower()}", letters) for which, letters in ARGUMENTS.items()}
_Answer = tuple[int, int, bytes]  # a code, a word, bytes

# The code with which this debugger answers a callback for a symbol, a type or memory that does not exist.
_NO_SUCH = Result.FIRST_USER_CODE + 1


class HostedLibrary(Connection):
    """A DMPL library that runs in a separate process.

    :param warnings: gets each cleaned line that the library prints to its own output, and warnings about its
        misbehaviour
    :param extends: whether to pass the extension to the library, if it accepts one
    :raises LibraryError: if the library cannot be loaded, or lacks a function
    :raises Unsupported: if the library implements another version of the interface
    """

    def __init__(
        self,
        loadable: Loads,
        *,
        limits: Limits = _LIMITS,
        warnings: list[str] | None = None,
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
        interface = _DMPL if extends else _PAPER
        super().__init__(loadable, interface, limits=limits, warnings=warnings, program=program)
        self.wait()
        if self.api_version != INTERFACE_COMPATIBILITY:
            self.close()
            raise Unsupported(
                f"{self.name}: version {self.api_version:#x} of DMPL is not known, only {INTERFACE_COMPATIBILITY} is; "
                f"the library says that it is {self.version_text!r}"
            )

    def close(self) -> None:
        """End the library's process, whatever its state."""
        self.fail("it has been closed")

    # ompd.contract.dmpl.Library

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        self._callbacks, self._types = callbacks, types
        return self._ask(Call.INITIALISE).code

    initialize = initialise

    def version_compatibility(self) -> int:
        return self.api_version

    def version_string(self) -> str:
        return self.version_text

    def error_string(self, code: int) -> str:
        return _text(self._ask(Call.ERROR_STRING, code, texts=(1,)).rows[0].raw)

    def destroy_process_info(self, info: Info) -> int:
        return self._ask(Call.DESTROY_PROCESS_INFO, self._addresses.get(id(info), 0)).code

    def destroy_thread_info(self, info: Info) -> int:
        return self._ask(Call.DESTROY_THREAD_INFO, self._addresses.get(id(info), 0)).code

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        self._sources = source_of
        try:
            reply = self._ask(Call.DEMANGLE_NAME, _bytes(mangled), buf_len, texts=(1,))
        finally:
            self._sources = None
        _, length, flags, line = map(signed, reply.words)
        name = "" if reply.code == Result.NAME_TOO_LONG else _text(reply.rows[0].raw)
        return DemangledName(reply.code, length, name, flags, line)

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        reply = self._ask(Call.GET_TLS_ADDRESS, self._number(thread), address)
        return reply.code, reply.words[0] if reply.code == Result.OK else 0

    def get_rtl_names(self, language: int) -> RtlNames | None:
        names = self._ask(Call.GET_RTL_NAMES, language, texts=(0, 2)).rows
        return RtlNames(*(_text(name.raw) for name in names)) if names else None

    # Calls

    def _ask(self, call: Call, *arguments: int | bytes, texts: tuple[int, ...] = (0,)) -> Reply:
        # Make a call, and return its result. *texts* are the numbers of texts that it may have.
        (reply,) = self.make([messages.Call(call, arguments)])
        if len(reply.rows) not in texts:
            raise self.invalid()
        return reply

    def answer(self, callback: messages.Callback) -> bytes:
        name, letters = _METHODS.get(callback.which, ("", ""))
        if not name:
            raise Malformed(f"callback {callback.which}")
        arguments: list[int | bytes] = []
        for letter, word in zip(letters, (*callback.words, 0), strict=False):
            if letter == "b":
                arguments.append(callback.raw)
            else:
                arguments.append(signed(word) if letter == "i" else word)
        method: Callable[..., _Answer] = getattr(self, name)
        try:
            return single_answer(*method(*arguments))
        except OmpdError:
            return single_answer(_NO_SUCH)

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

    def _put_process_info(self, process: int, info: int) -> _Answer:
        self._own.put_process_info(self._process_of(process), self._info(info))
        return 0, 0, b""

    def _get_process_info(self, process: int) -> _Answer:
        return 0, self._address(self._own.get_process_info(self._process_of(process))), b""

    def _put_thread_info(self, thread: int, info: int) -> _Answer:
        self._own.put_thread_info(self._thread_of(thread), self._info(info))
        return 0, 0, b""

    def _get_thread_info(self, thread: int) -> _Answer:
        return 0, self._address(self._own.get_thread_info(self._thread_of(thread))), b""

    def _get_process(self, thread: int) -> _Answer:
        return 0, self._number(self._own.get_process(self._thread_of(thread))), b""

    def _get_type_sizes(self, process: int) -> _Answer:
        code, sizes = self._own.get_type_sizes(self._process_of(process))
        return code, 0, bytes(sizes)

    def _find_symbol(self, process: int, name: bytes) -> _Answer:
        return *self._own.find_symbol(self._process_of(process), _text(name)), b""

    def _find_type(self, process: int, language: int, name: bytes) -> _Answer:
        type_ = self._own.find_type(self._process_of(process), _text(name), language)
        if type_ is None or len(self._found_types) >= _MAX_TYPES:
            return _NO_SUCH, 0, b""
        self._found_types.append(type_)
        return 0, len(self._found_types), b""

    def _get_data(self, thread: int, address: int, size: int) -> _Answer:
        if not 0 <= size <= MAX_DATA:
            return _NO_SUCH, 0, b""
        code, data = self._own.get_data(self._thread_of(thread), address, size)
        return code, 0, data

    def _get_pthread_key(self, thread: int, key: int) -> _Answer:
        return *self._own.get_pthread_key(self._thread_of(thread), key), b""

    def _target_to_host(self, thread: int, data: bytes) -> _Answer:
        return 0, 0, self._own.target_to_host(self._thread_of(thread), data)

    def _malloc(self, size: int, address: int) -> _Answer:
        storage = self._own.malloc(size) if address or not size else None
        if storage is None or not address:
            return 0, 0, b""
        self._keep(address, storage)
        return 0, 1, b""

    def _free(self, address: int) -> _Answer:
        storage = self._infos.pop(address, None)
        if storage is None:
            return 0, 0, b""
        self._addresses.pop(id(storage), None)
        self._own.free(storage)
        return 0, 1, b""

    def _error_string(self, code: int) -> _Answer:
        return 0, 0, _bytes(self._own.error_string(code))

    def _sizeof(self, type_: int) -> _Answer:
        return 0, self._own_types.sizeof(self._type_of(type_)), b""

    def _field_offset(self, type_: int, name: bytes) -> _Answer:
        return 0, self._own_types.field_offset(self._type_of(type_), _text(name)), b""

    def _prints(self, text: bytes) -> _Answer:
        self._own.prints(_text(text))
        return 0, 0, b""

    def _source_of(self, mangled: bytes) -> _Answer:
        name, line = self._sources(_text(mangled)) if self._sources is not None else (None, None)
        return Result.OK if name is not None else Result.NAME_UNCHANGED, line or 0, _bytes(name or "")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").partition(b"\0")[0][:MAX_NAME]
