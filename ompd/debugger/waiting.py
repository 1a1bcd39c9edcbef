"""How a thread waits: asleep in the kernel, about to wake up, or spinning; by its code and its call of the kernel."""

from __future__ import annotations

import re
from typing import NamedTuple

from ompd.contract.memory import Memory
from ompd.contract.process import Frame, Shape, Stack
from ompd.debugger.memory import TargetMemory
from ompd.debugger.stacks.stacks import Stacks
from ompd.debugger.symbols import Symbols
from ompd.debugger.threads.threads import Threads
from ompd.errors import MemoryFault, Unavailable
from ompd.isa.architecture import SystemCalls

_CODE_OF_CALL = 48  # in so much code before a system call its number is made ready
_MAX_CALLS = 1 << 12
# Linux, futex.h: what futex() does beside having its caller wait (FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI,
# WAKE_BITSET, CMP_REQUEUE_PI), less FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_FUTEXES_WITHOUT_WAIT = frozenset((1, 3, 4, 5, 7, 10, 12))
# LOCK_PI and LOCK_PI2, which compare no value: the word has its owner's number, with two flags.
FUTEX_LOCKS = (6, 13)
FUTEX_PRIVATE = 128
_FUTEX_FLAGS = FUTEX_PRIVATE | 256
_FUTEX_TID = 0x3FFFFFFF
# futex_waitv(): its number on all processors; FUTEX_WAITV_MAX of struct futex_waitv: uint64_t val, uaddr; uint32_t
# flags, __reserved. Of the flags two bits are the size of the word, FUTEX2_SIZE_U32.
_FUTEX_WAITV, _MOST_WORDS, _WAITED_SIZE = 449, 128, 24
_SIZE_FLAGS, _SIZE_U32 = 3, 2

# What the kernel has in the register of the answer of a call that has not ended (Linux, include/linux/errno.h):
# ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK of one that a stop or a core interrupted; ENOSYS
# before any answer is known; EINTR of those that are not restarted, as epoll_wait. futex() has that only as its answer,
# after a handler of a signal.
_NO_ANSWER = frozenset((-512, -513, -514, -516, -38))
_EINTR = -4


def is_answer(value: int, size: int, *, is_futex: bool) -> bool:
    """Return whether a thread whose register of the answer has *value*, of *size* bytes, has come back from its call:
    it has been woken up, though it may not have run since.
    """
    value &= (1 << 8 * size) - 1
    signed = value - (1 << 8 * size) if value >> (8 * size - 1) else value
    return signed not in _NO_ANSWER and (is_futex or signed != _EINTR)


class WaitedWord(NamedTuple):
    """One of the words of ``futex_waitv``: where it is, its value when the wait began, and whether no thread of another
    process is meant.
    """

    address: int
    expected: int
    is_private: bool


def read_waited_words(memory: Memory, address: int, count: int) -> list[WaitedWord]:
    """Return the words that are passed to ``futex_waitv``.

    :raises Unavailable: if what is there is none of its arguments
    :raises MemoryFault: if they cannot be read
    """
    if not 0 < count <= _MOST_WORDS:
        raise Unavailable(f"futex_waitv does not wait for {count} words")
    raw, order = memory.read(address, count * _WAITED_SIZE), memory.byte_order
    found = []
    for at in range(0, len(raw), _WAITED_SIZE):
        flags = int.from_bytes(raw[at + 16 : at + 20], order)
        if flags & _SIZE_FLAGS != _SIZE_U32:
            raise Unavailable("futex_waitv waits for words of 4 bytes alone")
        word = int.from_bytes(raw[at + 8 : at + 16], order)
        found.append(WaitedWord(word, int.from_bytes(raw[at : at + 4], order), bool(flags & FUTEX_PRIVATE)))
    return found


