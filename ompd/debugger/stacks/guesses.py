"""Callers of code without unwind data: by the frame pointer, or by a likely return address on the stack.

They are not certain. Frames that are found in this way, and all frames behind them, say so (``Frame.guessed``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from ompd.binary.cursor import order_mark
from ompd.debugger.stacks.frames import Step
from ompd.errors import MemoryFault
from ompd.isa.architecture import Architecture

# How many words above the stack pointer are searched for a return address, and how often: in one stack, and in all.
_MAX_WORDS = 1024
_MAX_SCANS, _MAX_ALL_SCANS = 64, 4096
# Code without symbols counts as one function from a called address on, up to so many bytes.
_MAX_FUNCTION_SIZE = 1 << 16
_CODE_BYTES = 16
_PAGE = 4096  # of which the pages of all processors are multiples
# How many callers behind a return address have to make sense.
_DEPTH = 2


class Guess(NamedTuple):
    """The likely caller of a frame, and with it that frame's CFA."""

    cfa: int
    pc: int
    registers: dict[int, int]
    how: Literal["frame-pointer", "scan"]


class UnwindData(Protocol):
    """Unwind data, and the memory that it is about; see :class:`~.unwind.Unwinder`."""

    @property
    def read(self) -> Callable[[int, int], bytes]: ...

    @property
    def architecture(self) -> Architecture: ...

    def step_at(self, address: int) -> Step | None: ...

    def caller_of(self, step: Step, sp: int, fp: int | None) -> tuple[int, int] | None: ...

    def is_signal_return(self, pc: int) -> bool: ...

    def signal_context(self, pc: int, sp: int) -> Mapping[int, int] | None: ...


