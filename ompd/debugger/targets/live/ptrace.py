"""Linux's own calls by the C library: ptrace(2), and process_vm_readv(2), which reads memory in bulk.

A stop never uses SIGSTOP: PTRACE_SEIZE and PTRACE_INTERRUPT stop a thread in a way that the program does not see, and
that ends by itself when the thread that traces ends. Waiting is done with WNOWAIT: to take a report would take the
signal out of the stopped thread too, and were we killed then, the program would never get it.
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
from typing import NamedTuple

from ompd.isa.processors import KCMP

_KCMP_VM = 1
_PTRACE_GETREGSET = 0x4204
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_EVENT_STOP = 128
_NT_PRSTATUS = 1
_MAX_GENERAL = 1024  # no processor has more, and a buffer that is too small is filled all the same
_WALL = 0x40000000
_IOV_MAX = 1024
MAX_PIECE = 256 << 10
"""How many bytes are read by one call, unless one range has more: reading them takes some tenths of a millisecond."""
_MAX_ADDRESS = (1 << 8 * ctypes.sizeof(ctypes.c_size_t)) - 1
_SIZEOF_SIGINFO = 128
# si_signo, si_errno, si_code; si_pid, si_uid, si_status of SIGCHLD, aligned as pointers are
_SIGINFO = struct.Struct("=iii4xiIi" if ctypes.sizeof(ctypes.c_void_p) == 8 else "=iiiiIi")

# PyDLL keeps the interpreter's lock: in a program with other Python threads getting it back after each of thousands of
# calls would take longer than the stop itself. These must not block, as PTRACE_SEIZE does while the program executes
# another one (execve(2)), and reading memory that was swapped out.
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
    """What became of a thread: it is stopped, to be let go with ``signal``, or it is gone."""

    is_gone: bool
    signal: int


# How many pages of a range may be unreadable before the rest of it is left: guards of stacks, say, lie between others.
_MAX_HOLES = 8


class Copied(NamedTuple):
    """Memory that was read: *size* bytes at *address* of the process, and from *at* on in the buffer."""

    address: int
    size: int
    at: int


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0, library: ctypes.CDLL = _LIBC_AT_ONCE) -> None:
    if library.ptrace(request, thread, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def seize(thread: int) -> None:
    """Trace *thread* without stopping it. While its process executes another program this waits.

    :raises OSError: if it is gone (ESRCH), or may not be traced (EPERM)
    """
    _ptrace(_PTRACE_SEIZE, thread, library=_LIBC)


def interrupt(thread: int) -> None:
    """Ask a traced thread to stop; :func:`report` tells when it has.

    :raises OSError: if it is gone (ESRCH)
    """
    _ptrace(_PTRACE_INTERRUPT, thread)


def report(thread: int) -> Report | None:
    """Return what became of a traced thread, None while it neither stopped nor ended. Never waits."""
    options = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL
    found = ctypes.create_string_buffer(_SIZEOF_SIGINFO)
    if _LIBC_AT_ONCE.waitid(os.P_PID, thread, ctypes.addressof(found), options) == -1:
        return Report(True, 0)
    _, _, code, process, _, status = _SIGINFO.unpack_from(found)
    if not process:
        return None
    if code != os.CLD_TRAPPED:
        return Report(True, 0)
    # The event is above the signal. PTRACE_EVENT_STOP is ours, or job control's; there is no signal to be handed on.
    return Report(False, 0 if status >> 8 == _PTRACE_EVENT_STOP else status & 0x7F)


def bury(thread: int) -> None:
    """If a traced thread, not the first of its process, has ended, take the report of that.

    An execve(2) of another thread waits until this is done.
    """
    # Of a traced thread waiting takes reports of stops, too, whatever it asks for, so that it must not be tried.
    found = report(thread)
    if found is not None and found.is_gone:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, thread, os.WEXITED | os.WNOHANG | _WALL)


def general_registers(thread: int) -> bytes:
    """Return the general registers of a stopped thread, as ``pr_reg`` of an ``NT_PRSTATUS`` note has them: how many
    bytes these are tells by which of a processor's ways its code runs.

    :raises OSError: if it is gone
    """
    return register_set(thread, _NT_PRSTATUS, _MAX_GENERAL)


def register_set(thread: int, note: int, size: int) -> bytes:
    """Return the registers of a stopped thread that cores have in notes of the type *note*.

    :param size: the most bytes that these can be, of which no part is a part of a register
    :raises OSError: if it is gone (ESRCH), or it has none of these (EINVAL, ENODEV)
    """
    buffer = ctypes.create_string_buffer(size)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), size)
    _ptrace(_PTRACE_GETREGSET, thread, note, ctypes.addressof(vector))
    return buffer.raw[: vector[1]]


class Reader:
    """Reads memory of a process that may change meanwhile, piece by piece; what a call needs is made ready once.

    :param size: the most bytes of a piece
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffer = ctypes.create_string_buffer(size)
        self._view = memoryview(self._buffer)
        self._vectors = (ctypes.c_size_t * 4)(ctypes.addressof(self._buffer), size, 0, 0)
        self._local = ctypes.addressof(self._vectors)
        self._remote = self._local + 2 * ctypes.sizeof(ctypes.c_size_t)

    def read(self, process: int, address: int, size: int) -> bytes | None:
        """Return *size* bytes at *address*, None if they are not all there, or may not be read."""
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
    """Read *ranges* (address, size) of the memory of *process*, one after the other, into *buffer*; return what was
    read, what was tried (where that was not read, the process has nothing to read), and how many of the ranges there
    was time for.

    Behind a page that cannot be read, reading goes on, a few times in each range.

    :param ranges: each begins at a page, and *buffer* has room for all
    :param is_over: called between pieces of some hundred kilobytes; where it returns true reading ends
    :raises OSError: if the process is gone (ESRCH), or its memory may not be read (EPERM)
    """
    base = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    left = list(ranges)
    got: list[Copied] = []
    tried: list[tuple[int, int]] = []
    index = at = holes = 0
    while index < len(left) and not is_over():
        batch = _batch(left, index)
        total = sum(size for _, size in batch)
        remote = (ctypes.c_size_t * (2 * len(batch)))(*(word for pair in batch for word in pair))
        local = (ctypes.c_size_t * 2)(base + at, total)
        count = _LIBC.process_vm_readv(process, ctypes.addressof(local), 1, ctypes.addressof(remote), len(batch), 0)
        if count < 0:
            code = ctypes.get_errno()
            if code not in (errno.EFAULT, errno.EIO):
                raise OSError(code, os.strerror(code))
            count = 0
        # It ends at the first page that is not there.
        for address, size in batch:
            read = min(size, count)
            count -= read
            if read:
                got.append(Copied(address, read, at))
            seen = min(size, read + mmap.PAGESIZE)
            tried.append((address, seen))
            if read == size:
                index, holes, at = index + 1, 0, at + size
                continue
            if seen < size and holes < _MAX_HOLES:
                left[index], holes, at = (address + seen, size - seen), holes + 1, at + seen
            else:
                index, holes, at = index + 1, 0, at + size
            break
    return got, tried, index


def _batch(ranges: Sequence[tuple[int, int]], index: int) -> Sequence[tuple[int, int]]:
    # What is read by one call, from *index* on.
    end, total = index, 0
    while end < len(ranges) and end - index < _IOV_MAX and (end == index or total + ranges[end][1] <= MAX_PIECE):
        total += ranges[end][1]
        end += 1
    return ranges[index:end]


def has_same_memory(thread: int, other: int) -> bool:
    """Return whether two threads, of whatever processes, have the same memory; False if the kernel does not say so."""
    number = KCMP.get(platform.machine())
    return number is not None and _LIBC.syscall(number, thread, other, _KCMP_VM, 0, 0) == 0
