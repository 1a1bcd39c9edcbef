"""A running process: its facts in ``/proc``, and its memory as it is now."""

from __future__ import annotations

import errno
import mmap
import os
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ompd.binary.core.notes import parse_auxv
from ompd.binary.core.procfs import (
    PF_IO_WORKER,
    MemoryMapping,
    parse_maps,
    parse_stat,
    parse_status,
    parse_syscall,
    parse_syscall_arguments,
)
from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.freezer import frozen_group
from ompd.debugger.targets.live.refusals import examine, living_thread, refusal
from ompd.debugger.targets.live.tracer import Asleep, stop_error
from ompd.errors import BadProcess, MalformedFile, TargetGone, Unavailable
from ompd.isa.architecture import BEGUN_ANEW, Architecture

if TYPE_CHECKING:
    from ompd.debugger.targets.live.tracer import Stop

PAGE = mmap.PAGESIZE
PAGE_BITS = PAGE.bit_length() - 1
_MOST_TRIES, _PAUSE = 200, 1e-3


class RunningProcess:
    """A running process of this machine.

    ``note`` is a note for the user about the given number, or None. ``constants`` are pages that are not writable, by
    number. They stay the same until the process executes another program.

    :raises BadProcess: if it cannot be inspected
    """

    def __init__(self, process_id: int) -> None:
        findings = examine(process_id)
        self.process_id = findings.process_id
        self.note = findings.note
        self.architecture: Architecture = findings.architecture
        self.constants: dict[int, bytes] = {}
        self.wanted: dict[str, None] = {}
        """Paths in its folder that a query has read. Like pages, they are read again while the process is stopped."""
        self._is_kernels: dict[int, bool] = {}  # whether a thread is the kernel's, by the thread's number
        self._parsed: tuple[bytes, Sequence[MemoryMapping]] | None = None
        self._memory = ptrace.Reader(ptrace.MAX_PIECE)
        self.reader = self.process_id
        """A thread by which the memory can be read. The first thread may have ended before the others."""
        # The folder's descriptor belongs to this process, even if another process gets the number later.
        self.folder = _open(f"/proc/{self.process_id}", None, os.O_DIRECTORY, self.process_id)
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the process's folder. The process is not stopped."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1

    def refresh(self) -> None:
        """Read again the facts that change only if a library is loaded, or if another program is executed."""
        self.constants.clear()
        arguments = self._read("cmdline").rstrip(b"\0").replace(b"\0", b" ")
        self.command: str | None = arguments.decode("utf-8", "surrogateescape") or None
        auxv = self._read_of_program("auxv")
        self.auxiliary_vector: Mapping[int, int] = parse_auxv(
            auxv, self.architecture.pointer_size, self.architecture.byte_order
        )

    def has_ended(self) -> bool:
        """Return whether all threads have ended. For a moment, while a thread executes another program, facts of the
        process cannot be read either.
        """
        try:
            return living_thread(Path(f"/proc/{self.process_id}")) is None
        except OSError:
            return True

    def executes_another(self) -> bool:
        """Return whether the process has executed another program since its facts were last refreshed.

        :raises TargetGone: if it has ended
        """
        auxv = self._read_of_program("auxv")
        parsed = parse_auxv(auxv, self.architecture.pointer_size, self.architecture.byte_order)
        return parsed != self.auxiliary_vector

    def held_by(self) -> str | None:
        """Return the reason why no thread can run: ``a signal`` (SIGSTOP, Ctrl-Z), ``a debugger``, or the name of a
        frozen control group. None if the process runs.
        """
        try:
            state = parse_stat(self._read(f"task/{self.reader}/stat")).state
            group = frozen_group(self._read("cgroup").decode(errors="replace"))
        except (TargetGone, MalformedFile):
            return None
        if group is not None:
            return f"the frozen control group {group}"
        return {"T": "a signal", "t": "a debugger"}.get(state)

    def _read(self, name: str) -> bytes:
        descriptor = _open(name, self.folder, 0, self.process_id)
        try:
            pieces = []
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
            return b"".join(pieces)
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)

    def _read_of_program(self, name: str) -> bytes:
        # Only a living thread has these files, and the first one may have ended. For a moment, while one executes
        # another program, no thread may have them.
        for _ in range(_MOST_TRIES):
            with suppress(TargetGone):
                contents = self._read(f"task/{self.reader}/{name}")
                if contents:
                    return contents
            try:
                alive = living_thread(Path(f"/proc/{self.process_id}"))
            except OSError:
                break
            if alive is None:
                break
            if alive == self.reader:
                time.sleep(_PAUSE)
            self.reader = alive
        raise TargetGone(f"process {self.process_id} ended while it was looked at")

    def thread_ids(self) -> list[int]:
        """Return the numbers of the threads, in order. The kernel's own threads for io_uring are left out, because they
        never run the program's code.

        :raises TargetGone: if the process has ended
        """
        descriptor = _open("task", self.folder, os.O_DIRECTORY, self.process_id)
        try:
            listed = sorted(map(int, os.listdir(descriptor)))  # noqa: PTH208  Path has no descriptors
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)
        return [thread for thread in listed if not self._is_kernel_thread(thread)]

    def _is_kernel_thread(self, thread: int) -> bool:
        if thread not in self._is_kernels:
            try:
                flags = parse_stat(self._read_line(f"task/{thread}/stat")).flags
            except (OSError, MalformedFile):
                return False  # it has ended
            self._is_kernels[thread] = bool(flags & PF_IO_WORKER)
        return self._is_kernels[thread]

    def serves_page_faults(self) -> bool:
        """Return whether threads of the process may supply pages of its memory by themselves (userfaultfd(2))."""
        try:
            descriptor = os.open("fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        except OSError:
            return False
        try:
            for name in os.listdir(descriptor):  # noqa: PTH208  Path has no descriptors
                with suppress(OSError):  # it was closed
                    if os.readlink(name, dir_fd=descriptor) == "anon_inode:[userfaultfd]":
                        return True
        except OSError:
            pass
        finally:
            os.close(descriptor)
        return False

    def maps(self) -> bytes:
        """Return ``/proc/PID/maps``.

        :raises TargetGone: if the process has ended
        """
        return self._read_of_program("maps")

    def mappings(self, maps: bytes) -> Sequence[MemoryMapping]:
        """Return the mappings in the text *maps*. An unchanged text is not parsed again, because it seldom changes."""
        if self._parsed is None or self._parsed[0] != maps:
            self._parsed = maps, parse_maps(maps)
        return self._parsed[1]

    def maps_of(self, thread: int, stop: Stop) -> bytes | None:
        """Return the contents of *thread*'s ``maps`` file, during a stop.

        None if *stop* is over before the whole file is read, or if the thread is gone.
        """
        try:
            descriptor = _open(f"task/{thread}/maps", self.folder, 0, self.process_id)
        except TargetGone:
            return None
        try:
            pieces: list[bytes] = []
            while not stop.is_over():
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
            return None
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)

    def read_now(self, address: int, size: int) -> bytes | None:
        """Return the present bytes at *address*, at most :data:`ptrace.MAX_PIECE`; None if some are unreadable or the
        process has ended.
        """
        return self._memory.read(self.reader, address, size)

    def own_thread_ids(self) -> dict[int, int]:
        """Return the threads' numbers in their own namespace, by their numbers here; empty if the namespace is ours."""
        own_ids = {}
        with suppress(TargetGone):
            for thread in self.thread_ids():
                with suppress(TargetGone, ValueError):
                    numbers = parse_status(self._read(f"task/{thread}/status")).get("NSpid", "").split()
                    if len(numbers) < 2:
                        return {}
                    own_ids[thread] = int(numbers[-1])
        return own_ids

    def asleep(self, thread: int) -> Asleep | None:
        """Return how a thread sleeps. None if it runs or has ended, or if a signal or a debugger holds it, because its
        system call may then have returned.
        """
        try:
            turns = self._read_line(f"task/{thread}/schedstat").split()
            state = self._read_line(f"task/{thread}/stat").rpartition(b")")[2].split(None, 1)[:1]
            call = self._read_line(f"task/{thread}/syscall")
        except OSError:
            return None
        # A kernel without statistics of the scheduler writes zeros.
        has_turns = len(turns) == 3 and turns[2].isdigit() and int(turns[2])
        if not has_turns or state not in ([b"S"], [b"D"]) or parse_syscall(call) is None:
            return None
        return Asleep(call, int(turns[2]))

    def processor_times(self, thread: int) -> tuple[int, int] | None:
        """Return how long a thread has had a processor, and how long it has waited for one, in nanoseconds.

        None if it has ended, or if the kernel keeps no statistics of the scheduler.
        """
        try:
            words = self._read_line(f"task/{thread}/schedstat").split()
        except OSError:
            return None
        if len(words) != 3 or not all(word.isdigit() for word in words) or not int(words[2]):
            return None
        return int(words[0]), int(words[1])

    def _read_line(self, name: str) -> bytes:
        # Return a file of one short line, which one call reads.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            return os.read(descriptor, 1 << 12)
        finally:
            os.close(descriptor)

    def registers_asleep(self, asleep: Asleep) -> Mapping[str, int]:
        """Return the registers of a sleeping thread that follow from how it sleeps."""
        registers, arch = dict(self._registers_in(asleep.call)), self.architecture
        if arch.kernel_arguments is not None and arch.kernel_arguments.number in registers:
            # While a call is in progress, the kernel keeps this value in the result's register (x86: entry_64.S,
            # entry_32.S).
            registers[arch.kernel_arguments.result] = -errno.ENOSYS & (1 << 8 * arch.pointer_size) - 1
        return registers

    def blocked_at(self, thread: int) -> Mapping[str, int] | None:
        """Return the known registers of a thread in the kernel, None if it runs. Its system call may have returned."""
        try:
            return self._registers_in(self._read(f"task/{thread}/syscall")) or None
        except (TargetGone, BadProcess):
            return None

    def _registers_in(self, call: bytes) -> Mapping[str, int]:
        # A line of ``syscall`` has the stack pointer and the program counter. Except in a page fault, it also has the
        # number and the arguments of the system call.
        pointers, arch = parse_syscall(call), self.architecture
        if pointers is None:
            return {}
        registers = {arch.sp: pointers[0], arch.pc: pointers[1]}
        words = parse_syscall_arguments(call)
        if words and arch.kernel_arguments is not None:
            names = (arch.kernel_arguments.number, *arch.kernel_arguments.arguments)
            registers.update(zip(names, words, strict=False))
        return registers

    def can_restart(self, thread: int, asleep: Asleep) -> bool:
        """Return whether a sleeping thread may be stopped, because the kernel then restarts the interrupted system
        call.

        Some calls return early instead. To restart a call, the kernel goes back to the instruction before the program
        counter. This instruction may be gone with an unloaded library, or replaced if it was generated at run time. A
        seccomp filter checks the restarted call again, and may kill the process (for ``restart_syscall``, for example).
        """
        arch, registers = self.architecture, self.registers_asleep(asleep)
        if not parse_syscall_arguments(asleep.call):
            return True  # a page fault; the thread takes it again
        if arch.system_calls is None or arch.kernel_arguments is None:
            return False
        pc, number = registers[arch.pc], registers[arch.kernel_arguments.number]
        if number != arch.kernel_arguments.restart and arch.kernel_arguments.waits.get(number) not in BEGUN_ANEW:
            return False
        code = arch.system_calls.instruction
        return self._has_code(pc - len(code), code) and not self._has_seccomp_filter(thread)

    def _has_code(self, address: int, code: bytes) -> bool:
        mappings = self._parsed[1] if self._parsed is not None else ()
        index = bisect_right(mappings, address + len(code) - 1, key=lambda mapping: mapping.start) - 1
        mapping = mappings[index] if index >= 0 else None
        if mapping is None or not mapping.start <= address < mapping.end or not mapping.is_executable:
            return False
        return self.read_now(address, len(code)) == code

    def _has_seccomp_filter(self, thread: int) -> bool:
        # Return whether the thread has a filter, or may have one.
        try:
            return parse_status(self._read(f"task/{thread}/status")).get("Seccomp", "0") != "0"
        except (TargetGone, BadProcess):
            return True

    def text(self, path: str) -> bytes:
        """Return the present contents of the file at *path* in ``/proc/PID/``, or the target of a link in ``fd``.

        :raises Unavailable: if it cannot be read
        """
        try:
            if path.startswith("fd/"):
                return os.fsencode(os.readlink(path, dir_fd=self.folder))
            return self._read(path)
        except (OSError, TargetGone, BadProcess) as error:
            why = error.strerror if isinstance(error, OSError) else "the thread or the process has ended"
            raise Unavailable(f"/proc/{self.process_id}/{path} could not be read: {why}") from error


def _open(name: str, folder: int | None, flags: int, process_id: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            raise TargetGone(f"process {process_id} ended while it was looked at") from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise refusal(process_id) from error
        raise BadProcess(process_id, f"cannot be looked into: {os.strerror(error.errno or 0)}") from error
