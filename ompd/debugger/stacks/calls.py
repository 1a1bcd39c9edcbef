"""Which functions called which, by the code of calls and by what debug information says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.elf.elf import DT_PLTGOT
from ompd.contract.process import Frame, TailCall
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.places import Places
from ompd.debugger.stacks.callsites import CallSites
from ompd.debugger.symbols import Symbols
from ompd.errors import MalformedFile, OmpdError
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.binary.dwarf.source.calls import Call
    from ompd.debugger.stacks.tail_calls import Chain, TailCalls


class Calls:
    """The calls in one process's code. What is unknown is None, or empty."""

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        modules: ModuleList,
        symbols: Symbols,
        places: Places,
    ) -> None:
        self._memory, self._architecture, self._modules = memory, architecture, modules
        self._symbols, self._places = symbols, places
        self._starts: dict[tuple[int, str], int | None] = {}

    @cached_property
    def sites(self) -> CallSites:
        """What the machine code of calls says."""
        return CallSites(
            self._memory,
            self._memory.read_code,
            self._architecture,
            self._places.symbol_at,
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

    def receivers(self, function: int, callers: str) -> Iterator[str]:
        """Yield the routines that the code of *callers* passes the function at an address to, the nearest first.

        :param callers: the linker's name of a function; code that a compiler made of parts of it is looked at, too
        """
        loaded = self._modules.at(function)
        if loaded is not None:
            yield from self.sites.receivers(loaded, function, callers)

    def routine_called(self, pc: int) -> str | None:
        """Return what the instruction before *pc* calls; see :meth:`Process.routine_called`."""
        return self.sites.called(pc)

    def calls_by_pointer(self, pc: int) -> bool | None:
        """Return whether the instruction before *pc* calls through a pointer."""
        module = self._modules.at(pc)
        return self.sites.calls_by_pointer(pc, lambda at: module is not None and self._modules.at(at) is module)

    def function_called(self, frame: Frame) -> int | None:
        """Return the start of the function that a caller's frame called through a pointer."""
        return self.sites.function_called(frame)

    def tail_calls(self, function: int, reached: int) -> Sequence[Sequence[TailCall]]:
        """Return the ways from one function to another by jumps alone; see :meth:`Process.tail_calls`."""
        return self.sites.tail_calls(function, reached)

    def is_linkage(self, address: int) -> bool:
        """Return whether *address* is in an entry of a linkage table: by its code, since these have no symbols."""
        return self.sites.is_stub(address) and self._places.symbol_at(address) is None

    def function_named(self, pc: int) -> int | None:
        """Return where the function begins that is called by the instruction before *pc*, None if neither the code nor
        debug information says.
        """
        target = self.sites.target(pc)
        if target is None:
            calls = self._described_calls(pc - 1) or ()
            target = next((call.start for call in calls if call.behind == pc and not call.is_tail), None)
        return target

    def addresses_passed(self, pc: int, routine: int | None = None) -> Sequence[int]:
        """Return the functions and variables that the call before *pc* passes; see :meth:`Process.addresses_passed`."""
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
        from ompd.debugger.stacks.tail_calls import TailCalls

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
        if name is not None and key not in self._starts:
            symbols = loaded.symbols.find_prefix(name) if loaded.symbols is not None else []
            own = {symbol.address for symbol in symbols if symbol.name == name}
            try:
                start = own.pop() + loaded.bias if len(own) == 1 else None if own else self._symbols.find_symbol(name)
            except OmpdError:
                start = None
            self._starts[key] = start
        return self._starts.get(key)
