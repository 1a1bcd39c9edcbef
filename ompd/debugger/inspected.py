"""The stopped process as plugins see it: the contract, served from a target and the files it names."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.core.notes import AT_BASE, AT_SYSINFO, NT_OMPD_FILE
from ompd.binary.dwarf.lines import Function
from ompd.binary.elf.elf import DT_PLTGOT, PF_W, PF_X, PT_LOAD
from ompd.binary.elf.symbols import STT_TLS, Symbol
from ompd.contract.callbacks import TypeRef, TypeSizes
from ompd.contract.memory import ByteOrder, StructLayout
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.process import (
    CallResult,
    Frame,
    Location,
    Module,
    Shape,
    SourceFrame,
    Stack,
    TailCall,
    Variable,
    shape_of,
)
from ompd.debugger.architecture import SystemCalls
from ompd.debugger.bound import BoundCallbacks
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.modules.loader import Loader
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.modules.vdso import Vdso
from ompd.debugger.snapshot.environment import read_environment
from ompd.debugger.stacks.callsites import CallSites
from ompd.debugger.stacks.unwind import Steps, Table, Unwinder
from ompd.debugger.targets.base import MemoryRegion, PageOmitted, Target
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.tls import ThreadLocalStorage, thread_pointer_of
from ompd.debugger.variables.types import Types, field_offset, sizeof
from ompd.errors import (
    BadInput,
    CorruptState,
    MalformedFile,
    MemoryFault,
    OmpdError,
    SymbolNotFound,
    TooMuch,
    Unavailable,
    Unsupported,
)
from ompd.naming import is_construct

if TYPE_CHECKING:
    from ompd.binary.dwarf.calls import Call
    from ompd.binary.types.types import TypeInfo
    from ompd.debugger.emulation.decode import Decoder
    from ompd.debugger.emulation.emulate import Emulator
    from ompd.debugger.emulation.linking import Linkage
    from ompd.debugger.stacks.tail_calls import Chain, TailCalls
    from ompd.debugger.threads.emutls import EmulatedTls
    from ompd.debugger.variables.locals import FunctionLocals, Locals
    from ompd.debugger.variables.static import Variables

# A string is read in pieces that end with a page, so that one at the end of a mapping can be read.
_STRING_PIECE = 256
_NO_REGISTERS = "the thread's registers are lost with the notes of the core file"
# What one question may read: a budget, so that it ends whatever the target's structures say, and not a clock, so that
# it ends in the same place everywhere. A thread takes 40 reads of 10 kB, a thousand queued tasks 13,000 of 340 kB:
# 230,000 tasks is possible, which take 500 MB here.
_MAX_READS, _MAX_READS_PER_THREAD = 3_000_000, 2_000
_MAX_BYTES, _MAX_BYTES_PER_THREAD = 1 << 30, 4 << 20
_PAGE = 4096
_CODE_OF_CALL = 48  # in so much code before a system call its number is made ready
_MAX_CALLS = 1 << 12
# Linux, futex.h: what futex() does beside having its caller wait (FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI,
# WAKE_BITSET, CMP_REQUEUE_PI), less FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_FUTEXES_WITHOUT_WAIT = frozenset((1, 3, 4, 5, 7, 10, 12))
_FUTEX_FLAGS = 128 | 256
# glibc's, and as others name theirs
_LOADER = re.compile(r"ld(?:-linux[-\w]*|-\d[\d.]*|-musl[-\w]*)?\.so(?:\.\d+)*(?: \(deleted\))?")
_MAX_NOTED = 1 << 28  # what is larger is no read that succeeds


class InspectedProcess:
    """One process at one stop; see :class:`ompd.contract.process.Process`. What is computed is kept."""

    def __init__(
        self, target: Target, finder: FileFinder, exe: str | None = None, modules: ModuleList | None = None
    ) -> None:
        self._target = target
        self._finder = finder
        self._modules = ModuleList(target, finder, exe) if modules is None else modules
        self._by_start = {m.start: m for m in self._modules}
        self._pages_read: set[int] | None = None
        self._stacks: dict[tuple[int, bool], Stack] = {}
        self._shapes: dict[Shape, Shape] = {}  # of all stacks, each once
        self._registers: dict[int, Mapping[str, int]] = {}
        self._handled: dict[Shape, int] = {}  # how many frames handlers of signals have, with the kernel's below
        self._thread_pointers: dict[int, int] = {}
        self._steps: Steps = {}
        self._code: dict[tuple[int, int], bytes] = {}  # what is before a pc, by how much of it
        self._locations: dict[int, Location] = {}
        self._line_cache: dict[tuple[int, bool], tuple[str | None, int | None]] = {}
        self._start_cache: dict[tuple[int, str], int | None] = {}
        self._construct_cache: dict[int, tuple[str | None, int | None]] = {}
        self._source_cache: dict[int, tuple[SourceFrame, ...]] = {}
        self._name_cache: dict[tuple[int, str], str] = {}
        self._variables: dict[tuple[int, tuple[str, ...]], tuple[Variable, ...]] = {}
        self._pthreads: dict[int, int] = {}  # struct pthread of threads that the target does not name, by native id
        threads = len(target.thread_ids())
        self.max_reads = _MAX_READS + threads * _MAX_READS_PER_THREAD
        self.max_bytes = _MAX_BYTES + threads * _MAX_BYTES_PER_THREAD
        self.begin_question()

    def begin_question(self) -> None:
        """Allow :attr:`max_reads` reads and :attr:`max_bytes` bytes from here on."""
        self._reads_left, self._bytes_left = self.max_reads, self.max_bytes

    def limit_reads(self, count: int) -> None:
        """Allow a question at most *count* reads from here on."""
        self.max_reads = min(self.max_reads, count)
        self.begin_question()

    @property
    def spent(self) -> TooMuch | None:
        """What ended the question: it has read more than it may. None if it has not."""
        if self._reads_left >= 0 and self._bytes_left >= 0:
            return None
        return TooMuch(min(self.max_reads - self._reads_left, self.max_reads), self.max_bytes - self._bytes_left)

    def close(self) -> None:
        """Let go of the modules' files. The target is its owner's to close."""
        self.close_emulator()
        self._modules.close()

    def at_another_stop(self, target: Target) -> InspectedProcess:
        """Return the same process as *target* has it. What its files tell is kept, what was read of it is not."""
        other = InspectedProcess(target, self._finder, modules=self._modules)
        other._steps, other._types, other._variables = self._steps, self._types, self._variables
        other._locations, other._line_cache = self._locations, self._line_cache
        other._construct_cache = self._construct_cache
        other._source_cache, other._name_cache = self._source_cache, self._name_cache
        return other

    # Memory

    def note_reads(self) -> set[int]:
        """Return a set to which each page is added, by its number, of which something is read from now on."""
        self._pages_read = set()
        return self._pages_read

    @property
    def byte_order(self) -> ByteOrder:
        """See :class:`ompd.contract.memory.Memory`."""
        return self._target.architecture.byte_order

    @property
    def pointer_size(self) -> int:
        """See :class:`ompd.contract.memory.Memory`."""
        return self._target.architecture.pointer_size

    @property
    def architecture_name(self) -> str:
        """See :attr:`Process.architecture_name`."""
        return self._target.architecture.name

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*, from the target, or, of pages it left out, from the file that was mapped
        there.

        :raises MemoryFault: if neither has them
        :raises TooMuch: if the question has read more than it may
        """
        self._reads_left -= 1
        if self._reads_left < 0 or self._bytes_left < 0:
            raise self.spent or TooMuch(self.max_reads, self.max_bytes)
        if self._pages_read is not None and 0 < size <= _MAX_NOTED:
            self._pages_read.update(range(address // _PAGE, (address + size - 1) // _PAGE + 1))
        try:
            data = self._target.read(address, size)
        except PageOmitted as fault:
            data = self._read_from_file(address, size, fault)
        self._bytes_left -= size
        return data

    def check_current(self) -> None:
        """See :meth:`Process.check_current`."""
        self._target.check()

    def _read_from_file(self, address: int, size: int, fault: PageOmitted) -> bytes:
        module = self._modules.at(address)
        data = module.read_file(address, size) if module is not None else None
        if data is not None:
            return data
        if module is not None and module.record.fault is not None:
            raise MemoryFault(address, size, f"the target leaves it out, and {module.record.fault}") from fault
        raise fault

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """See :meth:`Callbacks.read_string`."""
        found = b""
        while len(found) < limit:
            at = address + len(found)
            piece = self.read(at, min(_STRING_PIECE - at % _STRING_PIECE, limit - len(found)))
            end = piece.find(b"\0")
            if end >= 0:
                return found + piece[:end]
            found += piece
        raise CorruptState(address, f"a string of more than {limit} bytes")

    # Modules and symbols

    def modules(self) -> Sequence[Module]:
        """See :meth:`Process.modules`."""
        return [module.record for module in self._modules]

    def loaded_modules(self) -> Sequence[LoadedModule]:
        """Return the modules with their files, for those who are of the debugger's half."""
        return list(self._modules)

    def module_at(self, address: int) -> Module | None:
        """See :meth:`Process.module_at`. Code of the kernel's own, the vDSO, counts as a module."""
        module = self._modules.at(address)
        if module is not None:
            return module.record
        vdso = self._vdso_at(address)
        return vdso.record if vdso is not None else None

    @cached_property
    def _vdso(self) -> Vdso | None:
        start = self._modules.vdso_start
        entry = self._modules.auxiliary_vector.get(AT_SYSINFO)
        return Vdso(self._target, start, entry) if start is not None else None

    def _vdso_at(self, address: int) -> Vdso | None:
        vdso = self._vdso
        if vdso is None or not vdso.record.start <= address < vdso.record.end:
            return None
        return vdso if vdso.is_known(address) else None

    def _symbol(self, module: Module, name: str) -> Symbol | None:
        loaded = self._by_start.get(module.start)
        return loaded.symbols.find(name) if loaded is not None and loaded.symbols is not None else None

    def _replaced(self, module: Module, name: str) -> int | None:
        # Of a variable that a library exports and the program has too, the loader has everybody use the program's: one
        # of the same name, or the copy that the linker made room for since the program refers to it.
        program = self._program
        replacing = self._exported.get(name)
        if replacing is None or program is None or module.is_program:
            return None
        loaded = self._by_start.get(module.start)
        if loaded is None or loaded.symbols is None or name not in loaded.symbols.exported_variables:
            return None
        return replacing.address + program.bias

    @cached_property
    def _exported(self) -> Mapping[str, Symbol]:
        # The program's variables that other modules may refer to.
        program = self._program
        try:
            return program.symbols.exported_variables if program is not None and program.symbols is not None else {}
        except MalformedFile:
            return {}

    @cached_property
    def unproven(self) -> Mapping[str, str]:
        """Why files that are used are not proven to be those that ran, by the module's name; see :class:`Module`."""
        if self._target.loss is None:
            return {}
        return {module.name: module.unproven for module in self.modules() if module.unproven is not None}

    def lost_data(self, module: Module) -> int | None:
        """Return the address of a page of *module*'s variables that is lost, None if there is none that shows it."""
        loaded = self._by_start.get(module.start)
        return loaded.lost_data() if loaded is not None else None

    def variable_ranges(self, module: Module) -> Sequence[tuple[int, int, int]]:
        """See :meth:`Process.variable_ranges`."""
        loaded = self._by_start.get(module.start)
        return loaded.variable_ranges() if loaded is not None else ()

    def check_data(self, address: int) -> None:
        """Make sure that what is read at *address* of a module's variables is not the zeros of a page that is lost.

        :raises CorruptState: if it is
        """
        loaded = self._modules.at(address)
        if loaded is not None and loaded.is_lost(address):
            raise CorruptState(
                address, f"a page of {loaded.name}'s variables is lost: zeros stand where its file has others"
            )

    @property
    def unseen_libraries(self) -> Sequence[str]:
        """Names of libraries that the process has, and that were not found in what is left of it."""
        return self._modules.needed

    def symbol_in(self, module: Module, name: str) -> int | None:
        """See :meth:`Process.symbol_in`. A thread-local symbol has no address of its own: None."""
        replaced = self._replaced(module, name)
        if replaced is not None:
            return replaced
        symbol = self._symbol(module, name)
        return symbol.address + module.bias if symbol is not None and symbol.type != STT_TLS else None

    def symbols_in(self, module: Module, names: Sequence[str]) -> Mapping[str, int]:
        """See :meth:`Process.symbols_in`."""
        loaded = self._by_start.get(module.start)
        if loaded is None or loaded.symbols is None:
            return {}
        found = loaded.symbols.find_many(names)
        own = {name: symbol.address + module.bias for name, symbol in found.items() if symbol.type != STT_TLS}
        for name in own.keys() & self._exported.keys():
            own[name] = self._replaced(module, name) or own[name]
        return own

    def symbols_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """See :meth:`Process.symbols_with_prefix`."""
        found: list[tuple[str, int]] = []
        for loaded in self._modules:
            if loaded.symbols is None or loaded.record.is_system_library:
                continue
            try:
                for symbol in loaded.symbols.find_prefix(prefix):
                    if symbol.type != STT_TLS:
                        found.append((symbol.name, symbol.address + loaded.bias))
            except MalformedFile:
                continue  # a damaged symbol table names nothing
        return found

    def callbacks(self, module: Module) -> BoundCallbacks:
        """See :meth:`Process.callbacks`."""
        return BoundCallbacks(self, module)

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """See :meth:`Callbacks.find_symbol`: in all modules, the program first."""
        for module in sorted(self.modules(), key=lambda m: not m.is_program):
            try:
                return self.find_symbol_in(module, name, thread=thread)
            except SymbolNotFound:
                continue
        raise SymbolNotFound(name)

    def find_symbol_in(self, module: Module, name: str, *, thread: int | None = None) -> int:
        """Return the address of symbol *name* of one module, in *thread* where the symbol is thread-local.

        :raises SymbolNotFound: if the module has none of that name
        """
        symbol = self._symbol(module, name)
        if symbol is None:
            raise SymbolNotFound(name, module.name)
        if symbol.type == STT_TLS:
            return self._thread_local(module, symbol, thread)
        return self._replaced(module, name) or symbol.address + module.bias

    def _thread_local(self, module: Module, symbol: Symbol, thread: int | None) -> int:
        if thread is None:
            raise BadInput(f"{symbol.name} is thread-local: it has an address in a thread only")
        return self._storage.address(self._by_start[module.start], symbol, thread)

    # Threads

    def threads(self) -> Sequence[int]:
        """See :meth:`Process.threads`. Those that the target does not name any more are taken from glibc's lists."""
        return self._threads

    @cached_property
    def _threads(self) -> Sequence[int]:
        named = self._target.thread_ids()
        if self._target.loss is None or not self._target.loss.threads:
            return named
        try:
            listed = self._glibc.pthreads()
        except OmpdError:
            return named
        self._pthreads.update((thread, pthread) for thread, pthread in listed.items() if thread not in named)
        return (*named, *self._pthreads)

    @property
    def names_all_threads(self) -> bool:
        """Whether :meth:`threads` has every thread of the process."""
        loss = self._target.loss
        if loss is None or not loss.threads:
            return True
        try:
            return set(self._glibc.pthreads()) <= set(self.threads())
        except OmpdError:
            return False

    def registers(self, thread: int) -> Mapping[str, int]:
        """See :meth:`Process.registers`.

        :raises Unavailable: if the target has lost them
        """
        if thread in self._pthreads:
            raise Unavailable(_NO_REGISTERS)
        known = self._registers.get(thread)
        if known is None:
            known = self._registers[thread] = self._target.registers(thread)
        return known

    def thread_pointer(self, thread: int) -> int:
        """See :meth:`Process.thread_pointer`."""
        if thread in self._pthreads:
            return thread_pointer_of(self._pthreads[thread], self._target.architecture, self._glibc)
        known = self._thread_pointers.get(thread)
        if known is None:
            known = self.registers(thread).get(self._target.architecture.thread_pointer)
            if known is None:
                known = self._listed_thread_pointer(thread)
            self._thread_pointers[thread] = known
        return known

    def _listed_thread_pointer(self, thread: int) -> int:
        # A debugger need not give this register; glibc's own lists have all threads.
        pthread = self._glibc.pthreads().get(thread)
        if pthread is None:
            raise Unavailable(f"the thread pointer of {thread}: it is in no register and not in glibc's lists")
        return thread_pointer_of(pthread, self._target.architecture, self._glibc)

    @cached_property
    def _by_thread_pointer(self) -> dict[int, int]:
        return {self.thread_pointer(thread): thread for thread in self.threads()}

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        """See :meth:`Callbacks.thread_for_id`. In glibc and musl ``pthread_self()`` is the thread pointer."""
        if kind == ThreadIdKind.LWP and identifier in self.threads():
            return identifier
        if kind == ThreadIdKind.PTHREAD and identifier in self._by_thread_pointer:
            return self._by_thread_pointer[identifier]
        if kind not in (ThreadIdKind.LWP, ThreadIdKind.PTHREAD):
            raise Unsupported(f"thread identifiers of kind {kind}")
        if kind == ThreadIdKind.PTHREAD and self._target.loss is not None and self._target.loss.threads and identifier:
            return self._learn(identifier)
        raise BadInput(f"no thread with {kind.name.lower()} id {identifier:#x} in the process")

    def _learn(self, thread_pointer: int) -> int:
        # The native id of a thread that neither the target nor glibc's lists name: it is in its own struct pthread.
        pthread = self._storage.pthread(thread_pointer)
        thread = self._glibc.native_id(pthread)
        if thread in self.threads():
            raise CorruptState(pthread, f"two threads have the identifier {thread}")
        self._pthreads[thread] = pthread
        self._by_thread_pointer[thread_pointer] = thread
        return thread

    @cached_property
    def _unwinder(self) -> Unwinder:
        return Unwinder(
            self.read,
            self._target.architecture,
            self._unwind_table,
            self._steps,
            is_code=self._is_code,
            stack_end=self._stack_end,
            function_start=lambda address: self.locate(address).symbol_address,
        )

    def _unwind_table(self, pc: int) -> tuple[Table, int] | None:
        module = self._modules.at(pc) or self._vdso_at(pc)
        return (module, module.bias) if module is not None else None

    @cached_property
    def _regions(self) -> tuple[list[int], Sequence[MemoryRegion]]:
        regions = self._target.regions()
        return [region.start for region in regions], regions

    def _region_at(self, address: int) -> MemoryRegion | None:
        starts, regions = self._regions
        index = bisect_right(starts, address) - 1
        return regions[index] if index >= 0 and address < regions[index].end else None

    def _stack_end(self, address: int) -> int | None:
        # A snapshot has one mapping as several, one behind the other.
        starts, regions = self._regions
        index = bisect_right(starts, address) - 1
        if index < 0 or address >= regions[index].end:
            return None
        here, *others = regions[index:]
        end = here.end
        for region in others:
            if region.start != end or region.flags != here.flags:
                break
            end = region.end
        return end

    def _is_code(self, address: int) -> bool:
        region = self._region_at(address)
        if region is not None:
            return bool(region.flags & PF_X)
        # gdb's cores leave out what was mapped from a file and not written to.
        module = self._modules.at(address)
        segments = module.elf.segments if module is not None and module.elf is not None else ()
        return module is not None and any(
            s.p_type == PT_LOAD and s.p_flags & PF_X and s.p_vaddr <= address - module.bias < s.p_vaddr + s.p_memsz
            for s in segments
        )

    def stack(self, thread: int, *, guess: bool = False) -> Stack:
        """See :meth:`Process.stack`."""
        stack = self._stacks.get((thread, guess))
        if stack is None:
            stack = self._stacks[thread, guess] = self._stack(thread, guess)
        return stack

    def _stack(self, thread: int, guess: bool) -> Stack:
        if thread in self._pthreads:
            return Stack.of((), _NO_REGISTERS)
        if guess:
            certain = self.stack(thread)
            if certain.stopped is None:
                return certain
        registers = self.registers(thread)
        found = self._unwinder.shape(registers) if not guess else None
        if found is not None:
            # Most threads of a team stand in the same code, and what that tells is known from the first of them.
            shape, innermost = found
            shape = self._shapes.setdefault(shape, shape)
            return Stack(shape, None, lambda: self._unwinder.unwind(self.registers(thread)), innermost)
        walk = self._unwinder.unwind(registers, guess=guess)
        frames = tuple(walk)
        shape = shape_of(frames)
        return Stack.of(frames, walk.stopped, self._shapes.setdefault(shape, shape))

    # Places

    def locate(self, address: int) -> Location:
        """See :meth:`Process.locate`."""
        location = self._locations.get(address)
        if location is None:
            location = self._locations[address] = self._locate(address)
        return location

    def _locate(self, address: int) -> Location:
        loaded = self._modules.at(address)
        if loaded is None:
            vdso = self._vdso_at(address)
            symbol = vdso.symbol_at(address) if vdso is not None else None
            where = (symbol.name, symbol.address) if symbol is not None else (None, None)
            return Location(address, self.module_at(address), *where)
        try:
            symbol = loaded.symbols.at(address - loaded.bias) if loaded.symbols is not None else None
        except MalformedFile:
            symbol = None  # a damaged symbol table names nothing
        if symbol is None:
            return Location(address, loaded.record, None, None)
        return Location(address, loaded.record, symbol.name, symbol.address + loaded.bias)

    def line_of(self, address: int, *, entry: bool = False) -> tuple[str | None, int | None]:
        """Return file and line of *address*, ``(None, None)`` where no debug information has them.

        :param entry: the function that begins at *address* is meant, not its first statement
        """
        key = (address, entry)
        found = self._line_cache.get(key)
        if found is None:
            found = self._line_cache[key] = self._line_of(self._modules.at(address), address, entry)
        return found

    def _line_of(self, loaded: LoadedModule | None, address: int, entry: bool) -> tuple[str | None, int | None]:
        try:
            if loaded is not None and loaded.lines is not None:
                return loaded.lines.locate(address - loaded.bias, entry=entry) or (None, None)
        except OmpdError:
            pass  # damaged debug information says nothing
        return None, None

    def construct_line(self, entry: int) -> tuple[str | None, int | None]:
        """Return file and line of the construct of which a compiler made the function that begins at *entry*, ``(None,
        None)`` where no debug information has them.
        """
        found = self._construct_cache.get(entry)
        if found is None:
            found = self._construct_cache[entry] = self._construct_line(entry)
        return found

    def _construct_line(self, entry: int) -> tuple[str | None, int | None]:
        loaded = self._modules.at(entry)
        try:
            if loaded is not None and loaded.lines is not None:
                return loaded.lines.construct(entry - loaded.bias) or (None, None)
        except OmpdError:
            pass  # damaged debug information says nothing
        return None, None

    def source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        """See :meth:`Process.source_frames`. Without debug information names are those of symbols."""
        found = self._source_cache.get(address)
        if found is None:
            found = self._source_cache[address] = self._source_frames(address)
        return found

    def _source_frames(self, address: int) -> tuple[SourceFrame, ...]:
        file, line = self.line_of(address)
        frames: list[SourceFrame] = []
        for function in self._functions_at(address):
            frames.append(SourceFrame(function.name, file, line, function.is_inlined))
            file, line = function.call or (None, None)
        if not frames:
            frames = [SourceFrame(None, file, line, False)]
        symbol = self.locate(address).symbol
        if symbol is not None and (frames[-1].function is None or is_construct(symbol)):
            name = symbol if is_construct(symbol) else _demangled(symbol)
            frames[-1] = frames[-1]._replace(function=name)
        return tuple(frames)

    def _functions_at(self, address: int) -> Sequence[Function]:
        loaded = self._modules.at(address)
        try:
            if loaded is not None and loaded.lines is not None:
                return loaded.lines.functions(address - loaded.bias)
        except OmpdError:
            pass  # damaged debug information says nothing
        return ()

    def has_parameter(self, address: int, name: str) -> bool:
        """Return whether debug information knows a parameter called *name* of the function at an address of code, or of
        one that is inlined there.
        """
        loaded = self._modules.at(address)
        try:
            return (
                loaded is not None
                and loaded.lines is not None
                and loaded.lines.has_parameter(address - loaded.bias, name)
            )
        except OmpdError:
            return False  # damaged debug information says nothing

    def declared_inside(self, address: int) -> str | None:
        """Return the function of the source in whose lines the one at an address of code is declared, as those are that
        compilers make of constructs; None if that is unknown.
        """
        loaded = self._modules.at(address)
        try:
            if loaded is not None and loaded.lines is not None:
                return loaded.lines.declared_inside(address - loaded.bias)
        except OmpdError:
            pass  # damaged debug information says nothing
        return None

    def source_name(self, module: Module | None, symbol: str, made: int | None = None) -> str:
        """Return what the source calls the function *symbol* of *module*: as its debug information says, or by what a
        name of C++ says itself.

        For the names that compilers of Fortran (``name_``, ``__module_MOD_name``) and C++ (``_Z...``) make.

        :param made: an address of code that a compiler made of a construct in that function, which may itself be
            inlined everywhere
        """
        is_mangled = symbol.startswith("_Z")
        if not (is_mangled or symbol.endswith("_") or "_MOD_" in symbol):
            return symbol
        key = module.start if module is not None else 0, symbol
        name = self._name_cache.get(key)
        if name is None:
            loaded = self._by_start.get(key[0])
            told = self._told_name(loaded, symbol) if loaded is not None else None
            if told is None and loaded is not None and made is not None:
                told = self._name_around(loaded, made, symbol)
            name = self._name_cache[key] = told or (_demangled(symbol) if is_mangled else symbol)
        return name

    def _told_name(self, loaded: LoadedModule, symbol: str) -> str | None:
        try:
            found = loaded.symbols.find(symbol) if loaded.symbols is not None and loaded.lines is not None else None
        except OmpdError:
            return None  # damaged symbols say nothing
        functions = self._functions_at(found.address + loaded.bias) if found is not None else ()
        return functions[-1].name if functions else None

    def _name_around(self, loaded: LoadedModule, made: int, symbol: str) -> str | None:
        if not (self.locate(made).symbol or "").startswith(f"{symbol}."):
            return None  # it was made of another function
        try:
            return loaded.lines.function_around(made - loaded.bias, symbol) if loaded.lines is not None else None
        except OmpdError:
            return None  # damaged debug information says nothing

    def receivers(self, function: int, callers: str) -> Iterator[str]:
        """Yield the routines that the code of *callers* passes the function at an address to, the nearest first.

        :param callers: the linker's name of a function; code that a compiler made of parts of it is looked at, too
        """
        loaded = self._modules.at(function)
        if loaded is not None:
            yield from self._call_sites.receivers(loaded, function, callers)

    def futex_word(self, frame: Frame) -> int | None:
        """See :meth:`Process.futex_word`."""
        calls = self._target.architecture.system_calls
        if calls is None or not self._has_called(frame, calls.instruction):
            return None
        return frame.registers.get(calls.first_argument)

    def _has_called(self, frame: Frame, instruction: bytes) -> bool | None:
        # None if the code is not available.
        try:
            return self._code_before(frame.pc, len(instruction)) == instruction
        except MemoryFault:
            return None

    def _code_before(self, pc: int, size: int) -> bytes:
        # Where one thread waits, others do.
        known = self._code.get((pc, size))
        if known is None:
            known = self._code[pc, size] = self.read(pc - size, size)
        return known

    def _number_of_call(self, frame: Frame, calls: SystemCalls) -> int | None:
        try:
            code = self._code_before(frame.pc, _CODE_OF_CALL)
        except MemoryFault:
            return None
        found = re.findall(calls.number, code)
        return int.from_bytes(found[-1], "little") if found else None

    def _number_in_register(self, thread: int, calls: SystemCalls) -> int | None:
        # 0 is that of a call that is made once more, whichever it was, and stands where a debugger did not tell it.
        number = self.registers(thread).get(calls.register, 0) if calls.register is not None else 0
        return number if 0 < number < _MAX_CALLS else None

    def _is_held(self, address: int, size: int) -> bool:
        try:
            self.read(address, size)
        except MemoryFault:
            return False
        return True

    def progress(self, thread: int, flags: int = 0) -> str | None:
        """See :meth:`Process.progress`. A handler of a signal is no end to a wait, but it may wait itself."""
        calls = self._target.architecture.system_calls
        stack = self.stack(thread)
        innermost = stack.innermost
        handled = self._handled.get(stack.shape)
        if handled is None:
            handled = max([index for index, frame in enumerate(stack.frames, 1) if frame.is_signal_frame], default=0)
            self._handled[stack.shape] = handled
        if calls is not None and handled and innermost is not None and self._has_called(innermost, calls.instruction):
            number = self._number_in_register(thread, calls) or self._number_of_call(innermost, calls)
            handled = 0 if number in calls.futexes else handled
        frame = stack.frames[handled] if 0 < handled < len(stack.shape[0]) else innermost
        if calls is None or frame is None or handled >= len(stack.shape[0]):
            return None
        sleeps = self._has_called(frame, calls.instruction)
        if not sleeps:
            return None if sleeps is None else "spinning"
        # Not every target has the register in which the kernel keeps which call it is; the code may show it. Where that
        # takes the number from somewhere else, it is what runtimes wait by.
        number = self._number_in_register(thread, calls) if not handled else None
        if number is None:
            # Code of the kernel's own, by which all calls may go, is told it by its caller.
            by_kernels = handled + 1 < len(stack.shape[0]) and self._vdso_at(frame.pc) is not None
            caller = stack.frames[handled + 1] if by_kernels else frame
            number = self._number_of_call(caller, calls)
            if number is None and by_kernels and not self._is_held(caller.pc - _CODE_OF_CALL, _CODE_OF_CALL):
                return None
        if number == calls.sched_yield:
            return "spinning"
        if number is not None and number not in calls.futexes:
            return "blocked"
        # Whoever wakes others up is in the same call, and does not sleep.
        operation = frame.registers.get(calls.second_argument)
        if operation is not None and operation & 0xFFFFFFFF & ~_FUTEX_FLAGS in _FUTEXES_WITHOUT_WAIT:
            return "spinning"
        word, expected = (frame.registers.get(r) for r in (calls.first_argument, calls.third_argument))
        if word is None or expected is None:
            return None
        try:
            now = int.from_bytes(self.read(word, 4), self.byte_order)
            # A page that was lost reads as zeros.
            if not now and not any(self.read(word - word % _PAGE, _PAGE)):
                return None
        except MemoryFault:
            return None
        return "released" if (now ^ expected) & 0xFFFFFFFF & ~flags else "blocked"

    def routine_called(self, pc: int) -> str | None:
        """See :meth:`Process.routine_called`."""
        return self._call_sites.called(pc)

    def function_named(self, pc: int) -> int | None:
        """Return where the function begins that is called by the instruction before *pc*, None if neither the code nor
        debug information says.
        """
        target = self._call_sites.target(pc)
        if target is None:
            calls = self._described_calls(pc - 1) or ()
            target = next((call.start for call in calls if call.behind == pc and not call.is_tail), None)
        return target

    def addresses_passed(self, pc: int, routine: int | None = None) -> Sequence[int]:
        """See :meth:`Process.addresses_passed`."""
        inside = pc - 1
        called = self.function_named(pc) if routine is not None else None
        if routine is not None and called not in (None, routine):
            chain = self.described_tail_calls(called, routine)
            if not chain.is_whole or chain.steps[0].jump is None:
                return ()
            inside = chain.steps[0].jump
        loaded = self._modules.at(inside)
        try:
            if loaded is not None and loaded.lines is not None:
                return [address + loaded.bias for address in loaded.lines.passed(inside - loaded.bias)]
        except OmpdError:
            pass  # damaged debug information says nothing
        return ()

    def described_tail_calls(self, called: int, runs: int) -> Chain:
        """Return the functions that left the stack between the one that begins at *called* and the one that does at
        *runs*; see :class:`ompd.debugger.stacks.tail_calls.TailCalls`.
        """
        return self._tail_calls.between(called, runs)

    @cached_property
    def _tail_calls(self) -> TailCalls:
        from ompd.debugger.stacks.tail_calls import TailCalls  # noqa: PLC0415  for one question alone

        return TailCalls(self._described_calls)

    def _described_calls(self, address: int) -> Sequence[Call] | None:
        loaded = self._modules.at(address)
        if loaded is None or loaded.lines is None:
            return None
        if loaded.record.is_system_library:
            return ()  # they do not end by a jump to the code of others
        link_address = address - loaded.bias
        try:
            if loaded.lines.function_entry(link_address) is None:
                return None
            calls = loaded.lines.calls(link_address)
        except OmpdError:
            return None  # damaged debug information says nothing
        bias = loaded.bias
        return [
            call._replace(
                inside=call.inside + bias,
                behind=call.behind + bias if call.behind is not None else None,
                start=call.start + bias if call.start is not None else self._start_of(loaded, call.name),
            )
            for call in calls
        ]

    def _start_of(self, loaded: LoadedModule, name: str | None) -> int | None:
        # Where the function begins that code of a module calls by a linker's name: one of its own, or another's.
        key = loaded.start, name or ""
        if name is not None and key not in self._start_cache:
            symbols = loaded.symbols.find_prefix(name) if loaded.symbols is not None else []
            own = {symbol.address for symbol in symbols if symbol.name == name}
            try:
                start = own.pop() + loaded.bias if len(own) == 1 else None if own else self.find_symbol(name)
            except OmpdError:
                start = None
            self._start_cache[key] = start
        return self._start_cache.get(key)

    def calls_by_pointer(self, pc: int) -> bool | None:
        """See :meth:`Process.calls_by_pointer`."""
        module = self._modules.at(pc)
        return self._call_sites.calls_by_pointer(pc, lambda at: module is not None and self._modules.at(at) is module)

    def function_called(self, frame: Frame) -> int | None:
        """See :meth:`Process.function_called`."""
        return self._call_sites.function_called(frame)

    def tail_calls(self, function: int, reached: int) -> Sequence[Sequence[TailCall]]:
        """See :meth:`Process.tail_calls`."""
        return self._call_sites.tail_calls(function, reached)

    def is_linkage(self, address: int) -> bool:
        """See :meth:`Process.is_linkage`: by its code, since these entries have no symbols."""
        return self._call_sites.is_stub(address) and self.locate(address).symbol is None

    def _read_code(self, address: int, size: int) -> bytes:
        # From the module's file, where that is known to be what is mapped: it costs a stopped process nothing. A
        # snapshot has to have the pages.
        loaded = self._modules.at(address) if self._pages_read is None else None
        code = loaded.read_file(address, size) if loaded is not None and not loaded.damaged_bytes else None
        return code if code is not None else self.read(address, size)

    @cached_property
    def _call_sites(self) -> CallSites:
        return CallSites(
            self,
            self._read_code,
            self._target.architecture,
            lambda address: self.locate(address).symbol,
            self._linkage_table,
            self._extent_at,
        )

    def _extent_at(self, address: int) -> tuple[int, int] | None:
        # Where the function at an address begins and ends, by unwind data, which stripped modules have, too.
        loaded = self._modules.at(address)
        try:
            row = loaded.row(address - loaded.bias) if loaded is not None else None
        except MalformedFile:
            return None
        if row is None or loaded is None:
            return None
        return row.function_start + loaded.bias, row.function_end + loaded.bias

    def _linkage_table(self, address: int) -> int | None:
        # Where the module with an address has its table that is shared with the loader, None without one.
        loaded = self._modules.at(address)
        try:
            entries = loaded.elf.dynamic() if loaded is not None and loaded.elf is not None else []
        except MalformedFile:
            entries = []
        found = next((value for tag, value in entries if tag == DT_PLTGOT), None)
        return found + loaded.bias if found is not None and loaded is not None else None

    # What later parts of the debugger serve

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        """See :meth:`Callbacks.to_host`. Supported targets have the byte order of this machine."""
        return raw

    def type_sizes(self) -> TypeSizes:
        """See :meth:`Callbacks.type_sizes`."""
        pointer = self.pointer_size  # LP64 and ILP32: long is as wide as a pointer
        return TypeSizes(1, 2, 4, sizeof_long=pointer, sizeof_long_long=8, sizeof_pointer=pointer)

    @cached_property
    def _types(self) -> Types:
        return Types(self._modules)

    def find_type(self, name: str) -> TypeRef:
        """See :meth:`Callbacks.find_type`: of all modules, the program first, C and compiler libraries last."""
        return self._types.find(name)

    def find_type_in(self, module: Module, name: str) -> TypeRef:
        """See :meth:`ompd.debugger.variables.types.Types.find_in`."""
        return self._types.find_in(module, name)

    def sizeof(self, type_ref: TypeRef) -> int:
        """See :meth:`Callbacks.sizeof`."""
        return sizeof(type_ref)

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        """See :meth:`Callbacks.field_offset`. ``a.b`` is member b of the structure in member a."""
        return field_offset(type_ref, field)

    def struct_layout(self, module: Module, name: str, members: Sequence[str]) -> StructLayout:
        """See :meth:`ompd.debugger.variables.types.Types.layout`."""
        return self._types.layout(module, name, members)

    def variables_of_type(self, module: Module, names: Sequence[str]) -> Sequence[Variable]:
        """See :meth:`Process.variables_of_type`. An array of more than 65,536 elements is left out."""
        key = module.start, tuple(names)
        if key not in self._variables:
            try:
                rows = self._types.variables(module, names)
            except OmpdError:
                rows = []  # damaged debug information says nothing
            found = (Variable(expression, address + module.bias) for expression, address in rows)
            self._variables[key] = tuple(v for v in found if module == self.module_at(v.address))
        return self._variables[key]

    @property
    def _program(self) -> LoadedModule | None:
        return next((m for m in self._modules if m.record.is_program), None)

    @cached_property
    def _loader(self) -> Loader:
        return Loader(self, self._program)

    @cached_property
    def _glibc(self) -> GlibcThreads:
        return GlibcThreads(self, self._loader, self.read)

    @cached_property
    def _storage(self) -> ThreadLocalStorage:
        return ThreadLocalStorage(
            self, self._target.architecture, self._glibc, self._loader, self._program, self.thread_pointer
        )

    # Variables by name

    @property
    def named_variables(self) -> Variables:
        """The variables of all modules by their names; see :mod:`ompd.debugger.variables.static`."""
        return self._types.named

    def local_variables(self, frame: Frame, thread: int | None = None) -> Sequence[FunctionLocals]:
        """Return the variables of each function that a physical frame is in, one for each of
        ``source_frames(frame.call_site)``; see :class:`ompd.debugger.variables.locals.Locals`.

        :param thread: the native id of the thread that the frame is of, for thread-local variables
        """
        return self._locals.of_frame(frame, thread)

    def local_names(self, frame: Frame) -> Collection[str]:
        """Return the names of the variables of the functions that a physical frame is in, as far as files give them."""
        return self._locals.names_at(frame)

    @cached_property
    def _locals(self) -> Locals:
        from ompd.debugger.variables.locals import Locals  # noqa: PLC0415  for one question alone

        return Locals(self, x87=self._target.architecture.x87)

    @property
    def stack_pointer(self) -> int:
        """The stack pointer's number in debug information."""
        architecture = self._target.architecture
        return architecture.dwarf_registers[architecture.sp]

    def types_of(self, module: LoadedModule) -> TypeInfo | None:
        """Return the types of a module, None if it has no debug information."""
        return self._types.info_of(module)

    def loaded_module_at(self, address: int) -> LoadedModule | None:
        """Return the module that has *address* mapped, with its files, for those who are of the debugger's half."""
        return self._modules.at(address)

    def thread_local_address(self, module: Module, offset: int, size: int, name: str, thread: int) -> int:
        """See :meth:`ompd.debugger.threads.tls.ThreadLocalStorage.offset_address`."""
        return self._storage.offset_address(self._by_start[module.start], offset, size, name, thread)

    @cached_property
    def emulated_tls(self) -> EmulatedTls:
        """The thread-local variables that are kept by a POSIX thread key."""
        from ompd.debugger.threads.emutls import EmulatedTls  # noqa: PLC0415  few programs have any

        return EmulatedTls(self)

    def symbolize(self, address: int) -> str | None:
        """Return the name of what is at *address*, ``name+8`` for an address inside of it; None without a symbol."""
        place = self.locate(address)
        if place.symbol is None or place.symbol_address is None:
            return None
        distance = address - place.symbol_address
        name = self.source_name(place.module, place.symbol)
        return f"{name}+{distance}" if distance else name

    def read_data(self, address: int, size: int) -> bytes:
        """Return *size* bytes of a variable: :meth:`read`, but of pages that no one ever wrote to, too.

        Linux does not write a mapping into a core whose pages were never touched: a module's zeroed data is zero then.
        """
        try:
            return self.read(address, size)
        except PageOmitted as fault:
            found = b""
            while len(found) < size:
                at = address + len(found)
                count = min(size - len(found), _PAGE - at % _PAGE)
                try:
                    found += self.read(at, count)
                except PageOmitted:
                    if not self._is_unwritten(at, count):
                        raise fault from None
                    found += bytes(count)
            return found

    def _is_unwritten(self, address: int, size: int) -> bool:
        # Whether the bytes are zeroed data of a module in a mapping that a whole core leaves out altogether, while it
        # does hold others that are no file's: so it was not meant to leave them out.
        target, module = self._target, self._modules.at(address)
        if target.kind != "core" or target.loss is not None or module is None or module.elf is None:
            return False
        if any(target.extract(other.start, NT_OMPD_FILE) is not None for other in self._modules):
            return False  # a snapshot holds what was requested when it was taken
        held = set(target.segment_starts())
        regions = [region for region in target.regions() if region.flags & PF_W]
        own = next((region for region in regions if region.start <= address and address + size <= region.end), None)
        files = {mapping.start for mapping in target.mappings()}
        if own is None or own.start in held or not any(r.start in held and r.start not in files for r in regions):
            return False
        return any(
            segment.p_type == PT_LOAD
            and -(-(module.bias + segment.p_vaddr + segment.p_filesz) // _PAGE) * _PAGE <= address
            and address + size <= -(-(module.bias + segment.p_vaddr + segment.p_memsz) // _PAGE) * _PAGE
            for segment in module.elf.segments
        )

    def pthread_key(self, thread: int, key: int) -> int | None:
        """See :meth:`Callbacks.pthread_key`.

        :raises BadInput: if the process has no such key
        :raises Unavailable: if its C library does not say
        """
        return self._glibc.key_value(self._storage.pthread(self.thread_pointer(thread)), key)

    def read_loader(self) -> None:
        """Read the loader's list of modules and glibc's of threads, for a target that notes what is read."""
        for _ in self._loader.link_maps:
            pass
        self._glibc.pthreads()

    def read_thread_storage(self, thread: int) -> None:
        """Read all thread-local variables of *thread*, and what it stored under POSIX thread keys, for a target that
        notes what is read.
        """
        self._storage.read_blocks(self._modules, thread)
        with suppress(OmpdError):
            self._glibc.read_keys(self._storage.pthread(self.thread_pointer(thread)))
        if self._emulated_controls:
            self.emulated_tls.read_copies(self._emulated_controls, thread)

    @cached_property
    def _emulated_controls(self) -> Sequence[int]:
        # Of modules whose symbols were needed: the others' files are not opened for this alone.
        found: list[int] = []
        for module in self._modules:
            if "symbols" in module.__dict__ and module.symbols is not None and not module.record.is_system_library:
                with suppress(MalformedFile):
                    found += [symbol.address + module.bias for symbol in module.symbols.find_prefix("__emutls_v.")]
        return found

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return what the kernel told the program at its start, by ``AT_*``."""
        return self._target.auxiliary_vector()

    def environment(self) -> Mapping[str, str]:
        """See :meth:`Process.environment`."""
        return self._environment

    @cached_property
    def _environment(self) -> Mapping[str, str]:
        return read_environment(self, self._modules.auxiliary_vector)

    # Routines of the target

    def call(self, routine: int, thread: int, arguments: Sequence[int] = ()) -> CallResult:
        """See :meth:`Process.call`."""
        emulator = self._emulator
        if isinstance(emulator, Unavailable):
            raise Unavailable(str(emulator), hint=emulator.hint) from emulator
        return emulator.call(routine, thread, arguments)

    def evaluate(self, routine: int, thread: int) -> CallResult:
        """See :meth:`Process.evaluate`."""
        try:
            return self._decoder.call(routine, thread)
        except Unavailable as undecoded:
            try:
                return self.call(routine, thread)
            except Unavailable as error:
                raise Unavailable(f"{undecoded}; {error}", hint=error.hint or undecoded.hint) from error

    @cached_property
    def _decoder(self) -> Decoder:
        from ompd.debugger.emulation.decode import Decoder  # noqa: PLC0415  as for the emulator

        return Decoder(self, self._target.architecture, self._is_code)

    @cached_property
    def _emulator(self) -> Emulator | Unavailable:
        # Or why there is none: that is found out once.
        from ompd.debugger.emulation.emulate import Emulator  # noqa: PLC0415  for plugins that ask for it

        try:
            return Emulator(self, self._target.architecture, self._linkage, self._is_code, self._is_free)
        except Unavailable as error:
            return error

    def close_emulator(self) -> None:
        """Let go of the emulator, which takes some megabytes; a later call makes another one."""
        emulator: Emulator | Unavailable | None = self.__dict__.pop("_emulator", None)
        if emulator is not None and not isinstance(emulator, Unavailable):
            emulator.close()

    def _linkage(self, jump_slot: int) -> Linkage:
        from ompd.debugger.emulation.linking import Linkage  # noqa: PLC0415  as above

        return Linkage(self, self._loader, self._modules.at, jump_slot)

    def _is_free(self, start: int, end: int) -> bool:
        # Whether the target has nothing between two addresses, as far as it says.
        return not any(
            place.start < end and start < place.end
            for places in (self._target.regions(), self._target.mappings(), self._modules)
            for place in places
        )

    @property
    def is_whole(self) -> bool:
        """Whether the target holds all that it was meant to hold."""
        return self._target.loss is None

    def loader_code(self) -> Sequence[tuple[int, int]]:
        """Return where the dynamic loaders are, from and to which address."""
        base = self._modules.auxiliary_vector.get(AT_BASE)
        return [
            (module.start, module.end)
            for module in self._modules
            if _LOADER.fullmatch(module.name.rpartition("/")[2]) or (base is not None and base == module.start)
        ]

    def thread_local_block(self, module: Module, thread: int) -> tuple[int, int] | None:
        """See :meth:`Process.thread_local_block`."""
        loaded = self._by_start.get(module.start)
        return self._storage.block(loaded, thread) if loaded is not None else None  # the vDSO has none


def _demangled(symbol: str) -> str:
    if not symbol.startswith("_Z"):
        return symbol
    from ompd.binary.demangle import demangle  # noqa: PLC0415  for programs in C++ alone

    return demangle(symbol) or symbol
