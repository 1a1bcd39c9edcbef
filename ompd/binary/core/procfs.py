"""The texts of Linux's ``/proc/PID`` (proc(5)): mappings, status, where a thread is blocked. Bytes in, facts out."""

from __future__ import annotations

import re
from typing import NamedTuple

from ompd.binary.core.notes import FileMapping
from ompd.errors import MalformedFile
from ompd.records import record

DELETED = " (deleted)"
PF_KTHREAD = 0x00200000  # include/linux/sched.h, in field "flags" of stat
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")


@record
class MemoryMapping:
    """A line of ``maps``. *name* is a path, a name in brackets, or "" for anonymous memory."""

    start: int
    end: int
    is_readable: bool
    is_writable: bool
    is_executable: bool
    offset: int
    name: str

    @property
    def is_file(self) -> bool:
        """Whether a file of the disk is mapped, which a module may be; devices are not."""
        return self.name.startswith("/") and not self.name.startswith("/dev/")


def parse_maps(text: bytes) -> list[MemoryMapping]:
    """Return the mappings of ``maps``, by address.

    :raises MalformedFile: if a line is not one of a mapping
    """
    found = []
    for line in text.splitlines():
        # address range, permissions, offset, device, inode, and behind spaces the name with \\012 for a newline
        fields = line.split(None, 5)
        try:
            start, _, end = fields[0].partition(b"-")
            permissions, offset = fields[1], int(fields[2], 16)
            name = _ESCAPE.sub(lambda m: bytes((int(m[1], 8),)), fields[5]) if len(fields) > 5 else b""
            mapping = MemoryMapping(
                int(start, 16),
                int(end, 16),
                permissions[:1] == b"r",
                permissions[1:2] == b"w",
                permissions[2:3] == b"x",
                offset,
                name.decode("utf-8", "surrogateescape"),
            )
        except (IndexError, ValueError) as error:
            raise MalformedFile(f"a line of maps is {line[:80]!r}") from error
        found.append(mapping)
    return found


def file_mappings(mappings: list[MemoryMapping]) -> list[FileMapping]:
    """Return those that come from files, as ``NT_FILE`` of a core has them."""
    return [FileMapping(m.start, m.end, m.offset, m.name) for m in mappings if m.is_file]


def parse_status(text: bytes) -> dict[str, str]:
    """Return the lines of ``status`` by their names."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


class ThreadStat(NamedTuple):
    """Of ``stat``: the letter of the state, the flags of the task, when it started in ticks since boot."""

    state: str
    flags: int
    start_time: int


def parse_stat(text: bytes) -> ThreadStat:
    """Return what is needed of ``stat``, whose second field may hold anything, also spaces and parentheses.

    :raises MalformedFile: if it is shorter than that
    """
    fields = text.rpartition(b")")[2].split()
    try:
        return ThreadStat(fields[0].decode("ascii"), int(fields[6]), int(fields[19]))
    except (IndexError, ValueError) as error:
        raise MalformedFile(f"stat is {text[:80]!r}") from error


def parse_syscall(text: bytes) -> tuple[int, int] | None:
    """Return stack pointer and program counter of a thread that is blocked, None of one that runs.

    They are the last two words of ``syscall``, whether a system call or a page fault blocks it.
    """
    words = text.split()
    if len(words) < 3:
        return None
    try:
        return int(words[-2], 16), int(words[-1], 16)
    except ValueError:
        return None
