"""Parse the texts of Linux's ``/proc/PID`` (proc(5)): mappings, status, and the call that blocks a thread.

Lines end with a newline. In names the kernel escapes newlines, but no other line separators.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ompd.binary.core.notes import FileMapping
from ompd.errors import MalformedFile
from ompd.records import record

DELETED = " (deleted)"
# include/linux/sched.h, in field "flags" of stat
PF_KTHREAD, PF_IO_WORKER, PF_FORKNOEXEC = 0x00200000, 0x00000010, 0x00000040


@record
class MemoryMapping:
    """A line of ``maps``. *name* is a path, a name in brackets, or "" for anonymous memory. *is_shared* is True if
    other processes may map the same memory.
    """

    start: int
    end: int
    is_readable: bool
    is_writable: bool
    is_executable: bool
    offset: int
    name: str
    is_shared: bool = False

    @property
    def is_file(self) -> bool:
        """Whether the line maps a file on disk, as mappings of modules do. Devices do not count."""
        return self.name.startswith("/") and not self.name.startswith("/dev/")


def parse_maps(text: bytes) -> list[MemoryMapping]:
    """Return the mappings of ``maps``, by address.

    :raises MalformedFile: if a line is malformed
    """
    mappings = []
    for line in text.removesuffix(b"\n").split(b"\n") if text else ():
        # address range, permissions, offset, device, inode, and, after spaces, the name, in which \\012 stands for a
        # newline
        fields = line.split(None, 5)
        try:
            start, _, end = fields[0].partition(b"-")
            permissions, offset = fields[1], int(fields[2], 16)
            name = fields[5].replace(b"\\012", b"\n") if len(fields) > 5 else b""
            mapping = MemoryMapping(
                int(start, 16),
                int(end, 16),
                permissions[:1] == b"r",
                permissions[1:2] == b"w",
                permissions[2:3] == b"x",
                offset,
                name.decode("utf-8", "surrogateescape"),
                permissions[3:4] == b"s",
            )
        except (IndexError, ValueError) as error:
            raise MalformedFile(f"a line of maps is {line[:80]!r}") from error
        mappings.append(mapping)
    return mappings


def file_mappings(mappings: Sequence[MemoryMapping]) -> list[FileMapping]:
    """Return the mappings of files, as ``NT_FILE`` of a core lists them."""
    return [FileMapping(m.start, m.end, m.offset, m.name) for m in mappings if m.is_file]


def parse_status(text: bytes) -> dict[str, str]:
    """Return the lines of ``status`` by their names."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").split("\n"))
    return {name: value.strip() for name, colon, value in lines if colon}


class ThreadStat(NamedTuple):
    """Fields of ``stat`` of a process or thread.

    ``name`` is the name by the kernel, ``state`` the letter of the state, ``parent`` the parent's process id.
    ``major_faults`` are the page faults that waited for a disk. ``ticks`` is the processor time, of user and kernel
    together, in clock ticks. ``threads`` is the number of the process's threads, ``start_time`` is in clock ticks since
    boot.
    """

    name: str
    state: str
    parent: int
    flags: int
    major_faults: int
    ticks: int
    threads: int
    start_time: int


def parse_stat(text: bytes) -> ThreadStat:
    """Return the needed fields of ``stat``. Its second field is a name that may contain spaces and parentheses.

    :raises MalformedFile: if a needed field is missing
    """
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    try:
        return ThreadStat(
            name=head[head.index(b"(") + 1 :].decode("utf-8", "replace"),
            state=fields[0].decode("ascii"),
            parent=int(fields[1]),
            flags=int(fields[6]),
            major_faults=int(fields[9]),
            ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            start_time=int(fields[19]),
        )
    except (IndexError, ValueError) as error:
        raise MalformedFile(f"stat is {text[:80]!r}") from error


