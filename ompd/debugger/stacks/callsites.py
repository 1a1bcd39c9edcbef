"""Calls by machine code: the routine that a function is passed to, the function that a caller called, and tail calls.

Compilers give the code of different constructs names that do not distinguish them; but each is passed to the routine of
the runtime that begins the construct. A function that ends with a call may jump to the called one, whose frame then
takes the place of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ompd.contract.memory import Memory, read_pointer
from ompd.contract.process import Frame, TailCall
from ompd.debugger.modules.modules import LoadedModule
from ompd.errors import OmpdError
from ompd.isa.architecture import Architecture, CallPatterns

# A source function has some pieces and copies, and outlined functions of its constructs.
_MAX_FUNCTIONS = 1 << 10
_MAX_CODE = 1 << 20
# Other arguments are computed between taking a function's address and the call.
_MAX_BETWEEN = 128
# Functions that end with a jump are short, and so are chains of jumps. The last is the limit for one question.
_MAX_FUNCTION, _MAX_CHAIN, _MAX_LOOKED_AT = 1 << 16, 8, 1 << 8


class CallSites:
    """The calls of one process, by its machine code.

    :param code: reads code
    :param name_at: returns the name of the routine at an address
    :param table_at: returns the address of the table that the module around an address shares with the loader
    :param extent_at: returns the first address and the end of the function around an address
    """

    def __init__(
        self,
        memory: Memory,
        code: Callable[[int, int], bytes],
        architecture: Architecture,
        name_at: Callable[[int], str | None],
        table_at: Callable[[int], int | None],
        extent_at: Callable[[int], tuple[int, int] | None],
    ) -> None:
        self._memory = memory
        self._code = code
        self._extent_at = extent_at
        self._jumps_of: dict[int, tuple[TailCall, ...]] = {}
        self._by_pointer: dict[int, bool | None] = {}
        # Many threads are at the same places.
        self._calls: dict[int, Sequence[re.Match[bytes]]] = {}
        self._stubs: dict[int, bool] = {}
        self._table_at = table_at
        self._patterns = architecture.calls
        self._architecture = architecture
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._name_at = name_at

    def receivers(self, module: LoadedModule, function: int, callers: str) -> Iterator[str]:
        """Yield the names of the routines that are called after the address *function* was taken, the nearest first.

        :param callers: the function in whose code to look, and in its pieces and outlined functions, whose names begin
            with its own
        """
        if self._patterns is None or module.symbols is None:
            return
        left = _MAX_CODE
        for symbol in module.symbols.find_prefix(callers)[:_MAX_FUNCTIONS]:
            if symbol.name != callers and symbol.name[len(callers)] != ".":
                continue
            left -= symbol.size
            if left < 0:
                return
            start = symbol.address + module.bias
            try:
                code = self._code(start, symbol.size) if symbol.size else b""
            except OmpdError:
                continue  # its code is not available
            yield from self._in(code, start, function, self._patterns)

    def called(self, pc: int) -> str | None:
        """Return the name of the routine that is called by the instruction before *pc*, None if that does not say."""
        target = self.target(pc)
        return self._name_at(target) if target is not None else None

    def target(self, pc: int) -> int | None:
        """Return where the routine begins that is called by the instruction before *pc*, None if that does not say."""
        patterns = self._patterns
        if patterns is None:
            return None
        for size in patterns.call_sizes:
            try:
                call = re.fullmatch(patterns.call, self._code(pc - size, size))
            except OmpdError:
                return None
            if call is not None:
                return self._target(call, pc - size, patterns)
        return None

    def leads_to(self, target: int | None, word: int | None) -> int | None:
        """Return the routine that a call or a jump leads to, also behind an entry of the linkage table.

        :param target: its target
        :param word: the address of the word that has the target
        :raises MemoryFault: if the target does not hold the word
        """
        patterns = self._patterns
        if target is not None and patterns is not None:
            try:
                stub = re.match(patterns.linkage, self._code(target, patterns.stub_size))
            except OmpdError:
                return target  # at a module's end
            if stub is None:
                return target
            word = self._address_in(stub, target, patterns)
        return read_pointer(self._memory, word) if word is not None else None

    def calls_by_pointer(self, pc: int, is_inside: Callable[[int], bool]) -> bool | None:
        """Return whether the instruction before *pc* is a call by a pointer, None if that is unknown.

        :param is_inside: see :meth:`is_direct`
        """
        if pc not in self._by_pointer:  # many threads are at the same place
            self._by_pointer[pc] = self._is_by_pointer(pc, is_inside)
        return self._by_pointer[pc]

    def _is_by_pointer(self, pc: int, is_inside: Callable[[int], bool]) -> bool | None:
        if self._pointer_calls(pc):
            return True
        direct = self.is_direct(pc, is_inside)
        if direct or self.target(pc) is not None:
            return False
        # A call that is not relative is indirect. If the forms are known, it goes through a word that the code names.
        return True if direct is False and self._patterns is None else None

    def _pointer_calls(self, pc: int) -> Sequence[re.Match[bytes]]:
        if pc not in self._calls:
            self._calls[pc] = tuple(self._find_pointer_calls(pc))
        return self._calls[pc]

    def _find_pointer_calls(self, pc: int) -> Iterator[re.Match[bytes]]:
        # All that may be one: the beginning of an instruction does not follow from its end.
        patterns = self._patterns
        named = self.target(pc)
        if patterns is None or (named is not None and self._extent_at(named) is not None):
            return
        for size in patterns.pointer_call_sizes:
            try:
                call = re.fullmatch(patterns.by_pointer, self._code(pc - size, size))
            except OmpdError:
                return
            if call is not None:
                yield call

    def function_called(self, frame: Frame) -> int | None:
        """Return the function that a caller's frame called by a pointer in a register, None if that is unknown.

        Only registers that callees keep still have in the caller the value that they had at the call.
        """
        patterns, functions = self._patterns, set()
        if patterns is None:
            return None
        for call in self._pointer_calls(frame.pc):
            register = patterns.register_in(call)
            value = frame.registers.get(register) if register is not None else None
            extent = self._extent_at(value) if value is not None else None
            if extent is not None and extent[0] == value:
                functions.add(value)
        return functions.pop() if len(functions) == 1 else None

    def is_stub(self, address: int) -> bool:
        """Return whether *address* is in an entry of a linkage table."""
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
                if re.fullmatch(patterns.stub, self._code(address - address % length, length)):
                    return True
            except OmpdError:
                continue
        return False

    def tail_calls(self, function: int, reached: int) -> Sequence[tuple[TailCall, ...]]:
        """See :meth:`Process.tail_calls`."""
        found: list[tuple[TailCall, ...]] = []
        looked_at = 0
        waiting: list[tuple[int, tuple[TailCall, ...]]] = [(function, ())]
        while waiting:
            at, way = waiting.pop(0)
            looked_at += 1
            if looked_at > _MAX_LOOKED_AT:
                return ()
            for jump in self._jumps(at):
                if jump.target == reached:
                    found.append((*way, jump))
                elif len(way) < _MAX_CHAIN and all(jump.target != before.function for before in (*way, jump)):
                    waiting.append((jump.target, (*way, jump)))
        return tuple(found)

    def _jumps(self, function: int) -> tuple[TailCall, ...]:
        # The jumps of a function to the entries of others.
        if function not in self._jumps_of:
            self._jumps_of[function] = tuple(self._find_jumps(function))
        return self._jumps_of[function]

    def _find_jumps(self, function: int) -> Iterator[TailCall]:
        extent, patterns = self._extent_at(function), self._patterns
        if extent is None or extent[0] != function or patterns is None or extent[1] - function > _MAX_FUNCTION:
            return
        try:
            code = self._code(function, extent[1] - function)
        except OmpdError:
            return
        for jump in re.finditer(patterns.jump, code):
            target = self._target(jump, function, patterns)
            if target is None or function <= target < extent[1]:
                continue
            other = self._extent_at(target)
            if other is not None and other[0] == target:
                yield TailCall(function + jump.start(), function, target)

    def is_direct(self, pc: int, is_inside: Callable[[int], bool]) -> bool | None:
        """Return whether the instruction before *pc* is a relative call, None if there is no call, or it is unreadable.

        :param is_inside: returns whether an address is a possible target. Bytes that end like a relative call may be
            another one; then they seem to lead anywhere.
        """
        architecture = self._architecture
        try:
            code = self._code(pc - architecture.max_call_size, architecture.max_call_size)
        except OmpdError:
            return None
        may_be_by_pointer = False
        for size in range(1, len(code) + 1):
            call = architecture.call_pattern.fullmatch(code, len(code) - size)
            target = architecture.call_target(call, pc) if call is not None else None
            if target is not None and is_inside(target):
                return True
            may_be_by_pointer |= call is not None and target is None
        return False if may_be_by_pointer else None

    def _in(self, code: bytes, start: int, function: int, patterns: CallPatterns) -> Iterator[str]:
        for taken in re.finditer(patterns.address, code):
            if self._address_in(taken, start, patterns) != function:
                continue
            following = code[taken.end() : taken.end() + _MAX_BETWEEN]
            for call in re.finditer(patterns.call, following):
                target = self._target(call, start + taken.end(), patterns)
                name = self._name_at(target) if target is not None else None
                if name is not None:
                    yield name

    def _address_in(self, match: re.Match[bytes], start: int, patterns: CallPatterns) -> int | None:
        address = patterns.address_in(match, start, self._table_at)
        return address & self._mask if address is not None else None

    def _target(self, call: re.Match[bytes], start: int, patterns: CallPatterns) -> int | None:
        # The routine that a call or a jump leads to, behind an entry of the linkage table.
        target = self._address_in(call, start, patterns)
        try:
            if target is not None and call["through"] is None:
                stub = re.match(patterns.linkage, self._code(target, patterns.stub_size))
                if stub is None:
                    return target
                target = self._address_in(stub, target, patterns)
            if target is None:
                return None
            # The loader has bound the word: the routine was called, or its function would not run.
            return read_pointer(self._memory, target)
        except OmpdError:
            return None
