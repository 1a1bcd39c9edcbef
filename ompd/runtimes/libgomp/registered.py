"""The process's threads that belong to the runtime, by the ``gomp_thread`` in their thread-local storage.

A ``gomp_thread`` is all zeros until the runtime knows the thread. A worker fills in its own ``gomp_thread`` step by
step. Zeros may also mean that the page is lost, so the thread's stack must confirm them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_words
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ThreadState
from ompd.contract.waits import GoneThread
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Thread
from ompd.runtimes.libgomp.members import Context, Membership
from ompd.runtimes.libgomp.stacks import TARGETS

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.runtime import Runtime


class NewThread(Thread):
    """A worker that has just been created and has not recorded its place yet."""

    reason = "the runtime has just made the thread, which has not noted yet what its place is"
    own_claims = ()
    contexts = (Context(None, ()),)

    def thread_type(self) -> str:
        return "worker"

    @property
    def memberships(self) -> tuple[Membership, ...]:
        raise Unavailable(self.reason)

    def current_parallel(self) -> None:
        """Return None: the thread has begun no region."""

    def current_task(self) -> None:
        """Return None: the thread has begun no task."""

    def state(self) -> ThreadState:
        raise Unavailable(self.reason)


class LostThread(Thread):
    """A thread whose ``gomp_thread`` cannot be read. It may or may not be an OpenMP thread.

    :param fault: the reason
    """

    def __init__(self, runtime: Runtime, native: int, address: int, fault: OmpdError) -> None:
        super().__init__(runtime, native, address)
        self.fault = fault

    @property
    def view(self) -> StructView:
        raise self.fault

    def native_id(self, kind: ThreadIdKind) -> int:
        raise self.fault

    def native_thread_id(self) -> int:
        raise self.fault


def threads_of(runtime: Runtime) -> Mapping[int, Thread]:
    """Return the runtime's threads by native id."""
    threads: dict[int, Thread] = {}
    unregistered = []
    for native in sorted(runtime.process.threads()):
        thread = _thread(runtime, native)
        if thread is not None:
            threads[native] = thread
        else:
            unregistered.append(native)
    owners = {thread.pool_owner() for thread in threads.values()} - {None}
    for native in unregistered if owners else ():
        address = runtime.gomp_thread(native) or 0
        if address in owners:
            fault = CorruptState(address, "nothing but zeros where the runtime keeps a thread that owns a pool")
            threads[native] = LostThread(runtime, native, address, fault)
    # Leave out workers that are about to end. But if all threads seem to be about to end, a wrong layout is being
    # tried, or there is damage. Then keep all.
    return {native: thread for native, thread in threads.items() if not thread.has_left} or threads


def filled_in(runtime: Runtime) -> Sequence[Thread]:
    """Return the threads whose ``gomp_thread`` can be read and is in use. No stack is read.

    Some of them may have just been created, and some may execute a target region.
    """
    threads = []
    for thread in runtime.gomp_threads.values():
        try:
            if thread.is_registered and not thread.has_left:
                threads.append(thread)
        except OmpdError:
            continue
    return threads


def _thread(runtime: Runtime, native: int) -> Thread | None:
    address = 0
    try:
        thread = runtime.gomp_threads.get(native)
        if thread is None:
            runtime.gomp_thread(native)  # raises if the thread's storage is unknown
            return None
        address = thread.address
        if not any(runtime.process.read(address, runtime.layouts.size("gomp_thread"))):
            return _without_place(thread)
        if not thread.is_registered:
            return None
        return NewThread(runtime, native, address) if _is_new(thread) else thread
    except OmpdError as error:
        return LostThread(runtime, native, address, error)


def _is_new(thread: Thread) -> bool:
    # Whether a worker has only begun to fill in its gomp_thread. A worker records its pool, its team and its task one
    # after the other, and enters the lists of the team and the pool last.
    if thread.has_left:
        return False
    view = thread.view
    if view.pointer("task") is not None and view.pointer("ts.team") is not None:
        try:
            thread.own_claims  # noqa: B018
        except CorruptState:
            pass  # the structure is half filled in, or damaged
        except OmpdError:
            return False
        else:
            return False
    return thread.stack.is_beginning and not _is_noted(thread)


