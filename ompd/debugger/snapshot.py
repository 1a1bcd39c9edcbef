"""Takes a snapshot of a stopped process: a small core with only the memory that inspections read.

An inspection is run once as a rehearsal, which notes the pages that it reads. Further pages are added for later
questions: the used parts of all stacks, thread-local storage, and the data of the user's own modules. Extracts of the
modules' files (symbols, unwind tables, debug information) and, if the user wants them, lines of source are stored in
notes that only ompd knows. So the snapshot can be read without these files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO

from ompd.binary.core import notes
from ompd.binary.core.extract import extract
from ompd.binary.core.source_note import format_source
from ompd.binary.core.writer import PAGE, MappedPart, Note, format_auxv, format_files, write_core
from ompd.binary.elf.elf import PF_R, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, PT_NOTE, ElfFile
from ompd.debugger.environment import find_environment
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import MemoryRegion, PartialRegisters, Target
from ompd.debugger.threads.emutls import PREFIX
from ompd.errors import MalformedFile, MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.naming import is_runtime_file
from ompd.records import record

_MAX_FRAME = 64 << 10  # the most bytes to keep of one frame; of a larger frame, half of them at each end
# The most bytes to keep of an OpenMP runtime's data, unless the limit for the user's modules is higher.
_LIMIT_KEPT = 4 << 20
_VDSO_SIZE = 0x4000
_SIGSTOP = 19
_MAX_IDENTITY = 1 << 16
_MAX_IDENTITIES = 64  # segments of one module
_READ = 1 << 18  # bytes to copy at once

# The bytes that replace memory, or how many zeros replace it. That number comes from the core, and may be huge.
Patch = bytes | int


@record
class Snapshot:
    """The contents of a snapshot, in the order of its file.

    ``threads`` is the number of threads. ``modules`` are the names of the modules with extracts of their files.
    ``problems`` are sentences about what is missing.
    """

    architecture: Architecture
    notes: tuple[Note, ...]
    pieces: tuple[MappedPart, ...]
    threads: int
    modules: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def memory_bytes(self) -> int:
        """How many bytes of the process's memory the snapshot has."""
        return sum(len(piece.data) for piece in self.pieces)

    @property
    def extract_bytes(self) -> int:
        """How many bytes the extracts of modules' files have."""
        return sum(len(note.desc) for note in self.notes if note.owner == notes.OMPD_OWNER)

    def write(self, stream: IO[bytes]) -> None:
        """Write the snapshot to *stream* as an ELF core."""
        architecture = self.architecture
        write_core(
            stream,
            self.notes,
            self.pieces,
            e_machine=architecture.e_machine,
            elf_class=architecture.elf_class,
            byte_order=architecture.byte_order,
        )


def take(
    process: StoppedProcess,
    pages: set[int],
    *,
    data_limit: int,
    keep_environment: bool,
    kept_variables: tuple[str, ...],
) -> Snapshot:
    """Return a snapshot of *process*, on which an inspection was rehearsed, with the lines of source that it noted.

    :param pages: the numbers of the pages that the inspection has read; pages read here are added
    :param data_limit: the most bytes of writable data to keep of each of the user's modules
    :param keep_environment: whether to keep the whole environment, and the folders in arguments
    :param kept_variables: prefixes of the names of environment variables that are always kept
    """
    target = process.target
    problems: list[str] = []
    _read_for_later(process, data_limit)
    needed = set(pages)
    regions = target.regions()
    starts = [region.start for region in regions]
    for thread in process.threads.ids():
        registers = target.registers(thread)
        if isinstance(registers, PartialRegisters):
            registers.want()
        if any(name not in registers for name in target.architecture.dwarf_registers):
            problems.append(f"registers of thread {thread} could not be read, and are 0")
        sp = registers.get(target.architecture.sp)
        index = bisect_right(starts, sp) - 1 if sp is not None else -1
        if sp is not None and index >= 0:
            _read_stack(process, thread, sp, regions[index])
    overlay: dict[int, Patch] = {}
    if not keep_environment:
        try:
            overlay = _without_secrets(process, kept_variables)
        except OmpdError as error:
            overlay = _without_strings(process, regions)
            problems.append(
                f"the strings of the initial stack are left out, since the environment was not found: {error}"
            )
    pieces = tuple(_Memory(target, process, pages, needed, overlay).pieces())
    modules, extracts = [], []
    for module in process.modules:
        for kind, elf in enumerate(_files_needed(module), notes.NT_OMPD_FILE):
            if elf is None:
                continue
            try:
                contents = extract(elf, debug=not module.record.is_system_library)
            except MalformedFile as error:
                problems.append(f"{module.name}: {error}")
                continue
            extracts.append(Note(notes.OMPD_OWNER, kind, notes.format_extract(module.start, contents)))
            modules.append(module.name)
    if process.source_code.noted:
        extracts.append(Note(notes.OMPD_OWNER, notes.NT_OMPD_SOURCE, format_source(process.source_code.noted)))
    return Snapshot(
        target.architecture,
        (*_process_notes(target, process, keep_environment), *extracts),
        pieces,
        len(process.threads.ids()),
        tuple(dict.fromkeys(modules)),
        tuple(problems),
    )


