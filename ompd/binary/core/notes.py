"""The notes of an ELF core: mapped files, auxiliary vector, command line, signal (Linux ``fs/binfmt_elf.c``,
``elf.h``).
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable, Collection
from typing import NamedTuple

from ompd.binary.cursor import ByteOrder, Bytes
from ompd.errors import MalformedFile, Unavailable
from ompd.records import record
from ompd.safety import limits

NT_PRSTATUS = 1
NT_PRPSINFO = 3
NT_AUXV = 6
NT_386_TLS = 0x200
NT_SIGINFO = 0x53494749
NT_FILE = 0x46494C45

# Notes that ``ompd`` defines: extracts of a module's file and of its debug file, and lines of source. GDB ignores the
# owner, so the types are chosen far from the kernel's.
OMPD_OWNER = "OMPD"
NT_OMPD_FILE = 0x4F4D5001
NT_OMPD_DEBUG_FILE = 0x4F4D5002
NT_OMPD_SOURCE = 0x4F4D5003
MAX_SOURCE_NOTE = 4 << 20  # bytes
EXTRACT_HEADER = 8  # the module's start address, 8 bytes little-endian

AT_NULL = 0
AT_PHDR = 3
AT_PAGESZ = 6
AT_BASE = 7
AT_ENTRY = 9
AT_RANDOM = 25
AT_EXECFN = 31
AT_SYSINFO = 32
AT_SYSINFO_EHDR = 33

# pr_fname (char[16]) and pr_psargs (char[ELF_PRARGSZ], 80) end elf_prpsinfo on every architecture.
_FNAME_SIZE = 16
_PSARGS_SIZE = 80

PR_IDS = 16  # pr_pid, pr_ppid, pr_pgrp and pr_sid

# siginfo_t: si_signo, si_errno and si_code of 4 bytes each, then, at the next multiple of a pointer's size, a union
# that begins with si_pid (4 bytes) or si_addr (a pointer).
_SI_CODE = 8
# Stands for an unknown si_code in a snapshot; no kernel and no program uses it.
_UNKNOWN_CODE = -(1 << 31)

# Linux asm-generic/siginfo.h: SI_KERNEL: the kernel sent the signal, without a reason and an address. SI_TKILL: the
# signal was sent to one thread, as abort() and raise() do.
SI_KERNEL = 128
SI_TKILL = -6
_WITH_ADDRESS = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP))
_FAULTS = _WITH_ADDRESS | {signal.SIGSYS}

# struct user_desc (asm/ldt.h) in NT_386_TLS: entry_number, base_addr, limit, flags
_DESCRIPTOR = "IIII"
_DESCRIPTOR_LIMIT, _DESCRIPTOR_FLAGS = 0xFFFFF, 0x51  # a segment of 4 GB: 32 bits, limit in pages, usable


@record
class FileMapping:
    """One mapping of ``NT_FILE``: *start* is at *offset* in the file, in bytes."""

    start: int
    end: int
    offset: int
    name: str


class StatusNote(NamedTuple):
    """Signals and times of a thread, from an ``NT_PRSTATUS`` note.

    ``pending`` (``pr_sigpend``) and ``blocked`` (``pr_sighold``) are masks in which bit 0 is signal 1. ``time_ns`` is
    the used processor time (``pr_utime`` + ``pr_stime``), None if unknown.
    """

    pending: int
    blocked: int
    time_ns: int | None


class ProcessNote(NamedTuple):
    """Flags of the main thread (``pr_flag``, as in ``/proc/PID/stat``) and parent process id (``pr_ppid``), from an
    ``NT_PRPSINFO`` note.
    """

    flags: int
    parent: int


@record
class SignalInfo:
    """A signal from a ``siginfo_t``: ``si_signo``, ``si_code``, and ``si_pid`` and ``si_addr``, which share their
    bytes.

    ``si_code`` decides which of the two is valid. Unknown members are None.
    """

    number: int
    code: int | None = None
    sender: int | None = None
    address: int | None = None

    @property
    def is_fault(self) -> bool:
        """Whether the kernel sent the signal because of the thread's own instruction, and recorded an address."""
        return self.code is not None and 0 < self.code != SI_KERNEL and self.number in _WITH_ADDRESS

    def fault_address(self) -> int | None:
        """Return the address of a fault, ``si_addr``: the accessed address, or, for SIGILL, SIGFPE and SIGTRAP, the
        address of the instruction. None for other signals.

        :raises Unavailable: if the kernel did not record the address, or the target does not have it
        """
        if self.number not in _WITH_ADDRESS:
            return None
        if self.code is None:
            raise Unavailable("the target does not have the signal's address (si_addr)")
        if self.code == SI_KERNEL and self.number != signal.SIGTRAP:
            # On x86, one reason is an address that is not canonical. si_addr is then 0 instead of the address.
            raise Unavailable("the kernel does not give the address of this fault (SI_KERNEL)")
        return self.address if self.is_fault else None

    def has_failed(self, own: Collection[int], has_raised: Callable[[], bool]) -> bool:
        """Return whether the thread that took the signal failed: its own instruction caused the signal, or it sent the
        signal to itself, as ``abort()`` does. A signal from another sender does not mean that the thread failed.

        :param own: the process's id, and those of its threads
        :param has_raised: returns whether the thread's own code raised the signal, and not a handler of that signal
        :raises Unavailable: if the target does not have the signal's origin
        """
        if self.code is None:
            raise Unavailable("the target does not say where the signal came from (si_code)")
        if self.code == SI_TKILL:
            # If the process itself sent the signal of a fault, this counts as a handler that raised the signal again:
            # the thread failed where the fault interrupted it, and has_raised() is not asked.
            return self.sender in own and (self.number in _FAULTS or has_raised())
        return self.code > 0 and self.number in _FAULTS


