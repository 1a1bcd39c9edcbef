"""The interface of all kinds of targets. All other code is the same for every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ompd.binary.core.notes import AT_PAGESZ, FileMapping, ProcessNote, SignalInfo, StatusNote
from ompd.binary.core.procfs import MemoryMapping
from ompd.binary.elf.elf import PF_R, PF_W, PF_X
from ompd.errors import MemoryFault
from ompd.isa.architecture import Architecture
from ompd.records import record

_SMALLEST_PAGE, _LARGEST_PAGE = 1 << 12, 1 << 16  # on all processors that Linux supports


class PageOmitted(MemoryFault):
    """The memory was mapped, but the target omits it, as cores omit unchanged pages of mapped files."""


class Loss(NamedTuple):
    """The missing parts of a damaged target, such as a core that was cut off.

    ``what`` is a sentence for users. ``threads``: whether :meth:`Target.thread_ids` may lack threads of the process.
    ``files``: whether :meth:`Target.mappings` is unknown. ``since`` is when the target was last written, in seconds
    since 1970: a younger file is hardly the one that ran.
    """

    what: str
    threads: bool
    files: bool
    since: float | None = None


@record
class MemoryRegion:
    """Mapped memory from *start* to *end*, with the *flags* of a program header (``PF_R`` …).

    *is_shared* is whether other processes may map the same memory, None if the target does not show it.
    """

    start: int
    end: int
    flags: int
    is_shared: bool | None = None


class PartialRegisters(dict[str, int]):
    """The registers that ``/proc`` shows of a sleeping thread that was not stopped.

    :param values: the known registers
    :param wanted: the threads whose other registers an answer needs; :meth:`want` adds this one
    """

    def __init__(self, values: Mapping[str, int], thread: int, wanted: set[int]) -> None:
        super().__init__(values)
        self._thread, self._wanted = thread, wanted

    def want(self) -> None:
        """Note that an answer needs a register that is not among these."""
        self._wanted.add(self._thread)


class Target(Protocol):
    """One stopped process."""

    @property
    def kind(self) -> str:
        """``core``, ``live``, ``lldb`` or ``gdb``."""

    @property
    def name(self) -> str:
        """The target's name for users: the core's file name, or a process's number."""

    @property
    def architecture(self) -> Architecture:
        """The processor's architecture."""

    @property
    def process_id(self) -> int | None:
        """The operating system's identifier of the process, None if it is unknown."""

    @property
    def command(self) -> str | None:
        """The command line, perhaps truncated, None if it is unknown."""

    @property
    def signal(self) -> int | None:
        """The signal that ended or stopped the process, None if there was none."""

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return the details of the signal that *thread* took, None if it took none.

        A debugger's stop does not count as a signal. For a process that still runs, the result is None.

        :raises Unavailable: if it is unknown
        """

    @property
    def loss(self) -> Loss | None:
        """The missing parts, None if the target is whole. The process may have had any contents in a missing part."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address*.

        :raises PageOmitted: if some of these bytes were mapped, and the target omits them
        :raises MemoryFault: if some of these bytes are not available for another reason
        """

    def check(self) -> None:
        """Check that the process has not run since this target was opened. Cores and copies always pass.

        :raises StaleHandle: if the process has run
        """

    def thread_ids(self) -> Sequence[int]:
        """Return the operating system's identifiers of all threads."""

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread* by the architecture's names.

        :raises BadInput: if there is no such thread
        """

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings of files, by address."""

    def segment_starts(self) -> Sequence[int]:
        """Return the start addresses of memory segments in the target. Modules without a name may begin at them.

        Empty if every module has a name.
        """

    def regions(self) -> Sequence[MemoryRegion]:
        """Return the known memory regions, by address, without overlaps."""

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return the extract of a module's file that a snapshot holds, None if the target has none.

        :param start: the module's start address
        :param kind: ``NT_OMPD_FILE`` or ``NT_OMPD_DEBUG_FILE``
        """

    def kept_source(self) -> bytes | None:
        """Return a snapshot's note with lines of source, None if the target has none.

        :raises MalformedFile: if it cannot be read
        """

    def proc_text(self, path: str) -> bytes:
        """Return the contents of the file at *path* in ``/proc/PID/``, or the target of a link in ``fd``.

        :raises Unavailable: if the process is not on this machine, or the file cannot be read
        """

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return the processor time and the signal masks in *thread*'s ``NT_PRSTATUS`` note, None without that note."""

    def noted_process(self) -> ProcessNote | None:
        """Return the contents of a core's ``NT_PRPSINFO`` note, without the command; None without such a note."""

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return the auxiliary vector by ``AT_*`` key, empty if it is unknown."""

    def close(self) -> None:
        """Close the target."""


def readable_regions(mappings: Sequence[MemoryMapping]) -> Sequence[MemoryRegion]:
    """Return the readable mappings among the kernel's, in their order."""
    return [
        MemoryRegion(
            m.start, m.end, PF_R | (PF_W if m.is_writable else 0) | (PF_X if m.is_executable else 0), m.is_shared
        )
        for m in mappings
        if m.is_readable
    ]


def page_size(target: Target) -> int:
    """Return the page size in bytes from the auxiliary vector, 4096 if it has no plausible one."""
    size = target.auxiliary_vector().get(AT_PAGESZ, _SMALLEST_PAGE)
    is_possible = _SMALLEST_PAGE <= size <= _LARGEST_PAGE and size & (size - 1) == 0
    return size if is_possible else _SMALLEST_PAGE
