"""What a thread waits for outside of OpenMP: its system call, the routine that made it, and the object it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Protocol

from ompd.contract.process import Module, Stack
from ompd.debugger.memory import TargetMemory
from ompd.debugger.places import Places
from ompd.debugger.stacks.calls import Calls
from ompd.debugger.stacks.stacks import Stacks
from ompd.debugger.symbols import Symbols
from ompd.debugger.system_waits.calls import Futex, KernelCalls, Meaning, SystemCall
from ompd.debugger.system_waits.facts import Origin
from ompd.debugger.system_waits.objects import Found, Owners, PthreadWaits
from ompd.debugger.system_waits.python import InterpreterLock
from ompd.debugger.system_waits.routines import ENDLESS, Callers, Routines
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.threads import Threads
from ompd.debugger.waiting import FUTEX_LOCKS, Waiting
from ompd.errors import MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.records import record

_MAX_DESCRIPTORS = 8  # of a poll that are described
_NO_ROUTINE = "no function of the C library made the system call, or its symbols are not known"


@record(kw_only=True)
class ThreadWait:
    """What a thread waits for; members are those of :class:`ompd.model.stalls.SystemWait` of the same name.

    ``pool`` is from where an idle thread of a pool gets its work. ``deadline`` says of what kind the time limit of a
    timed wait is: ``relative`` to its begin or ``absolute``, None without one or where that is unknown.
    """

    kind: str
    routine: str | None = None
    system_call: str | None = None
    object: int | None = None
    owner: int | None = None
    owner_source: str | None = None
    is_owner_alive: bool | None = None
    descriptor: int | None = None
    peer: str | None = None
    is_timed: bool | None = None
    deadline: str | None = None
    is_shared: bool | None = None
    is_recursive: bool | None = None
    pool: str | None = None
    expected: int | None = None
    missing: int | None = None
    readers: int | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


class Kernel(Protocol):
    """What the kernel says of the process."""

    def origin(self) -> Origin:
        """Return where the process came from.

        :raises Unavailable: if the target does not say
        """

    def is_shared(self, address: int) -> bool:
        """Return whether other processes may have the memory at *address*, too.

        :raises Unavailable: if the target does not say
        """

    def describe(self, descriptor: int) -> str:
        """Return what a file descriptor of the process refers to: a path, ``pipe:[5]``, ``tcp 127.0.0.1:80 …``.

        :raises Unavailable: if the target does not say
        """


class SystemWaits:
    """The waits of one process's threads outside of OpenMP.

    :param first: the native id of its first thread
    """

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        symbols: Symbols,
        places: Places,
        threads: Threads,
        glibc: GlibcThreads,
        stacks: Stacks,
        calls: Calls,
        waiting: Waiting,
        kernel: Kernel,
        first: int | None,
    ) -> None:
        self._memory, self._symbols, self._stacks, self._glibc = memory, symbols, stacks, glibc
        self._threads, self._kernel = threads, kernel
        self._calls = KernelCalls(memory, threads, stacks, waiting, architecture.kernel_arguments)
        self._routines = Routines(symbols, places, calls)
        self._owners = Owners(threads, glibc, architecture, kernel.origin, first)
        objects = architecture.pthread_objects
        self._objects = PthreadWaits(memory, self._owners, glibc, objects) if objects is not None else None
        self._holders: dict[int, int | str] = {}

    def of(self, thread: int) -> ThreadWait | None:
        """Return what *thread* waits for outside of OpenMP, None if it is in no call that waits.

        A thread that is in a function of MPI is taken to wait there, whether it sleeps or polls.

        :raises Unavailable: if the target does not have the thread's registers or code
        """
        stack = self._stacks.stack(thread)
        try:
            call = self._calls.current(thread)
        except Unavailable:
            callers = self._routines.of(stack) if stack.shape[0] else None
            if callers is None or (callers.mpi is None and callers.python is None):
                raise
            call = None
        else:
            callers = self._routines.of(stack)
        if callers.mpi is not None:
            # No function of MPI ends by itself after some time.
            return self._of_call(call, ThreadWait(kind="mpi", routine=callers.mpi, is_timed=False))
        if callers.python is not None:
            return self._of_gil(call, callers, callers.python)
        if call is not None and call.number is None and callers.kind is not None:
            call = call._replace(name="futex")  # what these routines wait by, and nothing else
        meaning = call.meaning if call is not None else None
        if call is None or (meaning is None and call.number is not None):
            return None
        if meaning is None:
            why = "which system call it is in is not known"
            wait = ThreadWait(kind="system_call", routine=callers.routine, unavailable={"system_call": why})
            return _complete(replace(wait, unavailable={**wait.unavailable, "is_timed": why}))
        if meaning.kind == "futex":
            return self._of_futex(thread, call, callers, stack, meaning)
        if call.name in ("fcntl", "fcntl64") and not self._calls.waits_for_locks(call):
            return None
        return self._of_other(call, meaning, callers)

    def _of_call(self, call: SystemCall | None, wait: ThreadWait) -> ThreadWait:
        meaning = call.meaning if call is not None else None
        return replace(wait, system_call=call.name if call is not None and meaning is not None else None)

    def _of_gil(self, call: SystemCall | None, callers: Callers, module: Module) -> ThreadWait:
        # It waits a few milliseconds, again and again, until it has the lock.
        wait = ThreadWait(kind="gil", routine=callers.routine, is_timed=False, is_shared=False)
        holder = self._holders.get(module.start)
        if holder is None:
            try:
                holder = InterpreterLock(self._memory, self._symbols, self._threads.ids(), module).holder()
                if self._routines.of(self._stacks.stack(holder)).python is not None:
                    holder = f"by the interpreter thread {holder} holds the lock, and it waits for it"
            except OmpdError as error:
                holder = str(error)
            self._holders[module.start] = holder
        if isinstance(holder, str):
            wait = replace(wait, unavailable={"owner": holder, "is_owner_alive": holder})
        else:
            wait = replace(wait, owner=holder, owner_source="runtime", is_owner_alive=True)
        return self._of_call(call, wait)

    def _of_futex(
        self, thread: int, call: SystemCall, callers: Callers, stack: Stack, meaning: Meaning
    ) -> ThreadWait | None:
        wait = ThreadWait(
            kind=callers.kind or "futex", routine=callers.routine, system_call=call.name, pool=callers.pool
        )
        if call.name == "futex_waitv":
            return _complete(self._of_words(call, replace(wait, kind="futex"), meaning))
        try:
            futex = self._calls.futex(call)
        except Unavailable as error:
            missing = dict.fromkeys(("object", "owner", "is_owner_alive", "is_timed", "is_shared"), str(error))
            if callers.routine in ENDLESS:
                missing.pop("is_timed")
                wait = replace(wait, is_timed=False)
            return _complete(replace(wait, unavailable=missing))
        if futex is None:
            return None
        wait = replace(wait, is_timed=futex.is_timed, deadline=futex.deadline)
        if wait.is_timed is None and callers.routine in ENDLESS:
            wait = replace(wait, is_timed=False)
        elif wait.is_timed is None:
            wait = replace(wait, unavailable={"is_timed": "the arguments of the system call are unknown"})
        found = self._with_object(wait, futex, callers, stack)
        if futex.operation in FUTEX_LOCKS and found.owner == thread:
            return None  # it has been handed over to the thread
        return _complete(found)

    def _of_words(self, call: SystemCall, wait: ThreadWait, meaning: Meaning) -> ThreadWait:
        timed, reasons = self._calls.is_timed(call, meaning), {}
        if timed is None:
            reasons["is_timed"] = "the arguments of the system call are unknown"
        try:
            words = self._calls.words(call)
        except (MemoryFault, Unavailable) as error:
            missing = dict.fromkeys(("object", "is_shared"), str(error))
            return replace(wait, is_timed=timed, unavailable={**reasons, **missing})
        sharing = [self._sharing(word.address, word.is_private) for word in words]
        shared = {is_shared for is_shared, _ in sharing}
        is_shared = True if True in shared else None if None in shared else False
        if is_shared is None:
            reasons["is_shared"] = next(doubt for _, doubt in sharing if doubt is not None)
        if len(words) > 1:
            reasons["object"] = f"it waits for any of {len(words)} words"
        only = words[0].address if len(words) == 1 else None
        return replace(wait, object=only, is_timed=timed, is_shared=is_shared, unavailable=reasons)

    def _sharing(self, word: int, is_private: bool) -> tuple[bool | None, str | None]:
        # Whether other processes may wake up who sleeps on a word, None if that is unknown, and why it is.
        if is_private:
            return False, None
        try:
            return self._kernel.is_shared(word), None
        except Unavailable as error:
            return None, str(error)

    def _with_object(self, wait: ThreadWait, futex: Futex, callers: Callers, stack: Stack) -> ThreadWait:
        is_shared, doubt = self._sharing(futex.word, futex.is_private)
        reasons = dict(wait.unavailable)
        if is_shared is None and doubt is not None:
            reasons["is_shared"] = doubt
        wait = replace(wait, object=futex.word, is_shared=is_shared, unavailable=reasons)
        if wait.kind in ("once", "semaphore", "future"):
            return wait
        if wait.kind == "futex":
            found = self._objects.stream(futex) if self._objects is not None and wait.routine is not None else None
            return self._with_found(wait, found, is_shared, reasons) if found is not None else wait
        if self._objects is None:
            why = "where the C library's objects have their members on this processor is not known"
            return replace(wait, unavailable={**reasons, "owner": why})
        if not self._is_glibc:
            why = "where C libraries other than glibc have their members is not known"
            missing = dict.fromkeys(("object", "owner", "is_owner_alive"), why)
            return replace(wait, object=None, unavailable={**reasons, **missing})
        found = self._objects.find(wait.kind, futex, is_shared, lambda: stack.frames[: callers.own])
        return self._with_found(wait, found, is_shared, reasons)

    def _with_found(
        self, wait: ThreadWait, found: Found, is_shared: bool | None, reasons: Mapping[str, str]
    ) -> ThreadWait:
        if found.is_shared is not None:
            reasons = {key: reason for key, reason in reasons.items() if key != "is_shared"}
        return replace(
            wait,
            kind=found.kind,
            object=found.object,
            owner=found.owner,
            owner_source=found.owner_source if found.owner is not None else None,
            is_owner_alive=found.is_owner_alive,
            is_recursive=found.is_recursive,
            expected=found.expected,
            missing=found.missing,
            readers=found.readers,
            is_shared=found.is_shared if found.is_shared is not None else is_shared,
            unavailable={**reasons, **found.unavailable},
        )

    @cached_property
    def _is_glibc(self) -> bool:
        try:
            self._glibc.member("pthread_tid")
        except Unavailable:
            modules = self._symbols.modules()
            return any(self._symbols.find(module, "gnu_get_libc_version") is not None for module in modules)
        except OmpdError:
            pass  # it is glibc, and damaged
        return True

    def _of_other(self, call: SystemCall, meaning: Meaning, callers: Callers) -> ThreadWait:
        descriptors = self._calls.descriptors(call, meaning)
        timed = self._calls.is_timed(call, meaning)
        kind = meaning.kind
        if descriptors == [] and timed is not None:
            kind = "sleep" if timed else "signal"  # poll() and select() of nothing
        peer, reasons = self._peer(descriptors) if descriptors else (None, {})
        if timed is None and meaning.is_timed is None and peer is not None and not peer.startswith(_SOCKETS):
            timed = False
        if kind == "child" and call.name in ("wait4", "waitpid") and (call.signed(0) or 0) > 0:
            peer = f"process {call.signed(0)}"
        wait = ThreadWait(kind=kind, routine=callers.routine, system_call=call.name, is_timed=timed, peer=peer)
        if descriptors is not None and len(descriptors) == 1:
            wait = replace(wait, descriptor=descriptors[0])
        elif descriptors:
            reasons = {**reasons, "descriptor": f"it waits for any of {len(descriptors)} file descriptors"}
        elif descriptors is None and self._calls.has_descriptors(call, meaning):
            reasons = {**reasons, "descriptor": "the arguments of the system call are unknown"}
        if timed is None:
            reasons = {
                **reasons,
                "is_timed": "whether its file has a time limit, as sockets may (SO_RCVTIMEO), is not known",
            }
        return _complete(replace(wait, unavailable=reasons))

    def _peer(self, descriptors: list[int]) -> tuple[str | None, dict[str, str]]:
        known: list[str] = []
        why = ""
        for descriptor in descriptors[:_MAX_DESCRIPTORS]:
            try:
                known.append(self._kernel.describe(descriptor))
            except OmpdError as error:
                why = str(error)
        if not known:
            return None, {"peer": why}
        more = len(descriptors) - len(known)
        return ", ".join(known) + (f" and {more} more" if more else ""), {}


_SOCKETS = ("socket:", "tcp", "udp", "unix")


def _complete(wait: ThreadWait) -> ThreadWait:
    if wait.routine is not None:
        return wait
    return replace(wait, unavailable={"routine": _NO_ROUTINE, **wait.unavailable})
