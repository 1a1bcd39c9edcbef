"""ELF core files. Cores of the Linux kernel have their notes first, are sparse, and omit clean pages. Cores of gdb's
gcore have their notes last.
"""

from __future__ import annotations

import os
import signal
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate

from ompd.binary.core import notes
from ompd.binary.core.notes import FileMapping, ProcessNote, SignalInfo, StatusNote
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.elf import (
    ElfFile,
    NotePlace,
    Segment,
    check_elf_magic,
    iter_note_places,
    parse_header,
    sizeof_header,
    sizeof_segment,
)
from ompd.contract.memory import ByteOrder
from ompd.debugger.targets.base import Loss, MemoryRegion, PageOmitted
from ompd.errors import BadFile, BadInput, MalformedFile, MemoryFault, TargetGone, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.processors import ARCHITECTURES, MACHINE_NAMES
from ompd.safety import limits
from ompd.safety.reading import PagedFile, open_paged

# The hint in the error for a file that is no core.
_HOW_TO_GET_A_CORE = (
    "give an ELF core file: the kernel writes one when a program aborts (ulimit -c unlimited),"
    " gcore PID writes one of a running program"
)
_CUT_OFF = "copy the core again completely, or have it written where disk and quota have room for it"
_ET_NAMES = {1: "an object file", 2: "an executable", 3: "an executable or a shared library"}
_READ_AHEAD = 64 << 20
_NOTE_HEADER = 12  # n_namesz, n_descsz, n_type


