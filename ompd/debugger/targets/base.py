"""What a kind of target has to give. It is small on purpose: all else is written once, for every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ompd.binary.core.notes import AT_PAGESZ, FileMapping, ProcessNote, SignalInfo, StatusNote
from ompd.errors import MemoryFault
from ompd.isa.architecture import Architecture
from ompd.records import record

_SMALLEST_PAGE, _LARGEST_PAGE = 1 << 12, 1 << 16  # of all processors that Linux runs on


class PageOmitted(MemoryFault):
    """The target left this memory out although it was mapped: unchanged pages of a file, which the file still holds."""


class Loss(NamedTuple):
    """What a target has lost of what it was meant to hold, as a core that was cut off.

    ``what`` is a sentence for people. ``threads`` says whether threads of the process may be missing in
    :meth:`Target.thread_ids`, ``files`` whether :meth:`Target.mappings` is unknown. ``since`` is when the target was
    last written, in seconds since 1970: a file that is younger is hardly the one that ran.
    """

    what: str
    threads: bool
    files: bool
    since: float | None = None


@record
class MemoryRegion:
    """A stretch of the process's memory from *start* to *end*; *flags* are those of a program header (``PF_R`` …)."""

    start: int
    end: int
    flags: int


class PartialRegisters(dict[str, int]):
    """The registers of a sleeping thread that was not stopped, as far as ``/proc`` has them.

    :param values: the known registers
    :param on_want: called when an answer needs another one
    """

    def __init__(self, values: Mapping[str, int], on_want: Callable[[], None]) -> None:
        super().__init__(values)
        self.want = on_want


class Target(Protocol):
    """One stopped process."""

    @property
    def kind(self) -> str:
        """``core``, ``live``, ``lldb`` or ``gdb``."""

    @property
    def name(self) -> str:
        """What the user called it: the core's file name, a process id."""

    @property
    def architecture(self) -> Architecture:
        """The processor's table."""

    @property
    def process_id(self) -> int | None:
        """The operating system's identifier of the process, None if the target does not say."""

    @property
    def command(self) -> str | None:
        """The command line as far as the target keeps it, None if it does not."""

    @property
    def signal(self) -> int | None:
        """The signal that ended or stopped the process, None without one."""

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return what the target keeps of the signal that *thread* took, None if it took none.

        A stop that a debugger made is no signal. A process that runs has taken none that ended it.

        :raises Unavailable: if the target does not say
        """

    @property
    def loss(self) -> Loss | None:
        """What is missing, None if the target is whole. A part that is not there is no fact about the process."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address*.

        :raises PageOmitted: if some of them were mapped from a file and left out
        :raises MemoryFault: if some of them are not available
        """

    def check(self) -> None:
        """Raise what :meth:`read` raises once the process has run; a target that keeps its moment never raises.

        :raises StaleHandle: if the process has run since
        """

    def thread_ids(self) -> Sequence[int]:
        """Return the operating system's identifiers of all threads."""

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread* by the architecture's names.

        :raises BadInput: if there is no such thread
        """

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings that come from files, by address."""

    def segment_starts(self) -> Sequence[int]:
        """Return where stretches of memory begin that the target holds: where modules may begin if nothing names them.

        Empty if the target does not say.
        """

    def regions(self) -> Sequence[MemoryRegion]:
        """Return all that was mapped, by address, as far as the target says, none over another."""

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return what the target itself holds of the file of the module at *start*, None if it holds nothing.

        :param kind: ``NT_OMPD_FILE`` or ``NT_OMPD_DEBUG_FILE``
        """

    def proc_text(self, path: str) -> bytes:
        """Return what Linux says of the process in ``/proc/PID/`` at *path*; of a link of ``fd`` what it refers to.

        :raises Unavailable: if the target is no process of this machine, or it cannot be read
        """

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return what a core's ``NT_PRSTATUS`` note says of *thread* besides its registers; None if nothing does."""

    def noted_process(self) -> ProcessNote | None:
        """Return what a core's ``NT_PRPSINFO`` note says besides the command line; None if nothing does."""

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return what the kernel told the program at its start, by ``AT_*``; empty if the target does not keep it."""

    def close(self) -> None:
        """Let go of the target."""


def page_size(target: Target) -> int:
    """Return the size of the target's pages in bytes, by its auxiliary vector; 4096 if that does not say."""
    size = target.auxiliary_vector().get(AT_PAGESZ, _SMALLEST_PAGE)
    is_possible = _SMALLEST_PAGE <= size <= _LARGEST_PAGE and size & (size - 1) == 0
    return size if is_possible else _SMALLEST_PAGE