def _without_place(thread: Thread) -> Thread | None:
    # Return a thread whose gomp_thread is all zeros, None if it is not the runtime's. The zeros may have three reasons:
    # the runtime does not know the thread, or has cleared the structure for a target region, or the page is lost. The
    # stack shows which, because the runtime knows every thread that executes a region or a task.
    groups = thread.stack.groups
    if any((group.entry or "").startswith(TARGETS) for group in groups):
        return thread
    lost = CorruptState(thread.address, "nothing but zeros where the runtime keeps a thread that is in its code")
    if any(group.code is not None for group in groups):
        if len(thread.contexts) > 1:
            return thread
        raise lost
    if thread.stack.is_beginning:
        if _is_noted(thread):
            raise lost
        return NewThread(thread.runtime, thread.native, thread.address)
    if any(group.forks for group in groups):
        raise Unavailable("the thread begins or ends a region, or what the runtime kept of it is lost")
    # Routines of constructs also serve an initial thread whose gomp_thread is still empty, for example in a critical
    # section outside of all regions. An omp_ routine does not count, because threads that are not OpenMP threads may
    # call it, too.
    return thread if any(_is_constructs(group.entry) for group in groups) else None


def _is_constructs(entry: str | None) -> bool:
    return entry is not None and not entry.startswith("omp_")


def _is_noted(thread: Thread) -> bool:
    # Whether the thread is in the list of a pool or of a team. A worker enters these lists after it has filled in its
    # gomp_thread.
    runtime = thread.runtime
    release = thread.address + runtime.layouts["gomp_thread"].field("release").offset
    pools, teams = set(), set()
    for other in runtime.gomp_threads.values():
        if other.address == thread.address:
            continue
        try:
            pools.add(other.view.pointer("thread_pool"))
            teams.add(other.view.pointer("ts.team"))
        except OmpdError:
            continue
    return any(thread.address in _pooled(runtime, pool) for pool in pools if pool is not None) or any(
        release in _released(runtime, team) for team in teams if team is not None
    )


def _pooled(runtime: Runtime, pool: int) -> Sequence[int]:
    # The addresses of the gomp_threads in a pool. Empty if the pool cannot be read.
    view = runtime.view("gomp_thread_pool", pool)
    try:
        threads, count = view.pointer("threads"), view.unsigned("threads_used")
        in_bounds = threads is not None and count <= runtime.most_threads
        return read_words(runtime.heap, threads, count) if threads is not None and in_bounds else ()
    except OmpdError:
        return ()


def _released(runtime: Runtime, team: int) -> Sequence[int]:
    # The addresses of the semaphores of a team's threads. Empty if the team cannot be read.
    region = runtime.team_at(team)
    try:
        return region.releases(region.nthreads)
    except OmpdError:
        return ()


def gone_from(runtime: Runtime) -> Sequence[GoneThread]:
    """Return the workers in the lists of pools and live teams that no longer exist in the process.

    The address of such a worker's ``gomp_thread`` is in no existing thread's storage. Its native id is unknown, because
    ``gomp_thread`` does not record it. The first place of a pool is skipped, because it belongs to the owner, and some
    releases do not fill it in.

    :raises OmpdError: if the storage of a thread of the process is unknown
    """
    existing = {runtime.gomp_thread(native) for native in runtime.process.threads()}
    release = runtime.layouts["gomp_thread"].field("release").offset
    gone: dict[int, GoneThread] = {}
    pools = {thread.pool for thread in runtime.threads()} - {None}
    for pool in sorted(pool for pool in pools if pool is not None):
        for number, address in enumerate(_pooled(runtime, pool)):
            if number and address and address not in existing:
                gone.setdefault(address, GoneThread(address, None, number))
    for team in sorted(runtime.roster.live_teams):
        for number, semaphore in enumerate(_released(runtime, team)):
            address = semaphore - release
            if number and semaphore and address not in existing:
                gone.setdefault(address, GoneThread(address, None, number))
    return tuple(gone.values())
