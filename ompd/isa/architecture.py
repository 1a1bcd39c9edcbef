"""The description of a processor and its ABI on Linux: registers, calls, signals, threads in cores.

Registers are the kernel's names, or the numbers of unwind tables (DWARF). Regular expressions match machine code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.core.notes import parse_descriptors
from ompd.records import record

if TYPE_CHECKING:
    from ompd.contract.memory import ByteOrder


class FrameRecord(NamedTuple):
    """Distances from the frame pointer: to the caller's frame pointer, to the return address, to the CFA."""

    frame_pointer: int
    return_address: int
    cfa: int


class CallPatterns(NamedTuple):
    """Regular expressions of calls, jumps and taken addresses.

    A match refers to an address in one of these groups, all little-endian: ``distance`` and ``near`` (one byte) count
    from the group's end, ``from_table`` counts from the module's table that is shared with the loader (DT_PLTGOT), and
    ``absolute`` is the address itself. With the group ``through``, that address has a word with the target.

    ``address`` takes the address of code as an argument, ``call`` calls, and ``linkage`` is an entry of the linkage
    table, which jumps to where a word says. ``jump`` is a jump or branch, whose match is empty.

    ``by_pointer`` calls what a register or a word in memory points to. The lowest three bits of its group ``register``
    are the register's number, ``extended`` is the fourth bit; ``numbers`` maps these numbers to those of unwind tables.
    ``call_sizes`` and ``pointer_call_sizes`` are how many bytes the instructions of ``call`` and ``by_pointer`` have.

    ``stub`` is a whole entry of the linkage table, also before the loader has bound it. It has ``stub_size`` bytes or
    half as many. ``unbound`` is the beginning of one that is not bound, its group the index that the loader is given;
    it matches ``unbound_size`` bytes at most, and None means that such an entry is not read.
    """

    address: bytes
    call: bytes
    linkage: bytes
    jump: bytes
    by_pointer: bytes
    numbers: tuple[int, ...]
    call_sizes: tuple[int, ...]
    pointer_call_sizes: tuple[int, ...]
    stub: bytes
    stub_size: int
    unbound: bytes | None = None
    unbound_size: int = 0

    def address_in(self, match: re.Match[bytes], start: int, table_at: Callable[[int], int | None]) -> int | None:
        """Return the address that a match refers to, in code from *start* on; None if the table's place is unknown.

        :param table_at: returns where the module with an address has its table that is shared with the loader
        """
        groups = match.groupdict()
        for group in ("near", "distance"):
            if groups.get(group) is not None:
                return start + match.end(group) + int.from_bytes(groups[group], "little", signed=True)
        if groups.get("from_table") is None:
            return int.from_bytes(groups["absolute"], "little")
        table = table_at(start)
        return None if table is None else table + int.from_bytes(groups["from_table"], "little", signed=True)

    def register_in(self, match: re.Match[bytes]) -> int | None:
        """Return the register that a match of ``by_pointer`` calls by, None if it is a word in memory."""
        if match["register"] is None:
            return None
        return self.numbers[(match["register"][0] & 7) + (8 if match["extended"] else 0)]


class SystemCalls(NamedTuple):
    """How code calls the kernel (Linux, ``unistd.h``).

    ``instruction`` stands before the pc of a thread that sleeps in a call. ``number`` is a regular expression for code
    before it, whose group is the number of the call, little-endian; ``zero`` is code right before it that makes the
    number 0. ``register`` holds the number as long as there is no answer; None if the kernel does not keep it there.
    ``first_argument`` to ``third_argument`` and ``result`` are registers by the numbers of unwind tables.

    ``futexes`` and ``sched_yield`` are numbers of calls; the former wait alike. ``clones`` are the ends of code behind
    which a new thread begins: the call returns 0 to it.
    """

    instruction: bytes
    number: bytes
    first_argument: int
    second_argument: int
    third_argument: int
    futexes: tuple[int, ...]
    sched_yield: int
    result: int
    clones: tuple[bytes, ...]
    register: str | None = None
    zero: bytes = b"\x31\xc0"  # xor %eax, %eax


