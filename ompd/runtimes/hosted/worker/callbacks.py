"""``ompd_callbacks_t``: the functions that the library calls. No exception passes through C. Calls from other threads
are refused.
"""

from __future__ import annotations

from _thread import get_ident
from ctypes import CFUNCTYPE, Structure, c_char_p, c_int, c_uint64
from struct import Struct

from ompd.runtimes.hosted.worker.channel import Channel
from ompd.runtimes.hosted.worker.raw import POINTER, Blocks, RawMemory
from ompd.runtimes.hosted.worker.spaces import BAD_INPUT, CALLBACK_ERROR, ERROR, OK, CachedSpace, Spaces

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOMEM, DEVICE_READ_ERROR, DEVICE_WRITE_ERROR = 10, 8, 9
_ADDRESS = Struct("=QQ")
_SIZES = 6
_MAX_READ, _MAX_ID, _MAX_UNIT = 1 << 28, 64, 64
_PAGE_BITS, _PAGE_MASK = 12, 4095

# In the standard's order. Pointers are declared as numbers; ctypes only converts names.
_ALLOC = CFUNCTYPE(c_int, c_uint64, c_uint64)
_FREE = CFUNCTYPE(c_int, c_uint64)
_PRINT = CFUNCTYPE(c_int, c_uint64, c_int)
_SIZEOF = CFUNCTYPE(c_int, c_uint64, c_uint64)
_SYMBOL = CFUNCTYPE(c_int, c_uint64, c_uint64, c_char_p, c_uint64, c_uint64)
_MEMORY = CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64, c_uint64, c_uint64)
_DEVICE = CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64, c_uint64, c_uint64)
_CONTEXT = CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64, c_uint64, c_uint64)


class CallbackTable(Structure):
    """``ompd_callbacks_t``."""

    _fields_ = (
        ("alloc_memory", _ALLOC),
        ("free_memory", _FREE),
        ("print_string", _PRINT),
        ("sizeof_type", _SIZEOF),
        ("symbol_addr_lookup", _SYMBOL),
        ("read_memory", _MEMORY),
        ("write_memory", _MEMORY),
        ("read_string", _MEMORY),
        ("device_to_host", _DEVICE),
        ("host_to_device", _DEVICE),
        ("get_thread_context_for_thread_id", _CONTEXT),
    )


