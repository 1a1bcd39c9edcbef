"""The callbacks of the standards, bound to one module of the process: the one that holds the runtime that asks.

OMPD and DMPL name a symbol without a file, so that a process with two runtimes has every name twice.
"""

from __future__ import annotations

from ompd.contract.callbacks import TypeRef
from ompd.contract.memory import ByteOrder
from ompd.contract.process import Module
from ompd.debugger.memory import TargetMemory
from ompd.debugger.places import Places
from ompd.debugger.symbols import Symbols
from ompd.debugger.threads.threads import Threads
from ompd.debugger.threads.tls import ThreadLocalStorage
from ompd.debugger.variables.types import Types, field_offset, sizeof
from ompd.errors import LayoutUnavailable, SymbolNotFound, TypeNotFound


class BoundCallbacks:
    """See :class:`ompd.contract.callbacks.Callbacks`."""

    def __init__(
        self,
        module: Module,
        memory: TargetMemory,
        symbols: Symbols,
        types: Types,
        places: Places,
        threads: Threads,
        storage: ThreadLocalStorage,
    ) -> None:
        self._module, self._symbols, self._types, self._places = module, symbols, types, places
        self.byte_order: ByteOrder = memory.byte_order
        self.pointer_size = memory.pointer_size
        self.read, self.read_string = memory.read, memory.read_string
        self.type_sizes, self.to_host = memory.type_sizes, memory.to_host
        self.sizeof, self.field_offset = sizeof, field_offset
        self.thread_for_id, self.pthread_key = threads.thread_for_id, storage.key_value

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """See :meth:`Callbacks.find_symbol`: the module's own, else the first that the process has."""
        try:
            return self._symbols.find_symbol_in(self._module, name, thread=thread)
        except SymbolNotFound:
            return self._symbols.find_symbol(name, thread=thread)

    def source_of(self, name: str) -> tuple[str | None, int | None]:
        """Return the function of the source that the function with a linker's *name* belongs to, and the line on which
        the source has it, by debug information: for names that compilers make of constructs.

        None for what is unknown. DMPL has no callback for it, see :data:`ompd.contract.dmpl.SourceOf`.
        """
        try:
            address = self.find_symbol(name)
        except SymbolNotFound:
            return None, None
        return self._places.declared_inside(address), self._places.construct_line(address)[1]

    def find_type(self, name: str) -> TypeRef:
        """See :meth:`Callbacks.find_type`: the module's own, else the first that the process has."""
        try:
            return self._types.find_in(self._module, name)
        except (TypeNotFound, LayoutUnavailable):
            return self._types.find(name)
