"""The interface of the stopped process for plugins. Each method calls the part of the process that implements it.

OMPD and DMPL name symbols without their file, but a process with two runtimes has every name twice. So there is
:class:`ModuleCallbacks`, which looks in the module of one runtime first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.contract.callbacks import TypeRef, TypeSizes
from ompd.contract.memory import ByteOrder, StructLayout
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.process import CallResult, Frame, Location, Module, SourceFrame, Stack, TailCall, Variable
from ompd.debugger.variables.types import field_offset, sizeof
from ompd.errors import LayoutUnavailable, SymbolNotFound, TypeNotFound

if TYPE_CHECKING:
    from ompd.debugger.process import StoppedProcess


class ProcessCallbacks:
    """The callbacks of OMPD and DMPL for a whole process. The first module with a symbol or type of a name counts."""

    def __init__(self, process: StoppedProcess) -> None:
        self._process = process
        self._memory = process.memory
        self.byte_order: ByteOrder = process.memory.byte_order
        self.pointer_size = process.memory.pointer_size

    def read(self, address: int, size: int) -> bytes:
        return self._memory.read(address, size)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        return self._memory.read_string(address, limit)

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        return raw  # all supported targets have this machine's byte order

    def type_sizes(self) -> TypeSizes:
        pointer = self.pointer_size  # long has the same size (LP64, ILP32)
        return TypeSizes(1, 2, 4, sizeof_long=pointer, sizeof_long_long=8, sizeof_pointer=pointer)

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        return self._process.symbols.find_symbol(name, thread=thread)

    def find_type(self, name: str) -> TypeRef:
        return self._process.types.find(name)

    def sizeof(self, type_ref: TypeRef) -> int:
        return sizeof(type_ref)

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        return field_offset(type_ref, field)

    def pthread_key(self, thread: int, key: int) -> int | None:
        return self._process.storage.key_value(thread, key)

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        return self._process.threads.thread_for_id(kind, identifier)


class ModuleCallbacks(ProcessCallbacks):
    """The callbacks of OMPD and DMPL for the runtime in one module. Symbols and types of this module come first."""

    def __init__(self, process: StoppedProcess, module: Module) -> None:
        super().__init__(process)
        self._module = module

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        symbols = self._process.symbols
        try:
            return symbols.find_symbol_in(self._module, name, thread=thread)
        except SymbolNotFound:
            return symbols.find_symbol(name, thread=thread)

    def find_type(self, name: str) -> TypeRef:
        try:
            return self._process.types.find_in(self._module, name)
        except (TypeNotFound, LayoutUnavailable):
            return self._process.types.find(name)

    def source_of(self, name: str) -> tuple[str | None, int | None]:
        """Return the source function and the line of an outlined function by debug information, each None if unknown.

        This is :data:`ompd.contract.dmpl.SourceOf`, and no callback of DMPL itself.

        :param name: the outlined function's linkage name
        """
        try:
            address = self.find_symbol(name)
        except SymbolNotFound:
            return None, None
        places = self._process.places
        return places.declared_inside(address), places.construct_line(address)[1]


class ContractProcess(ProcessCallbacks):
    """Implements :class:`ompd.contract.process.Process`, which documents the methods."""

    def __init__(self, process: StoppedProcess) -> None:
        super().__init__(process)
        self.lasting = process.lasting
        self.architecture_name = process.target.architecture.name

    def check_current(self) -> None:
        self._process.target.check()

    def callbacks(self, module: Module) -> ModuleCallbacks:
        return ModuleCallbacks(self._process, module)

    def environment(self) -> Mapping[str, str]:
        return self._process.environment.at_start()

    # Modules, symbols and types

    def modules(self) -> Sequence[Module]:
        return self._process.symbols.modules()

    def module_at(self, address: int) -> Module | None:
        return self._process.symbols.module_at(address)

    def symbol_in(self, module: Module, name: str) -> int | None:
        return self._process.symbols.symbol_in(module, name)

    def symbols_in(self, module: Module, names: Sequence[str]) -> Mapping[str, int]:
        return self._process.symbols.symbols_in(module, names)

    def symbols_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        return self._process.symbols.symbols_with_prefix(prefix)

    def variable_ranges(self, module: Module) -> Sequence[tuple[int, int, int]]:
        return self._process.symbols.variable_ranges(module)

    def variables_of_type(self, module: Module, names: Sequence[str]) -> Sequence[Variable]:
        return self._process.types.variables_of_type(module, names)

    def struct_layout(self, module: Module, name: str, members: Sequence[str]) -> StructLayout:
        return self._process.types.layout(module, name, members)

    # Threads and stacks

    def threads(self) -> Sequence[int]:
        return self._process.threads.ids()

    def registers(self, thread: int) -> Mapping[str, int]:
        return self._process.threads.registers(thread)

    def thread_pointer(self, thread: int) -> int:
        return self._process.threads.thread_pointer(thread)

    def pthread_self(self, thread: int) -> int:
        return self._process.threads.pthread_self(thread)

    def thread_local_block(self, module: Module, thread: int) -> tuple[int, int] | None:
        loaded = self._process.symbols.loaded(module)
        return self._process.storage.block(loaded, thread) if loaded is not None else None  # the vDSO has none

    def stack(self, thread: int, *, guess: bool = False) -> Stack:
        return self._process.stacks.stack(thread, guess=guess)

    def futex_word(self, frame: Frame) -> int | None:
        return self._process.waiting.futex_word(frame)

    def progress(self, thread: int, flags: int = 0) -> str | None:
        return self._process.waiting.progress(thread, flags)

    # Code

    def locate(self, address: int) -> Location:
        return self._process.places.locate(address)

    def line_of(self, address: int) -> tuple[str | None, int | None]:
        return self._process.places.line_of(address)

    def source_frames(self, address: int) -> Sequence[SourceFrame]:
        return self._process.places.source_frames(address)

    def is_linkage(self, address: int) -> bool:
        return self._process.calls.is_linkage(address)

    def routine_called(self, pc: int) -> str | None:
        return self._process.calls.routine_called(pc)

    def function_called(self, frame: Frame) -> int | None:
        return self._process.calls.function_called(frame)

    def calls_by_pointer(self, pc: int) -> bool | None:
        return self._process.calls.calls_by_pointer(pc)

    def tail_calls(self, function: int, reached: int) -> Sequence[Sequence[TailCall]]:
        return self._process.calls.tail_calls(function, reached)

    def addresses_passed(self, pc: int, routine: int | None = None) -> Sequence[int]:
        return self._process.calls.addresses_passed(pc, routine)

    def arguments_passed(self, frame: Frame) -> Sequence[int | None]:
        return self._process.arguments_passed(frame)

    def object_passed(self, frame: Frame) -> int | None:
        return self._process.object_passed(frame)

    def call(self, routine: int, thread: int, arguments: Sequence[int] = ()) -> CallResult:
        return self._process.routines.call(routine, thread, arguments)

    def evaluate(self, routine: int, thread: int, nulls: Collection[int] = ()) -> CallResult:
        return self._process.routines.evaluate(routine, thread, nulls)
