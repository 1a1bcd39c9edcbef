"""System calls through the C library: ptrace(2), process_vm_readv(2), which reads memory in bulk, and kcmp(2).

A stop never uses SIGSTOP. PTRACE_SEIZE and PTRACE_INTERRUPT stop a thread in a way that the program cannot notice, and
the stop ends when the tracing thread ends. Waits use WNOWAIT. Without this flag, a wait would also take the signal out
of the stopped thread. If ompd were killed at that moment, the program would never receive the signal.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ompd.isa.processors import KCMP

_KCMP_VM = 1
_PTRACE_GETREGSET = 0x4204
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_EVENT_STOP = 128
_NT_PRSTATUS = 1
_MAX_GENERAL = 1024  # no processor has more; the kernel would fill a smaller buffer without an error
_WALL = 0x40000000
_IOV_MAX = 1024
MAX_PIECE = 256 << 10
"""The most bytes to read by one call, unless one range has more. Reading them takes some tenths of a millisecond."""
_MAX_ADDRESS = (1 << 8 * ctypes.sizeof(ctypes.c_size_t)) - 1
_SIZEOF_SIGINFO = 128
# si_signo, si_errno, si_code; si_pid, si_uid, si_status of SIGCHLD, aligned as pointers are
_SIGINFO = struct.Struct("=iii4xiIi" if ctypes.sizeof(ctypes.c_void_p) == 8 else "=iiiiIi")

# PyDLL keeps the interpreter's lock. In a program with other Python threads, taking the lock again after each of
# thousands of calls would take longer than the stop itself. Calls that may block use CDLL: PTRACE_SEIZE, which waits
# for an execve(2), and reading memory, which may be swapped out.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC_AT_ONCE = ctypes.PyDLL(None, use_errno=True)
for _library in (_LIBC, _LIBC_AT_ONCE):
    _library.ptrace.restype = ctypes.c_long
    _library.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_LIBC_AT_ONCE.waitid.argtypes = (ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)
_LIBC.process_vm_readv.restype = ctypes.c_ssize_t
_LIBC.process_vm_readv.argtypes = (
    *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong),
    *(ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong),
)


class Report(NamedTuple):
    """The state of a traced thread: gone, or stopped, to be released with ``signal``."""

    is_gone: bool
    signal: int


# After this number of unreadable pages, the rest of a range is skipped. A few are expected: guard pages between stacks.
_MAX_HOLES = 8


class Copied(NamedTuple):
    """Memory that was read: ``size`` bytes at ``address`` of the process. They begin at ``place`` in the buffer."""

    address: int
    size: int
    place: int


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0, library: ctypes.CDLL = _LIBC_AT_ONCE) -> None:
    if library.ptrace(request, thread, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def seize(thread: int) -> None:
    """Trace *thread* without stopping it. This call blocks while the thread's process executes another program.

    :raises OSError: if the thread is gone (ESRCH), or may not be traced (EPERM)
    """
    _ptrace(_PTRACE_SEIZE, thread, library=_LIBC)


def interrupt(thread: int) -> None:
    """Ask a traced thread to stop; :func:`report` returns whether it has.

    :raises OSError: if it is gone (ESRCH)
    """
    _ptrace(_PTRACE_INTERRUPT, thread)


def report(thread: int) -> Report | None:
    """Return the state of a traced thread, None while it neither stopped nor ended. Never blocks."""
    options = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL
    siginfo = ctypes.create_string_buffer(_SIZEOF_SIGINFO)
    if _LIBC_AT_ONCE.waitid(os.P_PID, thread, ctypes.addressof(siginfo), options) == -1:
        return Report(True, 0)
    _, _, code, process, _, status = _SIGINFO.unpack_from(siginfo)
    if not process:
        return None
    if code != os.CLD_TRAPPED:
        return Report(True, 0)
    # The event is above the signal. PTRACE_EVENT_STOP is ours, or job control's: no signal has to be passed on.
    return Report(False, 0 if status >> 8 == _PTRACE_EVENT_STOP else status & 0x7F)


def bury(thread: int) -> None:
    """Collect the status of a traced thread if it has ended. The thread must not be the first one of its process.

    An execve(2) in another thread of the process waits until the status is collected.
    """
    # Do not wait for a living thread: with any options, this would also collect reports of stops.
    status = report(thread)
    if status is not None and status.is_gone:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, thread, os.WEXITED | os.WNOHANG | _WALL)


def general_registers(thread: int) -> bytes:
    """Return the general registers of a stopped thread, in the format of ``pr_reg`` in ``NT_PRSTATUS`` notes. Their
    size shows in which mode of the processor the thread's code runs.

    :raises OSError: if it is gone
    """
    return register_set(thread, _NT_PRSTATUS, _MAX_GENERAL)


def register_set(thread: int, note: int, size: int) -> bytes:
    """Return a register set of a stopped thread, as cores have it in notes of type *note*.

    :param size: its largest size in bytes, a multiple of a register's
    :raises OSError: if the thread is gone (ESRCH), or has no such set (EINVAL, ENODEV)
    """
    buffer = ctypes.create_string_buffer(size)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), size)
    _ptrace(_PTRACE_GETREGSET, thread, note, ctypes.addressof(vector))
    return buffer.raw[: vector[1]]


class Reader:
    """Reads the memory of running processes. The arguments of the system call are allocated once.

    :param size: the most bytes of one read
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffer = ctypes.create_string_buffer(size)
        self._view = memoryview(self._buffer)
        self._vectors = (ctypes.c_size_t * 4)(ctypes.addressof(self._buffer), size, 0, 0)
        self._local = ctypes.addressof(self._vectors)
        self._remote = self._local + 2 * ctypes.sizeof(ctypes.c_size_t)

    def read(self, process: int, address: int, size: int) -> bytes | None:
        """Return *size* bytes at *address*, None if some are missing or may not be read."""
        if not 0 < size <= self._size or not 0 <= address <= _MAX_ADDRESS:
            return None
        self._vectors[2], self._vectors[3] = address, size
        count = _LIBC.process_vm_readv(process, self._local, 1, self._remote, 1, 0)
        return self._view[:size].tobytes() if count == size else None


