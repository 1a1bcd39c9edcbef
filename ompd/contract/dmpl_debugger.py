"""The debugger's side of DMPL: its callback table, served from :class:`~ompd.contract.callbacks.Callbacks`.

One :class:`Debugger` serves any number of processes at once. It keeps a library's storage of a process or a thread
until :meth:`Debugger.release`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ompd.contract.callbacks import Callbacks, TypeRef
from ompd.contract.dmpl import (
    CallbackTable,
    DmplType,
    Info,
    Language,
    Library,
    ProcessRef,
    Result,
    TargetTypeSizes,
    ThreadRef,
    TypeFunctions,
)
from ompd.errors import BadInput, OmpdError, Rc

Answer = TypeVar("Answer")

# Libraries allocate storage for small records only.
_MAX_ALLOCATION = 1 << 20
_MAX_PIECES = 1 << 16
# Limits for the lines that libraries print: users read them.
_MAX_PRINTED, _MAX_TEXT = 100, 500
_NO_SIZES = TargetTypeSizes(0, 0, 0, 0, 0)

_MEANINGS = {
    Result.OK: "ok",
    Result.TLS_UNALLOCATED: "no space has been allocated for this object",
    Result.NAME_TOO_LONG: "the buffer is too small for the name",
    Result.NAME_UNCHANGED: "the name was not demangled",
}


def error_text(code: int) -> str:
    """Return the meaning of a DMPL code, or of one of this debugger's codes (``FIRST_USER_CODE`` plus OMPD's return
    code).
    """
    try:
        return _MEANINGS[Result(code)] if code < Result.FIRST_USER_CODE else _named(code - Result.FIRST_USER_CODE)
    except ValueError:
        return f"code {code}, which nobody has defined"


def _named(code: int) -> str:
    return Rc(code).name.lower().replace("_", " ")


def code_of(error: OmpdError) -> int:
    """Return this debugger's code for an error."""
    return Result.FIRST_USER_CODE + error.rc


@dataclass(eq=False)
class _Process:
    callbacks: Callbacks
    info: Info | None = None
    threads: dict[int, _Thread] = field(default_factory=dict)
    fault: OmpdError | None = None  # error of the last failed callback


@dataclass(eq=False)
class _Thread:
    process: _Process
    native: int
    info: Info | None = None


