"""The threads of one process: their identifiers, registers and thread pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.targets.base import PartialRegisters, Target
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.tls import pthread_of, thread_pointer_of
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable, Unsupported

NO_REGISTERS = "the thread's registers are lost with the notes of the core file"


class Threads:
    """The threads of the process. For a damaged target, threads that only glibc's lists have are among them."""

    def __init__(self, target: Target, glibc: GlibcThreads) -> None:
        self._target, self._glibc = target, glibc
        self._loses_threads = target.loss is not None and bool(target.loss.threads)
        self._registers: dict[int, Mapping[str, int]] = {}
        self._thread_pointers: dict[int, int] = {}
        self._pthreads: dict[int, int] = {}  # by native id: the struct pthread of threads that the target does not have

    def ids(self) -> Sequence[int]:
        """Return the operating system's identifiers of all threads, in the target's order."""
        return self._ids

    @cached_property
    def _ids(self) -> Sequence[int]:
        in_target = self._target.thread_ids()
        if not self._loses_threads:
            return in_target
        try:
            listed = self._glibc.pthreads()
        except OmpdError:
            return in_target
        self._pthreads.update((thread, pthread) for thread, pthread in listed.items() if thread not in in_target)
        return (*in_target, *self._pthreads)

    @property
    def names_all(self) -> bool:
        """Whether :meth:`ids` has every thread of the process."""
        if not self._loses_threads:
            return True
        try:
            return set(self._glibc.pthreads()) <= set(self.ids())
        except OmpdError:
            return False

    def has_registers(self, thread: int) -> bool:
        """Return whether the target has the registers of *thread*."""
        return thread not in self._pthreads

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return a thread's registers by the psABI's lower-case names, including the thread pointer.

        :raises Unavailable: if the target has lost the thread's registers
        """
        if thread in self._pthreads:
            raise Unavailable(NO_REGISTERS)
        registers = self._registers.get(thread)
        if registers is None:
            registers = self._registers[thread] = self._target.registers(thread)
        return registers

    def thread_pointer(self, thread: int) -> int:
        """Return the thread pointer of *thread*."""
        if thread in self._pthreads:
            return thread_pointer_of(self._pthreads[thread], self._target.architecture, self._glibc)
        pointer = self._thread_pointers.get(thread)
        if pointer is None:
            pointer = self.registers(thread).get(self._target.architecture.thread_pointer)
            if pointer is None:
                pointer = self._listed_thread_pointer(thread)
            elif self._loses_threads and not self._is_pointer_of(pointer, thread):
                # The register is lost if a part of the notes is lost.
                with suppress(OmpdError):
                    pointer = self._listed_thread_pointer(thread)
            self._thread_pointers[thread] = pointer
        return pointer

    def pthread_self(self, thread: int) -> int:
        """Return the result of ``pthread_self()`` in *thread*: the address of ``struct pthread``."""
        return pthread_of(self.thread_pointer(thread), self._target.architecture, self._glibc)

    def _is_pointer_of(self, thread_pointer: int, thread: int) -> bool:
        # Return whether the struct pthread for this thread pointer has the thread's number. True if this glibc does not
        # describe the member with the number.
        try:
            return self._glibc.native_id(pthread_of(thread_pointer, self._target.architecture, self._glibc)) == thread
        except Unavailable:
            return True
        except OmpdError:
            return False

    def _listed_thread_pointer(self, thread: int) -> int:
        # The thread pointer by glibc's lists, which have all threads. Not every debugger has the register for it.
        try:
            pthread = self._glibc.pthreads().get(thread)
        except OmpdError:
            self._want_registers(thread)
            raise
        if pthread is None:
            self._want_registers(thread)
            raise Unavailable(f"the thread pointer of {thread}: it is in no register and not in glibc's lists")
        return thread_pointer_of(pthread, self._target.architecture, self._glibc)

    def _want_registers(self, thread: int) -> None:
        registers = self.registers(thread)
        if isinstance(registers, PartialRegisters):
            registers.want()

    @cached_property
    def _by_pthread_self(self) -> dict[int, int]:
        return {self.pthread_self(thread): thread for thread in self.ids()}

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        """Return the operating system's identifier of the thread with *identifier* (:meth:`Callbacks.thread_for_id`).

        :param kind: the kind of *identifier*: an operating system's identifier, or the result of ``pthread_self()``
        :raises BadInput: if there is no such thread
        :raises Unsupported: if *identifier* is of another kind
        """
        if kind == ThreadIdKind.LWP and identifier in self.ids():
            return identifier
        if kind == ThreadIdKind.PTHREAD and identifier in self._by_pthread_self:
            return self._by_pthread_self[identifier]
        if kind not in (ThreadIdKind.LWP, ThreadIdKind.PTHREAD):
            raise Unsupported(f"thread identifiers of kind {kind}")
        if kind == ThreadIdKind.PTHREAD and self._loses_threads and identifier:
            return self._add(identifier)
        raise BadInput(f"no thread with {kind.name.lower()} id {identifier:#x} in the process")

    def _add(self, pthread: int) -> int:
        # Add the thread of *pthread*, which neither the target nor glibc's lists have. Return the native id that its
        # struct pthread has.
        thread = self._glibc.native_id(pthread)
        if thread in self.ids():
            raise CorruptState(pthread, f"two threads have the identifier {thread}")
        self._pthreads[thread] = pthread
        self._by_pthread_self[pthread] = thread
        return thread
