"""The iteration of a doacross loop that a thread waits for, and who executes it (``GOMP_doacross_wait``, ordered.c).

Each thread of a loop with a static schedule, and each chunk of any other, has a counter in
``gomp_doacross_work_share.array``: the number of the last iteration that was posted, and 1. Those of several loops are
packed into one number, the outermost in its upper bits.
"""

from __future__ import annotations

from ompd.contract.memory import StructView, read_unsigned
from ompd.contract.waits import LockState
from ompd.errors import LayoutUnavailable, Unavailable
from ompd.runtimes.libgomp.handles import Thread
from ompd.runtimes.libgomp.stacks.parsed import Group

ROUTINES = ("GOMP_doacross_wait", "GOMP_doacross_ull_wait")
_WORK_SHARE = "gomp_doacross_work_share"
# enum gomp_schedule_type
_STATIC, _GUIDED = 1, 3


def iteration_of(thread: Thread, group: Group) -> LockState:
    """Return the iteration as a lock whose owner executes it; the owner is unknown if the schedule is not static.

    :raises Unavailable: if neither what the routine was given nor its counter is known, or the iteration is done
    """
    runtime, share = thread.runtime, thread.view.pointer("ts.work_share")
    if _WORK_SHARE not in runtime.layouts.structs:
        raise LayoutUnavailable(f"nothing tells the layout of {_WORK_SHARE}")
    if share is None or not thread.memberships or group.caller is None:
        raise Unavailable("the thread is in no loop that the runtime knows")
    loop = runtime.view("gomp_work_share", share)
    address = loop.pointer("doacross")
    if address is None:
        raise Unavailable("the loop has no counters: its iterations wait for nothing")
    counters, team = runtime.view(_WORK_SHARE, address), runtime.team_at(thread.memberships[0].team)
    passed = runtime.process.arguments_passed(thread.stack.frames[group.caller])
    first = passed[0] if passed and passed[0] is not None and passed[0] < loop.unsigned("end") else None
    is_static, count = loop.unsigned("sched") == _STATIC, team.nthreads
    entry = _entry(loop, counters, first, count) if first is not None else _in_registers(thread, group, counters, count)
    array = counters.pointer("array")
    if array is None:
        raise Unavailable("the loop has no counters: its iterations wait for nothing")
    counter = array + entry * counters.unsigned("elt_sz")
    is_done = _is_done(counters, read_unsigned(runtime.process, counter, 8), first) if first is not None else None
    if is_done:
        raise Unavailable("the iteration for which it waits is done")
    owner = team.thread(entry).native if is_static and entry < count else None
    which = "" if counters.unsigned("ncounts") == 1 else " of the outermost loop"
    name = f"iteration {first}{which}" if first is not None else None
    return LockState(counter, "doacross", owner, (), name=name, is_searched=is_done is None)


def _in_registers(thread: Thread, group: Group, counters: StructView, count: int) -> int:
    # The counter to which a register leads. It is counted from the first one, to which another register may lead.
    array, size = counters.pointer("array"), counters.unsigned("elt_sz")
    if array is None or not size:
        raise Unavailable("for which iteration of the loop it waits is not known")
    frames = thread.stack.frames[group.inner : group.outer + 1]
    words = {value - array for frame in frames for value in frame.registers.values()}
    found = {word // size for word in words if 0 <= word < count * size and word % size == 0}
    found = found - {0} or found
    if len(found) != 1:
        raise Unavailable("for which iteration of the loop it waits is not known")
    return found.pop()


def _entry(loop: StructView, counters: StructView, first: int, count: int) -> int:
    # Which counter is that of an iteration.
    schedule, chunk = loop.unsigned("sched"), loop.unsigned("chunk_size")
    if schedule == _GUIDED:
        return first
    if schedule != _STATIC:
        return first // max(counters.unsigned("chunk_size"), 1)
    if chunk:
        return first // chunk % count
    size, boundary = counters.unsigned("q"), counters.unsigned("boundary")
    if first < boundary:
        return first // (size + 1)
    return (first - boundary) // max(size, 1) + counters.unsigned("t")


def _is_done(counters: StructView, value: int, first: int) -> bool | None:
    # None if loops inside of the outermost one decide.
    if counters.unsigned("ncounts") == 1:
        return value > first
    if not counters.unsigned("flattened"):
        return None
    shift = read_unsigned(counters.memory, counters.address_of("shift_counts"), 4)
    outermost = value >> shift
    return None if outermost == first else outermost > first
