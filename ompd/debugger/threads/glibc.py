"""glibc's structures of threads, read by the descriptions that glibc publishes.

These descriptions are constants, which glibc has for libthread_db (nptl_db/structs.def). ``_thread_db_T_m`` has three
32-bit words: the width in bits, the number of elements and the offset of member ``m`` of structure ``T``.
``_thread_db_sizeof_T`` is the size of ``T``. A stripped libc keeps the constants, because they are exported. So the
structures of every glibc that has them can be read without libthread_db.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ompd.contract.memory import Memory, read_unsigned
from ompd.contract.process import Module
from ompd.debugger.modules.loader import Loader, SymbolSource
from ompd.errors import BadInput, CorruptState, MemoryFault, Unavailable

_PREFIX = "_thread_db_"
_MEMBERS = (
    *("dtv_dtv", "dtv_t_counter", "dtv_t_pointer_val", "dtv_slotinfo_gen", "dtv_slotinfo_map"),
    *("dtv_slotinfo_list_len", "dtv_slotinfo_list_next", "dtv_slotinfo_list_slotinfo"),
    *("link_map_l_tls_modid", "link_map_l_tls_offset", "list_t_next"),
    *("pthread_cancelhandling", "pthread_dtvp", "pthread_list", "pthread_specific", "pthread_tid", "__pthread_keys"),
    *("pthread_key_data_data", "pthread_key_data_level2_data", "pthread_key_data_seq", "pthread_key_struct_seq"),
    *("rtld_global__dl_stack_used", "rtld_global__dl_stack_user", "rtld_global__dl_tls_dtv_slotinfo_list"),
)
_SIZES = ("sizeof_pthread", "sizeof_pthread_key_data")
_VARIABLES = ("__nptl_rtld_global", "__pthread_keys", "pthread_setcancelstate")
# Variables that are not members of _rtld_global before glibc 2.34, and in a program without shared libraries.
_LOADER_VARIABLES = ("_dl_stack_used", "stack_used", "_dl_stack_user", "__stack_user", "_dl_tls_dtv_slotinfo_list")
_NAMES = (*(_PREFIX + name for name in (*_MEMBERS, *_SIZES)), *_VARIABLES)

_PROGRAM = 1  # the program's rank among the kinds of modules that may have the descriptions

# Bits of the member `cancelhandling` (nptl/descr.h). Some releases use separate bytes, which no constant describes;
# their pthread_setcancelstate does not access `cancelhandling`.
_CANCELSTATE, _CANCELTYPE = 1, 2
_SIZEOF_SETCANCELSTATE = 64

# glibc's list of TLS modules grows by 62 at a time (TLS_SLOTINFO_SURPLUS), and Linux has at most 2^22 threads.
_MAX_LISTS = 1 << 12
_MAX_THREADS = 1 << 22


class _Member(NamedTuple):
    bits: int
    elements: int
    offset: int


class GlibcThreads:
    """glibc's structures in one process. Facts that are the same for all threads are read once.

    Every method raises Unavailable if this glibc does not publish the fact, MemoryFault if memory with the fact cannot
    be read, and CorruptState if glibc's structures contradict themselves.
    """

    def __init__(self, memory: Memory, symbols: SymbolSource, loader: Loader) -> None:
        self._memory, self._symbols = memory, symbols
        self._loader = loader
        self._described: dict[str, _Member] = {}

    # Descriptions

    @cached_property
    def _home(self) -> tuple[Module, Mapping[str, int]]:
        # The module with the descriptions, and the addresses of these symbols. Since glibc 2.34 the module is libc,
        # before that libpthread, or a program without shared libraries.
        missing = ""
        candidates = [module for module in self._symbols.modules() if _rank(module) <= _PROGRAM]
        if sum(_rank(module) < _PROGRAM for module in candidates) > 1:
            # A tool loaded by LD_AUDIT or dlmopen() has its own libc. The libc that was loaded first has the threads.
            candidates.sort(key=lambda module: self._loader.position(module.start, module.end))
        for module in sorted(candidates, key=_rank):
            addresses = self._symbols.symbols_in(module, _NAMES)
            if _PREFIX + "pthread_dtvp" in addresses:
                return module, addresses
            if not missing and _rank(module) < _PROGRAM:
                missing = f"; {module.fault}" if module.fault else f"; {module.name} has none"
        raise Unavailable(
            f"the C library does not describe its threads (no {_PREFIX} symbols in any module{missing})",
            hint="the exact libc of the target is needed: --sysroot names a copy of its files",
        )

    @cached_property
    def _loader_symbols(self) -> Mapping[str, int]:
        return self._symbols.symbols_in(self._home[0], _LOADER_VARIABLES)

    def _symbol(self, name: str) -> int:
        if name not in self._home[1]:
            raise Unavailable(f"this C library has no symbol {name}")
        return self._home[1][name]

    def _size(self, name: str) -> int:
        return int.from_bytes(self._memory.read(self._symbol(_PREFIX + name), 4), self._memory.byte_order)

    def member(self, name: str) -> _Member:
        if name not in self._described:
            address = self._symbol(_PREFIX + name)
            raw = self._memory.read(address, 12)
            order = self._memory.byte_order
            member = _Member(*(int.from_bytes(raw[start : start + 4], order) for start in (0, 4, 8)))
            if member.bits % 8 or not 0 < member.bits <= 1 << 24 or member.offset >= 1 << 24:
                raise CorruptState(address, f"{_PREFIX}{name} describes {member.bits} bits at {member.offset}")
            self._described[name] = member
        return self._described[name]

    def _address(self, name: str, structure: int, index: int = 0) -> int:
        member = self.member(name)
        return structure + member.offset + index * (member.bits // 8)

    def _value(self, name: str, structure: int) -> int:
        # Return the member as a number. A member larger than a pointer, such as a structure, is refused.
        size = self.member(name).bits // 8
        if size > self._memory.pointer_size:
            raise CorruptState(structure, f"{_PREFIX}{name} describes a number of {size} bytes")
        return read_unsigned(self._memory, self._address(name, structure), size)

    def _word(self, address: int) -> int:
        return read_unsigned(self._memory, address, self._memory.pointer_size)

    def _loader_variable(self, member: str, *names: str) -> int:
        # The address of a variable of the loader, which is a member of _rtld_global if the loader is a shared object.
        symbols = self._home[1]
        if _PREFIX + "rtld_global_" + member in symbols and "__nptl_rtld_global" in symbols:
            return self._address("rtld_global_" + member, self._word(self._symbol("__nptl_rtld_global")))
        for name in names:
            if name in self._loader_symbols:
                return self._loader_symbols[name]
        raise Unavailable(f"this C library has no symbol {' or '.join(names)}")

    # Threads

    def pthreads(self) -> Mapping[int, int]:
        """Return the address of ``struct pthread`` of every thread, by the operating system's identifier."""
        return self._pthreads

    @cached_property
    def _pthreads(self) -> dict[int, int]:
        # glibc has two rings of threads: those on stacks that glibc allocated, and those on stacks of the user. The
        # initial thread is in the latter.
        heads = (
            self._loader_variable("_dl_stack_used", "_dl_stack_used", "stack_used"),
            self._loader_variable("_dl_stack_user", "_dl_stack_user", "__stack_user"),
        )
        nodes = (node for head in heads for node in self._ring(head))
        pthreads = (node - self.member("pthread_list").offset for node in nodes)
        threads = ((self._value("pthread_tid", pthread), pthread) for pthread in pthreads)
        return {thread: pthread for thread, pthread in threads if thread}  # 0: the thread has ended, and is not joined

    def native_id(self, pthread: int) -> int:
        """Return the operating system's identifier of the thread whose ``struct pthread`` is at *pthread*.

        :raises CorruptState: if no possible identifier is there, because the thread has ended, or memory is lost
        """
        identifier = self._value("pthread_tid", pthread)
        if not 0 < identifier <= _MAX_THREADS:
            raise CorruptState(pthread, f"glibc has {identifier} as the identifier of a thread")
        return identifier

    def cancelling(self, pthread: int) -> tuple[bool, bool]:
        """Return whether a thread can be cancelled, and whether that may happen asynchronously.

        An asynchronous cancellation may happen at any point of the code, not only at cancellation points.

        :param pthread: the address of the thread's ``struct pthread``
        """
        member = self.member("pthread_cancelhandling")
        code = self._memory.read(self._symbol("pthread_setcancelstate"), _SIZEOF_SETCANCELSTATE)
        if member.offset.to_bytes(4, self._memory.byte_order) not in code:
            raise Unavailable("where this C library has whether a thread can be cancelled is not known")
        value = self._value("pthread_cancelhandling", pthread)
        return not value & _CANCELSTATE, bool(value & _CANCELTYPE)

    def _ring(self, head: int) -> Iterator[int]:
        visited = {head}
        node = self._value("list_t_next", head)
        while node != head:
            if node in visited or len(visited) > _MAX_THREADS or not node:
                raise CorruptState(node, "glibc's list of threads does not come back to its head")
            visited.add(node)
            yield node
            node = self._value("list_t_next", node)

    @cached_property
    def sizeof_pthread(self) -> int:
        """The size of ``struct pthread`` in bytes."""
        return self._size("sizeof_pthread")

    # Thread-local storage

    def tls_module(self, link_map: int) -> tuple[int, int]:
        """Return ``l_tls_modid`` and ``l_tls_offset`` of the ``struct link_map`` at an address."""
        return self._value("link_map_l_tls_modid", link_map), self._value("link_map_l_tls_offset", link_map)

    def dynamic_block(self, pthread: int, module_id: int, link_map: int) -> int | None:
        """Return the address of a thread's TLS block of a module that has no static block.

        None if the thread has no block of the module yet.

        :param pthread: the address of the thread's ``struct pthread``
        :param module_id: the module's ``l_tls_modid``
        :param link_map: the address of the module's ``struct link_map``
        """
        if not module_id:
            raise CorruptState(link_map, "a module with a TLS segment has no number")
        generation = self._generation(module_id, link_map)
        vector = self._value("pthread_dtvp", pthread)
        first = self._address("dtv_dtv", vector)
        # A thread's vector is updated only when the thread uses a variable. If it is older than the module's number,
        # the entry may be missing, or belong to an unloaded module that had the same number before.
        if self._value("dtv_t_counter", first) < generation:
            return None
        entry = self._address("dtv_dtv", vector, module_id)
        block = self._value("dtv_t_pointer_val", entry)
        unallocated = (1 << 8 * self._memory.pointer_size) - 1  # TLS_DTV_UNALLOCATED
        return block if block not in (0, unallocated) else None

    def _generation(self, module_id: int, link_map: int) -> int:
        # The generation in which the module got its number. A thread's vector has a generation, too, so that the two
        # can be compared.
        chunk = self._word(self._loader_variable("_dl_tls_dtv_slotinfo_list", "_dl_tls_dtv_slotinfo_list"))
        index = module_id
        for _ in range(_MAX_LISTS):
            if not chunk:
                break
            length = self._value("dtv_slotinfo_list_len", chunk)
            if index < length:
                slot = self._address("dtv_slotinfo_list_slotinfo", chunk, index)
                if self._value("dtv_slotinfo_map", slot) != link_map:
                    raise CorruptState(slot, f"TLS module {module_id} is not the one that has this number")
                return self._value("dtv_slotinfo_gen", slot)
            index -= length
            chunk = self._value("dtv_slotinfo_list_next", chunk)
        raise CorruptState(link_map, f"glibc has no TLS module {module_id}")

    # POSIX thread keys

    def key_value(self, pthread: int, key: int) -> int | None:
        """Return a thread's value of the POSIX thread key *key*, None if the value is unset or a null pointer.

        :param pthread: the address of the thread's ``struct pthread``
        :raises BadInput: if the key was not created, or was deleted
        """
        keys = self.member("__pthread_keys")
        if not 0 <= key < keys.elements:
            raise BadInput(f"POSIX thread keys are numbers from 0 to {keys.elements - 1}, not {key}")
        key_struct = self._symbol("__pthread_keys") + key * (keys.bits // 8)
        sequence = self._value("pthread_key_struct_seq", key_struct)
        if not sequence & 1:  # KEY_UNUSED
            raise BadInput(f"there is no POSIX thread key {key}")
        in_level = self.member("pthread_key_data_level2_data").elements
        specific = self.member("pthread_specific")
        first, second = divmod(key, max(in_level, 1))
        pointer_size = self._memory.pointer_size
        # How many pointers the member has. Its description has one element with all pointers (glibc 2.36), or one
        # element for each pointer.
        if first >= specific.bits * max(specific.elements, 1) // 8 // pointer_size:
            raise CorruptState(pthread, f"glibc describes no room for key {key}")
        level = self._word(pthread + specific.offset + first * pointer_size)
        if not level:
            return None
        data = self._address("pthread_key_data_level2_data", level) + second * self._size("sizeof_pthread_key_data")
        if self._value("pthread_key_data_seq", data) != sequence:
            return None  # the value is that of a deleted key with the same number
        return self._value("pthread_key_data_data", data) or None

    def read_keys(self, pthread: int) -> None:
        """Read all that :meth:`key_value` needs for a thread, so that the pages are noted for a snapshot.

        :param pthread: the address of the thread's ``struct pthread``
        """
        keys, specific = self.member("__pthread_keys"), self.member("pthread_specific")
        self._memory.read(self._symbol("__pthread_keys"), keys.elements * (keys.bits // 8))
        for member in ("pthread_key_struct_seq", "pthread_key_data_seq", "pthread_key_data_data"):
            self.member(member)
        size = self.member("pthread_key_data_level2_data").elements * self._size("sizeof_pthread_key_data")
        for first in range(specific.bits * max(specific.elements, 1) // 8 // self._memory.pointer_size):
            level = self._word(pthread + specific.offset + first * self._memory.pointer_size)
            if level:
                with suppress(MemoryFault):
                    self._memory.read(self._address("pthread_key_data_level2_data", level), size)


def _rank(module: Module) -> int:
    file = module.name.rpartition("/")[2]
    if file.startswith(("libc.so", "libc-", "libpthread")):
        return 0
    return _PROGRAM if module.is_program else _PROGRAM + 1
