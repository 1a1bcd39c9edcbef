"""Threadprivate variables of code that does not use thread-local storage. The runtime keeps the copies.

clang's code with ``-fnoopenmp-use-tls``, and flang's code for all threadprivate variables, calls
``__kmpc_threadprivate_cached`` to get a thread's copy. For each thread, the runtime has a list of copies, which starts
at ``th_pri_head`` and continues through ``link``. Each copy has the address of its variable. For each variable, the
compiler makes a cache, ``NAME.cache.`` (clang) or ``NAME.cache`` (flang), which points to an array of the copies by
gtid. This plugin reads the cache only if the layout of the list is unknown. The copy of the initial thread is the
variable itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import read_pointer
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Module
    from ompd.runtimes.libomp.handles import Thread
    from ompd.runtimes.libomp.plugin import Runtime

_MAX_COPIES, _MAX_COPY = 1 << 16, 1 << 32
_INITIAL_GTID = 0
_SUFFIXES = (".cache.", ".cache")


class Copy(NamedTuple):
    """A thread's copy of a variable (``struct private_common``): the address of the variable, the address of the copy,
    and their size in bytes.
    """

    gbl_addr: int
    par_addr: int
    cmn_size: int


class _Variable(NamedTuple):
    # The name of the variable at an address, the offset of the address in the variable, and the addresses of the caches
    # that may belong to the variable.
    name: str
    offset: int
    caches: frozenset[int]


class Threadprivate:
    """The threadprivate copies that one runtime keeps."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.structures
        self._copies: dict[int, tuple[Copy, ...]] = {}  # by kmp_info_t
        self._variables: dict[int, _Variable | None] = {}

    def address(self, thread: Thread, address: int) -> int | None:
        """Return the address of a thread's own copy of the variable at *address*, None if the thread has no copy yet.

        :raises BadInput: if the runtime keeps no copies of the variable
        """
        variable = self._variable_at(address)
        if variable is not None and not variable.caches:
            raise BadInput(f"{variable.name} has no cache of copies beside it: the runtime keeps none of it")
        try:
            return self._by_list(thread, address, variable)
        except LayoutUnavailable:
            if variable is None:
                raise
            return self._by_cache(thread, address, variable)

    # The lists

    def _by_list(self, thread: Thread, address: int, variable: _Variable | None) -> int | None:
        for copy in self.copies(thread):
            if copy.gbl_addr <= address < copy.gbl_addr + copy.cmn_size:
                return copy.par_addr + address - copy.gbl_addr
        if variable is None and not any(start <= address < end for start, end in self._ranges):
            raise BadInput(f"no thread has a copy of what lies at {address:#x}")
        return address if self._is_initial(thread) else None

    @cached_property
    def _ranges(self) -> frozenset[tuple[int, int]]:
        # The address ranges (start, end) of the variables of which threads have copies.
        return frozenset(
            (copy.gbl_addr, copy.gbl_addr + copy.cmn_size)
            for thread in self._runtime.threads()
            for copy in self.copies(thread)
        )

    def copies(self, thread: Thread) -> Sequence[Copy]:
        """Return all copies that belong to *thread*.

        :raises LayoutUnavailable: if the place of the list is unknown
        :raises CorruptState: if the list does not end
        """
        if thread.address not in self._copies:

            def following(address: int) -> int | None:
                return self._structures.view("private_common", address).pointer("link")

            copies: list[Copy] = []
            first = self._structures.view("kmp_base_info_t.th_pri_head", thread.address).pointer("th_pri_head")
            for address in chain(first, following, _MAX_COPIES, "the list of a thread's threadprivate variables"):
                node = self._structures.view("private_common", address)
                variable, copy, size = node.pointer("gbl_addr"), node.pointer("par_addr"), node.unsigned("cmn_size")
                if variable is not None and copy is not None and size <= _MAX_COPY:
                    copies.append(Copy(variable, copy, size))
            self._copies[thread.address] = tuple(copies)
        return self._copies[thread.address]

    def _is_initial(self, thread: Thread) -> bool:
        try:
            return self._runtime.gtid_of(thread) == _INITIAL_GTID
        except LayoutUnavailable:
            return thread.thread_type() == "initial"

    # The compiler's caches

    def _variable_at(self, address: int) -> _Variable | None:
        if address not in self._variables:
            self._variables[address] = self._find_variable(address)
        return self._variables[address]

    def _find_variable(self, address: int) -> _Variable | None:
        # None for a variable without a symbol, because its cache may have no symbol either.
        place = self._process.locate(address)
        if place.module is None or place.symbol is None or place.symbol_address is None:
            return None
        start, symbol = place.symbol_address, place.symbol
        names = [f"{symbol}{suffix}" for suffix in _SUFFIXES]
        caches = frozenset(self._process.symbols_in(place.module, names).values())
        if not caches and "." in symbol:
            caches = self._caches_of_function(place.module, symbol, start)
        return _Variable(symbol, address - start, caches)

    def _caches_of_function(self, module: Module, symbol: str, start: int) -> frozenset[int]:
        # A variable in a function is called FUNCTION.NAME, but its cache is called NAME.cache, and may belong to
        # another variable.
        last = symbol.rpartition(".")[2]
        caches = frozenset(self._process.symbols_in(module, [f"{last}{suffix}" for suffix in _SUFFIXES]).values())
        if not caches:
            return caches
        try:
            if any(low <= start < high for low, high in self._ranges):
                return caches
        except LayoutUnavailable:
            pass
        initial_copies = [self._initial_copy(cache) for cache in caches]
        if start in initial_copies:
            return caches
        if not any(initial_copies) and not self._process.symbols_in(module, [last]):
            return caches
        return frozenset()

    def _initial_copy(self, cache: int) -> int | None:
        # The copy of the initial thread is the variable itself, once the thread has used it.
        array = read_pointer(self._process, cache)
        return read_pointer(self._process, array) if array is not None else None

    def _by_cache(self, thread: Thread, address: int, variable: _Variable) -> int | None:
        if len(variable.caches) > 1:
            raise Unavailable(f"{variable.name}: several caches of threadprivate variables may be its own")
        if self._is_initial(thread):
            return address
        array = read_pointer(self._process, min(variable.caches))
        if array is None:
            return None
        gtid = self._runtime.gtid_of(thread)
        if not 0 <= gtid < self._runtime.capacity:
            raise CorruptState(thread.address, f"a thread has the number {gtid}")
        copy = read_pointer(self._process, array + gtid * self._process.pointer_size)
        return copy + variable.offset if copy is not None else None