class KernelArguments(NamedTuple):
    """The registers of a thread that is in a system call (Linux, ``unistd.h``).

    ``number`` says which call it is, ``result`` gets the answer, and ``arguments`` are in order. ``restart`` is the
    number of the call that continues an interrupted one. ``waits`` maps the numbers of calls that may wait to their
    names.
    """

    number: str
    result: str
    arguments: tuple[str, ...]
    restart: int
    waits: Mapping[int, str]


BEGUN_ANEW = frozenset(
    (
        *("futex", "futex_time64", "nanosleep", "clock_nanosleep", "clock_nanosleep_time64", "poll", "ppoll"),
        *("ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64", "wait4", "waitpid", "waitid", "pause"),
        *("rt_sigsuspend", "sigsuspend", "flock"),
    )
)
"""The system calls that the kernel always begins anew after a stop (signal(7); tried on Linux 6.18).

Others may return EINTR or a part of the result, or behave as their kind of file does.
"""


class PthreadObjects(NamedTuple):
    """Offsets in glibc's objects for synchronisation that differ between ABIs: ``__kind`` in ``pthread_mutex_t``, and
    ``__cur_writer`` in ``pthread_rwlock_t`` (glibc, ``bits/struct_mutex.h`` and ``bits/struct_rwlock.h``).
    """

    mutex_kind: int
    rwlock_writer: int


class SignalReturn(NamedTuple):
    """Code that returns from a signal handler.

    The pc is ``within`` bytes behind the beginning of ``code``; ``context`` is the distance from the stack pointer up
    to the registers that the kernel saved.
    """

    code: bytes
    within: int
    context: int


class KernelEntry(NamedTuple):
    """The code of the vDSO through which all system calls go (``AT_SYSINFO``).

    A thread in such a call stands ``within`` bytes behind the beginning. The code leaves the registers ``saved``, by
    the numbers of unwind tables, from the stack pointer on, the return address last; no other version of it is known.
    """

    within: int
    saved: tuple[int, ...]


class ThreadDescriptors(NamedTuple):
    """Segment descriptors (Linux, ``struct user_desc``), which hold the thread pointer if no register does.

    The segment register ``selector`` selects one. A core's note of type ``note``, and the register set of that type in
    ``ptrace``, have all descriptors of a thread, ``size`` bytes each.
    """

    note: int
    size: int
    selector: str


