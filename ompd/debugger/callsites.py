"""Which routine a function is passed to: by the machine code that takes its address and then calls.

A compiler gives the code of different constructs names that do not tell them apart; but each is passed to the routine
of the runtime that begins the construct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ompd.contract.memory import Memory, read_pointer
from ompd.debugger.architecture import Architecture, CallPatterns
from ompd.debugger.modules import LoadedModule
from ompd.errors import OmpdError

# Of one source function there are some pieces and copies, and what is made of its constructs.
_MAX_FUNCTIONS = 1 << 10
_MAX_CODE = 1 << 20
# Between taking a function's address and the call other arguments are made ready.
_MAX_BETWEEN = 128
_STUB_SIZE = 16
_CALL_SIZES = (6, 5)


class CallSites:
    """Finds what functions are passed to in one process.

    :param name_at: tells the name of the routine at an address
    :param table_at: tells where the module with an address has its table that is shared with the loader
    """

    def __init__(
        self,
        memory: Memory,
        architecture: Architecture,
        name_at: Callable[[int], str | None],
        table_at: Callable[[int], int | None],
    ) -> None:
        self._memory = memory
        self._table_at = table_at
        self._patterns = architecture.calls
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._name_at = name_at

    def receivers(self, module: LoadedModule, function: int, callers: str) -> Iterator[str]:
        """Yield the names of the routines that are called after the address *function* was taken, the nearest first.

        :param callers: the function in whose code that is looked for, and in what a compiler made of parts of it,
            whose names begin with its own
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
                code = self._memory.read(start, symbol.size) if symbol.size else b""
            except OmpdError:
                continue  # its code is not to be had
            yield from self._in(code, start, function, self._patterns)

    def called(self, pc: int) -> str | None:
        """Return the name of the routine that is called by the instruction before *pc*, None if that does not tell."""
        patterns = self._patterns
        for size in _CALL_SIZES if patterns is not None else ():
            try:
                call = re.fullmatch(patterns.call, self._memory.read(pc - size, size)) if patterns is not None else None
            except OmpdError:
                return None
            if call is not None and patterns is not None:
                return self._called(call, pc - size, patterns)
        return None

    def _in(self, code: bytes, start: int, function: int, patterns: CallPatterns) -> Iterator[str]:
        for taken in re.finditer(patterns.address, code):
            if self._meant(taken, start) != function:
                continue
            following = code[taken.end() : taken.end() + _MAX_BETWEEN]
            for call in re.finditer(patterns.call, following):
                name = self._called(call, start + taken.end(), patterns)
                if name is not None:
                    yield name

    def _meant(self, found: re.Match[bytes], start: int) -> int | None:
        # What an instruction refers to: by its distance from its end, or from a table, or by the address itself.
        groups = found.groupdict()
        distance, from_table = groups.get("distance"), groups.get("from_table")
        if distance is not None:
            return (start + found.end() + int.from_bytes(distance, "little", signed=True)) & self._mask
        if from_table is None:
            return int.from_bytes(found["absolute"], "little")
        table = self._table_at(start)
        return None if table is None else (table + int.from_bytes(from_table, "little", signed=True)) & self._mask

    def _called(self, call: re.Match[bytes], start: int, patterns: CallPatterns) -> str | None:
        target = self._meant(call, start)
        try:
            if target is not None and call["through"] is None:
                stub = re.match(patterns.linkage, self._memory.read(target, _STUB_SIZE))
                if stub is None:
                    return self._name_at(target)
                target = self._meant(stub, target)
            if target is None:
                return None
            # The loader has written there where the routine is: it was called, or its function would not run.
            routine = read_pointer(self._memory, target)
        except OmpdError:
            return None
        return self._name_at(routine) if routine is not None else None
