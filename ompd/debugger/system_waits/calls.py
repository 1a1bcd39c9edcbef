"""The system call that a thread is in, its arguments, and what these mean for the wait."""

from __future__ import annotations

from typing import NamedTuple

from ompd.contract.memory import Memory, read_unsigned
from ompd.debugger.stacks.stacks import Stacks
from ompd.debugger.threads.threads import Threads
from ompd.debugger.waiting import FUTEX_LOCKS, FUTEX_PRIVATE, WaitedWord, Waiting, is_answer, read_waited_words
from ompd.errors import MemoryFault, Unavailable
from ompd.isa.architecture import KernelArguments

_MAX_CALLS = 1 << 12
_LATER_TIMES = "_time64"

# The futex operations that wait (Linux, futex.h). Those for mutexes with priority inheritance are FUTEX_LOCKS.
FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI = 0, 9, 11
_FUTEX_CLOCK_REALTIME = 256
_FUTEX_WAITS = frozenset((FUTEX_WAIT, *FUTEX_LOCKS, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI))
_MAX_SELECTED = 1024  # FD_SETSIZE
# The calls of socketcall(2) that may wait (Linux, include/uapi/linux/net.h).
_SOCKET_CALLS = {
    **{3: "connect", 5: "accept", 9: "sendto", 10: "recvfrom", 11: "sendto", 12: "recvfrom"},
    **{16: "sendmsg", 17: "recvmsg", 18: "accept4", 19: "recvmmsg", 20: "sendmmsg"},
}
_SOCKET_ARGUMENTS = 6
_POLLS, _SELECTS = ("poll", "ppoll"), ("select", "_newselect", "pselect6")
_F_WAITING_LOCKS = frozenset((7, 14, 38))  # F_SETLKW, F_SETLKW64, F_OFD_SETLKW


class SystemCall(NamedTuple):
    """A system call. An unknown number or argument is None. ``name`` is None for a call that never waits."""

    number: int | None
    name: str | None
    arguments: tuple[int | None, ...]

    @property
    def meaning(self) -> Meaning | None:
        """The meaning of the call's arguments, None for a call that never waits and for an unknown call."""
        return _MEANINGS.get((self.name or "").removesuffix(_LATER_TIMES))

    def signed(self, index: int) -> int | None:
        """Return the argument at *index* as C's type ``int``, None if it is unknown."""
        value = self.arguments[index] if index < len(self.arguments) else None
        return None if value is None else _as_signed(value, 4)


class Meaning(NamedTuple):
    """The kind of wait that a system call begins, and the indices of the arguments that describe it.

    ``kind`` is a kind of :class:`ompd.model.stalls.SystemWait`. The argument at the index ``descriptor`` is a file
    descriptor. The argument at ``timeout`` is a pointer to a time limit, null for no limit. The argument at
    ``milliseconds`` is a time limit, negative for none. An index is None if the call has no such argument. For a call
    without an argument for a limit, ``is_timed`` is whether it ends by itself, None if the arguments do not show it.
    """

    kind: str
    descriptor: int | None = None
    timeout: int | None = None
    milliseconds: int | None = None
    is_timed: bool | None = False


class Futex(NamedTuple):
    """The arguments of a futex call that waits. ``operation`` has no flags.

    ``is_timed`` is whether the call has a time limit, None if that is unknown. ``deadline`` is ``relative`` for a limit
    that counts from the beginning of the call, ``absolute`` for a time of day, None without a limit.
    """

    word: int
    operation: int
    expected: int | None
    is_private: bool
    is_timed: bool | None
    deadline: str | None = None


