"""The description of a processor and its ABI on Linux: registers, calls, signals, threads in cores.

Registers are given by the kernel's names, or by the numbers of unwind tables (DWARF). Regular expressions match machine
code.
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
    """Distances from the frame pointer to the saved frame pointer of the caller, to the return address, and to the
    CFA.
    """

    frame_pointer: int
    return_address: int
    cfa: int


class CallPatterns(NamedTuple):
    """Regular expressions of calls, jumps and taken addresses.

    One group of a match holds the address, little-endian. ``distance`` and ``near`` (one byte) count from the group's
    end. ``from_table`` counts from the module's table that the loader shares (DT_PLTGOT). ``absolute`` is the address
    itself. If the group ``through`` matches, the target is the word at that address.

    ``address`` matches code that takes the address of code as an argument, and ``call`` matches calls. ``linkage``
    matches an entry of the linkage table, which jumps through a word in memory. ``jump`` matches at a jump or branch,
    with an empty match.

    ``by_pointer`` matches calls through a register or through a word in memory. The lowest three bits of its group
    ``register`` are the register's number; the group ``extended`` stands for the fourth bit. ``numbers`` maps these
    numbers to those of unwind tables. ``call_sizes`` and ``pointer_call_sizes`` are the possible sizes in bytes of the
    instructions that ``call`` and ``by_pointer`` match.

    ``stub`` matches a whole entry of the linkage table, even before the loader has bound it. An entry has ``stub_size``
    bytes or half of that. ``unbound`` matches the beginning of an entry that is not bound yet; its group is the index
    that the entry passes to the loader. It matches at most ``unbound_size`` bytes. If it is None, unbound entries are
    not read.
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

        :param table_at: returns the address of the table that the loader shares, of the module that contains an address
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
        """Return the register through which a match of ``by_pointer`` calls, None for a call through a word in
        memory.
        """
        if match["register"] is None:
            return None
        return self.numbers[(match["register"][0] & 7) + (8 if match["extended"] else 0)]


class SystemCalls(NamedTuple):
    """The convention for system calls (Linux, ``unistd.h``).

    ``instruction`` is the instruction just before the pc of a thread that sleeps in a system call. ``number`` is a
    regular expression for code before that instruction, whose group is the number of the call, little-endian. ``zero``
    is code directly before it that makes the number 0. ``register`` holds the number until the call returns; None if
    the kernel does not keep the number in a register. ``first_argument`` to ``third_argument`` and ``result`` are
    registers by the numbers of unwind tables.

    ``futexes`` and ``sched_yield`` are numbers of system calls; all ``futexes`` wait in the same way. ``clones`` are
    byte sequences that end where a new thread begins: the system call returns 0 to the new thread.
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

    ``number`` holds the number of the call, ``result`` receives its result, and ``arguments`` are in order. ``restart``
    is the number of the call that continues an interrupted one. ``waits`` maps the numbers of calls that may wait to
    their names.
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
"""The system calls that the kernel always restarts after a stop (signal(7); tried on Linux 6.18).

