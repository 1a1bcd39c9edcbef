"""The objects of glibc that threads wait for: mutexes, conditions, threads, read-write locks, barriers, semaphores.

A thread sleeps on a word inside of the object. The called routine shows the object's type. The word is a member of the
object, and its offset gives the object's address. glibc's ABI fixes the offsets, because programs allocate these
objects themselves (``bits/pthreadtypes.h``, ``bits/thread-shared-types.h``). An object whose other members contradict
its type is not reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.memory import Memory, read_unsigned
from ompd.contract.process import Frame, Stack
from ompd.debugger.memory import PAGE
from ompd.debugger.system_waits.calls import FUTEX_WAIT, Futex
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.threads import Threads
from ompd.debugger.threads.tls import pthread_of
from ompd.debugger.waiting import FUTEX_LOCKS
from ompd.errors import MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture, PthreadObjects

if TYPE_CHECKING:
    from ompd.debugger.system_waits.kernel import SystemFacts

# Values of a mutex's __kind (sysdeps/nptl/pthread.h, nptl/pthreadP.h): a type of two bits, and flags. glibc itself may
# add the flag ELISION, whose two bits are 256 and 512.
_MUTEX_TYPE, _RECURSIVE = 3, 1
_ROBUST, _PRIO_INHERIT, _PRIO_PROTECT, _PROCESS_SHARED = 16, 32, 64, 128
_MUTEX_KINDS = _MUTEX_TYPE | _ROBUST | _PRIO_INHERIT | _PRIO_PROTECT | _PROCESS_SHARED | 256 | 512
# The value of a mutex's lock word if threads may sleep on it. In robust and PI mutexes, the word has the owner's number
# and two flags (futex.h) instead.
_CONTENDED = 2
_FUTEX_TID, _OWNER_DIED = 0x3FFFFFFF, 0x40000000
_CEILING = 0xFFF80000  # PTHREAD_MUTEX_PRIO_CEILING_MASK
_MAX_THREADS = 1 << 22
# Offsets of the two words of __g_signals in pthread_cond_t, for releases with and without __g_refs before these words.
_COND_WORDS = (40, 44, 32, 36)
_RW_PHASE, _RW_WRITERS = 8, 12  # __wrphase_futex, __writers_futex
_RW_READER_SHIFT = 3  # PTHREAD_RWLOCK_READER_SHIFT of __readers
_RW_FLAGS = 3  # the largest value of __wrphase_futex and __writers_futex
_RW_WRITE_PHASE = 1  # PTHREAD_RWLOCK_WRPHASE in __readers
_BARRIER_ROUND = 4  # current_round in struct pthread_barrier
# libstdc++, include/std/barrier: __tree_barrier has _M_expected, _M_state, _M_expected_adjustment, _M_completion, and
# the byte _M_phase. The size of _M_completion differs: one byte if it has no data, otherwise usually that of a pointer
# or a std::function.
_STD_NODE = 64
_COMPLETIONS = (1, 8, 16, 32)
_MOST_MISSING = 1 << 16
_MOST_OF_FRAME = 1024


class AwaitedObject(NamedTuple):
    """An object that a thread waits for. ``object`` is its address, ``owner`` its owner's native id.

    ``unavailable`` has the reasons why members are unknown, by their names. ``is_shared`` is None if the object itself
    does not show whether other processes use it. ``expected``, ``missing`` and ``readers`` are those of
    :class:`ompd.model.stalls.SystemWait`.
    """

    kind: str
    object: int | None
    owner: int | None = None
    is_owner_alive: bool | None = None
    is_recursive: bool | None = None
    is_shared: bool | None = None
    owner_source: str = "runtime"
    expected: int | None = None
    missing: int | None = None
    readers: int | None = None
    unavailable: Mapping[str, str] = {}


def _agreed(noted: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    # Returns the trustworthy entries of *noted*, which has each thread's own number, native id and struct pthread. In a
    # container the own number of every thread differs from its native id; otherwise no number differs. So an own number
    # from overwritten memory may show as the only one that differs, or as one that two threads have.
    times = Counter(noted_id for noted_id, _, _ in noted)
    is_same = any(noted_id == native for noted_id, native, _ in noted)
    natives = {native for _, native, _ in noted}
    return [
        (noted_id, native, pthread)
        for noted_id, native, pthread in noted
        if times[noted_id] == 1 and (noted_id == native or (len(noted) > 1 and not is_same and noted_id not in natives))
    ]


class Owners:
    """The owners of objects. glibc notes an owner by its own number: the number that the thread has inside the process.

    The own number differs from the native id if the process is in a container, and ompd inspects it from outside. This
    holds for a live process, and for a core that gdb wrote from outside.

    :param first: the native id of the process's first thread
    """

    def __init__(
        self,
        threads: Threads,
        glibc: GlibcThreads,
        architecture: Architecture,
        kernel: SystemFacts,
        first: int | None,
    ) -> None:
        self._threads, self._glibc, self._architecture = threads, glibc, architecture
        self._kernel, self._first = kernel, first

    @cached_property
    def _natives(self) -> tuple[dict[int, tuple[int, int | None]], bool]:
        # The native id and struct pthread of each thread, by the thread's own number; and whether they are known for
        # all threads. A struct pthread is None if it is unknown.
        natives: dict[int, tuple[int, int | None]] = {}
        noted: list[tuple[int, int, int]] = []
        is_whole = self._threads.names_all
        for native in self._threads.ids():
            try:
                pthread = pthread_of(self._threads.thread_pointer(native), self._architecture, self._glibc)
                noted.append((self._glibc.native_id(pthread), native, pthread))
            except Unavailable:
                # The target lacks the thread pointer. If glibc's list, which has own numbers, has the native id, then
                # both are the same.
                descriptor = self._listed.get(native)
                if descriptor is None:
                    is_whole = False
                else:
                    natives.setdefault(native, (native, descriptor))
            except OmpdError:
                is_whole = False  # memory is lost, or the kernel has cleared the own number of an ending thread
        agreed = _agreed(noted)
        natives.update({noted_id: (native, pthread) for noted_id, native, pthread in agreed})
        return natives, is_whole and len(agreed) == len(noted)

    @cached_property
    def _listed(self) -> Mapping[int, int]:
        try:
            return self._glibc.pthreads()
        except OmpdError:
            return {}

    def of_descriptor(self, pthread: int) -> int | None:
        """Return the native id of the thread whose ``struct pthread`` is at *pthread*, None if no thread has it."""
        return next((native for native, descriptor in self._natives[0].values() if descriptor == pthread), None)

    def add(
        self, awaited: AwaitedObject, owner: int, *, is_shared: bool | None, pthread: int | None = None
    ) -> AwaitedObject:
        """Return *awaited* with its owner: the thread whose own number is *owner*.

        After fork() an object may note the child's first thread by the number of the thread that called fork(). If that
        is likely, the first thread is reported as the owner, with ``owner_source`` ``derived``.

        :param is_shared: whether the owner may be a thread of another process, None if that is unknown
        :param pthread: the address of the owner's ``struct pthread``, None if it is not known
        """
        natives, is_whole = self._natives
        native, descriptor = natives.get(owner, (None, None))
        if native is not None and (pthread is None or descriptor in (None, pthread)):
            return awaited._replace(owner=native, is_owner_alive=True)
        none = f"the process has no thread {owner}"
        if is_shared is not False:
            may_be = "may be" if is_shared is None else "is"
            why = f"{none}, and the object {may_be} shared with other processes"
        elif not is_whole:
            why = f"the target has lost threads, or which of them is {owner} inside of the process"
        elif pthread is not None:
            return awaited._replace(owner=owner, is_owner_alive=False)
        else:
            try:
                origin = self._kernel.origin()
            except Unavailable:
                why = f"{none}, and whether fork() made the process is not known"
            else:
                if not origin.is_forked:
                    return awaited._replace(owner=owner, is_owner_alive=False)
                why = f"{none}, and fork() made the process: its first thread had another number before"
                first = self._first
                if owner == origin.parent and first is not None and first in self._threads.ids():
                    why = f"its owner is {owner}, the parent of the process, whose first thread fork() may have copied"
                    awaited, owner = awaited._replace(owner_source="derived"), first
        return awaited._replace(owner=owner, unavailable={**awaited.unavailable, "is_owner_alive": why})


class PthreadWaits:
    """Objects that the threads of one process wait for."""

    def __init__(self, memory: Memory, owners: Owners, glibc: GlibcThreads, offsets: PthreadObjects) -> None:
        self._memory, self._owners, self._glibc, self._offsets = memory, owners, glibc, offsets

    def find(self, kind: str, futex: Futex, is_shared: bool | None, stack: Stack, inner_count: int) -> AwaitedObject:
        """Return the object on whose word a thread sleeps.

        The object may be of another kind than *kind*: the mutex that a thread takes after it waited for a condition, or
        ``futex`` if other members contradict *kind*.

        :param kind: the kind of object that the called routine waits for
        :param is_shared: whether other processes may wake the thread, None if that is unknown
        :param stack: the thread's stack
        :param inner_count: how many of the innermost functions on the stack belong to the C library
        """
        try:
            if not any(self._memory.read(futex.word - futex.word % PAGE, PAGE)):
                # Lost pages read as zeros. The page of a real object is not all zeros.
                why = f"the page of {futex.word:#x} is all zeros, as pages are that were lost"
                return _unknown(kind, futex.word if kind == "mutex" else None, why, "is_recursive")
            if futex.operation in FUTEX_LOCKS:
                return self._mutex(futex, is_shared)
            if kind == "mutex":
                return (
                    self._refused(futex, stack.frames[:inner_count])
                    if futex.expected == 0
                    else self._mutex(futex, is_shared)
                )
            if kind == "condition":
                return self._condition(futex, is_shared, stack, inner_count)
            if kind == "join":
                return self._join(futex)
            if kind == "rwlock":
                return self._rwlock(futex, is_shared)
            if kind == "pthread_barrier":
                return self._barrier(futex)
            if kind == "latch":
                return self._latch(futex)
            if kind == "std_barrier":
                return self._std_barrier(stack.frames[:inner_count])
        except MemoryFault as error:
            return _unknown(kind, futex.word, str(error))
        return AwaitedObject(kind, futex.word)

    def stream(self, futex: Futex) -> AwaitedObject | None:
        """Return the lock of a stream (``FILE``) on whose word a thread sleeps, None if the word is no such lock.

        ``_IO_lock_t`` is ``int lock, cnt; void *owner``. ``owner`` points to the ``struct pthread`` of the thread that
        holds the lock.
        """
        try:
            lock, count = self._word(futex.word), self._word(futex.word + 4)
            pthread = read_unsigned(self._memory, futex.word + 8, self._memory.pointer_size)
        except MemoryFault:
            return None
        owner = self._owners.of_descriptor(pthread) if lock == _CONTENDED and count > 0 else None
        if owner is None:
            return None
        return AwaitedObject("stream", futex.word, owner=owner, is_owner_alive=True, is_recursive=True)

    def _word(self, address: int) -> int:
        return read_unsigned(self._memory, address, 4)

    # Mutexes

    def _mutex(self, futex: Futex, is_shared: bool | None) -> AwaitedObject:
        # The thread sleeps on the lock word, which is the mutex's first member.
        address = futex.word
        try:
            lock, noted = self._word(address), self._word(address + 8)
            kind = self._word(address + self._offsets.mutex_kind)
        except MemoryFault as error:
            return _unknown("mutex", address, str(error), "is_recursive")
        if kind & ~_MUTEX_KINDS or (futex.operation in FUTEX_LOCKS) != bool(kind & _PRIO_INHERIT):
            why = f"what it sleeps on is no mutex: its kind would be {kind:#x}"
            return _unknown("futex", address, why)
        is_recursive = kind & _MUTEX_TYPE == _RECURSIVE
        if is_shared is None and kind & _PROCESS_SHARED:
            is_shared = True  # the program made the mutex with PTHREAD_PROCESS_SHARED
        mutex = AwaitedObject("mutex", address, is_recursive=is_recursive, is_shared=is_shared)
        owner, doubt = self._mutex_owner(kind, lock, noted)
        if owner is None:
            return mutex._replace(unavailable={**mutex.unavailable, **_reasons(doubt)})
        return self._owners.add(mutex, owner, is_shared=is_shared)

    def _refused(self, futex: Futex, frames: Sequence[Frame]) -> AwaitedObject:
        # The kernel refuses to let a thread wait for a mutex with priority inheritance if that would be a deadlock, or
        # if the owner has ended. pthread_mutex_lock() then sleeps for ever on a local word, which is 0.
        mutexes = []
        for address in sorted(self._values_of(frames)):
            with suppress(MemoryFault):
                if self._word(address + self._offsets.mutex_kind) & _PRIO_INHERIT:
                    as_lock = futex._replace(word=address, operation=FUTEX_LOCKS[0])
                    mutexes.append(self._mutex(as_lock, is_shared=False))
        held = [mutex for mutex in mutexes if mutex.kind == "mutex" and mutex.owner is not None]
        if len(held) == 1:
            return held[0]
        return _unknown("mutex", None, "the kernel refused the mutex as a deadlock, and which one it is was not found")

    def _mutex_owner(self, kind: int, lock: int, noted: int) -> tuple[int | None, str]:
        # Return the owner's own number, or the reason why it is unknown.
        if kind & (_ROBUST | _PRIO_INHERIT):
            owner = lock & _FUTEX_TID
            if lock & _OWNER_DIED:
                return None, "the thread that held the mutex has ended with it (FUTEX_OWNER_DIED)"
            if not owner:
                return None, "nobody holds the mutex: it is about to be taken"
            if noted not in (0, owner):
                return None, f"the mutex contradicts itself: thread {owner} in its lock word, {noted} as its owner"
            return _checked(owner)
        if kind & _PRIO_PROTECT:
            lock &= ~_CEILING
        if lock == 0:
            return None, "nobody holds the mutex: it is about to be taken"
        if lock not in (1, _CONTENDED):
            return None, f"the mutex contradicts itself: its lock word is {lock:#x}"
        if not noted:
            return None, "the mutex has no owner noted: it is being taken or released"
        return _checked(noted)

    # Conditions

    def _condition(self, futex: Futex, is_shared: bool | None, stack: Stack, inner_count: int) -> AwaitedObject:
        if futex.operation == FUTEX_WAIT and futex.expected == _CONTENDED:
            mutex = self._mutex(futex, is_shared)  # the thread was signalled, and is taking the mutex again
            if mutex.kind == "mutex" and mutex.owner is not None:
                return mutex
        # The word may belong to one of several conditions. The C library's functions have the address of the right one
        # on the stack, or in a register if the registers are known.
        frames = stack.frames[:inner_count]
        bases = {futex.word - offset for offset in _COND_WORDS if (futex.word - offset) % 8 == 0}
        mentioned = bases & set(self._words_on_stack(frames))
        if len(mentioned) != 1:
            mentioned |= bases & _values_in_registers(frames)
        reasons = {"owner": "a condition does not record who will signal it"}
        if len(mentioned) != 1:
            reasons["object"] = f"where the condition begins that has the word at {futex.word:#x} was not found"
            return AwaitedObject("condition", None, unavailable=reasons)
        return AwaitedObject("condition", mentioned.pop(), unavailable=reasons)

    def _values_of(self, frames: Sequence[Frame]) -> set[int]:
        # Return all numbers in the registers and on the stacks of frames.
        return _values_in_registers(frames) | set(self._words_on_stack(frames))

    def _words_on_stack(self, frames: Iterable[Frame]) -> Iterable[int]:
        size, order = self._memory.pointer_size, self._memory.byte_order
        for frame in frames:
            end = min(frame.cfa, frame.sp + _MOST_OF_FRAME) if frame.cfa is not None else frame.sp
            start = frame.sp + -frame.sp % size
            try:
                raw = self._memory.read(start, (end - start) // size * size) if end > start else b""
            except MemoryFault:
                continue
            for offset in range(0, len(raw), size):
                yield int.from_bytes(raw[offset : offset + size], order)

    # Others

    def _join(self, futex: Futex) -> AwaitedObject:
        # The word is the joined thread's number in its struct pthread. The kernel clears it when that thread has ended.
        try:
            pthread = futex.word - self._glibc.member("pthread_tid").offset
        except OmpdError as error:
            return _unknown("join", futex.word, str(error))
        now, expected = self._word(futex.word), futex.expected
        joined = AwaitedObject("join", pthread, is_shared=False)
        if expected is None or not 0 < expected <= _MAX_THREADS or now not in (0, expected):
            return joined._replace(unavailable=_reasons("the descriptor of the thread that is joined is damaged"))
        if not now:
            return joined._replace(owner=expected, is_owner_alive=False)
        return self._owners.add(joined, expected, is_shared=False, pthread=pthread)

    def _rwlock(self, futex: Futex, is_shared: bool | None) -> AwaitedObject:
        # The thread sleeps on the word of the phase or of the writers, or, if readers let writers go first, on the
        # count of readers. Only the count can be above 3.
        expected = futex.expected
        if expected is None:
            return _unknown("rwlock", None, "the arguments of the system call are unknown")
        offset = 0 if expected > _RW_FLAGS else _RW_WRITERS if futex.word % 8 else _RW_PHASE
        address = futex.word - offset
        phase, writers = self._word(address + _RW_PHASE), self._word(address + _RW_WRITERS)
        writer = self._word(address + self._offsets.rwlock_writer)
        if phase > _RW_FLAGS or writers > _RW_FLAGS or writer > _MAX_THREADS:
            return _unknown("rwlock", None, f"what is around the word at {futex.word:#x} is no read-write lock")
        lock = AwaitedObject("rwlock", address)
        if not writer:
            state = self._word(address)
            readers = state >> _RW_READER_SHIFT
            if state & _RW_WRITE_PHASE or not readers:
                return lock._replace(unavailable=_reasons("the lock is being handed over to a writer"))
            why = "a read-write lock counts its readers, and does not record which threads they are"
            return lock._replace(readers=readers, unavailable=_reasons(why))
        return self._owners.add(lock, writer, is_shared=is_shared)

    def _barrier(self, futex: Futex) -> AwaitedObject:
        address = futex.word - _BARRIER_ROUND
        began, ended, count = (self._word(address + offset) for offset in (0, _BARRIER_ROUND, 8))
        if not 0 < count <= 1 << 31 or (futex.expected is not None and ended < futex.expected):
            return _unknown("pthread_barrier", None, f"what is around the word at {futex.word:#x} is no barrier")
        why = "a pthread_barrier_t counts threads, and does not record which"
        # *began* also counts threads that wait for the next round already. They count as arrived at this round.
        missing = max(count - max(began - ended, 0), 0)
        return AwaitedObject("pthread_barrier", address, expected=count, missing=missing, unavailable={"owner": why})

    # Objects of libstdc++, which have the same layout since GCC 11

    def _latch(self, futex: Futex) -> AwaitedObject:
        # The word is the only member of std::latch: how much count_down() has to count down before the threads go on.
        count = self._word(futex.word)
        if not 0 < count <= _MOST_MISSING:
            return AwaitedObject("futex", futex.word)
        why = "a std::latch counts, and does not record which threads count it down"
        return AwaitedObject("latch", futex.word, missing=count, unavailable={"owner": why})

    def _std_barrier(self, frames: Sequence[Frame]) -> AwaitedObject:
        # The address of the barrier does not follow from the word: one word of libstdc++ serves many objects. But a
        # frame of libstdc++ has the address of the barrier's phase in a register or on its stack.
        barriers = {}
        for phase, size in product(self._values_of(frames), _COMPLETIONS):
            address = phase - 3 * self._memory.pointer_size - size
            with suppress(MemoryFault):
                counts = self._std_counts(address, phase)
                if counts is not None:
                    barriers[address] = counts
        reasons = {"owner": "a std::barrier counts threads, and does not record which"}
        if len(barriers) != 1:
            reasons["object"] = "where the std::barrier is was not found on the thread's stack"
            return AwaitedObject("std_barrier", None, unavailable=reasons)
        ((address, (expected, missing)),) = barriers.items()
        return AwaitedObject("std_barrier", address, expected=expected, missing=missing, unavailable=reasons)

    def _std_counts(self, address: int, phase: int) -> tuple[int, int] | None:
        # Return how many threads are expected and how many are missing, None if no barrier is at *address*. Two threads
        # share a node of the barrier's tree in its first round. A node's ticket is the phase plus the number of its
        # threads that have arrived.
        size = self._memory.pointer_size
        expected, nodes = (read_unsigned(self._memory, address + n * size, size) for n in (0, 1))
        if address % size or not 1 < expected <= _MOST_MISSING or nodes % _STD_NODE or not nodes:
            return None
        now = read_unsigned(self._memory, phase, 1)
        if now % 2:
            return None
        pairs = (expected + 1) // 2
        tickets = self._memory.read(nodes, pairs * _STD_NODE)[::_STD_NODE]
        arrived = [(ticket - now) % 256 for ticket in tickets]
        if max(arrived) > 2:
            return None
        if expected % 2:  # the last node has one thread, which counts twice
            arrived[-1] //= 2
        return expected, expected - sum(arrived)


def _values_in_registers(frames: Iterable[Frame]) -> set[int]:
    return {value for frame in frames for value in frame.registers.values()}


def _checked(owner: int) -> tuple[int | None, str]:
    return (owner, "") if 0 < owner <= _MAX_THREADS else (None, f"no thread can have the number {owner}")


def _reasons(why: str) -> dict[str, str]:
    return {"owner": why, "is_owner_alive": why}


def _unknown(kind: str, address: int | None, why: str, *other_facts: str) -> AwaitedObject:
    reasons = {**_reasons(why), **dict.fromkeys(other_facts, why)}
    return AwaitedObject(kind, address, unavailable=reasons if address is not None else {**reasons, "object": why})
