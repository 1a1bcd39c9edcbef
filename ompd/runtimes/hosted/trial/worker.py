"""A trial in a worker: performs the host's steps one by one.

A step is a call of one of OMPD's functions, or of a function of the trial itself. The library works on 64 cells, which
hold arguments and results.

- A function of OMPD takes its arguments as rows in the blob, and whether it is left out if the previous call failed.
  The first word of a row is the kind of the argument: NUMBER passes the second word; AT the address of the cell with
  that number; IN that cell's first word; RAW the address of the row's bytes; TABLE the callbacks, or, if the second
  word is 1, a table of null pointers. The rows of the result are the cells whose addresses were passed. Word 1 is
  whether the requested fault has occurred.
- FILL fills a cell with a byte. FAULT: from now on, one call of a callback returns a code; it takes the callback, the
  number of its call (0 for no fault), the code, and whether half of the result is delivered first. POISON sets the byte
  that fills allocated memory.
- TEXT returns the text at a cell's word as a row, whose words are whether there is a text, and whether it is in memory
  that the tool allocated. TEXTS does the same for the texts of a vector. FREE frees, as the tool, the block at a cell's
  word. BLOCKS returns the number of allocated blocks. CALLED_BACK returns a row for each callback, with the number of
  its calls during the last function.

Freed blocks stay mapped, filled with a pattern. A library that reads a freed block reads the pattern, and the process
does not crash.
"""

from __future__ import annotations

import ctypes
from _thread import get_ident

from ompd.runtimes.hosted.protocol import (
    ABSENT,
    ASK_MEMORY,
    ASK_SIZES,
    ASK_STRING,
    ASK_SYMBOL,
    ASK_THREAD,
    AT,
    BAD_TEXT,
    BLOCKS,
    CALLED,
    CALLED_BACK,
    FAULT,
    FILL,
    FREE,
    IN,
    NOT_CALLED,
    POISON,
    RAW,
    ROW,
    TABLE,
    TEXT,
    TEXTS,
    in_blob,
    packed_rows,
)
from ompd.runtimes.hosted.signatures import SIGNATURES
from ompd.runtimes.hosted.worker.callbacks import CallbackTable
from ompd.runtimes.hosted.worker.channel import Channel, Result, started
from ompd.runtimes.hosted.worker.raw import POINTER, Blocks, RawMemory

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

CELLS, CELL = 64, 64
_OK, _STALE_HANDLE, _BAD_INPUT, _WRITE_ERROR, _NOMEM, _CALLBACK_ERROR = 0, 2, 3, 9, 10, 12
_FREED = 0xDD
_READ_MEMORY = 5  # the index of the callback
_MAX_READ, _MAX_VECTOR, _MAX_TEXT = 1 << 24, 4096, 4096
_NAMES = {number: signature.name for number, signature in SIGNATURES.items()}


class _Memory:
    # The blocks that the library has allocated. Freed blocks are kept, so that their addresses are never reused.
    def __init__(self, memory: RawMemory) -> None:
        self._memory, self._blocks = memory, Blocks()
        self.live: dict[int, int] = {}
        self.poison = 0

    def allocate(self, size: int) -> int:
        address = self._blocks.allocate(size)
        if address:
            self.live[address] = size
            self._memory.view[address : address + size] = bytes([self.poison]) * size
        return address

    def free(self, address: int) -> bool:
        size = self.live.pop(address, None)
        if size is None:
            return False
        self._memory.view[address : address + size] = bytes([_FREED]) * size
        return True