class Guesser:
    """Guesses callers in one stopped process.

    :param is_code: returns whether an address is in executable memory
    :param stack_end: returns the end of the mapping around an address, None if there is none
    :param function_start: returns the entry of the function around an address by symbols, None if they have none
    """

    def __init__(
        self,
        unwinder: UnwindData,
        is_code: Callable[[int], bool],
        stack_end: Callable[[int], int | None],
        function_start: Callable[[int], int | None],
    ) -> None:
        self._unwinder = unwinder
        self._read = unwinder.read
        self._architecture = architecture = unwinder.architecture
        self._is_code = is_code
        self._stack_end = stack_end
        self._symbol_start = function_start
        self._size = architecture.pointer_size
        self._mask = (1 << 8 * self._size) - 1
        self._word = struct.Struct(order_mark(architecture.byte_order) + ("Q" if self._size == 8 else "I"))
        numbers = architecture.dwarf_registers
        self._sp, self._fp = numbers[architecture.sp], numbers[architecture.fp]
        self._return_register = architecture.return_address
        self._edges = [(re.compile(before), re.compile(at), offset) for before, at, offset in architecture.edges]
        self._starts: dict[int, int | None] = {}
        self._returns: dict[int, tuple[bool, int | None]] = {}
        self._part: tuple[int, int] | None = None
        self._found: list[tuple[int, int]] = []
        self._rest: Iterator[tuple[int, int]] = iter(())
        self._scans_left, self._all_scans_left = _MAX_SCANS, _MAX_ALL_SCANS

    def begin_stack(self) -> None:
        """Allow a new stack its guesses."""
        self._scans_left = min(_MAX_SCANS, self._all_scans_left)

    def caller(self, pc: int, registers: Mapping[int, int], *, is_exact: bool) -> Guess | str:
        """Return the likely caller of the frame at *pc*, or a sentence why there is none.

        :param is_exact: whether the frame stands at *pc*, and has not called something from there
        """
        sp = registers[self._sp]
        end = self._stack_end(sp)
        if end is None:
            return f"the stack pointer {sp:#x} is in no memory"
        if is_exact:
            guess = self._at_edge(pc, registers, sp)
            if guess is not None:
                return guess
        by_frame_pointer = self._by_frame_pointer(registers, sp, end)
        called = pc if is_exact else pc - 1
        if by_frame_pointer is not None and self._calls(by_frame_pointer.pc, called):
            return by_frame_pointer
        if self._scans_left <= 0:
            return by_frame_pointer or f"more than {_MAX_SCANS} return addresses would have to be looked for"
        self._scans_left -= 1
        self._all_scans_left -= 1
        limit = min(end, sp + _MAX_WORDS * self._size)
        # A function without a frame pointer has its caller's, which would skip the caller.
        below = limit if by_frame_pointer is None else min(limit, by_frame_pointer.cfa)
        return (
            self._by_call(called, registers, sp, below, end)
            or by_frame_pointer
            or self._by_unwind_data(registers, sp, limit, end)
            or f"no return address is found on the stack behind {sp:#x}"
        )

    # Ways

    def _at_edge(self, pc: int, registers: Mapping[int, int], sp: int) -> Guess | None:
        # At the entry or end of a function, and after a call to no code, only the stack pointer has changed.
        offset = self._edge(pc) if self._is_code(pc) else 0
        if offset is None:
            return None
        found = self._word_at(sp + offset)
        if found is None or not self._is_return(found):
            return None
        kept = {number: registers[number] for number in self._architecture.callee_saved if number in registers}
        return self._guess(sp + offset + self._size, found, kept, "scan")

    def _edge(self, pc: int) -> int | None:
        before, at = self._bytes_before(pc, _CODE_BYTES), self._bytes_at(pc, _CODE_BYTES)
        for pattern_before, pattern_at, offset in self._edges:
            if pattern_at.match(at) and pattern_before.search(before):
                return offset
        return None

    def _by_frame_pointer(self, registers: Mapping[int, int], sp: int, end: int) -> Guess | None:
        record = self._architecture.frame_record
        fp = registers.get(self._fp)
        if fp is None or fp % self._size or not sp <= fp <= end - record.cfa:
            return None
        found, saved = self._word_at(fp + record.return_address), self._word_at(fp + record.frame_pointer)
        if found is None or saved is None or not self._is_return(found):
            return None
        return self._guess(fp + record.cfa, found, {self._fp: saved}, "frame-pointer")

    def _by_call(self, pc: int, registers: Mapping[int, int], sp: int, limit: int, end: int) -> Guess | None:
        # By a return address behind a call of this function.
        for address, word in self._return_addresses(sp, limit):
            if self._calls(word, pc):
                return self._scanned(address, word, registers, end)
        return None

    def _by_unwind_data(self, registers: Mapping[int, int], sp: int, limit: int, end: int) -> Guess | None:
        # By a return address into code with unwind data that leads to further callers.
        for address, word in self._return_addresses(sp, limit):
            guess = self._scanned(address, word, registers, end)
            if self._holds(guess.pc, guess.cfa, guess.registers.get(self._fp), end):
                return guess
        return None

    def _scanned(self, address: int, word: int, registers: Mapping[int, int], end: int) -> Guess:
        # The caller's frame pointer was pushed first, or not changed.
        pushed = self._word_at(address - self._size) if address - self._size >= registers[self._sp] else None
        kept = registers.get(self._fp)
        likely = (each for each in (pushed, kept) if each is not None and address < each < end)
        fp = next((each for each in likely if not each % self._size), None)
        return self._guess(address + self._size, word, {} if fp is None else {self._fp: fp}, "scan")

    def _guess(self, cfa: int, pc: int, kept: dict[int, int], how: Literal["frame-pointer", "scan"]) -> Guess:
        return Guess(cfa, pc, {**kept, self._sp: cfa, self._return_register: pc}, how)

    # What is likely

    def _holds(self, pc: int, sp: int, fp: int | None, end: int) -> bool:
        # Whether unwind data at pc leads to callers that make sense.
        for depth in range(_DEPTH):
            if self._unwinder.is_signal_return(pc):
                return self._is_context(pc, sp)
            step = self._unwinder.step_at(pc - 1)
            if step is None:
                return False
            if step.ends:
                return True
            found = self._unwinder.caller_of(step, sp, fp)
            if found is None:
                return False
            cfa, pc = found
            if pc == 0:
                return depth > 0  # much of a stack is 0
            if not sp < cfa <= end or not self._is_return(pc):
                return False
            # If it may have saved the frame pointer, the next one has to do without.
            sp, fp = cfa, None if fp is not None and fp < cfa else fp
            if self._unwinder.step_at(pc - 1) is None:
                return True
        return True

    def _is_context(self, pc: int, sp: int) -> bool:
        # Whether the kernel has saved registers there: the address may be on the stack as data.
        context = self._unwinder.signal_context(pc, sp)
        if context is None:
            return False
        return self._is_code(context[self._return_register]) and self._stack_end(context[self._sp]) is not None

    def _return_addresses(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        # The words of the stack that may be return addresses, each with its address. The last part of a stack is kept:
        # it is searched for several reasons, and damaged threads share one.
        if self._part != (start, end):
            self._part, self._found = (start, end), []
            self._rest = (pair for pair in self._words(start, end) if pair[1] and self._is_return(pair[1]))
        found, rest = self._found, self._rest
        number = 0
        while True:
            if number == len(found):
                pair = next(rest, None)
                if pair is None:
                    return
                found.append(pair)
            yield found[number]
            number += 1

    def _is_return(self, address: int) -> bool:
        return self._return_of(address)[0]

    def _calls(self, address: int, pc: int) -> bool:
        # Whether the call before the return address goes directly to the function around pc.
        target = self._return_of(address)[1]
        if target is None:
            return False
        start = self._function_start(pc)
        if start is not None:
            return target == start
        return target <= pc < target + _MAX_FUNCTION_SIZE and self._function_start(target) is None

    def _function_start(self, pc: int) -> int | None:
        if pc not in self._starts:
            step = self._unwinder.step_at(pc)
            self._starts[pc] = step.function_start if step is not None else self._symbol_start(pc)
        return self._starts[pc]

    def _return_of(self, address: int) -> tuple[bool, int | None]:
        # Whether address may be a return address, and the target of the call before it, None if it is indirect.
        found = self._returns.get(address)
        if found is None:
            found = self._returns[address] = self._look_at(address)
        return found

    def _look_at(self, address: int) -> tuple[bool, int | None]:
        if not 0 < address <= self._mask or not self._is_code(address - 1):
            return False, None
        call = self._architecture.call_pattern.search(self._bytes_before(address, self._architecture.max_call_size))
        if call is None:
            # A signal handler returns to code that did not call it.
            return self._unwinder.is_signal_return(address), None
        return True, self._architecture.call_target(call, address)

    # Memory

    def _bytes_at(self, address: int, size: int) -> bytes:
        # Up to *size* bytes, perhaps cut off at the end of a page.
        for count in (size, min(size, -address % _PAGE)):
            try:
                return self._read(address & self._mask, count)
            except MemoryFault:
                continue
        return b""

    def _bytes_before(self, address: int, size: int) -> bytes:
        for count in (size, min(size, address % _PAGE)):
            try:
                return self._read((address - count) & self._mask, count)
            except MemoryFault:
                continue
        return b""

    def _word_at(self, address: int) -> int | None:
        try:
            word: int = self._word.unpack(self._read(address & self._mask, self._size))[0]
        except MemoryFault:
            return None
        return word

    def _words(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        # The stack's aligned words with their addresses, up to the first page that is not available.
        start = -(-start // self._size) * self._size
        while start + self._size <= end:
            upto = min(end, start // _PAGE * _PAGE + _PAGE)
            try:
                data = self._read(start, (upto - start) // self._size * self._size)
            except MemoryFault:
                return
            for index, (word,) in enumerate(self._word.iter_unpack(data)):
                yield start + index * self._size, word
            start = upto
