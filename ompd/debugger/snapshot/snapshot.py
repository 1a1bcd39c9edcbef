"""Taking a small core of a stopped process: what an inspection reads, and no more.

Only an inspection shows which memory that is. So one is rehearsed, and what it reads is noted; to this comes what
later questions will want: the used part of every stack, thread-local storage, the data of the user's own modules. What
the files of the modules tell besides (symbols, unwind tables, debug information) is put into notes of our own, so that
the snapshot needs none of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import IO

from ompd.binary.core import notes
from ompd.binary.core.extract import extract
from ompd.binary.core.writer import PAGE, Note, Piece, format_auxv, format_files, write_core
from ompd.binary.elf.elf import PF_R, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, PT_NOTE, ElfFile
from ompd.debugger.environment import EnvironmentBlock, find_environment
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import MemoryRegion, PartialRegisters, Target
from ompd.debugger.threads.emutls import PREFIX
from ompd.errors import MalformedFile, MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.records import record

_MAX_FRAME = 64 << 10  # of a larger frame its two ends
_LIMIT_KEPT = 4 << 20
_VDSO_SIZE = 0x4000
_SIGSTOP = 19
_MAX_IDENTITY = 1 << 16
_MAX_IDENTITIES = 64  # segments of a module that are looked at
_READ = 1 << 18  # bytes copied at once

# What is laid over memory: other bytes, or so many zeros. How large a mapping is the core says alone.
Patch = bytes | int


@record
class Snapshot:
    """What a snapshot holds, in the order of its file.

    ``modules`` are those of whose files it has an extract; ``problems`` what it lacks.
    """

    architecture: Architecture
    notes: tuple[Note, ...]
    pieces: tuple[Piece, ...]
    threads: int
    modules: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def memory_bytes(self) -> int:
        """Bytes of the process's memory."""
        return sum(len(piece.data) for piece in self.pieces)

    @property
    def extract_bytes(self) -> int:
        """Bytes of extracts of modules' files."""
        return sum(len(note.desc) for note in self.notes if note.owner == notes.OMPD_OWNER)

    def write(self, stream: IO[bytes]) -> None:
        """Write it to *stream* as an ELF core."""
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
    kept_variables: tuple[str, ...] = (),
    keeps_data: Callable[[str], bool] = lambda name: False,
) -> Snapshot:
    """Return a snapshot of *process*, on which an inspection was rehearsed.

    :param pages: the pages that the inspection has read, and all that are read in here
    :param data_limit: bytes of writable data that are kept of each of the user's modules
    :param keep_environment: keep the whole environment block and the folders in arguments
    :param kept_variables: how the names of variables of the environment begin that are kept in any case
    :param keeps_data: says whether the data of the module with a name is kept beyond *data_limit*
    """
    target = process.target
    problems: list[str] = []
    _read_for_later(process, data_limit, keeps_data)
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
                found = extract(elf, debug=not module.record.is_system_library)
            except MalformedFile as error:
                problems.append(f"{module.name}: {error}")
                continue
            extracts.append(Note(notes.OMPD_OWNER, kind, notes.format_extract(module.start, found)))
            modules.append(module.name)
    return Snapshot(
        target.architecture,
        (*_process_notes(target, process, keep_environment), *extracts),
        pieces,
        len(process.threads.ids()),
        tuple(dict.fromkeys(modules)),
        tuple(problems),
    )


# What is read


def _read_for_later(process: StoppedProcess, data_limit: int, keeps_data: Callable[[str], bool]) -> None:
    # Reads what questions to come will want: their answers do not matter here.
    vdso = process.target.auxiliary_vector().get(notes.AT_SYSINFO_EHDR, 0)
    attempts: list[Callable[[], object]] = [process.environment.at_start, partial(_read_loader, process)]
    attempts.append(partial(_read_pages, process, vdso, _VDSO_SIZE))
    attempts += [partial(_read_thread_storage, process, thread) for thread in process.threads.ids()]
    attempts.append(partial(_read_emulated_storage, process))
    attempts += [partial(process.waiting.progress, thread) for thread in process.threads.ids()]
    attempts += [partial(process.system_waits.of, thread) for thread in process.threads.ids()]
    attempts.append(lambda: process.system.identity())
    for module in process.modules:
        attempts.append(partial(_read_identity, process, module))
        if not module.record.is_system_library:
            limit = max(data_limit, _LIMIT_KEPT if keeps_data(module.name) else 0)
            attempts.append(partial(_read_data, process, module, limit))
    for attempt in attempts:
        with suppress(OmpdError):
            attempt()


