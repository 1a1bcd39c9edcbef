"""Guesses callers of code without unwind data: by the frame pointer, or by a likely return address on the stack.

Guessed frames, and all frames outside of them, are marked (``Frame.guessed``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from ompd.binary.cursor import order_mark
from ompd.errors import MemoryFault

if TYPE_CHECKING:
    from ompd.debugger.places import Places
    from ompd.debugger.regions import Regions
    from ompd.debugger.stacks.unwind import Unwinder

# The most words that one search for a return address reads above the stack pointer; the most searches in one stack, and
# in all stacks together.
_MAX_WORDS = 1024
_MAX_SCANS, _MAX_ALL_SCANS = 64, 4096
# Without symbols, a function is assumed to have this many bytes behind an address that is called.
_MAX_FUNCTION_SIZE = 1 << 16
_CODE_BYTES = 16
_PAGE = 4096  # the pages of all processors are multiples of it
# The number of further callers that must be plausible for a guess by unwind data.
_DEPTH = 2


class Guess(NamedTuple):
    """A guess of a frame's caller: ``pc`` and ``registers`` of the caller, and ``cfa`` of the frame itself.

    ``how`` is the way of the guess, as in :data:`ompd.debugger.stacks.frames.How`.
    """

    cfa: int
    pc: int
    registers: dict[int, int]
    how: Literal["frame-pointer", "scan"]


class Guesser:
    """Guesses callers in one stopped process, stack by stack."""

    def __init__(self, unwinder: Unwinder, regions: Regions, places: Places) -> None:
        self._unwinder, self._regions, self._places = unwinder, regions, places
        self._memory = unwinder.memory
        self._architecture = architecture = unwinder.architecture
        self._size = architecture.pointer_size
        self._mask, self._sp, self._fp = unwinder.mask, unwinder.sp, unwinder.fp
        self._word = struct.Struct(order_mark(architecture.byte_order) + ("Q" if self._size == 8 else "I"))
        self._edges = [
            (re.compile(before), re.compile(behind), offset) for before, behind, offset in architecture.edges
        ]
        self._starts: dict[int, int | None] = {}
        self._returns: dict[int, tuple[bool, int | None]] = {}
        # The part of a stack that was searched last, its likely return addresses so far, and an iterator over the rest.
        self._searched: tuple[int, int] | None = None
        self._likely: list[tuple[int, int]] = []
        self._rest: Iterator[tuple[int, int]] = iter(())
        self._scans_left, self._all_scans_left = _MAX_SCANS, _MAX_ALL_SCANS

    def begin_stack(self) -> None:
        """Begin a new stack: reset the number of searches."""
        self._scans_left = min(_MAX_SCANS, self._all_scans_left)

    def caller(self, pc: int, registers: Mapping[int, int], *, is_exact: bool) -> Guess | str:
        """Return the likely caller of the frame at *pc*, or as text why there is no guess.

        :param is_exact: whether the frame executes at *pc*; otherwise a call returns to *pc*
        """
        sp = registers[self._sp]
        end = self._regions.end_of(sp)
        if end is None:
            return f"the stack pointer {sp:#x} is in no memory"
        if is_exact:
            guess = self._at_edge(pc, registers, sp)
            if guess is not None:
                return guess
        by_frame_pointer = self._by_frame_pointer(registers, sp, end)
        callee = pc if is_exact else pc - 1
        if by_frame_pointer is not None and self._calls(by_frame_pointer.pc, callee):
            return by_frame_pointer
        if self._scans_left <= 0:
            return by_frame_pointer or f"more than {_MAX_SCANS} return addresses would have to be looked for"
        self._scans_left -= 1
        self._all_scans_left -= 1
        limit = min(end, sp + _MAX_WORDS * self._size)
        # The search for return addresses ends below the guess by the frame pointer. In a function without a frame
        # pointer, that register still belongs to the caller, so a guess by it skips the caller.
        below = limit if by_frame_pointer is None else min(limit, by_frame_pointer.cfa)
        return (
            self._by_call(callee, registers, sp, below, end)
            or by_frame_pointer
            or self._by_unwind_data(registers, sp, limit, end)
            or f"no return address is found on the stack behind {sp:#x}"
        )

    # Ways

    def _at_edge(self, pc: int, registers: Mapping[int, int], sp: int) -> Guess | None:
        # Guesses by the word at the stack pointer or near it. At the entry or end of a function, and after a call to an
        # address without code, the call has changed nothing but the stack pointer.
        offset = self._edge(pc) if self._regions.is_code(pc) else 0
        if offset is None:
            return None
        return_address = self._word_at(sp + offset)
        if return_address is None or not self._is_return(return_address):
            return None
        preserved = {number: registers[number] for number in self._architecture.callee_saved if number in registers}
        return self._guess(sp + offset + self._size, return_address, preserved, "scan")

    def _edge(self, pc: int) -> int | None:
        # Return the distance from the stack pointer to the return address, None if pc is not at the entry or end of a
        # function.
        code_before, code_behind = self._bytes_before(pc, _CODE_BYTES), self._bytes_at(pc, _CODE_BYTES)
        for before, behind, offset in self._edges:
            if behind.match(code_behind) and before.search(code_before):
                return offset
        return None

    def _by_frame_pointer(self, registers: Mapping[int, int], sp: int, end: int) -> Guess | None:
        record = self._architecture.frame_record
        fp = registers.get(self._fp)
        if fp is None or fp % self._size or not sp <= fp <= end - record.cfa:
            return None
        return_address = self._word_at(fp + record.return_address)
        saved = self._word_at(fp + record.frame_pointer)
        if return_address is None or saved is None or not self._is_return(return_address):
            return None
        return self._guess(fp + record.cfa, return_address, {self._fp: saved}, "frame-pointer")

    def _by_call(self, pc: int, registers: Mapping[int, int], sp: int, limit: int, end: int) -> Guess | None:
        # Guesses by a return address behind a call of the function around pc.
        for address, word in self._return_addresses(sp, limit):
            if self._calls(word, pc):
                return self._scanned(address, word, registers, end)
        return None

    def _by_unwind_data(self, registers: Mapping[int, int], sp: int, limit: int, end: int) -> Guess | None:
        # Guesses by a return address into code whose unwind data gives plausible further callers.
        for address, word in self._return_addresses(sp, limit):
            guess = self._scanned(address, word, registers, end)
            if self._leads_to_callers(guess.pc, guess.cfa, guess.registers.get(self._fp), end):
                return guess
        return None

    def _scanned(self, address: int, word: int, registers: Mapping[int, int], end: int) -> Guess:
        # Guesses that the return address is *word*, at *address*. The function has pushed the caller's frame pointer
        # right below it, or has not changed that register.
        pushed = self._word_at(address - self._size) if address - self._size >= registers[self._sp] else None
        saved = registers.get(self._fp)
        on_stack = (value for value in (pushed, saved) if value is not None and address < value < end)
        fp = next((value for value in on_stack if not value % self._size), None)
        return self._guess(address + self._size, word, {} if fp is None else {self._fp: fp}, "scan")

    def _guess(self, cfa: int, pc: int, preserved: dict[int, int], how: Literal["frame-pointer", "scan"]) -> Guess:
        return Guess(cfa, pc, {**preserved, self._sp: cfa, self._architecture.return_address: pc}, how)

    # Plausibility

    def _leads_to_callers(self, pc: int, sp: int, fp: int | None, end: int) -> bool:
        # Return whether unwind data at pc gives plausible callers.
        steps = self._unwinder.steps
        for depth in range(_DEPTH):
            if self._unwinder.signals.is_return(pc):
                return self._has_saved_registers(pc, sp)
            step = steps.at(pc - 1)
            if step is None:
                return False
            if step.ends:
                return True
            caller = self._unwinder.caller_of(step, sp, fp)
            if caller is None:
                return False
            cfa, pc = caller
            if pc == 0:
                return depth > 0  # most words of a stack are 0
            if not sp < cfa <= end or not self._is_return(pc):
                return False
            # If this frame may have saved the frame pointer, its value in the next frame is unknown.
            sp, fp = cfa, None if fp is not None and fp < cfa else fp
            if steps.at(pc - 1) is None:
                return True
        return True

    def _has_saved_registers(self, pc: int, sp: int) -> bool:
        # Return whether the kernel has saved plausible registers for the return from a handler at pc. If not, the word
        # pc on the stack is mere data.
        saved = self._unwinder.signals.interrupted_registers(pc, sp)
        if saved is None:
            return False
        is_code = self._regions.is_code(saved[self._architecture.return_address])
        return is_code and self._regions.end_of(saved[self._sp]) is not None

    def _return_addresses(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        # Yield the likely return addresses in a part of the stack, each as its place and its value. The results for the
        # last part are kept: several kinds of guesses search it, and in a damaged core several threads may share it.
        if self._searched != (start, end):
            self._searched, self._likely = (start, end), []
            self._rest = (pair for pair in self._words(start, end) if pair[1] and self._is_return(pair[1]))
        likely, unlikely = self._likely, self._rest
        number = 0
        while True:
            if number == len(likely):
                pair = next(unlikely, None)
                if pair is None:
                    return
                likely.append(pair)
            yield likely[number]
            number += 1

    def _is_return(self, address: int) -> bool:
        return self._return_of(address)[0]

    def _calls(self, address: int, pc: int) -> bool:
        # Return whether the instruction before the return address is a direct call of the function that contains pc.
        target = self._return_of(address)[1]
        if target is None:
            return False
        start = self._function_start(pc)
        if start is not None:
            return target == start
        return target <= pc < target + _MAX_FUNCTION_SIZE and self._function_start(target) is None

    def _function_start(self, pc: int) -> int | None:
        if pc not in self._starts:
            step = self._unwinder.steps.at(pc)
            self._starts[pc] = step.function_start if step is not None else self._places.locate(pc).symbol_address
        return self._starts[pc]

    def _return_of(self, address: int) -> tuple[bool, int | None]:
        # Return whether *address* may be a return address, and the target of the call before it. The target is None for
        # an indirect call, and without a call.
        if address not in self._returns:
            self._returns[address] = self._look_before(address)
        return self._returns[address]

    def _look_before(self, address: int) -> tuple[bool, int | None]:
        if not 0 < address <= self._mask or not self._regions.is_code(address - 1):
            return False, None
        call = self._architecture.call_pattern.search(self._bytes_before(address, self._architecture.max_call_size))
        if call is None:
            # A signal handler returns to the code that returns from handlers, which has not called it.
            return self._unwinder.signals.is_return(address), None
        return True, self._architecture.call_target(call, address)

    # Memory

    def _bytes_at(self, address: int, size: int) -> bytes:
        # Return *size* bytes at *address*, or only those up to the end of the page if the next page cannot be read.
        for count in (size, min(size, -address % _PAGE)):
            try:
                return self._memory.read(address & self._mask, count)
            except MemoryFault:
                continue
        return b""

    def _bytes_before(self, address: int, size: int) -> bytes:
        for count in (size, min(size, address % _PAGE)):
            try:
                return self._memory.read((address - count) & self._mask, count)
            except MemoryFault:
                continue
        return b""

    def _word_at(self, address: int) -> int | None:
        try:
            word: int = self._word.unpack(self._memory.read(address & self._mask, self._size))[0]
        except MemoryFault:
            return None
        return word

    def _words(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        # The stack's aligned words with their addresses, up to the first page that is not available.
        start = -(-start // self._size) * self._size
        while start + self._size <= end:
            page_end = min(end, start // _PAGE * _PAGE + _PAGE)
            try:
                data = self._memory.read(start, (page_end - start) // self._size * self._size)
            except MemoryFault:
                return
            for index, (word,) in enumerate(self._word.iter_unpack(data)):
                yield start + index * self._size, word
            start = page_end