# Reading pages


def _read_for_later(process: StoppedProcess, data_limit: int) -> None:
    # Read the memory that later questions will need. Results and errors are ignored.
    with suppress(OmpdError):
        process.environment.at_start()
    with suppress(OmpdError):
        for _ in process.loader.link_maps:
            pass
        process.glibc.pthreads()
    with suppress(OmpdError):
        _read_pages(process, process.target.auxiliary_vector().get(notes.AT_SYSINFO_EHDR, 0), _VDSO_SIZE)
    for thread in process.threads.ids():
        with suppress(OmpdError):
            process.storage.read_blocks(process.modules, thread)
            process.storage.read_keys(thread)
    with suppress(OmpdError):
        _read_emulated_storage(process)
    for thread in process.threads.ids():
        with suppress(OmpdError):
            process.waiting.progress(thread)
    for thread in process.threads.ids():
        with suppress(OmpdError):
            process.system_waits.of(thread)
    with suppress(OmpdError):
        process.system.identity()
    for module in process.modules:
        with suppress(OmpdError):
            _read_identity(process, module)
        if not module.record.is_system_library:
            limit = max(data_limit, _LIMIT_KEPT if is_runtime_file(module.name) else 0)
            with suppress(OmpdError):
                _read_data(process, module, limit)


def _read_emulated_storage(process: StoppedProcess) -> None:
    # Only for modules whose symbols are already read: the files of other modules are not opened for this.
    controls: list[int] = []
    for module in process.modules:
        if "symbols" in module.looked_up and module.symbols is not None and not module.record.is_system_library:
            with suppress(MalformedFile):
                controls += [symbol.address + module.bias for symbol in module.symbols.find_prefix(PREFIX)]
    for thread in process.threads.ids() if controls else ():
        process.emulated_tls.read_copies(controls, thread)


def _read_identity(process: StoppedProcess, module: LoadedModule) -> None:
    # Read the parts of the module that identify the build of its file. A damaged file may list a part many times, but
    # each part is read once, and the number of parts is limited.
    ranges = {
        (segment.p_vaddr, min(segment.p_memsz, _MAX_IDENTITY))
        for segment in (module.elf.segments if module.elf is not None else ())
        if segment.p_type in (PT_NOTE, PT_DYNAMIC)
    }
    _read_pages(process, module.start, PAGE)
    for start, size in sorted(ranges)[:_MAX_IDENTITIES]:
        _read_pages(process, module.bias + start, size)


def _read_data(process: StoppedProcess, module: LoadedModule, limit: int) -> None:
    for segment in module.elf.segments if module.elf is not None else ():
        if segment.p_type == PT_LOAD and segment.p_flags & PF_W and limit > 0:
            size = min(segment.p_memsz, limit)
            limit -= size
            _read_pages(process, module.bias + segment.p_vaddr, size)


