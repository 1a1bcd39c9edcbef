"""The callbacks of the standards, bound to one module of the process: the one that holds the runtime that asks.

OMPD and DMPL name a symbol without a file, so that a process with two runtimes has every name twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.callbacks import TypeRef, TypeSizes
from ompd.contract.memory import ByteOrder
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.process import Module
from ompd.errors import LayoutUnavailable, SymbolNotFound, TypeNotFound

if TYPE_CHECKING:
    from ompd.debugger.inspected import InspectedProcess


class BoundCallbacks:
    """See :class:`ompd.contract.callbacks.Callbacks`."""

    def __init__(self, process: InspectedProcess, module: Module) -> None:
        self._process = process
        self._module = module
        self.byte_order: ByteOrder = process.byte_order
        self.pointer_size = process.pointer_size

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """See :meth:`Callbacks.find_symbol`: the module's own, else the first that the process has."""
        try:
            return self._process.find_symbol_in(self._module, name, thread=thread)
        except SymbolNotFound:
            return self._process.find_symbol(name, thread=thread)

    def source_of(self, name: str) -> tuple[str | None, int | None]:
        """Return the function of the source that the function with a linker's *name* belongs to, and the line on which
        the source has it, by debug information: for names that compilers make of constructs.

        None for what is unknown. DMPL has no callback for it, see :data:`ompd.contract.dmpl.SourceOf`.
        """
        try:
            address = self.find_symbol(name)
        except SymbolNotFound:
            return None, None
        return self._process.declared_inside(address), self._process.construct_line(address)[1]

    def read(self, address: int, size: int) -> bytes:
        """See :meth:`Memory.read`."""
        return self._process.read(address, size)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """See :meth:`Callbacks.read_string`."""
        return self._process.read_string(address, limit)

    def type_sizes(self) -> TypeSizes:
        """See :meth:`Callbacks.type_sizes`."""
        return self._process.type_sizes()

    def find_type(self, name: str) -> TypeRef:
        """See :meth:`Callbacks.find_type`: the module's own, else the first that the process has."""
        try:
            return self._process.find_type_in(self._module, name)
        except (TypeNotFound, LayoutUnavailable):
            return self._process.find_type(name)

    def sizeof(self, type_ref: TypeRef) -> int:
        """See :meth:`Callbacks.sizeof`."""
        return self._process.sizeof(type_ref)

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        """See :meth:`Callbacks.field_offset`."""
        return self._process.field_offset(type_ref, field)

    def pthread_key(self, thread: int, key: int) -> int | None:
        """See :meth:`Callbacks.pthread_key`."""
        return self._process.pthread_key(thread, key)

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        """See :meth:`Callbacks.thread_for_id`."""
        return self._process.thread_for_id(kind, identifier)

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        """See :meth:`Callbacks.to_host`."""
        return self._process.to_host(raw, unit_size)