_IO, _SOCKET = Meaning("io", 0), Meaning("io", 0, is_timed=None)
_MEANINGS = {
    "futex": Meaning("futex"),
    "futex_waitv": Meaning("futex", timeout=3),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Meaning("sleep", is_timed=True)),
    # If the descriptor is a socket, that may have a time limit for these calls (SO_RCVTIMEO, SO_SNDTIMEO).
    **dict.fromkeys(("read", "write", "readv", "writev"), _SOCKET),
    **dict.fromkeys(("accept", "accept4", "connect", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg"), _SOCKET),
    "recvmmsg": Meaning("io", 0, is_timed=None),
    **dict.fromkeys(("pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "ioctl", "flock"), _IO),
    **dict.fromkeys(("fcntl", "fcntl64", "fsync", "fdatasync", "sync_file_range", "syncfs"), _IO),
    **dict.fromkeys(("sendfile", "sendfile64", "splice", "tee", "vmsplice"), _IO),
    **dict.fromkeys(("open", "openat", "msync", "sync"), Meaning("io")),
    "poll": Meaning("io", milliseconds=2),
    "ppoll": Meaning("io", timeout=2),
    **dict.fromkeys(("select", "_newselect", "pselect6"), Meaning("io", timeout=4)),
    **dict.fromkeys(("epoll_wait", "epoll_pwait"), Meaning("io", 0, milliseconds=3)),
    "epoll_pwait2": Meaning("io", 0, timeout=3),
    **dict.fromkeys(("io_getevents", "io_pgetevents"), Meaning("io", timeout=4)),
    "io_uring_enter": Meaning("io", 0, is_timed=None),
    **dict.fromkeys(("pause", "rt_sigsuspend", "sigsuspend"), Meaning("signal")),
    "rt_sigtimedwait": Meaning("signal", timeout=2),
    **dict.fromkeys(("wait4", "waitpid", "waitid", "vfork"), Meaning("child")),
    "semop": Meaning("system_call"),
    "semtimedop": Meaning("system_call", timeout=3),
    **dict.fromkeys(("msgsnd", "msgrcv"), Meaning("system_call")),
    **dict.fromkeys(("mq_timedsend", "mq_timedreceive"), Meaning("system_call", timeout=4)),
}


def _as_signed(value: int, size: int) -> int:
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


class KernelCalls:
    """The system calls of one process's threads."""

    def __init__(
        self, memory: Memory, threads: Threads, stacks: Stacks, waiting: Waiting, arguments: KernelArguments | None
    ) -> None:
        self._memory, self._threads, self._stacks, self._waiting = memory, threads, stacks, waiting
        self._convention = arguments

    def current(self, thread: int) -> SystemCall | None:
        """Return the system call that *thread* is in. None if it is in no call, or if the call has its result already.

        :raises Unavailable: if the registers or the code of the thread could not be read, or if it is unknown how this
            processor makes system calls
        """
        convention = self._convention
        if convention is None:
            raise Unavailable("how this processor's system calls are made is not known")
        registers, stack = self._threads.registers(thread), self._stacks.stack(thread)
        frame = stack.innermost
        is_in_call = self._waiting.is_in_call(frame) if frame is not None else None
        if frame is None or is_in_call is None:
            raise Unavailable(f"the {'registers' if frame is None else 'code'} of thread {thread} could not be read")
        if not is_in_call:
            return None
        number = registers.get(convention.number)
        if number is not None and _as_signed(number, 4) < 0:
            return None
        if number is None or number in (0, convention.restart) or number >= _MAX_CALLS:
            # The register may have another number than the program's call: after a stop the kernel restarts some calls
            # as restart_syscall(), and a snapshot has 0 if its target lacked the register. The code before the call may
            # show the right number.
            number = self._waiting.number_by_code(stack)
        name = convention.waits.get(number) if number is not None else None
        answer, is_futex = registers.get(convention.result), (name or "").startswith("futex")
        if answer is not None and is_answer(answer, self._memory.pointer_size, is_futex=is_futex):
            return None
        arguments = tuple(registers.get(register) for register in convention.arguments)
        return self._of_socket(arguments) if name == "socketcall" else SystemCall(number, name, arguments)

    def _of_socket(self, arguments: tuple[int | None, ...]) -> SystemCall:
        # socketcall(2) is one system call for all operations on sockets. Its arguments are the number of the operation,
        # and the address of the operation's arguments.
        operation, address = arguments[:2]
        unknown = SystemCall(None, None, (None,) * _SOCKET_ARGUMENTS)
        if operation is None or address is None:
            return unknown
        name, size, order = _SOCKET_CALLS.get(operation), self._memory.pointer_size, self._memory.byte_order
        try:
            raw = self._memory.read(address, 3 * size)
        except MemoryFault:
            return SystemCall(operation, name, unknown.arguments)
        first = [int.from_bytes(raw[offset : offset + size], order) for offset in range(0, len(raw), size)]
        return SystemCall(operation, name, (*first, *unknown.arguments[3:]))

    def futex(self, call: SystemCall) -> Futex | None:
        """Return the arguments of a ``futex`` call, None if its operation does not wait.

        :raises Unavailable: if the call's word or operation is unknown
        """
        word, operation, expected, timeout = call.arguments[:4]
        if word is None or operation is None:
            raise Unavailable("the arguments of the system call are unknown")
        command = operation & 0xFFFFFFFF & ~(FUTEX_PRIVATE | _FUTEX_CLOCK_REALTIME)
        if command not in _FUTEX_WAITS:
            return None
        deadline = None if not timeout else "relative" if command == FUTEX_WAIT else "absolute"
        expected = expected & 0xFFFFFFFF if expected is not None else None
        timed = None if timeout is None else timeout != 0
        return Futex(word, command, expected, bool(operation & FUTEX_PRIVATE), timed, deadline)

    def words(self, call: SystemCall) -> list[WaitedWord]:
        """Return the words that a ``futex_waitv`` call waits for.

        :raises Unavailable: if the arguments of the call are unknown or invalid
        :raises MemoryFault: if the list of words cannot be read
        """
        address, count = call.arguments[:2]
        if address is None or count is None:
            raise Unavailable("the arguments of the system call are unknown")
        return read_waited_words(self._memory, address, count)

    def is_timed(self, call: SystemCall, meaning: Meaning) -> bool | None:
        """Return whether the call ends by itself, after a time limit; None if that is unknown."""
        if meaning.timeout is not None:
            pointer = call.arguments[meaning.timeout]
            return None if pointer is None else pointer != 0
        if meaning.milliseconds is not None:
            milliseconds = call.signed(meaning.milliseconds)
            return None if milliseconds is None else milliseconds >= 0
        return meaning.is_timed

    def waits_for_locks(self, call: SystemCall) -> bool:
        """Return whether an ``fcntl`` call may wait: only its commands that take file locks do."""
        command = call.signed(1)
        return command is None or command in _F_WAITING_LOCKS

    def has_descriptors(self, call: SystemCall, meaning: Meaning) -> bool:
        """Return whether the call waits for files whose descriptors are among its arguments."""
        return meaning.descriptor is not None or (call.name or "").removesuffix(_LATER_TIMES) in (*_POLLS, *_SELECTS)

    def descriptors(self, call: SystemCall, meaning: Meaning) -> list[int] | None:
        """Return the file descriptors that the call waits for, None if they are unknown."""
        name = (call.name or "").removesuffix(_LATER_TIMES)
        try:
            if name in _POLLS:
                return self._polled(call)
            if name in _SELECTS:
                return self._selected(call)
        except MemoryFault:
            return None
        descriptor = call.signed(meaning.descriptor) if meaning.descriptor is not None else None
        return None if descriptor is None or descriptor < 0 else [descriptor]

    def _polled(self, call: SystemCall) -> list[int] | None:
        # struct pollfd: int fd; short events, revents
        address, count = call.arguments[0], call.arguments[1]
        if address is None or count is None or count > _MAX_SELECTED:
            return None
        raw = self._memory.read(address, 8 * count) if count else b""
        order = self._memory.byte_order
        descriptors = (int.from_bytes(raw[start : start + 4], order, signed=True) for start in range(0, len(raw), 8))
        return [descriptor for descriptor in descriptors if descriptor >= 0]

    def _selected(self, call: SystemCall) -> list[int] | None:
        # The sets in memory are still those that the call waits for: the kernel overwrites them only when it ends.
        count = call.signed(0)
        if count is None or not 0 <= count <= _MAX_SELECTED or None in call.arguments[1:4]:
            return None
        size, selected = self._memory.pointer_size, 0
        for address in call.arguments[1:4]:
            for word in range(-(-count // (8 * size)) if address else 0):
                assert address is not None
                selected |= read_unsigned(self._memory, address + word * size, size) << 8 * size * word
        return [number for number in range(count) if selected >> number & 1]