def _read_loader(process: StoppedProcess) -> None:
    for _ in process.loader.link_maps:
        pass
    process.glibc.pthreads()


def _read_thread_storage(process: StoppedProcess, thread: int) -> None:
    # All thread-local variables of a thread, and what it stored under POSIX thread keys.
    process.storage.read_blocks(process.modules, thread)
    process.storage.read_keys(thread)


def _read_emulated_storage(process: StoppedProcess) -> None:
    # Of modules whose symbols were needed: the others' files are not opened for this alone.
    found: list[int] = []
    for module in process.modules:
        if "symbols" in module.looked_up and module.symbols is not None and not module.record.is_system_library:
            with suppress(MalformedFile):
                found += [symbol.address + module.bias for symbol in module.symbols.find_prefix(PREFIX)]
    for thread in process.threads.ids() if found else ():
        process.emulated_tls.read_copies(found, thread)


def _read_identity(process: StoppedProcess, module: LoadedModule) -> None:
    # What distinguishes a module's file from another build's. Damaged files have the same notes thousands of times.
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
    # Its frames. Runtimes leave much of a stack unused between them, to keep those of threads apart in caches.
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
            rest = max(middle, high - _MAX_FRAME // 2)
            _read_pages(process, rest, high - rest)
            low = high
    _read_pages(process, low, min(end - low, PAGE if stack.stopped is None else _MAX_FRAME))


def _read_pages(process: StoppedProcess, start: int, size: int) -> None:
    # Stacks of a damaged core may all be in the same pages.
    noted = process.memory.noted_pages or ()
    for address in range(start // PAGE * PAGE, start + size, PAGE):
        if address // PAGE not in noted:
            with suppress(MemoryFault):
                process.memory.read(address, PAGE)


def _files_needed(module: LoadedModule) -> Iterator[ElfFile | None]:
    # The module's file and its debug file, as far as something was looked up in them.
    is_used = bool(module.looked_up)
    yield module.elf if is_used else None
    yield module.debug_elf if is_used else None


# Memory


class _Memory:
    """The pages to keep, of the mappings that they are in."""

    def __init__(
        self,
        target: Target,
        process: StoppedProcess,
        pages: set[int],
        needed: set[int],
        overlay: Mapping[int, Patch],
    ) -> None:
        self._process = process
        # Runtimes leave much of a stack unused, to keep those of different threads apart in caches.
        self._pages = sorted(page for page in pages if page in needed or not self._is_empty(page))
        self._regions = sorted([*target.regions(), *self._left_out(target)], key=lambda region: region.start)
        self._overlay = overlay

    def _left_out(self, target: Target) -> Iterator[MemoryRegion]:
        # gcore names mappings of files that no one wrote to, and leaves them out. What was read of their code is kept.
        held = target.regions()
        for mapping in target.mappings():
            first = bisect_left(self._pages, mapping.start // PAGE)
            is_read = first < len(self._pages) and self._pages[first] * PAGE < mapping.end
            if is_read and not any(region.start < mapping.end and mapping.start < region.end for region in held):
                yield MemoryRegion(mapping.start, mapping.end, PF_R | PF_X)

    def _is_empty(self, page: int) -> bool:
        try:
            return not any(self._process.memory.read(page * PAGE, PAGE))
        except MemoryFault:
            return True

    def pieces(self) -> Iterator[Piece]:
        position = 0
        for region in self._regions:
            while position < len(self._pages) and self._pages[position] * PAGE < region.start:
                position += 1
            here = region.start
            while position < len(self._pages) and self._pages[position] * PAGE < region.end:
                start, data, position = self._run(position, region.end)
                if not data:
                    continue
                if start > here:
                    yield Piece(here, b"", start - here, region.flags)
                # What follows and is left out is part of this piece, up to the next one.
                following = start + len(data)
                until = self._next_page(position, region.end)
                yield Piece(start, data, until - start, region.flags)
                here = max(until, following)
            if here < region.end:
                yield Piece(here, b"", region.end - here, region.flags)

    def _next_page(self, position: int, end: int) -> int:
        return min(self._pages[position] * PAGE, end) if position < len(self._pages) else end

    def _run(self, position: int, end: int) -> tuple[int, bytes, int]:
        # The bytes of pages in a row from *position* on that can be read, and the position behind them.
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
    # A path without its folders, as long as before: a run of slashes is one.
    folder, slash, name = text.rpartition(b"/")
    return b"/" * len(folder + slash) + name


def _without_secrets(process: StoppedProcess, kept_variables: Sequence[str]) -> dict[int, Patch]:
    block: EnvironmentBlock = find_environment(process.memory, process.target.auxiliary_vector())
    overlay: dict[int, Patch] = {address: _shortened(text) for address, text in block.arguments.items()}
    overlay[block.file_name_address] = _shortened(block.file_name)
    for address, text in block.variables.items():
        if not text.startswith(tuple(name.encode() for name in kept_variables)):
            overlay[address] = len(text)
    return overlay


def _without_strings(process: StoppedProcess, regions: Sequence[MemoryRegion]) -> dict[int, Patch]:
    # Arguments and environment are behind the bytes that AT_RANDOM leads to, up to the end of the initial stack.
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
    # Of a live process none ended it. LLDB 22 waits for ever for one in a core that has none; gdb's cores have this.
    number = target.signal or _SIGSTOP
    first = [
        Note("CORE", notes.NT_PRPSINFO, _prpsinfo(process, program, command)),
        Note("CORE", notes.NT_AUXV, format_auxv(process.target.auxiliary_vector().items(), size, order)),
        Note("CORE", notes.NT_FILE, format_files(_files(process), size, order)),
    ]
    signals = _signals(target, threads)
    # A reader takes the first thread for the one that took the signal, and LLDB wants to have one that did.
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
            by_address = info.is_fault
            raw = notes.format_siginfo(info, size, order, by_address=by_address)
            yield Note("CORE", notes.NT_SIGINFO, raw)


def _signals(target: Target, threads: Sequence[int]) -> dict[int, notes.SignalInfo]:
    found = {}
    for thread in threads:
        with suppress(Unavailable):
            info = target.siginfo(thread)
            if info is not None:
                found[thread] = info
    return found


def _descriptors(arch: Architecture, registers: Mapping[str, int]) -> Iterator[Note]:
    # The thread pointer, where no register of the note before has it.
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
    # The signal of the process is in the note of every thread: GDB takes the last one's.
    out = bytearray(arch.prstatus_size)
    out[:4] = number.to_bytes(4, arch.byte_order)  # pr_info.si_signo
    out[arch.prstatus_signal : arch.prstatus_signal + 2] = number.to_bytes(2, arch.byte_order)
    if status is not None:
        masks, times = notes.format_status_note(status, arch.pointer_size, arch.byte_order)
        at = arch.prstatus_pid + notes.PR_IDS
        out[arch.prstatus_pid - len(masks) : arch.prstatus_pid], out[at : at + len(times)] = masks, times
    out[arch.prstatus_pid : arch.prstatus_pid + 4] = thread.to_bytes(4, arch.byte_order)
    # Others that a debugger does not give, as orig_rax, are 0.
    arch.prstatus_words.pack_into(out, arch.prstatus_registers, *(registers.get(name, 0) for name in arch.registers))
    return bytes(out)


def _files(process: StoppedProcess) -> Sequence[notes.FileMapping]:
    # With shared memory that is no file of the disk, as the kernel has it.
    files = process.target.mappings()
    with suppress(Unavailable):
        known = {file.start for file in files}
        shared = [mapping for mapping in process.system.shared_mappings() if mapping.start not in known]
        return sorted([*files, *shared], key=lambda mapping: mapping.start)
    return files


def _prpsinfo(process: StoppedProcess, program: str, command: bytes) -> bytes:
    # Four letters, pr_flag, of which 0 is unknown, pr_uid and pr_gid; pr_pid, pr_ppid, pr_pgrp, pr_sid of 4 bytes each,
    # then char pr_fname[16] and pr_psargs[80].
    arch = process.target.architecture
    noted = notes.ProcessNote(0, 0)
    with suppress(Unavailable):
        noted = process.system.note
    head = bytes(arch.pointer_size) + noted.flags.to_bytes(arch.pointer_size, arch.byte_order)
    ids = b"".join(number.to_bytes(4, arch.byte_order) for number in (process.target.process_id or 0, noted.parent))
    name = program.encode("utf-8", "surrogateescape")[:15].ljust(16, b"\0")
    return head.ljust(arch.prpsinfo_pid, b"\0") + ids + bytes(8) + name + command[:79].ljust(80, b"\0")