Other calls may return EINTR or a partial result, or behave differently for each kind of file.
"""


class PthreadObjects(NamedTuple):
    """Offsets in glibc's objects for synchronisation that differ between ABIs: ``__kind`` in ``pthread_mutex_t``, and
    ``__cur_writer`` in ``pthread_rwlock_t`` (glibc, ``bits/struct_mutex.h`` and ``bits/struct_rwlock.h``).
    """

    mutex_kind: int
    rwlock_writer: int


class SignalReturn(NamedTuple):
    """Code that returns from a signal handler.

    The pc is ``within`` bytes after the beginning of ``code``. ``context`` is the distance from the stack pointer up to
    the registers that the kernel saved.
    """

    code: bytes
    within: int
    context: int


class KernelEntry(NamedTuple):
    """The vDSO's code through which all system calls go (``AT_SYSINFO``).

    The pc of a thread in a system call is ``within`` bytes after the beginning of this code. From the stack pointer up,
    the stack holds the registers ``saved`` (numbers of unwind tables), the return address last. No other version of the
    code is known.
    """

    within: int
    saved: tuple[int, ...]


class ThreadDescriptors(NamedTuple):
    """Segment descriptors (Linux, ``struct user_desc``). They hold the thread pointer on processors without a register
    for it.

    The segment register ``selector`` selects a descriptor. A core's note of type ``note``, and ptrace's register set of
    that type, contain all descriptors of a thread, ``size`` bytes in all.
    """

    note: int
    size: int
    selector: str


@record(slots=False)
class Architecture:
    """One processor and ABI.

    Names: ``name`` is the psABI's, ``machines`` begin LLVM's target triples, ``gdb_name`` is gdb's (``bfd/cpu-*.c``),
    ``multiarch`` names Debian's folder of libraries, and ``lldb_registers`` maps LLDB's names to the kernel's if they
    differ.

    Cores (Linux, ``include/uapi/linux/elfcore.h``): ``registers`` are the members of ``elf_gregset_t`` in order, each
    of ``pointer_size`` bytes, from ``prstatus_registers`` on in an ``NT_PRSTATUS`` note of ``prstatus_size`` bytes.
    ``prstatus_signal`` and ``prstatus_pid`` are the offsets of ``pr_cursig`` (2 bytes) and ``pr_pid`` (4 bytes),
    ``prpsinfo_pid`` is the offset of ``pr_pid`` in ``NT_PRPSINFO``. ``never_zero`` is a register that is not 0 in any
    thread.

    Registers: ``dwarf_registers`` maps names to the numbers of unwind tables. ``return_address`` is such a number.
    ``callee_saved`` are the numbers of registers that a call preserves. ``red_zone`` is the number of bytes below the
    stack pointer that a leaf function may use (all by the psABI).

    Threads: ``tls_variant`` is 1 if static TLS is above the thread pointer, after a control block of ``tcb_size``
    bytes, and 2 if it is below (U. Drepper, "ELF Handling For Thread-Local Storage", chapter 3). ``thread_pointer`` is
    one of ``registers``, or, with ``descriptors``, a name under which targets add the thread pointer that the
    descriptors hold.

    Relocations, by number: ``word_relocation`` writes an address, ``jump_slot`` writes an address for an entry of the
    linkage table, and ``tpoff_relocation`` writes a variable's distance from the thread pointer.

    Code without unwind data: ``signal_returns`` recognise a return from a handler. ``signal_context`` maps the numbers
    of registers to their distances from the place that :attr:`SignalReturn.context` gives. ``frame_record`` describes
    the stack around the frame pointer of a function that has one. ``call`` matches all call instructions, of at most
    ``max_call_size`` bytes; its group ``distance`` is the distance from its end to the called code, little-endian.
    ``edges`` describe places where a function begins or ends: the code before the pc, the code at the pc, and the
    distance from the stack pointer to the return address. ``landing_pad`` is an instruction that only marks a valid
    target of jumps; empty if there is none. ``x87`` is True if ``long double`` has the x87's 80 bits. Members that are
    None are unknown.
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
        """Whether ``struct pthread`` of glibc and musl ends at the thread pointer. Otherwise it begins there.

        ``pthread_self()`` returns its address.
        """
        return self.tls_variant == 1

    @cached_property
    def prstatus_words(self) -> struct.Struct:
        """The :mod:`struct` format of the registers in an ``NT_PRSTATUS`` note."""
        word = "Q" if self.pointer_size == 8 else "I"
        return struct.Struct(("<" if self.byte_order == "little" else ">") + word * len(self.registers))

    @cached_property
    def call_pattern(self) -> re.Pattern[bytes]:
        """The regular expression ``call``."""
        return re.compile(self.call)

    def call_target(self, match: re.Match[bytes], end: int) -> int | None:
        """Return the target of a call that matches ``call`` and ends at *end*, None for a call through a pointer."""
        if match["distance"] is None:
            return None
        distance = int.from_bytes(match["distance"], "little", signed=True)
        return (end + distance) & ((1 << 8 * self.pointer_size) - 1)

    def described_thread_pointer(self, registers: Mapping[str, int], raw: bytes | None) -> int | None:
        """Return the thread pointer of the thread with *registers* and the descriptors *raw*, None if they do not show
        it.

        :raises MalformedFile: if *raw* ends within a descriptor
        """
        if self.descriptors is None or raw is None:
            return None
        # The three low bits of a selector are the privilege level (two bits) and the table; the entry's number is above
        # them.
        number = registers.get(self.descriptors.selector, 0) >> 3
        return parse_descriptors(raw, self.byte_order).get(number) or None
