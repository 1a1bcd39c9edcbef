"""Threadprivate variables of code that does not use thread-local storage: copies that the runtime keeps.

clang's ``-fnoopenmp-use-tls`` and flang, for all its threadprivate variables, ask ``__kmpc_threadprivate_cached`` for a
thread's copy. The runtime has a list of copies for each thread, from ``th_pri_head`` over ``link``, each with the
address of the variable that it is of. Beside the variable the compiler puts a cache, ``NAME.cache.`` (clang) or
``NAME.cache`` (flang): a pointer to an array of the copies by gtid, which tells the same where nothing tells the layout
of the list. The copy of the initial thread is the variable itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import read_pointer
from ompd.contract.process import Module
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, Unavailable
from ompd.runtimes.libomp.teams.threads import Thread, Threads

_MAX_COPIES, _MAX_COPY = 1 << 16, 1 << 32
_INITIAL_GTID = 0
_SUFFIXES = (".cache.", ".cache")


class Copy(NamedTuple):
    """A thread's copy of a variable (``struct private_common``): both their addresses, and their size in bytes."""

    gbl_addr: int
    par_addr: int
    cmn_size: int


class _Prepared(NamedTuple):
    # What the compiler put beside a variable: how far into it the address is that was asked for, and possible caches.
    name: str
    offset: int
    caches: frozenset[int]


class Threadprivate:
    """The copies that one runtime keeps."""

    def __init__(self, runtime: Threads) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.structures
        self._copies: dict[int, tuple[Copy, ...]] = {}  # by kmp_info_t
        self._known: dict[int, _Prepared | None] = {}

    def address(self, thread: Thread, address: int) -> int | None:
        """Return where the copy that *thread* has of the variable at *address* lies; None if it has none yet.

        :raises BadInput: if the runtime keeps no copies of it
        """
        prepared = self._prepared(address)
        if prepared is not None and not prepared.caches:
            raise BadInput(f"{prepared.name} has no cache of copies beside it: the runtime keeps none of it")
        try:
            return self._by_list(thread, address, prepared)
        except LayoutUnavailable:
            if prepared is None:
                raise
            return self._by_cache(thread, address, prepared)

    # The lists

    def _by_list(self, thread: Thread, address: int, prepared: _Prepared | None) -> int | None:
        for copy in self.copies(thread):
            if copy.gbl_addr <= address < copy.gbl_addr + copy.cmn_size:
                return copy.par_addr + address - copy.gbl_addr
        if prepared is None and not any(start <= address < end for start, end in self._variables):
            raise BadInput(f"no thread has a copy of what lies at {address:#x}")
        return address if self._is_initial(thread) else None

    @cached_property
    def _variables(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (copy.gbl_addr, copy.gbl_addr + copy.cmn_size)
            for thread in self._runtime.threads()
            for copy in self.copies(thread)
        )

    def copies(self, thread: Thread) -> Sequence[Copy]:
        """Return all copies that *thread* has.

        :raises LayoutUnavailable: if nothing tells where they are
        :raises CorruptState: if there is no end of them
        """
        if thread.address not in self._copies:

            def following(at: int) -> int | None:
                return self._structures.view("private_common", at).pointer("link")

            found: list[Copy] = []
            first = self._structures.view("kmp_base_info_t.th_pri_head", thread.address).pointer("th_pri_head")
            for here in chain(first, following, _MAX_COPIES, "the list of a thread's threadprivate variables"):
                node = self._structures.view("private_common", here)
                variable, copy, size = node.pointer("gbl_addr"), node.pointer("par_addr"), node.unsigned("cmn_size")
                if variable is not None and copy is not None and size <= _MAX_COPY:
                    found.append(Copy(variable, copy, size))
            self._copies[thread.address] = tuple(found)
        return self._copies[thread.address]

    def _is_initial(self, thread: Thread) -> bool:
        try:
            return self._gtid(thread) == _INITIAL_GTID
        except LayoutUnavailable:
            return thread.thread_type() == "initial"

    def _gtid(self, thread: Thread) -> int:
        return self._runtime.gtid_of(thread)

    # The compiler's caches

    def _prepared(self, address: int) -> _Prepared | None:
        if address not in self._known:
            self._known[address] = self._find_caches(address)
        return self._known[address]

    def _find_caches(self, address: int) -> _Prepared | None:
        # None for a variable that has no name any more: then its cache may have none either.
        place = self._process.locate(address)
        if place.module is None or place.symbol is None or place.symbol_address is None:
            return None
        start, symbol = place.symbol_address, place.symbol
        own = [f"{symbol}{suffix}" for suffix in _SUFFIXES]
        caches = frozenset(self._process.symbols_in(place.module, own).values())
        if not caches and "." in symbol:
            caches = self._caches_of_function(place.module, symbol, start)
        return _Prepared(symbol, address - start, caches)

    def _caches_of_function(self, module: Module, symbol: str, start: int) -> frozenset[int]:
        # A variable in a function is called after both, and its cache after itself alone: it may be another one's.
        last = symbol.rpartition(".")[2]
        found = frozenset(self._process.symbols_in(module, [f"{last}{suffix}" for suffix in _SUFFIXES]).values())
        if not found:
            return found
        try:
            if any(low <= start < high for low, high in self._variables):
                return found
        except LayoutUnavailable:
            pass
        first = [self._first_copy(cache) for cache in found]
        if start in first:
            return found
        if not any(first) and not self._process.symbols_in(module, [last]):
            return found
        return frozenset()

    def _first_copy(self, cache: int) -> int | None:
        # That of the initial thread, which is the variable itself, once it has used it.
        array = read_pointer(self._process, cache)
        return read_pointer(self._process, array) if array is not None else None

    def _by_cache(self, thread: Thread, address: int, prepared: _Prepared) -> int | None:
        if len(prepared.caches) > 1:
            raise Unavailable(f"{prepared.name}: several caches of threadprivate variables may be its own")
        if self._is_initial(thread):
            return address
        array = read_pointer(self._process, min(prepared.caches))
        if array is None:
            return None
        gtid = self._gtid(thread)
        if not 0 <= gtid < self._runtime.capacity:
            raise CorruptState(thread.address, f"a thread has the number {gtid}")
        copy = read_pointer(self._process, array + gtid * self._process.pointer_size)
        return copy + prepared.offset if copy is not None else None
