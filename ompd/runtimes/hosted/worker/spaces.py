"""The worker's caches of the processes and devices that the library reads: pages, symbols, threads, sizes."""

from __future__ import annotations

from ompd.runtimes.hosted.protocol import (
    ASK_MEMORY,
    ASK_SIZES,
    ASK_STRING,
    ASK_SYMBOL,
    ASK_THREAD,
    BYTES,
    MAX_PAGES,
    PAGE,
    PAGES,
    SIZES,
    SYMBOL,
    THREAD,
)
from ompd.runtimes.hosted.worker.channel import Channel

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Sequence

# ompd_rc_t
OK, BAD_INPUT, ERROR, CALLBACK_ERROR = 0, 3, 4, 12


class CachedSpace:
    """The cache for a process or device, which is identified by its context."""

    __slots__ = ("ahead", "context", "failed", "is_swapped", "pages", "sizes", "symbols", "threads")

    def __init__(self, context: int, ahead: int) -> None:
        self.context, self.ahead = context, ahead
        self.pages: dict[int, bytes] = {}
        # The addresses of symbols by thread and name, and the contexts of threads by kind and identifier.
        self.symbols: dict[tuple[int, bytes], int] = {}
        self.failed: dict[tuple[int, bytes], int] = {}
        self.threads: dict[tuple[int, bytes], int] = {}
        self.sizes = b""
        self.is_swapped = False


class Spaces:
    """The caches for all processes and devices. The host sends data that are not cached yet."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.by_context: dict[int, CachedSpace] = {}
        self._exact: tuple[int, bytes] | None = None

    def _ask(
        self, which: int, space: CachedSpace, *, thread: int = 0, words: Sequence[int] = (), raw: bytes = b""
    ) -> int:
        # Have the host serve a callback, keep the entries of its answer, and return the answer's code.
        code, entries = self._channel.ask(which, space.context, thread=thread, words=words, raw=raw)
        for entry in entries:
            self._keep(*entry)
        return code

    def _keep(self, kind: int, context: int, first: int, second: int, raw: bytes) -> None:
        space = self.by_context.get(context)
        if space is None:
            return
        if kind == PAGES:
            if len(space.pages) + len(raw) // PAGE > MAX_PAGES:
                space.pages.clear()
            for offset in range(0, len(raw), PAGE):
                space.pages[(first + offset) // PAGE] = raw[offset : offset + PAGE]
        elif kind == SYMBOL:
            space.symbols[first, raw] = second
        elif kind == THREAD:
            space.threads[first, raw] = second
        elif kind == BYTES:
            self._exact = first, raw
        elif kind == SIZES:
            space.sizes, space.is_swapped = raw, bool(first)

    def learn_sizes(self, space: CachedSpace) -> int:
        """Put the sizes of types into ``space.sizes``, and return a code."""
        if space.sizes:
            return OK
        code = self._ask(ASK_SIZES, space)
        return code if code or space.sizes else CALLBACK_ERROR

    def symbol(self, space: CachedSpace, thread: int, name: bytes) -> int:
        """Put the address of a symbol into ``space.symbols``, and return a code."""
        key = thread, name
        if key in space.symbols:
            return OK
        code = space.failed.get(key, 0)
        if not code:
            code = self._ask(ASK_SYMBOL, space, thread=thread, raw=name)
            if not code and key not in space.symbols:
                code = CALLBACK_ERROR
            if code:
                space.failed[key] = code
        return code

    def thread(self, space: CachedSpace, kind: int, identifier: bytes) -> int:
        """Put the context of a thread into ``space.threads``, and return a code."""
        key = kind, identifier
        if key in space.threads:
            return OK
        code = self._ask(ASK_THREAD, space, words=(kind,), raw=identifier)
        return code if code or key in space.threads else CALLBACK_ERROR

    def read(self, space: CachedSpace, address: int, size: int) -> bytes | int:
        """Return bytes of the target, or the code that explains why they are unavailable."""
        cached = self._cached(space, address, size)
        if cached is not None:
            return cached
        self._exact = None
        code = self._ask(ASK_MEMORY, space, words=(address, size))
        if code:
            return code
        return self._answered(space, address, size)

    def _answered(self, space: CachedSpace, address: int, size: int) -> bytes | int:
        exact, self._exact = self._exact, None
        if exact is not None and exact[0] == address and len(exact[1]) == size:
            return exact[1]
        cached = self._cached(space, address, size)
        return cached if cached is not None else CALLBACK_ERROR

    @staticmethod
    def _cached(space: CachedSpace, address: int, size: int) -> bytes | None:
        number, offset = divmod(address, PAGE)
        if offset + size <= PAGE:
            page = space.pages.get(number)
            return page[offset : offset + size] if page is not None else None
        last = (address + size - 1) // PAGE
        pages = []
        for page_number in range(number, last + 1):
            page = space.pages.get(page_number)
            if page is None:
                return None
            pages.append(page)
        return b"".join(pages)[offset : offset + size]

    def read_string(self, space: CachedSpace, address: int, size: int) -> bytes | int:
        """Return bytes of the target up to and including the first NUL, at most *size*, or a code."""
        text = b""
        while len(text) < size:
            page_number, start = divmod(address + len(text), PAGE)
            page = space.pages.get(page_number)
            if page is None:
                return self._rest_of_string(space, address, size)
            stop = min(PAGE, start + size - len(text))
            end = page.find(b"\0", start, stop)
            if end >= 0:
                return text + page[start : end + 1]
            text += page[start:stop]
        return text

    def _rest_of_string(self, space: CachedSpace, address: int, size: int) -> bytes | int:
        self._exact = None
        code = self._ask(ASK_STRING, space, words=(address, size))
        if code:
            return code
        exact, self._exact = self._exact, None
        if exact is None or exact[0] != address or len(exact[1]) > size:
            return CALLBACK_ERROR
        return exact[1]