@record(slots=False)
class Architecture:
    """One processor and ABI.

    Names: ``name`` is the psABI's, ``machines`` begin LLVM's target triples, ``gdb_name`` is gdb's (``bfd/cpu-*.c``),
    ``multiarch`` is Debian's folder of libraries, and ``lldb_registers`` maps LLDB's names to the kernel's where they
    differ.

    Cores (Linux, ``include/uapi/linux/elfcore.h``): ``registers`` are the members of ``elf_gregset_t`` in order, each
    of ``pointer_size`` bytes, from ``prstatus_registers`` on in an ``NT_PRSTATUS`` note of ``prstatus_size`` bytes.
    ``prstatus_signal`` and ``prstatus_pid`` are the offsets of ``pr_cursig`` (2 bytes) and ``pr_pid`` (4 bytes),
    ``prpsinfo_pid`` that of ``pr_pid`` in ``NT_PRPSINFO``. ``never_zero`` is a register that is not 0 in any thread.

    Registers: ``dwarf_registers`` maps names to the numbers of unwind tables, of which ``return_address`` is one.
    ``callee_saved`` are the numbers that a call keeps. ``red_zone`` is how many bytes below the stack pointer a
    function that calls none may use (all by the psABI).

    Threads: ``tls_variant`` is 1 if static TLS is above the thread pointer, with ``tcb_size`` bytes of control block
    between, and 2 if it is below (U. Drepper, "ELF Handling For Thread-Local Storage", chapter 3). ``thread_pointer``
    is one of ``registers``, or, with ``descriptors``, the name that targets add for what these tell.

    Relocations, by number: ``word_relocation`` writes an address, ``jump_slot`` one into the linkage table, and
    ``tpoff_relocation`` a variable's distance from the thread pointer.

    Code without unwind data: ``signal_returns`` recognise a return from a handler, and ``signal_context`` maps numbers
    of registers to the distances at which they are from there. ``frame_record`` is what a function with a frame pointer
    leaves where that points. ``call`` matches all call instructions, of at most ``max_call_size`` bytes; its group
    ``distance`` is the distance from its end to the called code, little-endian. ``edges`` are the code before the pc,
    the code at it, and the distance from the stack pointer to the return address where a function begins or ends.
    ``landing_pad`` marks where code may be jumped to, and does nothing else; empty if there is none. ``x87``:
    ``long double`` has the x87's 80 bits. Members that are None are unknown.
    """

    name: str
    machines: tuple[str, ...]
    gdb_name: str
    multiarch: str
    lldb_registers: Mapping[str, str]
    e_machine: int
    elf_class: int
    pointer_size: int
    byte_order: ByteOrder
    prstatus_size: int
    prstatus_signal: int
    prstatus_pid: int
    prstatus_registers: int
    prpsinfo_pid: int
    registers: tuple[str, ...]
    never_zero: str
    dwarf_registers: Mapping[str, int]
    callee_saved: frozenset[int]
    red_zone: int
    pc: str
    sp: str
    fp: str
    thread_pointer: str
    return_address: int
    signal_returns: tuple[SignalReturn, ...]
    signal_context: Mapping[int, int]
    frame_record: FrameRecord
    max_call_size: int
    call: bytes
    edges: tuple[tuple[bytes, bytes, int], ...]
    landing_pad: bytes
    calls: CallPatterns | None
    tls_variant: int
    tcb_size: int
    word_relocation: int
    jump_slot: int
    tpoff_relocation: int
    x87: bool = False
    system_calls: SystemCalls | None = None
    descriptors: ThreadDescriptors | None = None
    kernel_entry: KernelEntry | None = None
    kernel_arguments: KernelArguments | None = None
    pthread_objects: PthreadObjects | None = None

    @property
    def has_pthread_below(self) -> bool:
        """Whether ``struct pthread`` of glibc and musl ends at the thread pointer, else it begins there.

        ``pthread_self()`` returns its address.
        """
        return self.tls_variant == 1

    @cached_property
    def prstatus_words(self) -> struct.Struct:
        """The registers of an ``NT_PRSTATUS`` note as :mod:`struct` reads them."""
        word = "Q" if self.pointer_size == 8 else "I"
        return struct.Struct(("<" if self.byte_order == "little" else ">") + word * len(self.registers))

    @cached_property
    def call_pattern(self) -> re.Pattern[bytes]:
        """The regular expression ``call``."""
        return re.compile(self.call)

    def call_target(self, match: re.Match[bytes], end: int) -> int | None:
        """Return the target of a call that matches ``call`` and ends at *end*, None for a call by a pointer."""
        if match["distance"] is None:
            return None
        distance = int.from_bytes(match["distance"], "little", signed=True)
        return (end + distance) & ((1 << 8 * self.pointer_size) - 1)

    def described_thread_pointer(self, registers: Mapping[str, int], raw: bytes | None) -> int | None:
        """Return the thread pointer of the thread with *registers* and the descriptors *raw*, None if they do not say.

        :raises MalformedFile: if *raw* has part of a descriptor
        """
        if self.descriptors is None or raw is None:
            return None
        # Below the number of the entry are two bits of privilege, and which table is meant.
        number = registers.get(self.descriptors.selector, 0) >> 3
        return parse_descriptors(raw, self.byte_order).get(number) or None