class Waiting:
    """The waits of one process's threads.

    :param calls: how the processor's code calls the kernel, None where that is unknown
    """

    def __init__(
        self,
        memory: TargetMemory,
        threads: Threads,
        stacks: Stacks,
        calls: SystemCalls | None,
        symbols: Symbols,
    ) -> None:
        self._memory, self._threads, self._stacks, self._calls = memory, threads, stacks, calls
        self._symbols = symbols
        self._handled: dict[Shape, int] = {}
        self._code: dict[tuple[int, int], bytes] = {}  # what is before a pc, by how much of it

    def futex_word(self, frame: Frame) -> int | None:
        """Return the address of the word on which the thread whose innermost frame this is sleeps, None if it is in no
        system call; see :meth:`Process.futex_word`.
        """
        calls = self._calls
        if calls is None or not self._has_called(frame, calls.instruction):
            return None
        return frame.registers.get(calls.first_argument)

    def is_in_call(self, frame: Frame) -> bool | None:
        """Return whether the instruction before a frame's pc calls the kernel, None if that is unknown."""
        return self._has_called(frame, self._calls.instruction) if self._calls is not None else None

    def number_by_code(self, stack: Stack) -> int | None:
        """Return the number of the system call that the innermost frame of *stack* is in, as its code says; None if the
        code does not say.
        """
        calls, frame = self._calls, stack.innermost
        if calls is None or frame is None:
            return None
        if self._symbols.vdso_at(frame.pc) is not None and len(stack.shape[0]) > 1:
            frame = stack.frames[1]
        elif self._has_called(frame, calls.zero + calls.instruction):
            return 0
        return self._number_of_call(frame, calls)

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
            known = self._code[pc, size] = self._memory.read(pc - size, size)
        return known

    def _number_of_call(self, frame: Frame, calls: SystemCalls) -> int | None:
        try:
            code = self._code_before(frame.pc, _CODE_OF_CALL)
        except MemoryFault:
            return None
        found = re.findall(calls.number, code)
        return int.from_bytes(found[-1], "little") if found else None

    def _number_in_register(self, thread: int, calls: SystemCalls) -> int | None:
        # 0 is that of a call that is made once more, whichever it was, and stands where a debugger did not give it.
        number = self._threads.registers(thread).get(calls.register, 0) if calls.register is not None else 0
        return number if 0 < number < _MAX_CALLS else None

    def _is_held(self, address: int, size: int) -> bool:
        try:
            self._memory.read(address, size)
        except MemoryFault:
            return False
        return True

    def frames_of_handlers(self, stack: Stack) -> int:
        """Return how many frames of *stack*, the innermost ones, are of handlers of signals, with the kernel's below; 0
        if no signal has interrupted the thread.
        """
        handled = self._handled.get(stack.shape)
        if handled is None:
            handled = max([index for index, frame in enumerate(stack.frames, 1) if frame.is_signal_frame], default=0)
            self._handled[stack.shape] = handled
        return handled

    def progress(self, thread: int, flags: int = 0) -> str | None:
        """Return how a waiting thread waits; see :meth:`Process.progress`. A handler of a signal is no end to a wait,
        but it may wait itself.
        """
        calls, stack = self._calls, self._stacks.stack(thread)
        if calls is None:
            return None
        frame, handled = stack.innermost, self.frames_of_handlers(stack)
        if handled and frame is not None and self._has_called(frame, calls.instruction):
            number = self._number_in_register(thread, calls) or self._number_of_call(frame, calls)
            handled = 0 if number in calls.futexes else handled
        if handled >= len(stack.shape[0]):
            return None
        frame = stack.frames[handled] if handled else frame
        if frame is None:
            return None
        sleeps = self._has_called(frame, calls.instruction)
        if not sleeps:
            return None if sleeps is None else "spinning"
        # Not every target has the register in which the kernel keeps which call it is; the code may show it. Where that
        # takes the number from somewhere else, it is what runtimes wait by.
        number = self._number_in_register(thread, calls) if not handled else None
        if number is None:
            # Code of the kernel's own, by which all calls may go, gets it from its caller.
            by_kernels = handled + 1 < len(stack.shape[0]) and self._symbols.vdso_at(frame.pc)
            caller = stack.frames[handled + 1] if by_kernels else frame
            number = self._number_of_call(caller, calls)
            if number is None and by_kernels and not self._is_held(caller.pc - _CODE_OF_CALL, _CODE_OF_CALL):
                return None
        is_futex = number is None or number in calls.futexes
        is_futex = is_futex or number == _FUTEX_WAITV
        # One that was woken up, and has not run yet, stands where it slept, and the word may be as it was.
        answer = frame.registers.get(calls.result) if not handled else None
        if answer is not None and is_answer(answer, self._memory.pointer_size, is_futex=is_futex):
            return "spinning"
        if number == calls.sched_yield:
            return "spinning"
        if number == _FUTEX_WAITV:
            return self._in_vector(frame, calls)
        return self._in_futex(thread, frame, calls, flags) if is_futex else "blocked"

    def _in_futex(self, thread: int, frame: Frame, calls: SystemCalls, flags: int) -> str | None:
        # Whoever wakes others up is in the same call, and does not sleep.
        operation = frame.registers.get(calls.second_argument)
        which = operation & 0xFFFFFFFF & ~_FUTEX_FLAGS if operation is not None else None
        if which in _FUTEXES_WITHOUT_WAIT:
            return "spinning"
        word, expected = (frame.registers.get(r) for r in (calls.first_argument, calls.third_argument))
        now = self._word(word) if word is not None else None
        if now is None:
            return None
        if which in FUTEX_LOCKS:
            # Its owner hands it over with the number of the next one in it.
            return "released" if now & _FUTEX_TID in (0, thread) else "blocked"
        if expected is None:
            return None
        return "released" if (now ^ expected) & 0xFFFFFFFF & ~flags else "blocked"

    def _in_vector(self, frame: Frame, calls: SystemCalls) -> str | None:
        address, count = (frame.registers.get(r) for r in (calls.first_argument, calls.second_argument))
        if address is None or count is None:
            return None
        try:
            words = read_waited_words(self._memory, address, count)
        except (MemoryFault, Unavailable):
            return None
        now = [self._word(word.address) for word in words]
        if None in now:
            return None
        return "released" if now != [word.expected for word in words] else "blocked"

    def _word(self, address: int) -> int | None:
        # What a thread sleeps on, None if that is lost: a page that was reads as zeros.
        memory = self._memory
        try:
            now = int.from_bytes(memory.read(address, 4), memory.byte_order)
            page = memory.page_size
            if not now and not any(memory.read(address - address % page, page)):
                return None
        except MemoryFault:
            return None
        return now