def _words(data: bytes, size: int, byte_order: ByteOrder) -> list[int]:
    return [int.from_bytes(data[offset : offset + size], byte_order) for offset in range(0, len(data) - size + 1, size)]


def parse_files(
    data: Bytes, pointer_size: int, byte_order: ByteOrder, start: int = 0, end: int | None = None
) -> list[FileMapping]:
    """Return the mappings of the ``NT_FILE`` note from *start* to *end* of *data*, in its order.

    The note holds a count, the page size, then start, end and offset in pages of each mapping, then NUL-terminated
    names. A name longer than PATH_MAX is cut off.

    :raises MalformedFile: if the note is too short for its count, or the count is absurd
    """
    end = len(data) if end is None else end
    if end - start < 2 * pointer_size:
        raise MalformedFile(f"NT_FILE note has {end - start} bytes, fewer than its header")
    rows = start + 2 * pointer_size
    count, page_size = _words(bytes(data[start:rows]), pointer_size, byte_order)
    names_start = rows + 3 * count * pointer_size
    if names_start > end:
        raise MalformedFile(f"NT_FILE note names {count} mappings, {end - start} bytes cannot hold them")
    if count > limits.MAX_MAPPINGS:
        raise MalformedFile(f"NT_FILE note names {count} mappings")
    layout = struct.Struct(("<" if byte_order == "little" else ">") + 3 * {4: "I", 8: "Q"}[pointer_size])
    names = _Names(data, names_start, end)
    mappings: list[FileMapping] = []
    for first, last, offset in layout.iter_unpack(bytes(data[rows:names_start])):
        name = names.next()
        if name is None:
            raise MalformedFile(f"NT_FILE note names {count} mappings and only {len(mappings)} files")
        mappings.append(FileMapping(first, last, offset * page_size, name))
    return mappings


class _Names:
    # Consecutive NUL-terminated strings. Equal strings share one str object.

    def __init__(self, data: Bytes, at: int, end: int) -> None:
        self._data = data
        self._at = at
        self._end = end
        self._known: dict[bytes, str] = {}

    def next(self) -> str | None:
        data, position, end = self._data, self._at, self._end
        if position > end:
            return None
        limit = min(position + limits.MAX_PATH, end)
        stop = data.find(b"\0", position, limit)
        is_cut = stop < 0 and limit < end
        raw = bytes(data[position : limit if stop < 0 else stop])
        if is_cut:
            stop = data.find(b"\0", limit, end)
        self._at = (end if stop < 0 else stop) + 1
        name = self._known.get(raw)
        if name is None:
            name = raw.decode("utf-8", "surrogateescape")
            self._known[raw] = name
        # With the "…", a name that was cut off is the name of no file.
        return f"{name}…" if is_cut else name


def parse_auxv(data: bytes, pointer_size: int, byte_order: ByteOrder) -> dict[int, int]:
    """Return the auxiliary vector of an ``NT_AUXV`` note by type (``AT_*``), up to its ``AT_NULL``."""
    words = _words(data, pointer_size, byte_order)
    vector: dict[int, int] = {}
    for kind, value in zip(words[::2], words[1::2], strict=False):
        if kind == AT_NULL:
            break
        vector[kind] = value
    return vector


def parse_command(data: bytes) -> str:
    """Return the command line of an ``NT_PRPSINFO`` note: at most 80 bytes, because the kernel cuts it. If it is empty,
    return the program's name.

    :raises MalformedFile: if the note is too short to hold one
    """
    if len(data) < _FNAME_SIZE + _PSARGS_SIZE:
        raise MalformedFile(f"NT_PRPSINFO note has {len(data)} bytes")
    arguments = bytes(data[-_PSARGS_SIZE:]).split(b"\0", 1)[0].strip()
    name = bytes(data[-_PSARGS_SIZE - _FNAME_SIZE : -_PSARGS_SIZE]).split(b"\0", 1)[0]
    return (arguments or name).decode("utf-8", "surrogateescape")


def parse_process_note(data: bytes, pid_at: int, pointer_size: int, byte_order: ByteOrder) -> ProcessNote:
    """Return flags and parent of an ``NT_PRPSINFO`` note that is long enough for them.

    :param pid_at: the offset of ``pr_pid``; ``pr_ppid`` follows it, ``pr_flag`` is the second word of the note
    """
    flags, parent = data[pointer_size : 2 * pointer_size], data[pid_at + 4 : pid_at + 8]
    return ProcessNote(int.from_bytes(flags, byte_order), int.from_bytes(parent, byte_order))