def find_connection(table: bytes, inode: int) -> str | None:
    """Return the ends of the socket with the number *inode* in a table of ``net``: for TCP and UDP the local and the
    remote address, for Unix sockets the name. None if the socket is not in the table or has no name.

    The kernel does not escape newlines in names of Unix sockets, so a name may contain a forged line about any other
    socket. The result is therefore None if two lines have the number.
    """
    claims = [fields for fields in map(_socket_fields, table.split(b"\n")[1:]) if fields[0] == b"%d" % inode]
    if len(claims) != 1:
        return None
    _, *ends_and_state = claims[0]
    if len(ends_and_state) < 3:
        return ends_and_state[0].decode("utf-8", "replace") if ends_and_state else None
    local, remote, state = ends_and_state
    try:
        return f"{_address(local)} listening" if state == b"0A" else f"{_address(local)} to {_address(remote)}"
    except ValueError:
        return None


def _socket_fields(line: bytes) -> list[bytes]:
    # The inode in a line, then, for TCP and UDP, both addresses and the state, for a Unix socket its name, if any.
    fields = line.split(None, 10)
    if b":" in (fields[1] if len(fields) > 9 else b""):
        return [fields[9], *fields[1:4]]
    return line.split(None, 7)[6:] or [b""]


def _address(text: bytes) -> str:
    # The text has the address's words in hexadecimal, each in the machine's byte order, then the port.
    address, _, port = text.partition(b":")
    words = [bytes.fromhex(address[offset : offset + 8].decode())[::-1] for offset in range(0, len(address), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return f"{'.'.join(map(str, raw))}:{int(port, 16)}"
    parts = (f"{int.from_bytes(raw[offset : offset + 2], 'big'):x}" for offset in range(0, len(raw), 2))
    return f"[{':'.join(parts)}]:{int(port, 16)}"


def parse_syscall(text: bytes) -> tuple[int, int] | None:
    """Return stack pointer and program counter of a blocked thread, None for a running thread.

    They are the last two words of ``syscall``, whether a system call or a page fault blocks the thread.
    """
    words = text.split()
    if len(words) < 3:
        return None
    try:
        return int(words[-2], 16), int(words[-1], 16)
    except ValueError:
        return None


def parse_syscall_arguments(text: bytes) -> tuple[int, ...]:
    """Return number and arguments of the system call that blocks a thread, from ``syscall``. Empty without a system
    call.
    """
    words = text.split()
    try:
        number = int(words[0])
        return (number, *(int(word, 16) for word in words[1:-2])) if number >= 0 and len(words) == 9 else ()
    except (IndexError, ValueError):
        return ()


class TaskStatus(NamedTuple):
    """Fields of ``status``: signals pending for the thread and for the process, and signals that the thread blocks, as
    masks in which bit 0 is signal 1.
    """

    pending: int
    shared: int
    blocked: int


def parse_signals(text: bytes) -> TaskStatus:
    """Return the masks of signals in ``status``.

    :raises MalformedFile: if ``status`` has no masks
    """
    lines = parse_status(text)
    try:
        return TaskStatus(*(int(lines[name], 16) for name in ("SigPnd", "ShdPnd", "SigBlk")))
    except (KeyError, ValueError) as error:
        raise MalformedFile(f"status is {text[:80]!r}") from error


class Timer(NamedTuple):
    """A timer in ``timers``: the ``signal`` that it sends, 0 for none; the ``thread`` that receives the signal, None
    for any thread; and the number of its ``clock``.
    """

    signal: int
    thread: int | None
    clock: int


def parse_timers(text: bytes) -> list[Timer]:
    """Return the timers of ``timers``. The file does not show whether a timer is armed.

    :raises MalformedFile: if a line is malformed
    """
    timers: list[Timer] = []
    try:
        for entry in re.split(rb"(?m)^ID:", text)[1:]:
            lines = dict(line.partition(b":")[::2] for line in entry.split(b"\n")[1:])
            how, _, where = lines[b"notify"].strip().partition(b"/")
            kind, _, task = where.partition(b".")
            number = int(lines[b"signal"].strip().partition(b"/")[0]) if how != b"none" else 0
            timers.append(Timer(number, int(task) if kind == b"tid" else None, int(lines[b"ClockID"])))
    except (KeyError, ValueError) as error:
        raise MalformedFile(f"timers is {text[:80]!r}") from error
    return timers
