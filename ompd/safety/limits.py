"""How much work and memory a file may cause: as much as its bytes justify, those that are on a disk and were read.

A file's own numbers are claims. Whoever makes a buffer, a list or a walk by one asks here first; a test reads the code
for those who do not. What a format itself bounds (the members of a structure, the depth of a tree) stays beside the
code that reads it.
"""

from __future__ import annotations

from ompd.errors import MalformedFile

# What is small is never asked about: a process has hundreds of modules, and each some dozen tables.
FREE_BYTES = 1 << 20
# A copy has at most so many bytes for each that is on the disk: the rest of it is holes, which cost whoever made the
# file nothing. File systems that compress come to less.
COPY_RATIO = 4
ALWAYS_COPIED = 4 << 20
# To be read from end to end, piece by piece, without being kept.
READ_RATIO, ALWAYS_READ = 32, 16 << 20

# Debug information becomes a third to a twentieth. What becomes much less is made to fill memory.
INFLATED_RATIO, ALWAYS_INFLATED = 64, 4 << 20
MAX_INFLATED = 1 << 30

# A core, unpacked into a file: what is not zeros takes room on a disk. Programs fill large arrays with one number, so
# more is likely here than elsewhere.
UNPACKED_RATIO, ALWAYS_UNPACKED = 256, 1 << 30
# Compressed files are made of pieces. A real piece holds something; empty ones are there to cost time.
FREE_MEMBERS, MEMBER_BYTES = 4096, 256
# What other programs of the machine find left on the disk.
KEPT_FREE = 64 << 20

# Names are as long as whoever wrote the file likes. The kernel opens none of a file that is longer than PATH_MAX.
MAX_PATH = 4096
# Linux allows some 65,000 mappings unless configured otherwise (vm.max_map_count), and people do configure that.
MAX_MAPPINGS = 1 << 20
# Sections that are looked for have names of some dozen bytes.
MAX_SECTION_NAME = 256
MAX_NOTE_OWNER = 64
# Of a note of one thread: the largest, XSAVE's, has some ten thousand bytes, and is not read.
MAX_NOTE = 1 << 16
# Modules have one table of their symbols, and one of those that others may use.
MAX_SYMBOL_TABLES = 8
# Names may share their ends: a table of n bytes can hold names of n * n. Those of real tables share some.
NAME_RATIO, FREE_NAME_BYTES = 2, 16 << 20
LONG_NAME = 1 << 10

# Bytes of line tables that are run: of a process's stacks those of some dozen source files are wanted.
LINE_BYTES, LINE_RATIO = 4 << 20, 2
# Runs of code (sequences) in the line tables of a file, and names of files in one table. A unit of C++ has thousands.
MAX_SEQUENCES, MAX_LINE_FILES = 1 << 19, 1 << 18

# The header of a unit of DWARF has so many bytes at least. Linkers fill gaps between units with zeros.
UNIT_HEADER, FREE_UNITS = 11, 1 << 12
# Entries of lists of ranges and locations; of the latter those of long lists alone are counted.
LIST_STEPS, LONG_LIST = 1 << 16, 1 << 8


class Budget:
    """What may be spent on one thing, in any unit, over all who want some of it.

    :param most: how much there is
    :param what: what it is too much of, for the error
    """

    __slots__ = ("left", "what")

    def __init__(self, most: int, what: str) -> None:
        self.left = most
        self.what = what

    def spend(self, amount: int) -> None:
        """Take some of it.

        :raises MalformedFile: if there is not so much left
        """
        self.left -= amount
        if self.left < 0:
            raise MalformedFile(self.what)


def may_copy(size: int, held: int) -> bool:
    """Return whether *size* bytes may be copied of which *held* are on a disk."""
    return size <= max(ALWAYS_COPIED, COPY_RATIO * held)


def may_read(size: int, held: int) -> bool:
    """Return whether *size* bytes may be read from end to end of which *held* are on a disk."""
    return size <= max(ALWAYS_READ, READ_RATIO * held)


def pages(held: int) -> int:
    """Return how many bytes of a file's segments are compared with memory, of a file with *held* bytes on a disk."""
    return max(ALWAYS_READ, READ_RATIO * held)


def inflated(packed: int) -> int:
    """Return how many bytes of memory *packed* compressed ones may become."""
    return min(MAX_INFLATED, max(ALWAYS_INFLATED, INFLATED_RATIO * packed))


def unpacked(packed: int) -> int:
    """Return how many bytes on a disk *packed* compressed ones may become, zeros aside."""
    return max(ALWAYS_UNPACKED, UNPACKED_RATIO * packed)


def members(unpacked_bytes: int) -> int:
    """Return of how many pieces a compressed file may be that holds so many bytes."""
    return FREE_MEMBERS + unpacked_bytes // MEMBER_BYTES


def names(table: int) -> int:
    """Return how many bytes all names have together, at most, that a table of *table* bytes holds."""
    return FREE_NAME_BYTES + NAME_RATIO * table


def line_bytes(size: int) -> int:
    """Return how many bytes of line tables are run of a file of *size* bytes, those that are run again too."""
    return LINE_BYTES + size // LINE_RATIO


def list_steps(size: int) -> int:
    """Return how many entries of lists are walked where there is room for *size*: lists may share their bytes."""
    return LIST_STEPS + size


def note_bytes(size: int) -> int:
    """Return how many bytes of notes are read of a file of *size* bytes: twice its size, since a note may be found both
    by a segment and by a section.
    """
    return FREE_BYTES + 2 * size