def parse_status_note(data: bytes, pid_at: int, pointer_size: int, byte_order: ByteOrder) -> StatusNote:
    """Return signals and times of an ``NT_PRSTATUS`` note that is long enough for the registers.

    :param pid_at: the offset of ``pr_pid``. Before it are the two masks of signals. After it are three more numbers of
        4 bytes, then the times in seconds and microseconds
    """
    words = _words(data[pid_at - 2 * pointer_size : pid_at], pointer_size, byte_order)
    user, user_us, system, system_us = _words(
        data[pid_at + PR_IDS : pid_at + PR_IDS + 4 * pointer_size], pointer_size, byte_order
    )
    return StatusNote(words[0], words[1], (user + system) * 1_000_000_000 + (user_us + system_us) * 1_000)


def format_status_note(status: StatusNote, pointer_size: int, byte_order: ByteOrder) -> tuple[bytes, bytes]:
    """Return the bytes of the masks before ``pr_pid`` in an ``NT_PRSTATUS`` note, and the bytes of the times after the
    numbers.
    """
    word = 8 * pointer_size
    masks = b"".join((mask % (1 << word)).to_bytes(pointer_size, byte_order) for mask in status[:2])
    seconds, nanoseconds = divmod(status.time_ns or 0, 1_000_000_000)
    times = (seconds % (1 << (word - 1)), nanoseconds // 1_000)
    return masks, b"".join(number.to_bytes(pointer_size, byte_order) for number in times)


def parse_siginfo(data: bytes, pointer_size: int, byte_order: ByteOrder) -> SignalInfo:
    """Return the signal of an ``NT_SIGINFO`` note. If the note is cut short, only the number is known.

    :raises MalformedFile: if the note is too short for a number
    """
    if len(data) < 4:
        raise MalformedFile(f"NT_SIGINFO note has {len(data)} bytes")
    union = -(-(_SI_CODE + 4) // pointer_size) * pointer_size
    number = int.from_bytes(data[:4], byte_order, signed=True)
    if len(data) < union + pointer_size:
        return SignalInfo(number)
    code = int.from_bytes(data[_SI_CODE : _SI_CODE + 4], byte_order, signed=True)
    if code == _UNKNOWN_CODE:
        return SignalInfo(number)
    sender = int.from_bytes(data[union : union + 4], byte_order, signed=True)
    return SignalInfo(number, code, sender, int.from_bytes(data[union : union + pointer_size], byte_order))


def format_siginfo(info: SignalInfo, pointer_size: int, byte_order: ByteOrder, *, by_address: bool) -> bytes:
    """Return the ``NT_SIGINFO`` note, with 128 bytes like the kernel's.

    :param by_address: whether the union holds ``si_addr``; otherwise it holds ``si_pid``
    """
    code = _UNKNOWN_CODE if info.code is None else info.code
    head = b"".join(number.to_bytes(4, byte_order, signed=True) for number in (info.number, 0, code))
    head += bytes(-len(head) % pointer_size)
    if by_address:
        head += (info.address or 0).to_bytes(pointer_size, byte_order)
    else:
        head += (info.sender or 0).to_bytes(4, byte_order, signed=True)
    return head.ljust(128, b"\0")


def parse_descriptors(data: bytes, byte_order: ByteOrder) -> dict[int, int]:
    """Return the base addresses of the segments in an ``NT_386_TLS`` note, by descriptor number.

    :raises MalformedFile: if the note's size is no multiple of a descriptor's size
    """
    layout = struct.Struct(("<" if byte_order == "little" else ">") + _DESCRIPTOR)
    if len(data) % layout.size:
        raise MalformedFile(f"NT_386_TLS note has {len(data)} bytes")
    return {number: base for number, base, _, _ in layout.iter_unpack(data)}


def format_descriptor(number: int, base: int, byte_order: ByteOrder) -> bytes:
    """Return the ``NT_386_TLS`` note of one segment of 4 GB that begins at *base*."""
    layout = struct.Struct(("<" if byte_order == "little" else ">") + _DESCRIPTOR)
    return layout.pack(number, base, _DESCRIPTOR_LIMIT, _DESCRIPTOR_FLAGS)


def format_extract(start: int, extract: bytes) -> bytes:
    """Return the note of the *extract* of the module at *start*."""
    return start.to_bytes(EXTRACT_HEADER, "little") + extract


def parse_extract(data: bytes) -> int:
    """Return the module's start address in an extract note; the extract follows :data:`EXTRACT_HEADER` bytes.

    :raises MalformedFile: if the note is too short to hold one
    """
    if len(data) < EXTRACT_HEADER:
        raise MalformedFile(f"a note with a module's file has {len(data)} bytes")
    return int.from_bytes(data[:EXTRACT_HEADER], "little")
