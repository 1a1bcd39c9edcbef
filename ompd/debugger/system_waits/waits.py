"""A thread's wait outside of OpenMP: its system call, the routine that made the call, and the object it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.process import Module, Stack
from ompd.debugger.system_waits.calls import Futex, KernelCalls, Meaning, SystemCall
from ompd.debugger.system_waits.interpreter_lock import InterpreterLock
from ompd.debugger.system_waits.objects import AwaitedObject, Owners, PthreadWaits
from ompd.debugger.system_waits.routines import ENDLESS, Callers, Routines
from ompd.debugger.waiting import FUTEX_LOCKS
from ompd.errors import MemoryFault, OmpdError, Unavailable
from ompd.records import record

if TYPE_CHECKING:
    from ompd.debugger.process import StoppedProcess

_MAX_DESCRIPTORS = 8  # the most descriptors of a poll that are described
_SOCKETS = ("socket:", "tcp", "udp", "unix")
_NO_ROUTINE = "no function of the C library made the system call, or its symbols are not known"
_NO_ARGUMENTS = "the arguments of the system call are unknown"


@record(kw_only=True)
class ThreadWait:
    """A thread's wait, with the members of :class:`ompd.model.stalls.SystemWait`.

    ``pool`` is the thread pool in which an idle thread waits for work, else None. ``deadline`` is ``relative`` if the
    time limit counts from the beginning of the wait, otherwise ``absolute``. It is None without a limit, or if the kind
    of limit is unknown.
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