class CoreTarget:
    """A core file. Only the requested parts of it are read.

    A core that is cut off behind its program headers can be opened, and has a :attr:`loss`.

    :param data: the core that was unpacked from the file at *path*; None if that file is the core itself
    :raises BadFile: if *path* is no readable ELF core of a supported architecture
    """

    kind = "core"

    def __init__(self, path: str, data: PagedFile | None = None) -> None:
        self.name = path
        try:
            self.file = data if data is not None else open_paged(path)
        except BadFile as error:
            raise BadFile(path, error.fault, hint=error.hint or _HOW_TO_GET_A_CORE) from error
        self.loss: Loss | None = None
        try:
            self._elf = self._open_elf(path)
            self.architecture = self._find_architecture(path)
            self._read_notes(path)
            self.loss = self._find_loss()
        except MalformedFile as error:
            self.close()
            raise BadFile(path, f"is a damaged core file: {error}", hint="take or copy the core again") from error
        except BadFile:
            self.close()
            raise
        loads = (s for s in self._elf.segments if s.p_type == gabi.PT_LOAD and s.p_memsz)
        self._loads = sorted(loads, key=lambda s: s.p_vaddr)
        self._starts = [s.p_vaddr for s in self._loads]

    def _open_elf(self, path: str) -> ElfFile:
        if not check_elf_magic(self.file):
            raise BadFile(path, "is not an ELF file, so not a core file", hint=_HOW_TO_GET_A_CORE)
        elf = self._parse(path)
        if elf.e_type != gabi.ET_CORE:
            kind = _ET_NAMES.get(elf.e_type, f"an ELF file of type {elf.e_type}")
            raise BadFile(path, f"is {kind}, not a core file", hint=_HOW_TO_GET_A_CORE)
        return elf

    def _parse(self, path: str) -> ElfFile:
        data, size = self.file, len(self.file)
        if size < sizeof_header(data):
            raise BadFile(path, f"is cut off inside its ELF header: {size} bytes are left of it", hint=_CUT_OFF)
        header = parse_header(data, path)
        count: int | None = None
        if header.e_phnum == gabi.PN_XNUM and header.e_shoff >= size:
            # The number of segments is in a section header at the file's end, which is lost. But the notes follow the
            # program headers directly.
            count = self._count_up_to_notes(path)
        entry = sizeof_segment(header.ident_class)
        end = header.e_phoff + entry * (header.e_phnum if count is None else count)
        if header.e_phnum and header.e_phentsize == entry and (count or header.e_phnum != gabi.PN_XNUM) and end > size:
            raise BadFile(
                path,
                f"is cut off inside its program headers: {size} bytes are left of it, and they end at {end}",
                hint=_CUT_OFF,
            )
        return ElfFile(data, path, segment_count=count)

    def _count_up_to_notes(self, path: str) -> int:
        try:
            first = ElfFile(self.file, path, segment_count=1)
            room = first.segments[0].p_offset - first.e_phoff
        except (MalformedFile, IndexError):
            room = 0
        count, remainder = divmod(room, sizeof_segment(parse_header(self.file, path).ident_class))
        if remainder or count < gabi.PN_XNUM or first.segments[0].p_type != gabi.PT_NOTE:
            raise BadFile(
                path,
                f"is cut off: {len(self.file)} bytes are left, and the number of its program headers is at its end",
                hint=_CUT_OFF,
            )
        return count

    def _find_architecture(self, path: str) -> Architecture:
        machine = MACHINE_NAMES.get(self._elf.e_machine, f"machine number {self._elf.e_machine}")
        architecture = ARCHITECTURES.get(self._elf.e_machine)
        supported = ", ".join(a.name for a in ARCHITECTURES.values())
        hint = f"cores of these can be read: {supported}"
        if architecture is None:
            raise BadFile(path, f"is a core file of {machine}, which is not supported", hint=hint)
        if (self._elf.ident_class, self._elf.byte_order) != (architecture.elf_class, architecture.byte_order):
            form = f"{self._elf.ident_class}-bit {self._elf.byte_order}-endian"
            raise BadFile(path, f"is a {form} core file of {machine}, which is not supported", hint=hint)
        return architecture

    def _read_notes(self, path: str) -> None:
        arch = self.architecture
        pointer, order = arch.pointer_size, arch.byte_order
        self.process_id: int | None = None
        self._process: ProcessNote | None = None
        self.command: str | None = None
        self.signal: int | None = None
        self._prstatus: dict[int, bytes] = {}
        self._signals: dict[int, SignalInfo] = {}
        self._has_stray_signal = False  # whether a signal's thread is unknown, because the thread's own note is lost
        self._is_debuggers = False  # gdb's notes begin with the process, the kernel's with a thread
        self._descriptors: dict[int, bytes] = {}
        self._thread_of_notes: int | None = None  # the thread of the last NT_PRSTATUS, whose other notes follow
        descriptors = arch.descriptors.note if arch.descriptors is not None else None
        self._notes_are_cut = self._notes_have_holes = False
        self._mappings: list[FileMapping] = []
        self._auxv: dict[int, int] = {}
        self._extracts: dict[tuple[int, int], tuple[int, int]] = {}
        self._source_note: tuple[int, int] | None = None
        # A budget for bytes of notes: a crafted core may have overlapping notes, which would be read again and again.
        budget = limits.Budget(limits.FREE_BYTES + len(self.file), "its notes overlap")
        read = {notes.NT_PRSTATUS, notes.NT_PRPSINFO, notes.NT_SIGINFO, notes.NT_AUXV, notes.NT_FILE, descriptors}
        for segment in self._elf.segments:
            if segment.p_type != gabi.PT_NOTE or not segment.p_filesz:
                continue
            budget.spend(max(min(segment.p_filesz, len(self.file) - segment.p_offset), 0))
            for owner, kind, start, size, _ in self._iter_notes(segment, order):
                if owner == notes.OMPD_OWNER and kind in (notes.NT_OMPD_FILE, notes.NT_OMPD_DEBUG_FILE):
                    self._add_extract(kind, start, size)
                elif owner == notes.OMPD_OWNER and kind == notes.NT_OMPD_SOURCE:
                    self._source_note = start, size
                if owner not in ("CORE", "LINUX") or kind not in read:
                    continue
                if kind == notes.NT_FILE:
                    self._mappings = self._mappings or self._read_files(start, size)
                    continue
                if size > limits.MAX_NOTE:
                    raise MalformedFile(f"a note of type {kind:#x} has {size} bytes")
                desc = self.file[start : start + size]
                if kind == notes.NT_PRSTATUS:
                    self._add_thread(desc)
                elif kind == notes.NT_PRPSINFO and self.command is None:
                    self._is_debuggers = not self._prstatus and not self._notes_have_holes
                    self.command = notes.parse_command(desc)
                    self.process_id = int.from_bytes(desc[arch.prpsinfo_pid : arch.prpsinfo_pid + 4], order) or None
                    self._process = notes.parse_process_note(desc, arch.prpsinfo_pid, pointer, order)
                elif kind == notes.NT_SIGINFO:
                    self._add_signal(notes.parse_siginfo(desc, pointer, order))
                elif kind == notes.NT_AUXV and not self._auxv:
                    self._auxv = notes.parse_auxv(desc, pointer, order)
                elif kind == descriptors and self._thread_of_notes is not None:
                    notes.parse_descriptors(desc, order)  # raises if it is damaged
                    self._descriptors.setdefault(self._thread_of_notes, desc)
        if not self._prstatus and not self._notes_are_cut and not self._notes_have_holes:
            raise BadFile(path, "is a core file that names no threads", hint="take or copy the core again")

    def _read_files(self, start: int, size: int) -> list[FileMapping]:
        if not self._elf.is_held(start, size):
            raise MalformedFile(f"the note that names files has {size} bytes and is almost nothing but a hole")
        arch = self.architecture
        mappings = notes.parse_files(self.file, arch.pointer_size, arch.byte_order, start, start + size)
        return sorted(mappings, key=lambda mapping: mapping.start)

    def _add_extract(self, kind: int, start: int, size: int) -> None:
        head = notes.EXTRACT_HEADER
        module = notes.parse_extract(self.file[start : start + min(size, head)])
        self._extracts[module, kind] = start + head, size - head

    def _iter_notes(self, segment: Segment, order: ByteOrder) -> Iterator[NotePlace]:
        start, whole_end = segment.p_offset, segment.p_offset + segment.p_filesz
        end = min(whole_end, len(self.file))
        if start >= end:
            self._notes_are_cut = True
            return
        self.file.will_need(start, min(end - start, _READ_AHEAD))
        if end == whole_end:
            yield from self._iter_around_holes(start, end, order)
            return
        self._notes_are_cut = True
        with suppress(MalformedFile):  # the last note may be cut
            yield from iter_note_places(self.file, order, start, end)

    def _iter_around_holes(self, start: int, end: int, order: ByteOrder) -> Iterator[NotePlace]:
        # A lost page reads as zeros, and no note of a core begins with zeros. Skip the page, and search the next note
        # that the kernel or gdb wrote.
        while True:
            try:
                for note in iter_note_places(self.file, order, start, end):
                    if not note.owner:
                        break
                    yield note
                    start = note.following
                else:
                    return
            except MalformedFile:
                if not self._notes_have_holes:
                    raise
            self._notes_have_holes = True
            self._thread_of_notes = None  # the next notes may be another thread's
            # Search behind the name of the note at *start*, which failed.
            name = self._find_owner(start + _NOTE_HEADER + 1, end)
            length = (5).to_bytes(4, order)
            while name >= 0 and self.file[name - _NOTE_HEADER : name - _NOTE_HEADER + 4] != length:
                name = self._find_owner(name + 1, end)
            if name < 0:
                return
            start = name - _NOTE_HEADER

    def _find_owner(self, start: int, end: int) -> int:
        # Return the offset of the next owner's name of the kernel's notes, -1 if there is none. Holes of the file are
        # skipped.
        name = b"CORE\0"
        while start < end:
            low = self.file.data_from(start)
            if low is None or low >= end:
                break
            high = min(self.file.hole_from(low), end)
            offset = self.file.find(name, max(low - len(name), start), high)
            if offset >= 0:
                return offset
            start = high
        return -1

    def _find_loss(self) -> Loss | None:
        # The core is whole if the file reaches to the end of its segments. Section headers may be missing: in gdb's
        # cores they are useless, and the kernel has at most one, for the number of segments, which is known by now.
        size, header = len(self.file), self._elf.header
        end = max((s.p_offset + s.p_filesz for s in _in_order(self._elf.segments)), default=0)
        if size >= end:
            if not self._notes_have_holes:
                return None
            thread_count = len(self._prstatus)
            text = (
                f"pages of the core file's notes are lost, with an unknown number of threads: {thread_count} are left"
            )
            return Loss(text, True, not self._mappings, _time_written(self.name))
        count = 1 if header.e_phnum == gabi.PN_XNUM else header.e_shnum
        whole_size = max(end, header.e_shoff + count * header.e_shentsize)
        # The part of the core that is present is rounded down: a core without its last byte must not show 100 %.
        text = f"the core file is cut off: {size} of {whole_size} bytes present ({1000 * size // whole_size / 10:g} %)"
        if self._notes_are_cut:
            threads = len(self._prstatus)
            text += (
                f"; the notes that name threads and files are cut, with {threads} thread{'s' * (threads != 1)} before"
                " the cut and an unknown number after it"
                if threads
                else "; the notes that name threads and files, and hold registers, were behind the cut"
            )
        return Loss(text, self._notes_are_cut, self._notes_are_cut and not self._mappings, _time_written(self.name))

    def _add_thread(self, desc: bytes) -> None:
        arch = self.architecture
        if len(desc) < arch.prstatus_registers + len(arch.registers) * arch.pointer_size:
            raise MalformedFile(f"NT_PRSTATUS note has {len(desc)} bytes")
        thread = int.from_bytes(desc[arch.prstatus_pid : arch.prstatus_pid + 4], arch.byte_order)
        values = dict(zip(arch.registers, arch.prstatus_words.unpack_from(desc, arch.prstatus_registers), strict=True))
        pointer = arch.descriptors.selector if arch.descriptors is not None else arch.thread_pointer
        # The kernel's own threads for io_uring never run the program's code, and have the thread pointer of their
        # creator. The two registers that are not zero prove that no page was lost: a lost page would have zeroed all
        # words between the two.
        is_kernel_thread = (
            thread
            and not values[arch.sp]
            and not values[arch.pc]
            and values.get(arch.never_zero)
            and values.get(pointer, 0)
        )
        if is_kernel_thread:
            self._thread_of_notes = None
            return
        is_lost = not values[arch.sp] or not thread or not (values[arch.pc] or values.get(pointer, 0))
        if is_lost:  # the page with its registers reads as zeros
            self._notes_have_holes = True
            self._thread_of_notes = None
            return
        if thread in self._prstatus:
            raise MalformedFile(f"two NT_PRSTATUS notes for thread {thread}")
        if not self._prstatus:  # the first thread took the signal
            offset = arch.prstatus_signal
            self.signal = int.from_bytes(desc[offset : offset + 2], arch.byte_order) or None
        self._prstatus[thread] = desc
        self._thread_of_notes = thread

    def _add_signal(self, info: SignalInfo) -> None:
        if self.signal is None:
            self.signal = info.number or None
        if self._thread_of_notes is None:
            self._has_stray_signal = True
        else:
            self._signals.setdefault(self._thread_of_notes, info)

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return the contents of the ``NT_SIGINFO`` note of *thread* (:meth:`Target.siginfo`).

        The kernel writes one such note, for the thread that took the signal. It writes the signal's number into the
        ``NT_PRSTATUS`` of all threads. gdb writes one for each thread, with the reason for the thread's last stop.
        """
        info = self._signals.get(thread)
        is_damaged = self._notes_are_cut or self._notes_have_holes
        if info is None and is_damaged and (self._has_stray_signal or self._is_debuggers or not self._signals):
            raise Unavailable("the note with the thread's signal is lost")
        if info is None:
            # In a kernel's core without such notes, the first thread took the signal.
            is_first = not self._signals and not self._is_debuggers and thread == next(iter(self._prstatus), None)
            info = SignalInfo(self.signal) if is_first and self.signal is not None else None
        if info is None or info.number in (0, signal.SIGSTOP) or (self._is_debuggers and info.number == signal.SIGTRAP):
            return None
        return info

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address* (:meth:`Target.read`)."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and size >= 0:
            segment = self._loads[index]
            within = address - segment.p_vaddr
            if within + size <= segment.p_filesz:
                offset = segment.p_offset + within
                try:
                    data = self.file[offset : offset + size]
                except MalformedFile as error:  # the core shrank, but other parts of it may be readable
                    raise MemoryFault(address, size, str(error)) from error
                if len(data) == size:
                    return data
        return self._read_slowly(address, size)

    def _read_slowly(self, address: int, size: int) -> bytes:
        # Read across segments, or find the reason why that is impossible.
        if self.file.closed:
            raise TargetGone(f"{self.name} was closed")
        if not 0 <= size <= len(self.file):
            raise MemoryFault(address, size, "more than the core file holds")
        pieces = []
        place, end = address, address + size
        while place < end:
            index = bisect_right(self._starts, place) - 1
            segment = self._loads[index] if index >= 0 else None
            if segment is None or place >= segment.p_vaddr + segment.p_memsz:
                # gcore omits mappings of files without changed pages, and names them only in NT_FILE.
                if self._is_mapped_file(place):
                    raise PageOmitted(address, size, f"the core file leaves out the mapping of {place:#x}")
                if self.loss is not None and self.loss.files:
                    raise PageOmitted(address, size, f"the core file does not hold the page of {place:#x}")
                raise MemoryFault(address, size, f"nothing was mapped at {place:#x}")
            within = place - segment.p_vaddr
            count = min(end - place, segment.p_filesz - within)
            if count <= 0:
                raise PageOmitted(address, size, f"the core file leaves out the page of {place:#x}")
            offset = segment.p_offset + within
            try:
                data = self.file[offset : offset + count]
            except MalformedFile as error:
                raise MemoryFault(address, size, str(error)) from error
            if len(data) < count:
                fault = f"the core file is cut off before the page of {place:#x}"
                raise MemoryFault(address, size, fault, hint=_CUT_OFF)
            pieces.append(data)
            place += count
        return b"".join(pieces)

    @cached_property
    def _file_ends(self) -> tuple[list[int], list[int]]:
        # The start addresses of the mappings of files; and for each, the largest end of this and the earlier mappings.
        ends = (mapping.end for mapping in self._mappings)
        return [mapping.start for mapping in self._mappings], list(accumulate(ends, max))

    def _is_mapped_file(self, address: int) -> bool:
        starts, ends = self._file_ends
        index = bisect_right(starts, address) - 1
        return index >= 0 and address < ends[index]

    def check(self) -> None:
        """Do nothing: a core does not change."""

    def thread_ids(self) -> Sequence[int]:
        """Return the threads in the core's order; the first took the signal."""
        return tuple(self._prstatus)

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread* from ``NT_PRSTATUS``. The thread pointer may come from its descriptors."""
        arch = self.architecture
        try:
            desc = self._prstatus[thread]
        except KeyError:
            raise BadInput(f"no thread {thread} in {self.name}") from None
        values = dict(zip(arch.registers, arch.prstatus_words.unpack_from(desc, arch.prstatus_registers), strict=True))
        if arch.descriptors is not None:
            pointer = arch.described_thread_pointer(values, self._descriptors.get(thread))
            if pointer is not None:
                values[arch.thread_pointer] = pointer
        return values

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings of ``NT_FILE``, by address."""
        return self._mappings

    def segment_starts(self) -> Sequence[int]:
        """Return the start addresses of the ``PT_LOAD`` segments that are not empty, in order."""
        return [segment.p_vaddr for segment in self._loads if segment.p_filesz]

    def regions(self) -> Sequence[MemoryRegion]:
        """Return the ``PT_LOAD`` segments, by address. Overlapping segments end at the start of the next one."""
        limit = 1 << 8 * self.architecture.pointer_size
        nexts = (*(start for start in self._starts[1:]), limit)
        return [
            MemoryRegion(s.p_vaddr, min(s.p_vaddr + s.p_memsz, following), s.p_flags)
            for s, following in zip(self._loads, nexts, strict=False)
            if s.p_vaddr < following
        ]

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return the extract of a module's file from a snapshot's note (:meth:`Target.extract`)."""
        place = self._extracts.get((start, kind))
        return self._elf.copy(*place, "a part of a module's file") if place is not None else None

    def kept_source(self) -> bytes | None:
        """Return a snapshot's note with lines of source (:meth:`Target.kept_source`)."""
        if self._source_note is None:
            return None
        start, size = self._source_note
        return self._elf.copy(start, min(size, notes.MAX_SOURCE_NOTE + 1), "a note with lines of source")

    def proc_text(self, path: str) -> bytes:
        """Raise :class:`~ompd.errors.Unavailable`: a core has no ``/proc`` (:meth:`Target.proc_text`)."""
        raise Unavailable("a core file does not say what only the running kernel knows")

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return what *thread*'s ``NT_PRSTATUS`` note has (:meth:`Target.noted_status`).

        None if no thread's note has a processor time, as in gdb's cores: then gdb has not filled the notes.
        """
        thread_status = self._statuses.get(thread)
        if thread_status is None or not any(status.time_ns for status in self._statuses.values()):
            return None
        # In the kernel's cores, the first thread's note has the time of all threads together, so its own is unknown. A
        # snapshot has 0 for an unknown time.
        is_time_unknown = thread == self.process_id and (not self._extracts or not thread_status.time_ns)
        return thread_status._replace(time_ns=None) if is_time_unknown else thread_status

    def noted_process(self) -> ProcessNote | None:
        """Return the contents of ``NT_PRPSINFO``. None if a snapshot's note has no flags, because they are unknown."""
        return self._process if self._process is None or self._process.flags or not self._extracts else None

    @cached_property
    def _statuses(self) -> dict[int, StatusNote]:
        places = self.architecture.prstatus_pid, self.architecture.pointer_size, self.architecture.byte_order
        return {thread: notes.parse_status_note(desc, *places) for thread, desc in self._prstatus.items()}

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return ``NT_AUXV``."""
        return self._auxv

    def close(self) -> None:
        """Close the core file. Reading then raises :class:`~ompd.errors.TargetGone`."""
        self.file.close()
        self._starts, self._loads = [], []


def _in_order(segments: Sequence[Segment]) -> Iterator[Segment]:
    # Yield the segments with bytes in the file, the last one first. In a core, the bytes of a PT_LOAD segment end
    # before those of the next one begin. A segment that overlaps the next one is left out: a changed header may claim
    # bytes that never existed.
    limit = 1 << 63
    for segment in reversed(segments):
        end = segment.p_offset + segment.p_filesz
        if segment.p_type == gabi.PT_NOTE and segment.p_filesz and end < 1 << 63:
            yield segment
        elif segment.p_type == gabi.PT_LOAD and segment.p_filesz <= segment.p_memsz and end <= limit:
            limit = segment.p_offset
            if segment.p_filesz:
                yield segment


def _time_written(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116  the hot path knows no pathlib
    except OSError:
        return None
