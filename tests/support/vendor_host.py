"""A host of a vendor's OMPD library. It reads a core through our session and writes the library's answers as JSON.

``python -m tests.support.vendor_host LIBRARY CORE``. Handles have numbers: handles that the library compares as equal
have the same number. A refusal of a routine is ``{"rc": code}``.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_uint8, c_uint64, c_void_p
from typing import Any

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.process import Module
from ompd.debugger.process import StoppedProcess
from ompd.errors import OmpdError, Rc
from ompd.session import Session

API_VERSION = 201811
UNDEFINED_STATE = 0x102
MAX_CHAIN = 200
# The host chooses the contexts: this one for the process, and native ids for its threads.
ADDRESS_SPACE = 42
ENDS = (Rc.UNAVAILABLE, Rc.UNSUPPORTED)  # LLVM's library ends its chains with the second code


class Address(ctypes.Structure):
    _fields_ = [("segment", c_uint64), ("address", c_uint64)]


class FrameInfo(ctypes.Structure):
    _fields_ = [("frame_address", Address), ("frame_flag", c_int64)]


class Sizes(ctypes.Structure):
    _fields_ = [(f"sizeof_{name}", c_uint8) for name in ("char", "short", "int", "long", "long_long", "pointer")]


ALLOC = CFUNCTYPE(c_int, c_uint64, POINTER(c_void_p))
FREE = CFUNCTYPE(c_int, c_void_p)
PRINT = CFUNCTYPE(c_int, c_char_p, c_int)
SIZEOF = CFUNCTYPE(c_int, c_void_p, POINTER(Sizes))
SYMBOL = CFUNCTYPE(c_int, c_void_p, c_void_p, c_char_p, POINTER(Address), c_char_p)
MEMORY = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Address), c_uint64, c_void_p)
DEVICE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p)
CONTEXT = CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, c_void_p, POINTER(c_void_p))


class Callbacks(ctypes.Structure):
    """``ompd_callbacks_t``."""

    _fields_ = [
        ("alloc_memory", ALLOC),
        ("free_memory", FREE),
        ("print_string", PRINT),
        ("sizeof_type", SIZEOF),
        ("symbol_addr_lookup", SYMBOL),
        ("read_memory", MEMORY),
        ("write_memory", MEMORY),
        ("read_string", MEMORY),
        ("device_to_host", DEVICE),
        ("host_to_device", DEVICE),
        ("get_thread_context_for_thread_id", CONTEXT),
    ]


class Refused(Exception):
    """A routine of the library did not return ``ompd_rc_ok``."""

    def __init__(self, rc: int) -> None:
        super().__init__(rc)
        self.rc = rc


class Host:
    """A library that is initialised for one process."""

    def __init__(self, library: str, process: StoppedProcess, module: Module) -> None:
        self._process, self._module = process, module
        # Intel's library is written in C++ and does not name the libraries that it needs.
        ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(library)
        self._blocks: dict[int, Any] = {}
        self._callbacks = Callbacks(
            ALLOC(self._alloc),
            FREE(self._free),
            PRINT(lambda text, category: Rc.OK),
            SIZEOF(self._sizeof),
            SYMBOL(self._symbol),
            MEMORY(self._read),
            MEMORY(lambda *arguments: Rc.UNSUPPORTED),
            MEMORY(self._read_string),
            DEVICE(self._convert),
            DEVICE(self._convert),
            CONTEXT(self._thread_context),
        )
        self.call("ompd_initialize", c_int64(API_VERSION), byref(self._callbacks))
        self.space = self.made("ompd_process_initialize", c_void_p(ADDRESS_SPACE))
        self._known: dict[str, list[c_void_p]] = {"thread": [], "parallel": [], "task": []}

    # Callbacks: they must not raise

    def _alloc(self, size: int, where: Any) -> int:
        block = ctypes.create_string_buffer(max(size, 1))  # zeroed
        self._blocks[ctypes.addressof(block)] = block
        where[0] = ctypes.addressof(block)
        return Rc.OK

    def _free(self, address: int | None) -> int:
        return Rc.OK if self._blocks.pop(address or 0, None) is not None else Rc.BAD_INPUT

    def _sizeof(self, context: int, sizes: Any) -> int:
        known = self._process.contract.type_sizes()
        for name, _ in Sizes._fields_:
            setattr(sizes[0], name, getattr(known, name))
        return Rc.OK

    def _symbol(self, context: int, thread: int | None, name: bytes, where: Any, file: bytes | None) -> int:
        try:
            address = self._process.symbols.symbol_in(self._module, name.decode())
            if address is None:
                address = self._process.symbols.find_symbol(name.decode(), thread=thread)
        except OmpdError as error:
            return error.rc
        where[0] = Address(0, address)
        return Rc.OK

    def _read(self, context: int, thread: int | None, where: Any, size: int, buffer: int) -> int:
        try:
            raw = self._process.memory.read(where[0].address, size)
        except OmpdError as error:
            return error.rc
        ctypes.memmove(buffer, raw, size)
        return Rc.OK

    def _read_string(self, context: int, thread: int | None, where: Any, size: int, buffer: int) -> int:
        try:
            raw = self._process.memory.read_string(where[0].address, size) + b"\0"
        except OmpdError as error:
            return error.rc
        ctypes.memmove(buffer, raw, min(len(raw), size))
        return Rc.OK

    def _convert(self, context: int, source: int, unit: int, count: int, target: int) -> int:
        raw = self._process.contract.to_host(ctypes.string_at(source, unit * count), unit)
        ctypes.memmove(target, raw, len(raw))
        return Rc.OK

    def _thread_context(self, context: int, kind: int, size: int, identifier: int, where: Any) -> int:
        try:
            number = int.from_bytes(ctypes.string_at(identifier, size), sys.byteorder)
            where[0] = self._process.threads.thread_for_id(ThreadIdKind(kind), number)
        except (OmpdError, ValueError):
            return Rc.UNAVAILABLE
        return Rc.OK

    # Calling

    def call(self, name: str, *arguments: Any) -> None:
        """Call a routine of the library.

        :raises Refused: if the routine does not return ``ompd_rc_ok``
        """
        rc = getattr(self._library, name)(*arguments)
        if rc:
            raise Refused(rc)

    def made(self, name: str, *arguments: Any) -> c_void_p:
        """Call a routine and return its last argument, a handle or a text."""
        result = c_void_p()
        self.call(name, *arguments, byref(result))
        return result

    def number(self, name: str, *arguments: Any) -> int:
        """Call a routine and return the word that it writes to its last argument."""
        result = c_int64()
        self.call(name, *arguments, byref(result))
        return result.value

    def text(self, name: str, *arguments: Any) -> str:
        """Call a routine and return the text that it allocates."""
        result = self.made(name, *arguments)
        text = ctypes.string_at(result.value or 0).decode()
        self._free(result.value)
        return text

    def identity(self, kind: str, handle: c_void_p) -> int:
        """Return the number of a handle, by the library's comparison."""
        known = self._known[kind]
        for number, other in enumerate(known):
            differ = c_int(1)
            self.call(f"ompd_{kind}_handle_compare", handle, other, byref(differ))
            if differ.value == 0:
                return number
        known.append(handle)
        return len(known) - 1

    # The process

    def states(self) -> dict[str, int]:
        """Return the states by name."""
        found: dict[str, int] = {}
        current, more = UNDEFINED_STATE, c_int64(1)
        while more.value and len(found) < MAX_CHAIN:
            following, name = c_int64(), c_void_p()
            self.call(
                "ompd_enumerate_states",
                self.space,
                c_int64(current),
                byref(following),
                byref(name),
                byref(more),
            )
            found[ctypes.string_at(name.value or 0).decode()] = current = following.value
        return found

    def icvs(self) -> list[tuple[int, str, int]]:
        """Return the number, name and scope of every ICV."""
        found: list[tuple[int, str, int]] = []
        more = c_int(1)
        while more.value and len(found) < MAX_CHAIN:
            following, name, scope = c_uint64(), c_void_p(), c_int()
            current = c_uint64(found[-1][0] if found else 0)
            self.call(
                "ompd_enumerate_icvs",
                self.space,
                current,
                byref(following),
                byref(name),
                byref(scope),
                byref(more),
            )
            found.append((following.value, ctypes.string_at(name.value or 0).decode(), scope.value))
        return found

    def display_control_vars(self) -> dict[str, str]:
        """Return the settings that the runtime displays."""
        vector = self.made("ompd_get_display_control_vars", self.space)
        lines = ctypes.cast(vector, POINTER(c_char_p))
        found: dict[str, str] = {}
        for number in itertools.count():
            if lines[number] is None:
                break
            name, _, value = lines[number].decode().partition("=")
            found[name] = value
        self.call("ompd_rel_display_control_vars", byref(vector))
        return found

    def values(self, handle: c_void_p, scope: Scope) -> dict[str, dict[str, Any]]:
        """Return every ICV of *scope* for a handle, as a number and as a text."""
        found = {}
        for number, name, own in self.icvs():
            if own != scope:
                continue
            value = c_int64()
            arguments = (handle, c_int(scope), c_uint64(number))
            rc = self._library.ompd_get_icv_from_scope(*arguments, byref(value))
            text = attempt(lambda arguments=arguments: self.text("ompd_get_icv_string_from_scope", *arguments))
            has_value = rc in (Rc.OK, Rc.INCOMPLETE)
            found[name] = {"rc": rc, "number": value.value if has_value else None, "text": text}
        return found

    def tool_data(self, handle: c_void_p, scope: Scope) -> int:
        """Return the word that a tool keeps with a handle."""
        value, address = c_int64(), Address()
        self.call("ompd_get_tool_data", handle, c_int(scope), byref(value), byref(address))
        return value.value

    def thread(self, identifier: int) -> dict[str, Any]:
        """Return all answers about the thread with this pthread id."""
        native = c_uint64(identifier)
        handle = self.made(
            "ompd_get_thread_handle", self.space, c_uint64(ThreadIdKind.PTHREAD), c_uint64(8), byref(native)
        )
        return {
            "native": self.native(handle),
            "state": attempt(lambda: self.state(handle)),
            "tool_data": attempt(lambda: self.tool_data(handle, Scope.THREAD)),
            "icvs": self.values(handle, Scope.THREAD),
            "parallels": self.chain(
                "parallel", handle, "ompd_get_curr_parallel_handle", "ompd_get_enclosing_parallel_handle"
            ),
            "tasks": self.chain("task", handle, "ompd_get_curr_task_handle", "ompd_get_generating_task_handle"),
            "handle": self.identity("thread", handle),
        }

    def native(self, handle: c_void_p) -> int:
        """Return a thread's pthread id."""
        native = c_uint64()
        self.call("ompd_get_thread_id", handle, c_uint64(ThreadIdKind.PTHREAD), c_uint64(8), byref(native))
        return native.value

    def state(self, handle: c_void_p) -> tuple[int, int]:
        """Return a thread's state and wait identifier."""
        state, wait_id = c_int64(), c_uint64()
        self.call("ompd_get_state", handle, byref(state), byref(wait_id))
        return state.value, wait_id.value

    def chain(self, kind: str, handle: c_void_p, first: str, following: str) -> list[dict[str, Any]]:
        """Return the answers about each handle from the current one outwards."""
        found = []
        routine = first
        while len(found) < MAX_CHAIN:
            try:
                handle = self.made(routine, handle)
            except Refused as refused:
                if refused.rc not in ENDS:
                    raise
                break
            found.append(self.parallel(handle) if kind == "parallel" else self.task(handle))
            routine = following
        return found

    def parallel(self, handle: c_void_p) -> dict[str, Any]:
        """Return all answers about a region."""
        icvs = self.values(handle, Scope.PARALLEL)
        size = range(icvs["team-size-var"]["number"] or 0)
        return {
            "handle": self.identity("parallel", handle),
            "tool_data": attempt(lambda: self.tool_data(handle, Scope.PARALLEL)),
            "icvs": icvs,
            "threads": [self.native(self.made("ompd_get_thread_in_parallel", handle, c_int(i))) for i in size],
            "tasks": [self.identity("task", self.made("ompd_get_task_in_parallel", handle, c_int(i))) for i in size],
            "outside": [
                attempt(lambda i=i: self.native(self.made("ompd_get_thread_in_parallel", handle, c_int(i))))
                for i in (-5, len(size), 199)
            ],
        }

    def task(self, handle: c_void_p) -> dict[str, Any]:
        """Return all answers about a task."""
        return {
            "handle": self.identity("task", handle),
            "tool_data": attempt(lambda: self.tool_data(handle, Scope.TASK)),
            "icvs": self.values(handle, Scope.TASK),
            "function": attempt(lambda: self.function(handle)),
            "frames": attempt(lambda: self.frames(handle)),
            "parallel": attempt(lambda: self.identity("parallel", self.made("ompd_get_task_parallel_handle", handle))),
            "scheduling": attempt(lambda: self.identity("task", self.made("ompd_get_scheduling_task_handle", handle))),
        }

    def function(self, handle: c_void_p) -> int:
        """Return the entry of a task's code."""
        entry = Address()
        self.call("ompd_get_task_function", handle, byref(entry))
        return entry.address

    def frames(self, handle: c_void_p) -> tuple[int, int]:
        """Return the exit frame and the enter frame of a task."""
        exit_frame, enter_frame = FrameInfo(), FrameInfo()
        self.call("ompd_get_task_frame", handle, byref(exit_frame), byref(enter_frame))
        return exit_frame.frame_address.address, enter_frame.frame_address.address

    def finish(self) -> None:
        """Finalise the library."""
        self.call("ompd_rel_address_space_handle", self.space)
        self.call("ompd_finalize")


def attempt(ask: Callable[[], Any]) -> Any:
    """Return the answer of *ask*, or the code of the refusal."""
    try:
        return ask()
    except Refused as refused:
        return {"rc": refused.rc}


def main(library: str, core: str) -> None:
    """Write all answers of *library* about *core*."""
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        process = session.process
        host = Host(library, process, runtime.found.module)
        told = {
            "api_version": host.number("ompd_get_api_version"),
            "version_string": ctypes.string_at(host.made("ompd_get_version_string").value or 0).decode(),
            "omp_version": host.number("ompd_get_omp_version", host.space),
            "omp_version_text": host.text("ompd_get_omp_version_string", host.space),
            "states": host.states(),
            "icvs": host.icvs(),
            "display_control_vars": host.display_control_vars(),
            "address_space": host.values(host.space, Scope.ADDRESS_SPACE),
            "threads": {
                thread: attempt(lambda thread=thread: host.thread(process.threads.thread_pointer(thread)))
                for thread in process.threads.ids()
            },
        }
        host.finish()
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
