"""Finds out whether a waiting thread sleeps in the kernel, is about to wake up, or spins, by its code and its call."""

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

_CODE_OF_CALL = 48  # bytes of code in front of a system call in which its number is set
_MAX_CALLS = 1 << 12
# Linux, futex.h: operations that do not wait (FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET,
# CMP_REQUEUE_PI), without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_FUTEXES_WITHOUT_WAIT = frozenset((1, 3, 4, 5, 7, 10, 12))
# LOCK_PI and LOCK_PI2, which compare the word with no argument: it has the owner's number and two flags.
FUTEX_LOCKS = (6, 13)
FUTEX_PRIVATE = 128
_FUTEX_FLAGS = FUTEX_PRIVATE | 256
_FUTEX_TID = 0x3FFFFFFF
# futex_waitv() has this number on all processors. It takes up to FUTEX_WAITV_MAX of struct futex_waitv: uint64_t val,
# uaddr; uint32_t flags, __reserved. Two bits of the flags are the size of the word, such as FUTEX2_SIZE_U32.
_FUTEX_WAITV, _MOST_WORDS, _WAITED_SIZE = 449, 128, 24
_SIZE_FLAGS, _SIZE_U32 = 3, 2

# Values in the result register of a system call that has not ended (Linux, include/linux/errno.h). ERESTARTSYS,
# ERESTARTNOINTR, ERESTARTNOHAND and ERESTART_RESTARTBLOCK: a stop or a core interrupted the call. ENOSYS: the call has
# no result yet. EINTR: a stop or a core interrupted a call that the kernel does not restart, such as epoll_wait. For
# futex(), however, EINTR is a result: the call ended because a signal handler ran.
_NO_ANSWER = frozenset((-512, -513, -514, -516, -38))
_EINTR = -4


def is_answer(value: int, size: int, *, is_futex: bool) -> bool:
    """Return whether *value*, of *size* bytes, in the result register means that the system call has ended.

    If so, the thread was woken up, though it may not have run since.
    """
    value &= (1 << 8 * size) - 1
    signed = value - (1 << 8 * size) if value >> (8 * size - 1) else value
    return signed not in _NO_ANSWER and (is_futex or signed != _EINTR)


class WaitedWord(NamedTuple):
    """A word of ``futex_waitv``: its address, its value when the wait began, and whether only this process uses it."""

    address: int
    expected: int
    is_private: bool


def read_waited_words(memory: Memory, address: int, count: int) -> list[WaitedWord]:
    """Return the words that are passed to ``futex_waitv``.

    :raises Unavailable: if there are no valid arguments of ``futex_waitv`` at *address*
    :raises MemoryFault: if the memory there cannot be read
    """
    if not 0 < count <= _MOST_WORDS:
        raise Unavailable(f"futex_waitv does not wait for {count} words")
    raw, order = memory.read(address, count * _WAITED_SIZE), memory.byte_order
    words = []
    for start in range(0, len(raw), _WAITED_SIZE):
        flags = int.from_bytes(raw[start + 16 : start + 20], order)
        if flags & _SIZE_FLAGS != _SIZE_U32:
            raise Unavailable("futex_waitv waits for words of 4 bytes alone")
        word, expected = (
            int.from_bytes(raw[start + 8 : start + 16], order),
            int.from_bytes(raw[start : start + 4], order),
        )
        words.append(WaitedWord(word, expected, bool(flags & FUTEX_PRIVATE)))
    return words


