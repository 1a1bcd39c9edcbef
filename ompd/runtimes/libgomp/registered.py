"""Which threads of the process are the runtime's, by what each has in its thread-local storage.

A thread's ``gomp_thread`` is all zeros until the runtime knows the thread. A worker fills it in step by step. And a
page of zeros may be one that was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.contract.memory import StructView, read_words
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ThreadState
from ompd.contract.waits import GoneThread
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Registry, Thread
from ompd.runtimes.libgomp.members import Context, Membership
from ompd.runtimes.libgomp.stacks.routines import TARGETS


class NewThread(Thread):
    """A worker that has just been made, before it has noted what its place is."""

    reason = "the runtime has just made the thread, which has not noted yet what its place is"
    contexts = (Context(None, ()),)

    def thread_type(self) -> str:
        """It is a worker."""
        return "worker"

    @property
    def memberships(self) -> tuple[Membership, ...]:
        """Not known yet."""
        raise Unavailable(self.reason)

    def current_parallel(self) -> None:
        """It has not begun any."""

    def current_task(self) -> None:
        """It has not begun any."""

    def state(self) -> ThreadState:
        """It is in the runtime, on its way to a region."""
        raise Unavailable(self.reason)


class LostThread(Thread):
    """A thread whose ``gomp_thread`` cannot be read: whether it is OpenMP's is unknown. *fault* says why."""

    def __init__(self, runtime: Registry, native: int, address: int, fault: OmpdError) -> None:
        super().__init__(runtime, native, address)
        self.fault = fault

    @property
    def view(self) -> StructView:
        """Unreadable."""
        raise self.fault

    def native_id(self, kind: ThreadIdKind) -> int:
        """Unknown: no handle of the runtime is known to be this thread's."""
        raise self.fault

    def native_thread_id(self) -> int:
        """Unknown, too."""
        raise self.fault


def threads_of(runtime: Registry) -> Mapping[int, Thread]:
    """Return the threads that the runtime has, by native id."""
    found = {native: _thread(runtime, native) for native in sorted(runtime.process.threads())}
    known = {native: thread for native, thread in found.items() if thread is not None}
    primary = {thread.pool_owner() for thread in known.values()} - {None}
    for native in sorted(found.keys() - known.keys()) if primary else ():
        address = runtime.gomp_thread(native) or 0
        if address in primary:
            fault = CorruptState(address, "nothing but zeros where the runtime keeps a thread that owns a pool")
            known[native] = LostThread(runtime, native, address, fault)
    # If all look as if they had left, what looks so is a layout that is being tried, or damage.
    return {native: thread for native, thread in known.items() if not thread.has_left} or known


def _thread(runtime: Registry, native: int) -> Thread | None:
    address = 0
    try:
        block = runtime.gomp_thread(native)
        if block is None:
            return None
        address = block
        thread = Thread(runtime, native, address)
        if not any(runtime.process.read(address, runtime.layouts.size("gomp_thread"))):
            return _without_place(thread)
        if not thread.is_registered:
            return None
        return NewThread(runtime, native, address) if _is_new(thread) else thread
    except OmpdError as error:
        return LostThread(runtime, native, address, error)


def _is_new(thread: Thread) -> bool:
    # Whether a worker has just begun to take its place: pool, team and task are noted one after the other, and the
    # team's and the pool's lists of threads last.
    if thread.has_left:
        return False
    view = thread.view
    if view.pointer("task") is not None and view.pointer("ts.team") is not None:
        try:
            thread.claims  # noqa: B018  what contradicts itself is half of it, if it is no damage
        except CorruptState:
            pass
        except OmpdError:
            return False
        else:
            return False
    return thread.stack.is_beginning and not _is_noted(thread)


def _without_place(thread: Thread) -> Thread | None:
    # A thread whose gomp_thread is all zeros: the runtime does not know it, has cleared it for the code of a target
    # region, or what was there is lost. For it knows whoever executes a region or a task.
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
    # It is in a routine that needs no more than that: a critical section outside of all regions, or a task there that
    # is not its own yet, or no longer. What anyone may ask makes no thread OpenMP's.
    return thread if any(_is_constructs(group.entry) for group in groups) else None


def _is_constructs(entry: str | None) -> bool:
    return entry is not None and not entry.startswith("omp_")


def _is_noted(thread: Thread) -> bool:
    # Whether the runtime has the thread noted as a worker, as each does itself when it has taken its place: in its
    # pool, and in its team.
    runtime = thread.runtime
    release = thread.address + runtime.layouts["gomp_thread"].field("release").offset
    pools, teams = set(), set()
    for native in runtime.process.threads():
        try:
            other = runtime.gomp_thread(native)
            if other is None or other == thread.address:
                continue
            view = Thread(runtime, native, other).view
            pools.add(view.pointer("thread_pool"))
            teams.add(view.pointer("ts.team"))
        except OmpdError:
            continue
    return any(thread.address in _pooled(runtime, pool) for pool in pools if pool is not None) or any(
        release in _released(runtime, team) for team in teams if team is not None
    )


def _pooled(runtime: Registry, pool: int) -> Sequence[int]:
    view = runtime.view("gomp_thread_pool", pool)
    try:
        threads, count = view.pointer("threads"), view.unsigned("threads_used")
        in_bounds = threads is not None and count <= runtime.most_threads
        return read_words(runtime.heap, threads, count) if threads is not None and in_bounds else ()
    except OmpdError:
        return ()


def _released(runtime: Registry, team: int) -> Sequence[int]:
    region = runtime.team_at(team)
    try:
        return region.releases(region.nthreads)
    except OmpdError:
        return ()


def gone_from(runtime: Registry) -> Sequence[GoneThread]:
    """Return the workers that a pool has, or a live team, and that are in the storage of no thread of the process.

    The first place of a pool is that of its owner, in which some releases leave anything. gomp_thread lies in the
    thread's own storage and notes no identifier.

    :raises OmpdError: if that of a thread of the process is unknown
    """
    there = {runtime.gomp_thread(native) for native in runtime.process.threads()}
    release = runtime.layouts["gomp_thread"].field("release").offset
    found: dict[int, GoneThread] = {}
    pools = {thread.pool for thread in runtime.threads()} - {None}
    for pool in sorted(pool for pool in pools if pool is not None):
        for number, address in enumerate(_pooled(runtime, pool)):
            if number and address and address not in there:
                found.setdefault(address, GoneThread(address, None, number))
    for team in sorted(runtime.roster.live_teams):
        for number, word in enumerate(_released(runtime, team)):
            if number and word and word - release not in there:
                found.setdefault(word - release, GoneThread(word - release, None, number))
    return tuple(found.values())
