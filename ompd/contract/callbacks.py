"""DMPL's and OMPD's callbacks, which the debugger's half offers to a plugin.

A vendor's C library gets only these callbacks. Each method names its counterparts in DMPL and OMPD. A failure raises an
exception; no method returns a code.
"""

from __future__ import annotations

from typing import NewType, Protocol

from ompd.contract.memory import Memory
from ompd.contract.ompd import ThreadIdKind
from ompd.records import record

TypeRef = NewType("TypeRef", object)
"""A type of the target, opaque to the plugin (``DMPL_type_t *``)."""


@record
class TypeSizes:
    """Sizes of the target's fundamental C types, in bytes (``ompd_device_type_sizes_t``)."""

    sizeof_char: int
    sizeof_short: int
    sizeof_int: int
    sizeof_long: int
    sizeof_long_long: int
    sizeof_pointer: int


class Callbacks(Memory, Protocol):
    """The callbacks, bound to the module of the target that holds the runtime.

    ``read`` is OMPD's ``read_memory`` and DMPL's ``get_data``. The argument *thread* is the operating system's
    identifier of a thread.
    """

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """Return the address of symbol *name*, in *thread* if the symbol is thread-local.

        OMPD ``symbol_addr_lookup``; DMPL ``find_symbol``.

        :raises SymbolNotFound: if neither the module's nor the program's symbol tables have it
        """

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """Return the bytes from *address* to the first NUL, without the NUL.

        OMPD ``read_string``.

        :raises MemoryFault: if memory ends before the NUL
        :raises CorruptState: if there is no NUL within *limit* bytes
        """

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of fundamental types. OMPD ``sizeof_type``; DMPL ``get_type_sizes``."""

    def find_type(self, name: str) -> TypeRef:
        """Return the type *name* from the runtime's debug information. DMPL ``find_type``.

        :raises TypeNotFound: if the debug information does not have it
        """

    def sizeof(self, type_ref: TypeRef) -> int:
        """Return the size of a type, in bytes. DMPL ``sizeof``."""

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        """Return the offset of member *field*, in bytes. DMPL ``field_offset``.

        :raises FieldNotFound: if the type has no member of that name
        """

    def pthread_key(self, thread: int, key: int) -> int | None:
        """Return the value that *thread* stored under POSIX thread key *key*, None if it stored none. DMPL
        ``get_pthread_key``.
        """

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        """Return the operating system's identifier of the thread whose native identifier of this *kind* is
        *identifier*.

        OMPD ``get_thread_context_for_thread_id``.

        :raises BadInput: if there is no such thread
        """

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        """Return units of *unit_size* bytes in the byte order of this machine.

        OMPD ``device_to_host``; DMPL ``target_to_host``.
        """