class Waiting:
    """The waits of one process's threads.

    :param calls: how the processor's code makes system calls, None if that is unknown
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
        self._code: dict[tuple[int, int], bytes] = {}  # the code before a pc, by the pc and its size

    def futex_word(self, frame: Frame) -> int | None:
        """Return the address of the word on which a thread sleeps, None if it is in no system call.

        :param frame: the thread's innermost frame
        """
        calls = self._calls
        if calls is None or not self._has_called(frame, calls.instruction):
            return None
        return frame.registers.get(calls.first_argument)

    def is_in_call(self, frame: Frame) -> bool | None:
        """Return whether the instruction before a frame's pc calls the kernel, None if that is unknown."""
        return self._has_called(frame, self._calls.instruction) if self._calls is not None else None

    def number_by_code(self, stack: Stack) -> int | None:
        """Return the number of the system call at the innermost frame of *stack*, None if the code does not show it."""
        calls, frame = self._calls, stack.innermost
        if calls is None or frame is None:
            return None
        if self._symbols.vdso_at(frame.pc) is not None and len(stack.shape[0]) > 1:
            frame = stack.frames[1]
        elif self._has_called(frame, calls.zero + calls.instruction):
            return 0
        return self._number_of_call(frame, calls)

    def _has_called(self, frame: Frame, instruction: bytes) -> bool | None:
        # Whether *instruction* is just before the frame's pc, None if the code is not available.
        try:
            return self._code_before(frame.pc, len(instruction)) == instruction
        except MemoryFault:
            return None

    def _code_before(self, pc: int, size: int) -> bytes:
        # Cached, because many threads wait at the same place.
        code = self._code.get((pc, size))
        if code is None:
            code = self._code[pc, size] = self._memory.read(pc - size, size)
        return code

    def _number_of_call(self, frame: Frame, calls: SystemCalls) -> int | None:
        try:
            code = self._code_before(frame.pc, _CODE_OF_CALL)
        except MemoryFault:
            return None
        numbers = re.findall(calls.number, code)
        return int.from_bytes(numbers[-1], "little") if numbers else None

    def _number_in_register(self, thread: int, calls: SystemCalls) -> int | None:
        # 0 may be the number of restart_syscall(), or mean that the debugger did not give the register.
        number = self._threads.registers(thread).get(calls.register, 0) if calls.register is not None else 0
        return number if 0 < number < _MAX_CALLS else None

    def _is_held(self, address: int, size: int) -> bool:
        try:
            self._memory.read(address, size)
        except MemoryFault:
            return False
        return True

    def frames_of_handlers(self, stack: Stack) -> int:
        """Return how many of the innermost frames belong to signal handlers, including the kernel's signal frame.

        0 if no signal has interrupted the thread.
        """
        handled = self._handled.get(stack.shape)
        if handled is None:
            handled = max([index for index, frame in enumerate(stack.frames, 1) if frame.is_signal_frame], default=0)
            self._handled[stack.shape] = handled
        return handled

    def progress(self, thread: int, flags: int = 0) -> str | None:
        """Return ``blocked``, ``released`` or ``spinning`` for a waiting thread, as :meth:`Process.progress` has them.

        A thread in a signal handler still waits. But if the handler itself waits by a futex, the result is about the
        handler's wait.
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
        # The system call's number is in a register. If the target lacks that register, or a signal has interrupted the
        # call, the code before the call may show the number. If neither shows it, assume futex(), the call with which
        # runtimes wait.
        number = self._number_in_register(thread, calls) if not handled else None
        if number is None:
            # All calls may go through code of the vDSO, whose caller sets the number.
            by_kernels = handled + 1 < len(stack.shape[0]) and self._symbols.vdso_at(frame.pc)
            caller = stack.frames[handled + 1] if by_kernels else frame
            number = self._number_of_call(caller, calls)
            if number is None and by_kernels and not self._is_held(caller.pc - _CODE_OF_CALL, _CODE_OF_CALL):
                return None
        is_futex = number is None or number in calls.futexes
        is_futex = is_futex or number == _FUTEX_WAITV
        # A thread that was woken up, but has not run yet, is still at the call. If the word is unchanged, only the
        # result register shows that it was woken up.
        answer = frame.registers.get(calls.result) if not handled else None
        if answer is not None and is_answer(answer, self._memory.pointer_size, is_futex=is_futex):
            return "spinning"
        if number == calls.sched_yield:
            return "spinning"
        if number == _FUTEX_WAITV:
            return self._in_vector(frame, calls)
        return self._in_futex(thread, frame, calls, flags) if is_futex else "blocked"

    def _in_futex(self, thread: int, frame: Frame, calls: SystemCalls, flags: int) -> str | None:
        # A thread may also call futex() to wake others, and then does not sleep. *flags* are bits of the word that are
        # ignored.
        operation = frame.registers.get(calls.second_argument)
        command = operation & 0xFFFFFFFF & ~_FUTEX_FLAGS if operation is not None else None
        if command in _FUTEXES_WITHOUT_WAIT:
            return "spinning"
        word, expected = (frame.registers.get(r) for r in (calls.first_argument, calls.third_argument))
        now = self._word(word) if word is not None else None
        if now is None:
            return None
        if command in FUTEX_LOCKS:
            # The word has the owner's number: 0 if the lock is free, this thread's if it was handed the lock.
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
        # The value of the word, None if it is lost. A page of zeros counts as lost, because lost pages read as zeros.
        memory = self._memory
        try:
            now = int.from_bytes(memory.read(address, 4), memory.byte_order)
            page = memory.page_size
            if not now and not any(memory.read(address - address % page, page)):
                return None
        except MemoryFault:
            return None
        return now