def _read_stack(process: StoppedProcess, thread: int, sp: int, region: MemoryRegion) -> None:
    # Read both ends of each frame. The middle of a large frame is left out: runtimes leave large unused gaps on stacks,
    # to avoid conflicts in caches.
    end = region.end
    with suppress(OmpdError):
        pointer = process.threads.thread_pointer(thread)
        if sp < pointer < end:
            end = pointer
    stack = process.stacks.stack(thread, guess=True)
    low = max(sp - process.target.architecture.red_zone, region.start)
    for frame in stack.frames:
        high = min(frame.cfa, end) if frame.cfa is not None else low
        if high > low:
            middle = low + _MAX_FRAME // 2
            _read_pages(process, low, min(high, middle) - low)
            upper_end = max(middle, high - _MAX_FRAME // 2)
            _read_pages(process, upper_end, high - upper_end)
            low = high
    _read_pages(process, low, min(end - low, PAGE if stack.stopped is None else _MAX_FRAME))


def _read_pages(process: StoppedProcess, start: int, size: int) -> None:
    # Skip pages that were noted already, because in a damaged core many stacks may be in the same pages.
    noted = process.memory.noted_pages or ()
    for address in range(start // PAGE * PAGE, start + size, PAGE):
        if address // PAGE not in noted:
            with suppress(MemoryFault):
                process.memory.read(address, PAGE)


def _files_needed(module: LoadedModule) -> Iterator[ElfFile | None]:
    # The module's file and its debug file, None for both if the inspection used neither.
    is_used = bool(module.looked_up)
    yield module.elf if is_used else None
    yield module.debug_elf if is_used else None


# Memory


class _Memory:
    """The memory of a snapshot: the kept pages, in their mappings.

    :param pages: the numbers of all pages that were read
    :param needed: the numbers of the pages that the inspection read, which are kept even if they are zero
    :param overlay: patches by address
    """

    def __init__(
        self,
        target: Target,
        process: StoppedProcess,
        pages: set[int],
        needed: set[int],
        overlay: Mapping[int, Patch],
    ) -> None:
        self._process = process
        # Drop pages of zeros that the inspection has not read: stacks have many of them between frames.
        self._pages = sorted(page for page in pages if page in needed or not self._is_empty(page))
        self._regions = sorted([*target.regions(), *self._left_out(target)], key=lambda region: region.start)
        self._overlay = overlay

    def _left_out(self, target: Target) -> Iterator[MemoryRegion]:
        # Yield the mappings of files that a core of gcore names but whose memory it omits, if some of it was read.
        regions = target.regions()
        for mapping in target.mappings():
            first = bisect_left(self._pages, mapping.start // PAGE)
            is_read = first < len(self._pages) and self._pages[first] * PAGE < mapping.end
            if is_read and not any(region.start < mapping.end and mapping.start < region.end for region in regions):
                yield MemoryRegion(mapping.start, mapping.end, PF_R | PF_X)

    def _is_empty(self, page: int) -> bool:
        try:
            return not any(self._process.memory.read(page * PAGE, PAGE))
        except MemoryFault:
            return True

    def pieces(self) -> Iterator[MappedPart]:
        """Yield the pieces of memory by address. Together they cover all mappings, including omitted memory."""
        position = 0
        for region in self._regions:
            while position < len(self._pages) and self._pages[position] * PAGE < region.start:
                position += 1
            address = region.start
            while position < len(self._pages) and self._pages[position] * PAGE < region.end:
                start, data, position = self._run(position, region.end)
                if not data:
                    continue
                if start > address:
                    yield MappedPart(address, b"", start - address, region.flags)
                # The size of this piece in memory includes the omitted memory up to the next one.
                following = start + len(data)
                until = self._next_page(position, region.end)
                yield MappedPart(start, data, until - start, region.flags)
                address = max(until, following)
            if address < region.end:
                yield MappedPart(address, b"", region.end - address, region.flags)

    def _next_page(self, position: int, end: int) -> int:
        return min(self._pages[position] * PAGE, end) if position < len(self._pages) else end

    def _run(self, position: int, end: int) -> tuple[int, bytes, int]:
        # Return the start and the readable bytes of the adjacent pages from index *position* on, and the index of the
        # page after them.
        start = self._pages[position] * PAGE
        count = 1
        while (
            position + count < len(self._pages)
            and self._pages[position + count] * PAGE == start + count * PAGE < end
            and count * PAGE < _READ
        ):
            count += 1
        try:
            data = self._process.memory.read(start, count * PAGE)
        except MemoryFault:
            data = b""
            for number in range(count):
                try:
                    data += self._process.memory.read(start + number * PAGE, PAGE)
                except MemoryFault:
                    count = max(number, 1)
                    break
        return start, self._laid_over(start, data), position + count

    def _laid_over(self, start: int, data: bytes) -> bytes:
        for address, patch in self._overlay.items():
            size = patch if isinstance(patch, int) else len(patch)
            if address < start + len(data) and start < address + size:
                low, high = max(address, start), min(address + size, start + len(data))
                over = bytes(high - low) if isinstance(patch, int) else patch[low - address : high - address]
                data = data[: low - start] + over + data[high - start :]
        return data


# Names


def _shortened(text: bytes) -> bytes:
    # Replace the folders of a path by slashes, which hides them and keeps the length. Repeated slashes count as one.
    folder, slash, name = text.rpartition(b"/")
    return b"/" * len(folder + slash) + name


def _without_secrets(process: StoppedProcess, kept_variables: Sequence[str]) -> dict[int, Patch]:
    block = find_environment(process.memory, process.target.auxiliary_vector())
    overlay: dict[int, Patch] = {address: _shortened(text) for address, text in block.arguments.items()}
    overlay[block.file_name_address] = _shortened(block.file_name)
    for address, text in block.variables.items():
        if not text.startswith(tuple(name.encode() for name in kept_variables)):
            overlay[address] = len(text)
    return overlay


def _without_strings(process: StoppedProcess, regions: Sequence[MemoryRegion]) -> dict[int, Patch]:
    # Return a patch of zeros from the end of AT_RANDOM's bytes to the end of the initial stack: the arguments and the
    # environment are there.
    random = process.target.auxiliary_vector().get(notes.AT_RANDOM, 0)
    region = next((region for region in regions if region.start <= random < region.end), None)
    return {random + 16: max(region.end - random - 16, 0)} if region is not None else {}


# Notes


def _process_notes(target: Target, process: StoppedProcess, keep_environment: bool) -> Iterator[Note]:
    architecture = target.architecture
    size, order = architecture.pointer_size, architecture.byte_order
    threads = process.threads.ids()
    command = (target.command or "").encode("utf-8", "surrogateescape")
    if not keep_environment:
        command = b" ".join(word.rpartition(b"/")[2] for word in command.split(b" "))
    program = next((m.name for m in process.modules if m.record.is_program), "").rpartition("/")[2]
    # A live process has taken no signal, but LLDB 22 waits for ever if a core has none. So it gets SIGSTOP, as in
    # gdb's cores.
    number = target.signal or _SIGSTOP
    first = [
        Note("CORE", notes.NT_PRPSINFO, _prpsinfo(process, program, command)),
        Note("CORE", notes.NT_AUXV, format_auxv(process.target.auxiliary_vector().items(), size, order)),
        Note("CORE", notes.NT_FILE, format_files(_files(process), size, order)),
    ]
    signals = _signals(target, threads)
    # Readers of cores expect that the first thread took the signal, and LLDB needs such a thread.
    threads = sorted(threads, key=lambda thread: thread not in signals)
    signals = signals or {thread: notes.SignalInfo(number, 0) for thread in threads[:1]}
    for index, thread in enumerate(threads):
        registers = dict(target.registers(thread))
        if architecture.thread_pointer not in registers:
            with suppress(OmpdError):
                registers[architecture.thread_pointer] = process.threads.thread_pointer(thread)
        yield Note(
            "CORE", notes.NT_PRSTATUS, _prstatus(architecture, registers, thread, number, _status(process, thread))
        )
        yield from _descriptors(architecture, registers)
        if index == 0:
            yield from first
        if thread in signals:
            info = signals[thread]
            raw = notes.format_siginfo(info, size, order, by_address=info.is_fault)
            yield Note("CORE", notes.NT_SIGINFO, raw)


def _signals(target: Target, threads: Sequence[int]) -> dict[int, notes.SignalInfo]:
    # The threads that took a signal, each with the details of its signal.
    signals = {}
    for thread in threads:
        with suppress(Unavailable):
            info = target.siginfo(thread)
            if info is not None:
                signals[thread] = info
    return signals


def _descriptors(arch: Architecture, registers: Mapping[str, int]) -> Iterator[Note]:
    # The descriptor with the thread pointer, if the architecture has no register for it in NT_PRSTATUS.
    descriptors, pointer = arch.descriptors, registers.get(arch.thread_pointer)
    number = registers.get(descriptors.selector, 0) >> 3 if descriptors is not None else 0
    if descriptors is not None and number and pointer is not None:
        yield Note("LINUX", descriptors.note, notes.format_descriptor(number, pointer, arch.byte_order))


def _status(process: StoppedProcess, thread: int) -> notes.StatusNote | None:
    try:
        return process.system.status(thread)
    except OmpdError:
        return None


def _prstatus(
    arch: Architecture, registers: Mapping[str, int], thread: int, number: int, status: notes.StatusNote | None
) -> bytes:
    # Every thread's note has the signal of the process, because GDB reads the last one's.
    out = bytearray(arch.prstatus_size)
    out[:4] = number.to_bytes(4, arch.byte_order)  # pr_info.si_signo
    out[arch.prstatus_signal : arch.prstatus_signal + 2] = number.to_bytes(2, arch.byte_order)
    if status is not None:
        masks, times = notes.format_status_note(status, arch.pointer_size, arch.byte_order)
        out[arch.prstatus_pid - len(masks) : arch.prstatus_pid] = masks
        start = arch.prstatus_pid + notes.PR_IDS
        out[start : start + len(times)] = times
    out[arch.prstatus_pid : arch.prstatus_pid + 4] = thread.to_bytes(4, arch.byte_order)
    # Registers that a debugger does not have, such as orig_rax, are 0.
    arch.prstatus_words.pack_into(out, arch.prstatus_registers, *(registers.get(name, 0) for name in arch.registers))
    return bytes(out)


def _files(process: StoppedProcess) -> Sequence[notes.FileMapping]:
    # The mappings of files, and shared memory without a file, which the kernel lists like a file.
    files = process.target.mappings()
    with suppress(Unavailable):
        starts = {file.start for file in files}
        shared = [mapping for mapping in process.system.shared_mappings() if mapping.start not in starts]
        return sorted([*files, *shared], key=lambda mapping: mapping.start)
    return files


def _prpsinfo(process: StoppedProcess, program: str, command: bytes) -> bytes:
    # struct elf_prpsinfo: four chars, pr_flag, pr_uid and pr_gid; pr_pid, pr_ppid, pr_pgrp and pr_sid of 4 bytes each;
    # char pr_fname[16] and pr_psargs[80]. A pr_flag of 0 means unknown.
    arch = process.target.architecture
    noted = notes.ProcessNote(0, 0)
    with suppress(Unavailable):
        noted = process.system.note
    head = bytes(arch.pointer_size) + noted.flags.to_bytes(arch.pointer_size, arch.byte_order)
    ids = b"".join(number.to_bytes(4, arch.byte_order) for number in (process.target.process_id or 0, noted.parent))
    name = program.encode("utf-8", "surrogateescape")[:15].ljust(16, b"\0")
    return head.ljust(arch.prpsinfo_pid, b"\0") + ids + bytes(8) + name + command[:79].ljust(80, b"\0")
