"""Finds which functions code calls and passes, by the machine code of calls and by their debug information.

The name of an outlined function does not show its construct. But code passes the function to the runtime's routine that
begins the construct. A function may end with a jump to another function, whose frame then replaces its own: a tail
call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.elf.elf import DT_PLTGOT
from ompd.contract.memory import read_pointer
from ompd.contract.process import Frame, TailCall
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.places import Places
from ompd.debugger.symbols import Symbols
from ompd.errors import MalformedFile, OmpdError
from ompd.isa.architecture import Architecture, CallPatterns

if TYPE_CHECKING:
    from ompd.debugger.stacks.tail_calls import DescribedCalls

# The most pieces, copies and outlined functions of one source function that are searched, and bytes of their code.
_MAX_FUNCTIONS = 1 << 10
_MAX_CODE = 1 << 20
# The most bytes of code between the instruction that takes a function's address and the call that passes the address.
# Other arguments are computed there.
_MAX_BETWEEN = 128
# The most bytes of a function whose jumps are searched, jumps of a chain, and functions of one query. Functions that
# end with a jump are short, and so are chains of jumps.
_MAX_FUNCTION, _MAX_CHAIN, _MAX_LOOKED_AT = 1 << 16, 8, 1 << 8


class Calls:
    """The calls in one process's code. Its methods return None or an empty sequence for unknown facts."""

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
        self._patterns = architecture.calls
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        # Results are kept, because many threads are at the same places.
        self._by_pointer: dict[int, bool | None] = {}
        self._pointer_calls: dict[int, Sequence[re.Match[bytes]]] = {}
        self._stubs: dict[int, bool] = {}
        self._jumps_of: dict[int, tuple[TailCall, ...]] = {}

    @cached_property
    def described(self) -> DescribedCalls:
        """The calls that debug information describes."""
        from ompd.debugger.stacks.tail_calls import DescribedCalls

        return DescribedCalls(self._modules, self._symbols)

    # Targets

    def routine_called(self, pc: int) -> str | None:
        """Return the name of the routine that the instruction before *pc* calls, None if unknown."""
        target = self.target(pc)
        return self._places.symbol_at(target) if target is not None else None

    def target(self, pc: int) -> int | None:
        """Return the start of the routine that the instruction before *pc* calls, None if the code does not show it."""
        patterns = self._patterns
        if patterns is None:
            return None
        for size in patterns.call_sizes:
            try:
                call = re.fullmatch(patterns.call, self._memory.read_code(pc - size, size))
            except OmpdError:
                return None
            if call is not None:
                return self._target(call, pc - size, patterns)
        return None

    def function_named(self, pc: int) -> int | None:
        """Return the start of the function that the instruction before *pc* calls, None if unknown.

        The code shows it, or else debug information does.
        """
        target = self.target(pc)
        if target is None:
            described = self.described.calls_of(pc - 1) or ()
            target = next((call.start for call in described if call.behind == pc and not call.is_tail), None)
        return target

    def leads_to(self, target: int | None, word: int | None) -> int | None:
        """Return the address of the routine that a call or jump reaches, directly or by a linkage table.

        :param target: the target of the call or jump
        :param word: the address of a word that holds the target, for an indirect call or jump
        :raises MemoryFault: if the target does not hold the word
        """
        patterns = self._patterns
        if target is not None and patterns is not None:
            try:
                stub = re.match(patterns.linkage, self._memory.read_code(target, patterns.stub_size))
            except OmpdError:
                return target  # the module ends before a whole entry
            if stub is None:
                return target
            word = self._address_in(stub, target, patterns)
        return read_pointer(self._memory, word) if word is not None else None

    def _target(self, call: re.Match[bytes], start: int, patterns: CallPatterns) -> int | None:
        # Returns the address of the routine that a call or jump reaches, directly or by a linkage table.
        target = self._address_in(call, start, patterns)
        try:
            if target is not None and call["through"] is None:
                stub = re.match(patterns.linkage, self._memory.read_code(target, patterns.stub_size))
                if stub is None:
                    return target
                target = self._address_in(stub, target, patterns)
            if target is None:
                return None
            # The loader has bound the word, because the call has been made.
            return read_pointer(self._memory, target)
        except OmpdError:
            return None

    def _address_in(self, match: re.Match[bytes], start: int, patterns: CallPatterns) -> int | None:
        address = patterns.address_in(match, start, self._linkage_table)
        return address & self._mask if address is not None else None

    def _linkage_table(self, address: int) -> int | None:
        # The address of the table that the module with *address* shares with the loader (DT_PLTGOT), None without one.
        loaded = self._modules.at(address)
        if loaded is None or loaded.elf is None:
            return None
        try:
            entries = loaded.elf.dynamic()
        except MalformedFile:
            return None
        table = next((value for tag, value in entries if tag == DT_PLTGOT), None)
        return table + loaded.bias if table is not None else None

    # Linkage tables

    def is_linkage(self, address: int) -> bool:
        """Return whether *address* is in an entry of a linkage table: the code is an entry's, and has no symbol."""
        return self.is_stub(address) and self._places.symbol_at(address) is None

    def is_stub(self, address: int) -> bool:
        """Return whether an entry of a linkage table begins at *address*, by its code."""
        if address not in self._stubs:
            self._stubs[address] = self._is_stub(address)
        return self._stubs[address]

    def _is_stub(self, address: int) -> bool:
        patterns = self._patterns
        if patterns is None:
            return False
        size = patterns.stub_size
        for length in (size, size // 2):
            try:
                if re.fullmatch(patterns.stub, self._memory.read_code(address - address % length, length)):
                    return True
            except OmpdError:
                continue
        return False

    # Calls by pointers

    def calls_by_pointer(self, pc: int) -> bool | None:
        """Return whether the instruction before *pc* is a call by a pointer, None if that is unknown."""
        if pc not in self._by_pointer:
            self._by_pointer[pc] = self._is_by_pointer(pc)
        return self._by_pointer[pc]

    def _is_by_pointer(self, pc: int) -> bool | None:
        if self._possible_pointer_calls(pc):
            return True
        direct = self.is_direct(pc)
        if direct or self.target(pc) is not None:
            return False
        # A call that is not relative is indirect. If this processor's forms of calls are known, the call is not by a
        # pointer in a register, but through a word that the code names. Otherwise it counts as a call by a pointer.
        return True if direct is False and self._patterns is None else None

    def is_direct(self, pc: int) -> bool | None:
        """Return whether the instruction before *pc* is a relative call.

        None if no call is there, or if the code is unreadable. A relative call counts only if its target is in the same
        module: the end of another instruction may look like a relative call.
        """
        architecture, module = self._architecture, self._modules.at(pc)
        try:
            code = self._memory.read_code(pc - architecture.max_call_size, architecture.max_call_size)
        except OmpdError:
            return None
        may_be_by_pointer = False
        for size in range(1, len(code) + 1):
            call = architecture.call_pattern.fullmatch(code, len(code) - size)
            target = architecture.call_target(call, pc) if call is not None else None
            if target is not None and module is not None and self._modules.at(target) is module:
                return True
            may_be_by_pointer |= call is not None and target is None
        return False if may_be_by_pointer else None

    def _possible_pointer_calls(self, pc: int) -> Sequence[re.Match[bytes]]:
        if pc not in self._pointer_calls:
            self._pointer_calls[pc] = tuple(self._find_pointer_calls(pc))
        return self._pointer_calls[pc]

    def _find_pointer_calls(self, pc: int) -> Iterator[re.Match[bytes]]:
        # Yields each possible call by a pointer that ends at pc. There may be several, because the bytes before pc do
        # not show where the last instruction begins.
        patterns = self._patterns
        named = self.target(pc)
        if patterns is None or (named is not None and self._modules.function_extent(named) is not None):
            return
        for size in patterns.pointer_call_sizes:
            try:
                call = re.fullmatch(patterns.by_pointer, self._memory.read_code(pc - size, size))
            except OmpdError:
                return
            if call is not None:
                yield call

    def function_called(self, frame: Frame) -> int | None:
        """Return the function that *frame* called by a pointer in a register, None if unknown.

        It is known only if the register is callee-saved: others no longer have the value that they had at the call.
        """
        patterns, functions = self._patterns, set()
        if patterns is None:
            return None
        for call in self._possible_pointer_calls(frame.pc):
            register = patterns.register_in(call)
            value = frame.registers.get(register) if register is not None else None
            extent = self._modules.function_extent(value) if value is not None else None
            if extent is not None and extent[0] == value:
                functions.add(value)
        return functions.pop() if len(functions) == 1 else None

    # Jumps at the end of functions

    def tail_calls(self, function: int, reached: int) -> Sequence[Sequence[TailCall]]:
        """Return the chains of tail calls from *function* to the function *reached*.

        Empty without any, or if too many functions would have to be looked at.
        """
        chains: list[tuple[TailCall, ...]] = []
        looked_at = 0
        waiting: list[tuple[int, tuple[TailCall, ...]]] = [(function, ())]
        while waiting:
            start, chain = waiting.pop(0)
            looked_at += 1
            if looked_at > _MAX_LOOKED_AT:
                return ()
            for jump in self._jumps(start):
                if jump.target == reached:
                    chains.append((*chain, jump))
                elif len(chain) < _MAX_CHAIN and all(jump.target != before.function for before in (*chain, jump)):
                    waiting.append((jump.target, (*chain, jump)))
        return tuple(chains)

    def _jumps(self, function: int) -> tuple[TailCall, ...]:
        # The jumps in a function to the entries of other functions.
        if function not in self._jumps_of:
            self._jumps_of[function] = tuple(self._find_jumps(function))
        return self._jumps_of[function]

    def _find_jumps(self, function: int) -> Iterator[TailCall]:
        extent, patterns = self._modules.function_extent(function), self._patterns
        if extent is None or extent[0] != function or patterns is None or extent[1] - function > _MAX_FUNCTION:
            return
        try:
            code = self._memory.read_code(function, extent[1] - function)
        except OmpdError:
            return
        for jump in re.finditer(patterns.jump, code):
            target = self._target(jump, function, patterns)
            if target is None or function <= target < extent[1]:
                continue
            other = self._modules.function_extent(target)
            if other is not None and other[0] == target:
                yield TailCall(function + jump.start(), function, target)

    # Arguments

    def receivers(self, function: int, callers: str) -> Iterator[str]:
        """Yield the names of the routines that may receive the address *function* as an argument.

        They are called shortly after code takes the address, the nearest first.

        :param callers: the linker's name of the function whose code is searched. Its pieces and outlined functions are
            searched, too; their names begin with this name and a dot
        """
        module = self._modules.at(function)
        if module is None or self._patterns is None or module.symbols is None:
            return
        bytes_left = _MAX_CODE
        for symbol in module.symbols.find_prefix(callers)[:_MAX_FUNCTIONS]:
            if symbol.name != callers and symbol.name[len(callers)] != ".":
                continue
            bytes_left -= symbol.size
            if bytes_left < 0:
                return
            start = symbol.address + module.bias
            try:
                code = self._memory.read_code(start, symbol.size) if symbol.size else b""
            except OmpdError:
                continue
            yield from self._receivers_in(code, start, function, self._patterns)

    def _receivers_in(self, code: bytes, start: int, function: int, patterns: CallPatterns) -> Iterator[str]:
        for address in re.finditer(patterns.address, code):
            if self._address_in(address, start, patterns) != function:
                continue
            following = code[address.end() : address.end() + _MAX_BETWEEN]
            for call in re.finditer(patterns.call, following):
                target = self._target(call, start + address.end(), patterns)
                name = self._places.symbol_at(target) if target is not None else None
                if name is not None:
                    yield name

    def addresses_passed(self, pc: int, routine: int | None = None) -> Sequence[int]:
        """Return the addresses of functions and variables that the call before *pc* passes, by debug information.

        :param routine: the routine that the call reaches, perhaps by tail calls; the last tail call passes the
            addresses
        """
        inside = pc - 1
        called = self.function_named(pc) if routine is not None else None
        if routine is not None and called not in (None, routine):
            chain = self.described.chain(called, routine)
            if not chain.is_whole or chain.links[0].jump is None:
                return ()
            inside = chain.links[0].jump
        loaded = self._modules.at(inside)
        try:
            if loaded is not None and loaded.lines is not None:
                return [address + loaded.bias for address in loaded.lines.passed(inside - loaded.bias)]
        except OmpdError:
            pass  # damaged debug information counts as missing
        return ()