class Callbacks:
    """The functions of one table, and the table itself. This object keeps both alive, because libraries keep a pointer
    to the table.
    """

    def __init__(self, channel: Channel, spaces: Spaces, blocks: Blocks, memory: RawMemory) -> None:
        self._channel, self._spaces, self._blocks, self._memory = channel, spaces, blocks, memory
        self._owner = get_ident()
        # The bytes of this process, indexed by C's addresses
        self._view = memory.view
        self._functions = (
            _ALLOC(self._guarded(self._alloc)),
            _FREE(self._guarded(self._free)),
            _PRINT(self._guarded(self._print)),
            _SIZEOF(self._guarded(self._sizeof)),
            _SYMBOL(self._guarded(self._symbol)),
            _MEMORY(self._read_memory()),
            _MEMORY(self._guarded(self._write)),
            _MEMORY(self._guarded(self._read_string)),
            _DEVICE(self._guarded(self._convert)),
            _DEVICE(self._guarded(self._convert)),
            _CONTEXT(self._guarded(self._thread_context)),
        )
        self.table = CallbackTable(*self._functions)

    def _guarded(self, function: Callable[..., int]) -> Callable[..., int]:
        owner = self._owner

        def callback(*arguments: Any) -> int:
            if get_ident() != owner:
                self._channel.is_elsewhere = True
                return CALLBACK_ERROR
            try:
                return function(*arguments)
            except BaseException:  # noqa: BLE001  nothing passes through C
                return CALLBACK_ERROR

        return callback

    # In the table's order

    def _alloc(self, size: int, where: int) -> int:
        if not where:
            return BAD_INPUT
        address = self._blocks.allocate(size)
        self._view[where : where + 8] = POINTER.pack(address)
        return OK if address else NOMEM

    def _free(self, address: int) -> int:
        return OK if not address or self._blocks.free(address) else BAD_INPUT

    def _print(self, text: int, category: int) -> int:
        raw = self._memory.text(text)
        if raw is None:
            return BAD_INPUT
        self._channel.warn(raw)
        return OK

    def _sizeof(self, context: int, where: int) -> int:
        space = self._spaces.by_context.get(context)
        if space is None or not where:
            return BAD_INPUT
        code = self._spaces.learn_sizes(space)
        if not code:
            self._view[where : where + _SIZES] = space.sizes[:_SIZES]
        return code

    def _symbol(self, context: int, thread: int, name: bytes | None, where: int, file: int) -> int:
        space = self._spaces.by_context.get(context)
        if space is None or not name or not where:
            return BAD_INPUT
        address = space.symbols.get((thread, name))
        if address is None:
            code = self._spaces.symbol(space, thread, name)
            if code:
                return code
            address = space.symbols[thread, name]
        self._view[where : where + 16] = _ADDRESS.pack(0, address)
        return OK

    def _read_memory(self) -> Callable[..., int]:
        # Return the function for reads, which is written for speed, because libraries call it by far most often.
        owner, spaces, view, slow = self._owner, self._spaces.by_context, self._view, self._read
        word = POINTER.unpack_from

        def read_memory(context: int, thread: int, where: int, size: int, buffer: int) -> int:
            try:
                if get_ident() != owner:
                    self._channel.is_elsewhere = True
                    return CALLBACK_ERROR
                if not where or not buffer:
                    return BAD_INPUT
                address = word(view, where + 8)[0]
                space = spaces.get(context)
                if space is None:
                    return BAD_INPUT
                page = space.pages.get(address >> _PAGE_BITS)
                offset = address & _PAGE_MASK
                if page is None or offset + size > _PAGE_MASK:
                    return slow(space, address, size, buffer)
                view[buffer : buffer + size] = page[offset : offset + size]
                return OK
            except BaseException:  # noqa: BLE001  nothing passes through C
                return CALLBACK_ERROR

        return read_memory

    def _read(self, space: CachedSpace, address: int, size: int, buffer: int) -> int:
        if not size:
            return OK
        if size > _MAX_READ or address + size > 1 << 64:
            return DEVICE_READ_ERROR
        return self._put(self._spaces.read(space, address, size), buffer)

    def _write(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        self._channel.warn(b"wanted to write to the target, which is refused")
        return DEVICE_WRITE_ERROR

    def _read_string(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        space = self._spaces.by_context.get(context)
        if space is None or not where or not buffer:
            return BAD_INPUT
        (address,) = POINTER.unpack_from(self._view, where + 8)
        return self._put(self._spaces.read_string(space, address, min(size, _MAX_READ)), buffer)

    def _put(self, answer: bytes | int, buffer: int) -> int:
        # Copy an answer of bytes into the library's buffer, and return OK. Return an answer that is a code.
        if isinstance(answer, int):
            return answer
        self._view[buffer : buffer + len(answer)] = answer
        return OK

    def _convert(self, context: int, source: int, unit: int, count: int, target: int) -> int:
        space = self._spaces.by_context.get(context)
        size = unit * count
        if space is None or not source or not target or unit > _MAX_UNIT or size > _MAX_READ:
            return BAD_INPUT
        code = self._spaces.learn_sizes(space)
        if code:
            return code
        raw = bytes(self._view[source : source + size])  # a copy, because source and target may be the same place
        if space.is_swapped and unit > 1:
            raw = b"".join(raw[start : start + unit][::-1] for start in range(0, size, unit))
        self._view[target : target + size] = raw
        return OK

    def _thread_context(self, context: int, kind: int, size: int, identifier: int, where: int) -> int:
        space = self._spaces.by_context.get(context)
        if space is None or not where or not identifier or not 0 < size <= _MAX_ID:
            return BAD_INPUT
        raw = bytes(self._view[identifier : identifier + size])
        thread = space.threads.get((kind, raw))
        if thread is None:
            code = self._spaces.thread(space, kind, raw)
            if code:
                return code
            thread = space.threads[kind, raw]
        if not thread:
            return ERROR
        self._view[where : where + 8] = POINTER.pack(thread)
        return OK
