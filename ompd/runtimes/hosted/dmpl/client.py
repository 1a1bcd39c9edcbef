"""A DMPL library in C, which runs in a process of its own: a :class:`~ompd.contract.dmpl.Library` like any other."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ompd.contract.dmpl import (
    EXTENSION,
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
from ompd.runtimes.hosted.dmpl.protocol import (
    CALLBACKS,
    CALLS,
    MAX_MESSAGE,
    MAX_NAME,
    RESULT,
    Call,
    Callback,
    Field,
    Garbage,
    Stream,
    unpacked,
)
from ompd.runtimes.hosted.process import MOST_EXCUSED, interpreters, signal_name, worker_command

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_MAIN = "ompd.runtimes.hosted.dmpl.worker"
_SECONDS = 20.0
_MEMORY = 1 << 30
_START_SECONDS = 60.0
# More callbacks than any call of a library makes: a list of 65,536 variables is read with 6 numbers for each.
_MAX_CALLBACKS = 1 << 21
_MAX_TYPES = 1 << 12
_MAX_INFOS = 1 << 16

_Serving = Callable[..., Sequence[Field]]

# The code of this debugger's for what a library asks of it that there is not.
_NO_SUCH = Result.FIRST_USER_CODE + 1


class HostedLibrary:
    """A DMPL library that runs in a process of its own.

    :param name: of the library in messages
    :param steps: what to load, the library last: name, open descriptor, and whether its symbols are for all, as
        :attr:`ompd.runtimes.hosted.loading.libraries.Opened.steps`
    :param program: the program that hosts it instead of this Python: one of the library's architecture
        (``runtime_stub/host/dmpl_host.c``)
    :param seconds: how long one call may take, time of the debugger's callbacks excepted
    :raises LibraryError: if it cannot be loaded, or lacks a function
    :raises Unsupported: if it implements another version of the interface
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[tuple[str, int, bool]],
        *,
        program: Path | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self._name = name
        self.seconds = max(seconds, _START_SECONDS)  # until it has started
        self._deadline: float | None = None
        self._error: LibraryError | None = None
        self._excused = 0.0  # of the call that is being made
        self._callbacks: CallbackTable | None = None
        self._types: TypeFunctions | None = None
        self._source_of: SourceOf | None = None
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._objects: WeakValueDictionary[int, object] = WeakValueDictionary()
        self._last_number = 0
        self._found_types: list[DmplType] = []
        self._infos: dict[int, Info] = {}
        self._addresses: dict[int, int] = {}
        self._serving = self._table()
        own, others = socket.socketpair()
        reading, writing = os.pipe()
        # As long as it is open the process may live: the debugger may end while the library is in an endless loop.
        self._lifeline = os.fdopen(writing, "wb", buffering=0)
        with others, os.fdopen(reading, "rb", buffering=0) as lifeline:
            python = next(iter(interpreters()), "")  # without one it fails as one that cannot be started
            command = worker_command(python, _MAIN, str(program) if program is not None else None)
            arguments = [str(others.fileno()), str(_MEMORY)]
            for step, descriptor, is_global in steps:
                arguments += [step, str(descriptor), str(int(is_global))]
            descriptors = [descriptor for _, descriptor, _ in steps if descriptor >= 0]
            self._end = own
            own.settimeout(_START_SECONDS)
            try:
                self._process = subprocess.Popen(
                    [*command, *arguments],
                    stdin=lifeline,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(others.fileno(), *descriptors),
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                own.close()
                self._lifeline.close()
                raise LibraryError(name, None, f"no process for it: {error}", has_ended=True) from error
        self._stream = Stream(own, self._wait)
        try:
            self._version, self._version_string = self._hello()
        except BaseException:
            self.close()
            raise
        self.seconds = seconds

    def _hello(self) -> tuple[int, str]:
        is_loaded, fault, missing, version, name = self._ask(Call.HELLO)
        if not is_loaded:
            raise LibraryError(self._name, None, f"it cannot be loaded: {_text(fault)}")
        if missing:
            raise LibraryError(self._name, None, f"it is no DMPL library: it does not have {_text(missing)}")
        if version not in (INTERFACE_COMPATIBILITY, INTERFACE_COMPATIBILITY | EXTENSION):
            raise Unsupported(
                f"{self._name}: version {version:#x} of DMPL is not known, only {INTERFACE_COMPATIBILITY} is; "
                f"the library says that it is {_text(name)!r}"
            )
        return version, _text(name)

    # Its life

    @property
    def process_id(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def error(self) -> LibraryError | None:
        """Why its process has ended, None if it has not."""
        return self._error

    def close(self) -> None:
        """End its process, whatever state it is in."""
        if self._error is None:
            self._error = LibraryError(self._name, None, "it was closed", has_ended=True)
        self._end.close()
        self._lifeline.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ompd.contract.dmpl.Library

    def initialise(self, callbacks: CallbackTable, types: TypeFunctions) -> int:
        """See :meth:`Library.initialise`: it is the library's function of either spelling."""
        self._callbacks, self._types = callbacks, types
        return int(self._ask(Call.INITIALISE, int(bool(self._version & EXTENSION)))[0])

    initialize = initialise

    def version_compatibility(self) -> int:
        """See :meth:`Library.version_compatibility`."""
        return self._version

    def version_string(self) -> str:
        """See :meth:`Library.version_string`."""
        return self._version_string

    def error_string(self, code: int) -> str:
        """See :meth:`Library.error_string`."""
        return _text(self._ask(Call.ERROR_STRING, code)[0])

    def destroy_process_info(self, info: Info) -> int:
        """See :meth:`Library.destroy_process_info`."""
        return int(self._ask(Call.DESTROY_PROCESS_INFO, self._addresses.get(id(info), 0))[0])

    def destroy_thread_info(self, info: Info) -> int:
        """See :meth:`Library.destroy_thread_info`."""
        return int(self._ask(Call.DESTROY_THREAD_INFO, self._addresses.get(id(info), 0))[0])

    def demangle_name(self, mangled: str, buf_len: int, source_of: SourceOf | None = None) -> DemangledName:
        """See :meth:`Library.demangle_name`."""
        self._source_of = source_of
        try:
            code, length, name, flags, line = self._ask(Call.DEMANGLE_NAME, _bytes(mangled), buf_len)
        finally:
            self._source_of = None
        return DemangledName(code, length, "" if code == Result.NAME_TOO_LONG else _text(name), flags, line)

    def get_tls_address(self, thread: ThreadRef, address: int) -> tuple[int, int]:
        """See :meth:`Library.get_tls_address`."""
        code, found = self._ask(Call.GET_TLS_ADDRESS, self._number(thread), address)
        return code, found % (1 << 64) if code == Result.OK else 0

    def get_rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Library.get_rtl_names`."""
        is_known, dispatcher, invoker = self._ask(Call.GET_RTL_NAMES, language)
        return RtlNames(_text(dispatcher), _text(invoker)) if is_known else None

    # Calls

    def _ask(self, call: Call, *fields: Field) -> list[Any]:
        if self._error is not None:
            raise self._error
        self._excused = 0.0
        self._deadline = time.monotonic() + self.seconds
        try:
            self._stream.send(call, fields)
            for _ in range(_MAX_CALLBACKS):
                number, body = self._stream.receive()
                if number == RESULT:
                    return unpacked(body, CALLS[call][1])
                self._serve(Callback(number), body)
        except (_TooLong, TimeoutError):
            fault = f"it took more than {self.seconds:g} s"
        except (EOFError, OSError):
            fault = self._ending()
        except (Garbage, ValueError) as garbage:
            fault = f"it says what cannot be: {garbage}"
        except BaseException:
            self.close()
            raise
        else:
            fault = f"it called back more than {_MAX_CALLBACKS} times"
        name = None if call == Call.HELLO else f"DMPL_{call.name.lower()}"
        error = LibraryError(self._name, name, fault, has_ended=True)
        self.close()
        self._error = error
        raise error

    def _wait(self) -> None:
        # Time of the debugger's own callbacks does not count.
        assert self._deadline is not None
        waiting = select.poll()
        waiting.register(self._end, select.POLLIN)
        if not waiting.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise _TooLong

    def _serve(self, callback: Callback, body: bytes) -> None:
        began = time.monotonic()
        fields = unpacked(body, CALLBACKS[callback][0])
        results = self._serving[callback](*fields)
        assert self._deadline is not None
        spent = time.monotonic() - began
        self._excused += spent
        if self._excused <= MOST_EXCUSED * self.seconds:
            self._deadline += spent
        self._stream.send(RESULT, results)

    def _ending(self) -> str:
        # Its end of the socket is closed: it has ended, or will not answer any more.
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if status >= 0:
            return f"its process ended with status {status}"
        return f"its process was ended by {signal_name(-status)}"

    # Numbers stand for processes, threads and types

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

    # What a library keeps is in its process: here something stands for it

    def _info(self, address: int) -> Info | None:
        if not address:
            return None
        if address not in self._infos:
            self._keep(address, Info())  # the library's own, and not of the debugger's storage
        return self._infos[address]

    def _keep(self, address: int, info: Info) -> None:
        if len(self._infos) >= _MAX_INFOS:
            raise BadInput(f"more than {_MAX_INFOS} pieces of storage")
        self._infos[address] = info
        self._addresses[id(info)] = address

    def _address(self, info: Info | None) -> int:
        return self._addresses.get(id(info), 0) if info is not None else 0

    # Callbacks: what fails has a result that says so

    def _table(self) -> dict[Callback, _Serving]:
        failed = (_NO_SUCH, 0)
        rows: tuple[tuple[Callback, _Serving, Sequence[Field]], ...] = (
            (Callback.PUT_PROCESS_INFO, self._put_process_info, ()),
            (Callback.GET_PROCESS_INFO, self._get_process_info, (0,)),
            (Callback.PUT_THREAD_INFO, self._put_thread_info, ()),
            (Callback.GET_THREAD_INFO, self._get_thread_info, (0,)),
            (
                Callback.GET_PROCESS,
                lambda thread: (self._number(self._own.get_process(self._thread_of(thread))),),
                (0,),
            ),
            (Callback.GET_TYPE_SIZES, self._get_type_sizes, (_NO_SUCH, 0, 0, 0, 0, 0)),
            (
                Callback.FIND_SYMBOL,
                lambda process, name: self._own.find_symbol(self._process_of(process), _text(name)),
                failed,
            ),
            (Callback.FIND_TYPE, self._find_type, (0,)),
            (Callback.GET_DATA, self._get_data, (_NO_SUCH, b"")),
            (
                Callback.GET_PTHREAD_KEY,
                lambda thread, key: self._own.get_pthread_key(self._thread_of(thread), key),
                failed,
            ),
            (
                Callback.TARGET_TO_HOST,
                lambda thread, data: (self._own.target_to_host(self._thread_of(thread), data),),
                (b"",),
            ),
            (Callback.MALLOC, self._malloc, (0,)),
            (Callback.FREE, self._free, (0,)),
            (Callback.ERROR_STRING, lambda code: (_bytes(self._own.error_string(code)),), (b"",)),
            (Callback.PRINTS, self._prints, ()),
            (Callback.SIZEOF, lambda type_: (self._own_types.sizeof(self._type_of(type_)),), (-1,)),
            (
                Callback.FIELD_OFFSET,
                lambda type_, name: (self._own_types.field_offset(self._type_of(type_), _text(name)),),
                (-1,),
            ),
            (Callback.SOURCE_OF, self._ask_source, (0, b"", 0)),
        )

        def guarded(serve: _Serving, otherwise: Sequence[Field]) -> _Serving:
            def serve_or_fail(*fields: Field) -> Sequence[Field]:
                try:
                    return serve(*fields)
                except OmpdError:
                    return otherwise

            return serve_or_fail

        return {callback: guarded(serve, otherwise) for callback, serve, otherwise in rows}

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

    def _find_type(self, process: int, name: bytes, language: int) -> Sequence[Field]:
        found = self._own.find_type(self._process_of(process), _text(name), language)
        if found is None or len(self._found_types) >= _MAX_TYPES:
            return (0,)
        self._found_types.append(found)
        return (len(self._found_types),)

    def _get_data(self, thread: int, address: int, size: int) -> Sequence[Field]:
        if not 0 <= size < MAX_MESSAGE // 2:
            return _NO_SUCH, b""
        return self._own.get_data(self._thread_of(thread), address % (1 << 64), size)

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

    def _prints(self, text: bytes) -> Sequence[Field]:
        self._own.prints(_text(text))
        return ()

    def _ask_source(self, mangled: bytes) -> Sequence[Field]:
        if self._source_of is None:
            return 0, b"", 0
        name, line = self._source_of(_text(mangled))
        return int(name is not None), _bytes(name or ""), line or 0


class _TooLong(Exception):
    """A call has used up its time."""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").partition(b"\0")[0][:MAX_NAME]
