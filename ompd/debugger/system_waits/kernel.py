"""The kernel's facts about a process: processor time, signals, timers, files, shared memory, identity.

For a core, only the facts in its notes are known. For a live process, they are read in ``/proc`` while it is stopped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ompd.binary.core.notes import (
    AT_BASE,
    AT_ENTRY,
    AT_PHDR,
    AT_RANDOM,
    AT_SYSINFO_EHDR,
    FileMapping,
    ProcessNote,
    StatusNote,
)
from ompd.binary.core.procfs import (
    PF_FORKNOEXEC,
    MemoryMapping,
    TaskStatus,
    Timer,
    find_connection,
    parse_maps,
    parse_signals,
    parse_stat,
    parse_status,
    parse_timers,
)
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.targets.base import Target
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from ompd.records import record

_SIGKILL = 9
_RANDOM_SIZE = 16  # bytes that the kernel gives a program at its start (AT_RANDOM)
_PLACES = (AT_PHDR, AT_BASE, AT_ENTRY, AT_RANDOM, AT_SYSINFO_EHDR)
_TABLES = ("net/tcp", "net/tcp6", "net/udp", "net/udp6", "net/unix")
# The kernel's names of shared memory that no file on a disk has: mmap() with MAP_SHARED, shmget().
_SHARED_WITHOUT_FILE = re.compile(r"/(?:dev/zero|SYSV[0-9a-f]{8}) \(deleted\)")
_NANOSECONDS = 1_000_000_000


class Origin(NamedTuple):
    """The origin of a process. ``parent`` is the number of its parent process.

    ``is_forked`` is whether fork() made the process, and it has executed no program since. Such a process has a copy of
    its parent's memory, but of the parent's threads only the one that called fork().
    """

    is_forked: bool
    parent: int


class PendingSignals(NamedTuple):
    """Numbers of signals. A signal that is pending and not blocked ends most waits.

    ``thread`` has the signals that are pending for one thread, and ``blocked`` those that it blocks. ``process`` has
    the signals that are pending for any thread of the process, and is None if they are unknown.
    """

    thread: frozenset[int]
    process: frozenset[int] | None
    blocked: frozenset[int]


@record
class ProcessIdentity:
    """The facts that distinguish a process from all others. Unknown facts are None or empty.

    ``process_ids`` are the numbers of the process, outside and inside of its container. ``start_time`` is when it
    started, in clock ticks since the machine started. ``random`` are the 16 random bytes that the kernel gave its
    program (AT_RANDOM); a forked child has the same ones. ``places`` are entries of the auxiliary vector: the random
    addresses of program, loader and vDSO, with their keys. ``build_id`` is that of the program.
    """

    process_ids: frozenset[int]
    start_time: int | None
    random: bytes | None
    places: tuple[tuple[int, int], ...]
    build_id: str | None


def is_same_process(identity: ProcessIdentity, other: ProcessIdentity) -> bool | None:
    """Return whether two identities belong to the same process, and it has executed no other program in between.

    None if the known facts do not decide that.
    """
    if identity.process_ids and other.process_ids and not identity.process_ids & other.process_ids:
        return False
    places: Mapping[int, int] = dict(other.places)
    pairs = [
        (identity.start_time, other.start_time),
        (identity.random, other.random),
        (identity.build_id, other.build_id),
    ]
    pairs += [(value, places.get(key)) for key, value in identity.places]
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return False
    is_known = identity.random is not None and other.random is not None
    return True if is_known and identity.process_ids and other.process_ids else None


class SystemFacts:
    """The kernel's facts about one process at one stop."""

    def __init__(self, target: Target, memory: TargetMemory, modules: ModuleList) -> None:
        self._target, self._memory, self._modules = target, memory, modules

    def is_same_process(self, other: SystemFacts) -> bool | None:
        """Return whether *other* is about the same process, None if that is unknown. See :func:`is_same_process`."""
        return is_same_process(self.identity(), other.identity())

    def processor_count(self) -> int | None:
        """Return how many processors the process may use now, None if that is unknown, as for a core."""
        process = self._target.process_id
        if self._target.kind not in ("live", "gdb") or process is None:
            return None
        try:
            count = len(os.sched_getaffinity(process))
        except OSError:  # it has ended
            return None
        if count == os.cpu_count():
            return count
        # A runtime may have bound the first thread to one processor, and the other threads to others.
        with suppress(Unavailable):
            return len(self.allowed_processors())
        return count

    def allowed_processors(self) -> frozenset[int]:
        """Return the processors that the threads of the process may use.

        :raises Unavailable: if these facts are unknown, as for a core and under LLDB
        """
        target = self._target
        if target.kind not in ("live", "gdb") or target.process_id is None:
            kind = "a core" if target.kind == "core" else "LLDB"
            raise Unavailable(f"{kind} does not say which processors the process may use")
        from ompd.debugger.targets.live.processors import allowed_processors

        return allowed_processors(target.process_id)

    def cpu_time_ns(self, thread: int) -> int:
        """Return the processor time that *thread* has used so far, in nanoseconds.

        For a live process, the time is exact (``schedstat``), or else counted in clock ticks (``stat``). For a core, it
        is the sum of ``pr_utime`` and ``pr_stime`` in the thread's note. These count the clock ticks at which the
        thread ran, so they are 0 for short runs.

        :raises Unavailable: if the target does not have the time. gdb's cores have it for no thread. The kernel's cores
            lack it for the first thread, because that thread's note has the time of all threads together
        """
        time_ns = self.status(thread).time_ns
        if time_ns is None:
            raise Unavailable("the core does not have the processor time of this thread")
        return time_ns

    def status(self, thread: int) -> StatusNote:
        """Return the processor time and the signal masks of *thread*.

        :raises Unavailable: if there is no note with them, and ``/proc`` lacks one of them
        """
        noted = self._target.noted_status(thread)
        if noted is not None:
            return noted
        signals = self._signals(thread)
        return StatusNote(signals.pending, signals.blocked, self._time(thread))

    def _signals(self, thread: int) -> TaskStatus:
        try:
            return parse_signals(self._target.proc_text(f"task/{thread}/status"))
        except MalformedFile as error:
            raise Unavailable(str(error)) from error

    def _time(self, thread: int) -> int:
        with suppress(Unavailable, ValueError, IndexError):
            return int(self._target.proc_text(f"task/{thread}/schedstat").split()[0])
        try:
            ticks = parse_stat(self._target.proc_text(f"task/{thread}/stat")).ticks
        except MalformedFile as error:
            raise Unavailable(str(error)) from error
        return ticks * _NANOSECONDS // os.sysconf("SC_CLK_TCK")

    def pending_signals(self, thread: int) -> PendingSignals:
        """Return the signals that are pending for *thread*, and those that it blocks.

        :raises Unavailable: if the target does not have these signals
        """
        noted = self._target.noted_status(thread)
        if noted is not None:
            # The kernel stops the threads by SIGKILL before it writes a core, so this signal is pending in cores.
            # The signals that are pending for the whole process are in no note.
            pending = _numbers(noted.pending) - {_SIGKILL}
            return PendingSignals(pending, None, _numbers(noted.blocked))
        status = self._signals(thread)
        return PendingSignals(_numbers(status.pending), _numbers(status.shared), _numbers(status.blocked))

    def timers(self) -> list[Timer]:
        """Return the POSIX timers that the process has made (``timer_create``), without ``alarm`` and ``setitimer``.

        The kernel does not show which of the timers are set.

        :raises Unavailable: if the timers are unknown, as for a core, or under a kernel without
            CONFIG_CHECKPOINT_RESTORE
        """
        try:
            return parse_timers(self._target.proc_text("timers"))
        except MalformedFile as error:
            raise Unavailable(str(error)) from error

    def handled_signals(self) -> frozenset[int]:
        """Return the numbers of the signals for which the process has a handler.

        :raises Unavailable: if these signals are unknown, as for a core
        """
        try:
            return _numbers(int(parse_status(self._target.proc_text("status"))["SigCgt"], 16))
        except (MalformedFile, KeyError, ValueError) as error:
            raise Unavailable("status does not say which signals are handled") from error

    def describe(self, descriptor: int) -> str:
        """Return a text for the file with the number *descriptor*: a path, ``pipe:[5]``, ``tcp 127.0.0.1:80 …``.

        :raises Unavailable: if the file is unknown, as for a core
        """
        text = os.fsdecode(self._target.proc_text(f"fd/{descriptor}"))
        if not (text.startswith("socket:[") and text.endswith("]") and text[8:-1].isdigit()):
            return text
        for table in _TABLES:
            with suppress(Unavailable):
                connection = find_connection(self._target.proc_text(table), int(text[8:-1]))
                if connection is not None:
                    return f"{table.removeprefix('net/')} {connection}"
        return text

    @cached_property
    def note(self) -> ProcessNote:
        """The flags of the process's first thread, and the number of the parent process.

        :raises Unavailable: if the target does not have them
        """
        noted = self._target.noted_process()
        if noted is not None:
            return noted
        try:
            stat = parse_stat(self._target.proc_text("stat"))
        except MalformedFile as error:
            raise Unavailable(str(error)) from error
        return ProcessNote(stat.flags, stat.parent)

    def origin(self) -> Origin:
        """Return the origin of the process.

        :raises Unavailable: if the origin is unknown
        """
        return Origin(bool(self.note.flags & PF_FORKNOEXEC), self.note.parent)

    def sharers(self, thread: int) -> list[int]:
        """Return the numbers of other processes that have the same memory (clone(2) with CLONE_VM, vfork(2)).

        :param thread: a thread of the process that has not ended
        :raises Unavailable: if these processes are unknown, as for a core
        """
        self._target.proc_text("stat")  # raises Unavailable if the target is no process of this machine
        from ompd.debugger.targets.live.ptrace import find_sharers

        process = self._target.process_id
        sharers = find_sharers(process, thread) if process is not None else None
        if sharers is None:
            raise Unavailable("the kernel does not compare the memory of processes (kcmp)")
        return sharers

    def shared_mappings(self) -> list[FileMapping]:
        """Return the mappings of shared memory, which other processes may have, too, in the order of their addresses.

        :raises Unavailable: if these mappings are unknown, as for a core
        """
        return [FileMapping(m.start, m.end, m.offset, m.name) for m in self._maps if m.is_shared]

    @cached_property
    def _maps(self) -> list[MemoryMapping]:
        try:
            return parse_maps(self._target.proc_text("maps"))
        except MalformedFile as error:
            raise Unavailable(str(error)) from error

    def is_shared(self, address: int) -> bool:
        """Return whether other processes may share the memory at *address*.

        A core does not note which mappings are shared. But it lists a file for all shared memory, perhaps a file of
        the kernel. So memory without a file is not shared, and neither are modules.

        :raises Unavailable: if it is unknown, as for other files in a core
        """
        try:
            return any(m.start <= address < m.end for m in self.shared_mappings())
        except Unavailable:
            if self._modules.at(address) is not None:
                return False
            files = self._target.mappings()
            # Without a note of the process, the core's list of mappings may have gaps.
            if self._target.noted_process() is None or not files or self._target.loss is not None:
                raise
        file = next((file for file in files if file.start <= address < file.end), None)
        if file is None or _SHARED_WITHOUT_FILE.fullmatch(file.name):
            return file is not None
        raise Unavailable(f"whether other processes share the mapping of {file.name} is not known")

    def identity(self) -> ProcessIdentity:
        """Return the facts that distinguish this process from others. Unknown facts are None or empty."""
        target = self._target
        numbers = {target.process_id} - {None}
        start = None
        with suppress(Unavailable, MalformedFile, ValueError):
            text = target.proc_text("status")
            numbers |= {int(number) for number in parse_status(text).get("NSpid", "").split()}
            start = parse_stat(target.proc_text("stat")).start_time
        vector = target.auxiliary_vector()
        random = None
        with suppress(MemoryFault):
            random = self._memory.read(vector[AT_RANDOM], _RANDOM_SIZE) if AT_RANDOM in vector else None
        program = next((module.record for module in self._modules if module.record.is_program), None)
        return ProcessIdentity(
            frozenset(number for number in numbers if number is not None),
            start,
            random,
            tuple((key, vector[key]) for key in _PLACES if key in vector),
            program.build_id if program is not None else None,
        )


def _numbers(mask: int) -> frozenset[int]:
    return frozenset(number + 1 for number in range(mask.bit_length()) if mask >> number & 1)