class _Callbacks:
    # ompd_callbacks_t, with a fault in one call on request.
    def __init__(self, channel: Channel, memory: RawMemory, blocks: _Memory) -> None:
        self._channel, self._memory, self._blocks = channel, memory, blocks
        self._view = memory.view
        self._owner = get_ident()
        self.called = [0] * 11
        self.fired = False
        self._fault: tuple[int, int, int, bool] | None = None
        served = (
            *(self._alloc, self._free, self._print, self._sizeof, self._symbol, self._read, self._write),
            *(self._read_string, self._convert, self._convert, self._context),
        )
        kinds: list[Any] = [kind for _, kind in CallbackTable._fields_]
        functions: tuple[Callable[..., int], ...] = served
        self._functions = [
            kind(self._guarded(which, function))
            for which, (kind, function) in enumerate(zip(kinds, functions, strict=True))
        ]
        self.table = CallbackTable(*self._functions)
        self.empty = CallbackTable()

    def set_fault(self, which: int, nth: int, code: int, gives: bool) -> None:
        self._fault, self.fired = (which, nth, code, gives) if nth else None, False

    def _guarded(self, which: int, function: Callable[..., int]) -> Callable[..., int]:
        def callback(*arguments: Any) -> int:
            if get_ident() != self._owner:
                return _CALLBACK_ERROR
            try:
                self.called[which] += 1
                return self._failing(which, function, arguments)
            except BaseException:  # noqa: BLE001  no exception may pass through C
                return _CALLBACK_ERROR

        return callback

    def _failing(self, which: int, function: Callable[..., int], arguments: Sequence[Any]) -> int:
        if self._fault is not None and self._fault[0] == which:
            _, nth, code, gives = self._fault
            if nth == 1:
                self._fault, self.fired = None, True
                if gives and which == _READ_MEMORY:
                    context, thread, where, size, buffer = arguments
                    function(context, thread, where, size // 2, buffer)
                return code
            self._fault = (which, nth - 1, code, gives)
        return function(*arguments)

    def _ask(
        self, which: int, context: int, *, thread: int = 0, words: Sequence[int] = (), raw: bytes = b""
    ) -> tuple[int, int, bytes]:
        # The code, the word and the bytes of the host's answer.
        if not 0 < context < 1 << 32:
            return _STALE_HANDLE, 0, b""
        return self._channel.ask_single(which, context, thread=thread, words=words, raw=raw)

    # In the table's order

    def _alloc(self, size: int, where: int) -> int:
        if not where:
            return _BAD_INPUT
        address = self._blocks.allocate(size)
        self._view[where : where + 8] = POINTER.pack(address)
        return _OK if address else _NOMEM

    def _free(self, address: int) -> int:
        return _OK if not address or self._blocks.free(address) else _BAD_INPUT

    def _print(self, text: int, category: int) -> int:
        return _OK

    def _sizeof(self, context: int, where: int) -> int:
        if not where:
            return _BAD_INPUT
        code, _, sizes = self._ask(ASK_SIZES, context)
        if not code:
            self._view[where : where + 6] = sizes[:6]
        return code

    def _symbol(self, context: int, thread: int, name: bytes | None, where: int, file: int) -> int:
        if not name or not where:
            return _BAD_INPUT
        code, symbol_address, _ = self._ask(ASK_SYMBOL, context, thread=thread, raw=name)
        if not code:
            self._view[where : where + 16] = POINTER.pack(0) + POINTER.pack(symbol_address)
        return code

    def _read(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return self._bytes(ASK_MEMORY, context, where, size, buffer)

    def _read_string(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return self._bytes(ASK_STRING, context, where, size, buffer)

    def _bytes(self, which: int, context: int, where: int, size: int, buffer: int) -> int:
        if not where or not buffer or size > _MAX_READ:
            return _BAD_INPUT
        if not size:
            return _OK
        (address,) = POINTER.unpack_from(self._view, where + 8)
        code, _, data = self._ask(which, context, words=(address, size))
        if not code:
            self._view[buffer : buffer + len(data)] = data
        return code

    def _write(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return _WRITE_ERROR

    def _convert(self, context: int, source: int, unit: int, count: int, target: int) -> int:
        size = unit * count
        if not source or not target or size > _MAX_READ:
            return _BAD_INPUT
        self._view[target : target + size] = bytes(self._view[source : source + size])
        return _OK

    def _context(self, context: int, kind: int, size: int, identifier: int, where: int) -> int:
        if not where or not identifier or size > CELL:
            return _BAD_INPUT
        raw = bytes(self._view[identifier : identifier + size])
        code, thread, _ = self._ask(ASK_THREAD, context, words=(kind,), raw=raw)
        if not code:
            self._view[where : where + 8] = POINTER.pack(thread)
        return code


class TrialLibrary:
    """A library on trial.

    It has to be created before this process is confined, because it opens files.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._memory = RawMemory()
        self._blocks = _Memory(self._memory)
        self._callbacks = _Callbacks(channel, self._memory, self._blocks)
        self._cells = (ctypes.c_ubyte * (CELL * CELLS))()
        self._start = ctypes.addressof(self._cells)
        self._view = memoryview(self._cells).cast("B")
        self._kept: list[Any] = []
        self._code = 0
        self._loaded: ctypes.CDLL | None = None

    @property
    def allocated(self) -> int:
        """The number of blocks that the library has allocated and not freed."""
        return len(self._blocks.live)

    def start(self, loaded: ctypes.CDLL) -> Result:
        """Return the functions that the library has. None of them is called."""
        self._loaded = loaded
        return started(0, b"", [(number, name) for number, name in _NAMES.items() if hasattr(loaded, name)])

    def perform(self, number: int, words: Sequence[int], makes: int, blob: memoryview) -> Result:
        """Perform a step, and return its result."""
        if number in _NAMES:
            arguments, is_conditional = words
            return self._call(number, in_blob(blob, arguments), is_conditional != 0)
        if number == FILL:
            cell, byte = words
            self._view[cell * CELL : cell * CELL + CELL] = bytes([byte]) * CELL
        elif number == FAULT:
            which, nth, code, gives = words
            self._callbacks.set_fault(which, nth, code, gives != 0)
        elif number == POISON:
            self._blocks.poison = words[0]
        elif number == TEXT:
            return Result(_OK, CALLED, (), packed_rows([self._text(self._word(words[0]))]), 1)
        elif number == TEXTS:
            return self._texts(self._word(words[0]))
        elif number == FREE:
            self._blocks.free(self._word(words[0]))
        elif number == BLOCKS:
            return Result(_OK, CALLED, (self.allocated,))
        elif number == CALLED_BACK:
            counts = self._callbacks.called
            rows = packed_rows((which, count, b"") for which, count in enumerate(counts))
            return Result(_OK, CALLED, (), rows, len(counts))
        else:
            return Result(_OK, ABSENT)
        return Result(_OK)

    def _word(self, cell: int) -> int:
        return int(POINTER.unpack_from(self._view, cell * CELL)[0])

    def _call(self, number: int, rows: bytes, is_conditional: bool) -> Result:
        if is_conditional and self._code:
            return Result(_OK, NOT_CALLED)
        function = getattr(self._loaded, _NAMES[number], None)
        if function is None:
            return Result(_OK, ABSENT)
        function.restype = ctypes.c_int
        arguments: list[ctypes.c_uint64] = []
        cells: list[int] = []
        offset = 0
        while offset < len(rows):
            kind, value, size = ROW.unpack_from(rows, offset)
            offset += ROW.size
            arguments.append(ctypes.c_uint64(self._argument(kind, value, rows[offset : offset + size])))
            offset += size
            if kind == AT:
                cells.append(value)
        self._callbacks.called[:] = [0] * len(self._callbacks.called)
        self._channel.begin(number)
        self._code = function(*arguments)
        self._channel.end()
        contents = [(cell, 0, bytes(self._view[cell * CELL : cell * CELL + CELL])) for cell in cells]
        return Result(self._code, CALLED, (0, self._callbacks.fired), packed_rows(contents), len(contents))

    def _argument(self, kind: int, value: int, raw: bytes) -> int:
        if kind == AT:
            return self._start + value * CELL
        if kind == IN:
            return self._word(value)
        if kind == RAW:
            buffer = ctypes.create_string_buffer(raw)
            self._kept.append(buffer)
            return ctypes.addressof(buffer)
        if kind == TABLE:
            return ctypes.addressof(self._callbacks.empty if value else self._callbacks.table)
        return value

    def _text(self, address: int) -> tuple[int, int, bytes]:
        text = self._memory.text(address)
        is_owned = any(start <= address < start + size for start, size in self._blocks.live.items())
        return int(text is not None), int(is_owned), (text or b"")[:_MAX_TEXT]

    def _texts(self, vector: int) -> Result:
        pointers = self._memory.words(vector, _MAX_VECTOR)
        if pointers is None:
            return Result(_OK, BAD_TEXT)
        return Result(_OK, CALLED, (), packed_rows(map(self._text, pointers)), len(pointers))