def read_memory(
    process: int,
    ranges: Sequence[tuple[int, int]],
    buffer: bytearray | mmap.mmap,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[list[Copied], list[tuple[int, int]], int]:
    """Read *ranges* (address, size) of the memory of *process* in order into *buffer*.

    Reading continues behind an unreadable page, a few times in each range.

    :param ranges: the ranges, each of which begins at a page; *buffer* must have room for all of them
    :param is_over: is called between pieces of some hundred kilobytes; reading ends if it returns true
    :returns: the memory that was read; the ranges that were tried, whose unread parts are unreadable; and how many of
        *ranges* were done before reading ended
    :raises OSError: if the process is gone (ESRCH), or its memory may not be read (EPERM)
    """
    base = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    remaining = list(ranges)
    copied: list[Copied] = []
    tried: list[tuple[int, int]] = []
    index = place = holes = 0
    while index < len(remaining) and not is_over():
        batch = _batch(remaining, index)
        total = sum(size for _, size in batch)
        remote = (ctypes.c_size_t * (2 * len(batch)))(*(word for pair in batch for word in pair))
        local = (ctypes.c_size_t * 2)(base + place, total)
        count = _LIBC.process_vm_readv(process, ctypes.addressof(local), 1, ctypes.addressof(remote), len(batch), 0)
        if count < 0:
            code = ctypes.get_errno()
            if code not in (errno.EFAULT, errno.EIO):
                raise OSError(code, os.strerror(code))
            count = 0
        # The call has read *count* bytes of the batch in order, up to the first unreadable page.
        for address, size in batch:
            read = min(size, count)
            count -= read
            if read:
                copied.append(Copied(address, read, place))
            tried_size = min(size, read + mmap.PAGESIZE)
            tried.append((address, tried_size))
            if read == size:
                index, holes, place = index + 1, 0, place + size
                continue
            if tried_size < size and holes < _MAX_HOLES:
                remaining[index] = address + tried_size, size - tried_size
                holes, place = holes + 1, place + tried_size
            else:
                index, holes, place = index + 1, 0, place + size
            break
    return copied, tried, index


def _batch(ranges: Sequence[tuple[int, int]], index: int) -> Sequence[tuple[int, int]]:
    # Return the end of the ranges from *index* on that one call reads.
    end, total = index, 0
    while end < len(ranges) and end - index < _IOV_MAX and (end == index or total + ranges[end][1] <= MAX_PIECE):
        total += ranges[end][1]
        end += 1
    return ranges[index:end]


def find_sharers(process_id: int, thread: int) -> list[int] | None:
    """Return the numbers of other processes with the same memory, None if the kernel cannot compare.

    clone(2) with CLONE_VM and without CLONE_THREAD makes such processes. All visible processes are compared, which
    takes some microseconds each.

    :param thread: the native id of a thread of the process that has not ended
    """
    if not _have_same_memory(thread, thread):
        return None
    numbers = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return sorted(other for other in numbers if other != process_id and _have_same_memory(thread, other))


def _have_same_memory(thread: int, other: int) -> bool:
    # Return whether two threads, perhaps of different processes, have the same memory; False if it is unknown.
    number = KCMP.get(platform.machine())
    return number is not None and _LIBC.syscall(number, thread, other, _KCMP_VM, 0, 0) == 0