class Debugger:
    """The callbacks for libraries, and the storage that libraries keep through them.

    :param warn: called with each line that libraries print, without control characters
    """

    def __init__(self, warn: Callable[[str], None] = lambda text: None) -> None:
        self._warn = warn
        self._processes: list[_Process] = []
        self._allocated: dict[int, Info] = {}
        self.printed: list[str] = []
        """The first lines that libraries have printed."""

    @property
    def table(self) -> CallbackTable:
        """The callback table to pass to ``DMPL_initialise``."""
        return CallbackTable(
            self._put_process_info,
            self._get_process_info,
            self._put_thread_info,
            self._get_thread_info,
            self._get_process,
            self._get_type_sizes,
            self._find_symbol,
            self._find_type,
            self._get_data,
            self._get_pthread_key,
            self._target_to_host,
            self._malloc,
            self._free,
            error_text,
            self._prints,
        )

    @property
    def types(self) -> TypeFunctions:
        """The two functions that the callback table has no members for."""
        return TypeFunctions(self._sizeof, self._field_offset)

    @property
    def allocated(self) -> int:
        """The number of blocks of storage that libraries have allocated and not freed."""
        return len(self._allocated)

    def add_process(self, callbacks: Callbacks) -> ProcessRef:
        """Register the process that *callbacks* read, and return the reference by which libraries name it."""
        process = _Process(callbacks)
        self._processes.append(process)
        return ProcessRef(process)

    def thread(self, process: ProcessRef, native: int) -> ThreadRef:
        """Return the thread of *process* whose system identifier is *native*."""
        entry = _process(process)
        return ThreadRef(entry.threads.setdefault(native, _Thread(entry, native)))

    def fault(self, process: ProcessRef) -> OmpdError | None:
        """Return the error of the last failed callback for *process*, None if no callback has failed."""
        return _process(process).fault

    def release(self, process: ProcessRef, library: Library) -> list[int]:
        """Have *library* destroy its storage of *process* and its threads, forget the process, and return the codes.

        The process is forgotten even if the library fails.
        """
        entry = _process(process)
        codes: list[int] = []
        for thread in entry.threads.values():
            info, thread.info = thread.info, None
            codes += self._destroy(library.destroy_thread_info, info)
        info, entry.info = entry.info, None
        codes += self._destroy(library.destroy_process_info, info)
        if entry in self._processes:
            self._processes.remove(entry)
        return codes

    def _destroy(self, destroy: Callable[[Info], int], info: Info | None) -> list[int]:
        if info is None:
            return []
        try:
            return [destroy(info)]
        except OmpdError:
            self._free(info)
            return []

    # The callbacks, in the table's order

    def _put_process_info(self, process: ProcessRef, info: Info | None) -> None:
        _process(process).info = info

    def _get_process_info(self, process: ProcessRef) -> Info | None:
        return _process(process).info

    def _put_thread_info(self, thread: ThreadRef, info: Info | None) -> None:
        _thread(thread).info = info

    def _get_thread_info(self, thread: ThreadRef) -> Info | None:
        return _thread(thread).info

    def _get_process(self, thread: ThreadRef) -> ProcessRef:
        return ProcessRef(_thread(thread).process)

    def _get_type_sizes(self, process: ProcessRef) -> tuple[int, TargetTypeSizes]:
        entry = _process(process)

        def ask() -> TargetTypeSizes:
            sizes = entry.callbacks.type_sizes()
            return TargetTypeSizes(
                sizes.sizeof_short,
                sizes.sizeof_int,
                sizes.sizeof_long,
                sizes.sizeof_long_long,
                sizes.sizeof_pointer,
            )

        return _answer(entry, ask, _NO_SIZES)

    def _find_symbol(self, process: ProcessRef, name: str) -> tuple[int, int]:
        entry = _process(process)
        return _answer(entry, lambda: entry.callbacks.find_symbol(name), 0)

    def _find_type(self, process: ProcessRef, name: str, language: int) -> DmplType | None:
        # Types are looked up by their name in the language, in C and C++ by the tag.
        entry = _process(process)
        plain = name.removeprefix("struct ") if language in (Language.C, Language.CPLUSPLUS) else name
        code, type_ref = _answer(entry, lambda: entry.callbacks.find_type(plain), None)
        return DmplType((entry, type_ref)) if code == Result.OK and type_ref is not None else None

    def _sizeof(self, type_: DmplType) -> int:
        entry, type_ref = _type(type_)
        return _answer(entry, lambda: entry.callbacks.sizeof(type_ref), -1)[1]

    def _field_offset(self, type_: DmplType, name: str) -> int:
        entry, type_ref = _type(type_)
        return _answer(entry, lambda: entry.callbacks.field_offset(type_ref, name), -1)[1]

    def _get_data(self, thread: ThreadRef, address: int, size: int) -> tuple[int, bytes]:
        entry = _thread(thread).process
        return _answer(entry, lambda: entry.callbacks.read(address, size), b"")

    def _get_pthread_key(self, thread: ThreadRef, key: int) -> tuple[int, int]:
        entry = _thread(thread)
        return _answer(entry.process, lambda: entry.process.callbacks.pthread_key(entry.native, key) or 0, 0)

    def _target_to_host(self, thread: ThreadRef, data: bytes) -> bytes:
        return _thread(thread).process.callbacks.to_host(data, len(data))

    def _malloc(self, size: int) -> Info | None:
        if not 0 <= size <= _MAX_ALLOCATION or len(self._allocated) >= _MAX_PIECES:
            return None
        storage = Info(size)
        self._allocated[id(storage)] = storage
        return storage

    def _free(self, storage: Info) -> None:
        self._allocated.pop(id(storage), None)

    def _prints(self, text: str) -> None:
        if len(self.printed) < _MAX_PRINTED:
            self.printed.append(text)
            self._warn("".join(character if character.isprintable() else "?" for character in text[:_MAX_TEXT]))


def _answer(process: _Process, ask: Callable[[], Answer], failed: Answer) -> tuple[int, Answer]:
    try:
        return Result.OK, ask()
    except OmpdError as error:
        process.fault = error
        return code_of(error), failed


def _process(process: ProcessRef) -> _Process:
    if not isinstance(process, _Process):
        raise BadInput(f"{process!r} is not a process of this debugger")
    return process


def _thread(thread: ThreadRef) -> _Thread:
    if not isinstance(thread, _Thread):
        raise BadInput(f"{thread!r} is not a thread of this debugger")
    return thread


def _type(type_: DmplType) -> tuple[_Process, TypeRef]:
    if not isinstance(type_, tuple) or len(type_) != 2 or not isinstance(type_[0], _Process):
        raise BadInput(f"{type_!r} is not a type of this debugger")
    return type_[0], type_[1]
