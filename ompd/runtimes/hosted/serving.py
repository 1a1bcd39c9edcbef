"""Serve a library's callbacks with the :class:`~ompd.contract.callbacks.Callbacks` of the process that the library
reads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ompd.contract.callbacks import Callbacks
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import BadInput, CorruptState, MemoryFault, OmpdError, Rc, SymbolNotFound, Unsupported
from ompd.runtimes.hosted.protocol import (
    ANSWER_HEAD,
    ASK_MEMORY,
    ASK_SIZES,
    ASK_STRING,
    ASK_SYMBOL,
    ASK_THREAD,
    BYTES,
    MAX_MESSAGE,
    PAGE,
    PAGES,
    SIZES,
    SYMBOL,
    THREAD,
    entry,
)
from ompd.safety.limits import LONG_NAME

# An answer, including additional entries, must be smaller than the largest message.
_MAX_READ = MAX_MESSAGE // 4
_END = 1 << 64
_MAX_SERVED = 1 << 30  # bytes, in one exchange
_MAX_THREADS = 1 << 14  # the most threads whose facts are sent together


class Server:
    """Serves one process or device.

    :param context: the number of the process or device
    :param ahead: the number of bytes that may be read in addition to the requested ones
    """

    def __init__(self, context: int, callbacks: Callbacks, ahead: int) -> None:
        self._context, self._callbacks = context, callbacks
        self._ahead = max(PAGE, ahead - ahead % PAGE)
        self._sent: set[int] = set()  # pages
        # The threads to which the calls of this exchange refer, and the contexts of these threads.
        self._identifiers: Sequence[tuple[int, bytes]] = ()
        self._threads: dict[int, None] = {}
        self._left = _MAX_SERVED

    def expect(self, identifiers: Sequence[tuple[int, bytes]]) -> None:
        """Note the threads of the next calls, by kind and identifier, so that one answer serves all of them."""
        self._identifiers, self._threads = identifiers[:_MAX_THREADS], {}

    def begin(self) -> None:
        """Begin another exchange."""
        self._left = _MAX_SERVED
        self._identifiers, self._threads = (), {}

    def answer(self, which: int, thread: int, first: int, second: int, raw: bytes) -> tuple[bytes, OmpdError | None]:
        """Return the body of the answer to a callback, and the error if the callback failed."""
        try:
            entries = self._served(which, thread, first, second, raw)
        except OmpdError as error:
            # A missing symbol's own code would mean to the library that the runtime is incompatible.
            code = Rc.ERROR if isinstance(error, SymbolNotFound) else error.rc
            # Only the error's text is needed. Its frames refer back to the error, and the garbage collector is off.
            error.__traceback__ = error.__cause__ = error.__context__ = None
            return ANSWER_HEAD.pack(code or Rc.ERROR, 0), error
        except Exception as error:  # noqa: BLE001  a library may pass any arguments
            reason = OmpdError(f"{type(error).__name__} for what the library passed")
            return ANSWER_HEAD.pack(Rc.ERROR, 0), reason
        return ANSWER_HEAD.pack(Rc.OK, len(entries)) + b"".join(entries), None

    def _served(self, which: int, thread: int, first: int, second: int, raw: bytes) -> list[bytes]:
        if which == ASK_MEMORY:
            return self._memory(first, second)
        if which == ASK_SYMBOL:
            return self._symbol(thread, raw)
        if which == ASK_THREAD:
            return self._thread(first, raw)
        if which == ASK_STRING:
            return self._string(first, second)
        if which == ASK_SIZES:
            return [self._sizes()]
        raise Unsupported(f"callback {which}")

    def _entry(self, kind: int, first: int, second: int, raw: bytes) -> bytes:
        return entry(kind, self._context, first, second, raw)

    def _memory(self, address: int, size: int) -> list[bytes]:
        if not 0 < size <= _MAX_READ or address + size > _END:
            raise MemoryFault(address, size)
        self._spend(address, size)
        pages = self._pages(address, size)
        if pages is not None:
            return [pages]
        return [self._entry(BYTES, address, 0, self._callbacks.read(address, size))]

    def _spend(self, address: int, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise MemoryFault(address, size, "the library has read more than any runtime needs")

    def _pages(self, address: int, size: int) -> bytes | None:
        # Whole pages, as many as can be read at once. None if the requested pages cannot be read.
        for unit in dict.fromkeys((self._ahead, PAGE)):
            start = address - address % unit
            length = -(-(address + size) // unit) * unit - start
            try:
                data = self._callbacks.read(start, length)
            except MemoryFault:
                continue
            self._sent.update(range(start, start + length, PAGE))
            return self._entry(PAGES, start, 0, data)
        return None

    def _string(self, address: int, size: int) -> list[bytes]:
        size = min(size, _MAX_READ)
        self._spend(address, PAGE)
        try:
            text = self._callbacks.read_string(address, size) + b"\0"
        except CorruptState:
            text = self._callbacks.read(address, size)  # no NUL within the size, which is not an error
        self._spend(address, len(text))
        pages = self._pages(address, 1) if address - address % PAGE not in self._sent else None
        return [self._entry(BYTES, address, 0, text[:size]), *([pages] if pages is not None else [])]

    def _symbol(self, thread: int, raw: bytes) -> list[bytes]:
        if len(raw) > LONG_NAME:
            raise BadInput(f"a symbol's name of {len(raw)} bytes")
        name = raw.decode("utf-8", "surrogateescape")
        entries = [self._entry(SYMBOL, thread, self._address(name, thread), raw)]
        if thread:
            # Send the symbol's address for the other threads of the batch, too. The library will ask for the same
            # symbol in each thread to which the batch's calls refer.
            size = 0
            for other in self._threads:
                if other != thread and size < _MAX_READ:
                    more = self._of_another(name, other, raw)
                    size += sum(map(len, more))
                    entries += more
        return entries

    def _of_another(self, name: str, thread: int, raw: bytes) -> list[bytes]:
        try:
            address = self._address(name, thread)
        except OmpdError:
            return []  # no error here: the library will ask for this thread's symbol later, and is then refused
        entries = [self._entry(SYMBOL, thread, address, raw)]
        if address - address % PAGE not in self._sent:
            try:
                pages = self._pages(address, 1)
            except OmpdError:
                pages = None
            if pages is not None:
                entries.append(pages)
        return entries

    def _address(self, name: str, thread: int) -> int:
        address = self._callbacks.find_symbol(name, thread=thread or None)
        if not 0 < address < _END:
            raise SymbolNotFound(name)
        return address

    def _thread(self, kind: int, identifier: bytes) -> list[bytes]:
        entries = [self._context_of(kind, identifier)]
        others, self._identifiers = self._identifiers, ()
        for other in others:
            try:
                entries.append(self._context_of(*other))
            except OmpdError:
                continue  # no error here: the library will ask for this thread later
        return entries

    def _context_of(self, kind: int, identifier: bytes) -> bytes:
        try:
            id_kind = ThreadIdKind(kind)
        except ValueError as error:
            raise Unsupported(f"thread identifiers of kind {kind}") from error
        if len(identifier) > 8:
            raise BadInput(f"a thread identifier of {len(identifier)} bytes")
        thread = self._callbacks.thread_for_id(id_kind, int.from_bytes(identifier, sys.byteorder))
        if not 0 < thread < _END:
            raise BadInput(f"no context for thread {thread}")
        if len(self._threads) < _MAX_THREADS:
            self._threads[thread] = None
        return self._entry(THREAD, kind, thread, identifier)

    def _sizes(self) -> bytes:
        sizes = self._callbacks.type_sizes()
        raw = bytes(
            (
                sizes.sizeof_char,
                sizes.sizeof_short,
                sizes.sizeof_int,
                sizes.sizeof_long,
                sizes.sizeof_long_long,
                sizes.sizeof_pointer,
            )
        )
        return self._entry(SIZES, int(self._callbacks.byte_order != sys.byteorder), 0, raw)
