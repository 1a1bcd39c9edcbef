"""Limits of work and memory for one file, in proportion to its bytes on disk.

A file's own numbers are claims. Code that allocates a buffer, builds a list or runs a loop by such a number checks it
against a limit here. Bounds of one format (members of a structure, depth of a tree) are beside the code that reads it.
"""

from __future__ import annotations

from ompd.errors import MalformedFile

# Small sizes are never checked: a process has hundreds of modules with some dozen tables each.
FREE_BYTES = 1 << 20
# The largest ratio of copied bytes to those of them on disk. A higher ratio means holes, which cost an attacker
# nothing. Compressing file systems stay below this ratio.
COPY_RATIO = 4
ALWAYS_COPIED = 4 << 20
# The same two limits for a file that is read in pieces, none of which is kept.
READ_RATIO, ALWAYS_READ = 32, 16 << 20

# Debug information is compressed to between a third and a twentieth. A much higher ratio is an attack on memory.
INFLATED_RATIO, ALWAYS_INFLATED = 64, 4 << 20
MAX_INFLATED = 1 << 30

# A compressed core is unpacked into a file on disk; its zeros take no space there. Programs fill large arrays with one
# number, so a core's ratio can be higher than that of debug information.
UNPACKED_RATIO, ALWAYS_UNPACKED = 256, 1 << 30
# The number of members in a compressed file. Real members are not empty; many empty ones would only cost time.
FREE_MEMBERS, MEMBER_BYTES = 4096, 256
# Bytes to leave free on the disk.
KEPT_FREE = 64 << 20

# The kernel opens no file name longer than PATH_MAX.
MAX_PATH = 4096
# Linux allows some 65,000 mappings by default, and users raise that limit (vm.max_map_count).
MAX_MAPPINGS = 1 << 20
# Longer names are cut off: the sections that we look for have names of some dozen bytes.
MAX_SECTION_NAME = 256
MAX_NOTE_OWNER = 64
# The largest note of a thread, XSAVE's, has some ten thousand bytes, and is not read.
MAX_NOTE = 1 << 16
# Real modules have at most two, .symtab and .dynsym.
MAX_SYMBOL_TABLES = 8
# Names may share their ends, so a string table of n bytes can hold n * n bytes of names. In real tables few names do.
NAME_RATIO, FREE_NAME_BYTES = 2, 16 << 20
LONG_NAME = 1 << 10

# Bytes of line number programs to run: the stacks of a process need the programs of some dozen source files.
LINE_BYTES, LINE_RATIO = 4 << 20, 2
# Sequences in the line tables of a file, and file names in one table. A C++ unit has thousands.
MAX_SEQUENCES, MAX_LINE_FILES = 1 << 19, 1 << 18

# The least size of a DWARF unit header. Linkers fill gaps between units with zeros.
UNIT_HEADER, FREE_UNITS = 11, 1 << 12
# Entries to read in range and location lists. The first LONG_LIST entries of a location list are not counted.
LIST_STEPS, LONG_LIST = 1 << 16, 1 << 8


class Budget:
    """An allowance shared by all users of one resource, in any unit.

    :param most: the allowance
    :param what: the message of the error if it is exceeded
    """

    __slots__ = ("left", "what")

    def __init__(self, most: int, what: str) -> None:
        self.left = most
        self.what = what

    def spend(self, amount: int) -> None:
        """Take *amount* from the allowance.

        :raises MalformedFile: if less is left
        """
        self.left -= amount
        if self.left < 0:
            raise MalformedFile(self.what)


def may_copy(size: int, held: int) -> bool:
    """Return whether *size* bytes may be copied if *held* of them are on disk."""
    return size <= max(ALWAYS_COPIED, COPY_RATIO * held)


def may_read(size: int, held: int) -> bool:
    """Return whether *size* bytes may be read in pieces if *held* of them are on disk."""
    return size <= max(ALWAYS_READ, READ_RATIO * held)


def pages(held: int) -> int:
    """Return how many bytes of segments may be compared with memory if *held* bytes of the file are on disk."""
    return max(ALWAYS_READ, READ_RATIO * held)


def inflated(packed: int) -> int:
    """Return how many bytes of memory *packed* compressed bytes may take when they are inflated."""
    return min(MAX_INFLATED, max(ALWAYS_INFLATED, INFLATED_RATIO * packed))


def unpacked(packed: int) -> int:
    """Return how many bytes of disk *packed* compressed bytes may take when they are unpacked. Zeros do not count."""
    return max(ALWAYS_UNPACKED, UNPACKED_RATIO * packed)


def members(unpacked_bytes: int) -> int:
    """Return how many members a compressed file may have that unpacks to *unpacked_bytes*."""
    return FREE_MEMBERS + unpacked_bytes // MEMBER_BYTES


def names(table: int) -> int:
    """Return how many bytes all names in a string table of *table* bytes may have together."""
    return FREE_NAME_BYTES + NAME_RATIO * table


def line_bytes(size: int) -> int:
    """Return how many bytes of line number programs may be run in a file of *size* bytes, repeated runs included."""
    return LINE_BYTES + size // LINE_RATIO


def list_steps(size: int) -> int:
    """Return how many list entries may be read from a section with room for *size* entries. Lists may share their
    bytes, so more entries than that may be read.
    """
    return LIST_STEPS + size


def note_bytes(size: int) -> int:
    """Return how many bytes of notes may be read in a file of *size* bytes.

    It is twice the size, because a note may be found by a segment and by a section.
    """
    return FREE_BYTES + 2 * size