class SystemWaits:
    """The waits of one process's threads outside of OpenMP."""

    def __init__(self, process: StoppedProcess) -> None:
        architecture = process.target.architecture
        self._process = process
        self._calls = KernelCalls(
            process.memory, process.threads, process.stacks, process.waiting, architecture.kernel_arguments
        )
        self._routines = Routines(process.symbols, process.places, process.calls)
        owners = Owners(process.threads, process.glibc, architecture, process.system, process.target.process_id)
        offsets = architecture.pthread_objects
        self._objects = PthreadWaits(process.memory, owners, process.glibc, offsets) if offsets is not None else None
        # The holder of CPython's interpreter lock, or why it is unknown, by the start of CPython's module.
        self._holders: dict[int, int | str] = {}

    def of(self, thread: int) -> ThreadWait | None:
        """Return the wait of *thread* outside of OpenMP, None if it is in no call that waits.

        A thread in a function of MPI counts as waiting there, because MPI may poll instead of sleeping.

        :raises Unavailable: if the target does not have the thread's registers or code
        """
        stack = self._process.stacks.stack(thread)
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
            # No function of MPI has a time limit.
            return _with_call(ThreadWait(kind="mpi", routine=callers.mpi, is_timed=False), call)
        if callers.python is not None:
            return self._of_gil(call, callers, callers.python)
        if call is not None and call.number is None and callers.kind is not None:
            call = call._replace(name="futex")  # routines that wait for an object use no other system call
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

    def _of_gil(self, call: SystemCall | None, callers: Callers, module: Module) -> ThreadWait:
        # CPython waits for a few milliseconds at a time, until it has the lock. So no call has a real time limit.
        wait = ThreadWait(kind="gil", routine=callers.routine, is_timed=False, is_shared=False)
        holder = self._holder_of_gil(module)
        if isinstance(holder, str):
            wait = replace(wait, unavailable={"owner": holder, "is_owner_alive": holder})
        else:
            wait = replace(wait, owner=holder, owner_source="runtime", is_owner_alive=True)
        return _with_call(wait, call)

    def _holder_of_gil(self, module: Module) -> int | str:
        # Return the native id of the interpreter lock's holder, or why it is unknown.
        if module.start in self._holders:
            return self._holders[module.start]
        process = self._process
        holder: int | str
        try:
            holder = InterpreterLock(process.memory, process.symbols, process.threads.ids(), module).holder()
            if self._routines.of(process.stacks.stack(holder)).python is not None:
                holder = f"by the interpreter thread {holder} holds the lock, and it waits for it"
        except OmpdError as error:
            holder = str(error)
        self._holders[module.start] = holder
        return holder

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
            wait = replace(wait, unavailable={"is_timed": _NO_ARGUMENTS})
        wait = self._with_object(wait, futex, callers, stack)
        if futex.operation in FUTEX_LOCKS and wait.owner == thread:
            return None  # the owner has handed the mutex over to this thread
        return _complete(wait)

    def _of_words(self, call: SystemCall, wait: ThreadWait, meaning: Meaning) -> ThreadWait:
        timed, reasons = self._calls.is_timed(call, meaning), {}
        if timed is None:
            reasons["is_timed"] = _NO_ARGUMENTS
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
        # Return whether other processes may wake threads that sleep on *word*, and None. If that is unknown, return
        # None and the reason.
        if is_private:
            return False, None
        try:
            return self._process.system.is_shared(word), None
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
            stream = self._objects.stream(futex) if self._objects is not None and wait.routine is not None else None
            return _of_object(wait, stream) if stream is not None else wait
        if self._objects is None:
            why = "where the C library's objects have their members on this processor is not known"
            return replace(wait, unavailable={**reasons, "owner": why})
        if not self._is_glibc:
            why = "where C libraries other than glibc have their members is not known"
            missing = dict.fromkeys(("object", "owner", "is_owner_alive"), why)
            return replace(wait, object=None, unavailable={**reasons, **missing})
        return _of_object(wait, self._objects.find(wait.kind, futex, is_shared, stack, callers.inner_count))

    @cached_property
    def _is_glibc(self) -> bool:
        try:
            self._process.glibc.member("pthread_tid")
        except Unavailable:
            symbols = self._process.symbols
            return any(symbols.find(module, "gnu_get_libc_version") is not None for module in symbols.modules())
        except OmpdError:
            pass  # it is a damaged glibc
        return True

    def _of_other(self, call: SystemCall, meaning: Meaning, callers: Callers) -> ThreadWait:
        descriptors = self._calls.descriptors(call, meaning)
        timed = self._calls.is_timed(call, meaning)
        kind = meaning.kind
        if descriptors == [] and timed is not None:
            kind = "sleep" if timed else "signal"  # poll() and select() without descriptors
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
            reasons = {**reasons, "descriptor": _NO_ARGUMENTS}
        if timed is None:
            reasons = {
                **reasons,
                "is_timed": "whether its file has a time limit, as sockets may (SO_RCVTIMEO), is not known",
            }
        return _complete(replace(wait, unavailable=reasons))

    def _peer(self, descriptors: list[int]) -> tuple[str | None, dict[str, str]]:
        files: list[str] = []
        why = ""
        for descriptor in descriptors[:_MAX_DESCRIPTORS]:
            try:
                files.append(self._process.system.describe(descriptor))
            except OmpdError as error:
                why = str(error)
        if not files:
            return None, {"peer": why}
        unknown_count = len(descriptors) - len(files)
        return ", ".join(files) + (f" and {unknown_count} more" if unknown_count else ""), {}


def _with_call(wait: ThreadWait, call: SystemCall | None) -> ThreadWait:
    # Return *wait* with the name of *call* if the call may wait, else unchanged.
    return replace(wait, system_call=call.name) if call is not None and call.meaning is not None else wait


def _of_object(wait: ThreadWait, awaited: AwaitedObject) -> ThreadWait:
    reasons = dict(wait.unavailable)
    if awaited.is_shared is not None:
        reasons.pop("is_shared", None)
    return replace(
        wait,
        kind=awaited.kind,
        object=awaited.object,
        owner=awaited.owner,
        owner_source=awaited.owner_source if awaited.owner is not None else None,
        is_owner_alive=awaited.is_owner_alive,
        is_recursive=awaited.is_recursive,
        expected=awaited.expected,
        missing=awaited.missing,
        readers=awaited.readers,
        is_shared=awaited.is_shared if awaited.is_shared is not None else wait.is_shared,
        unavailable={**reasons, **awaited.unavailable},
    )


def _complete(wait: ThreadWait) -> ThreadWait:
    if wait.routine is not None:
        return wait
    return replace(wait, unavailable={"routine": _NO_ROUTINE, **wait.unavailable})
