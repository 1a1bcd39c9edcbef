"""At which barrier a thread waits: at one of the two of its team, or in the pool for its next region."""

from __future__ import annotations

from ompd.contract.code_owners import RUNTIME
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp.stacks.parsed import Group, Parsed
from ompd.runtimes.libgomp.stacks.routines import BEGIN, TASK
from ompd.runtimes.libgomp.structures.gomp import GompTeam, GompThread

# The barriers of a team: that at its region's end, and the one that is for all others.
FINAL, INNER = "final", "inner"


def is_docked(stack: Parsed, thread: GompThread, team: int | None) -> bool:
    """Return whether a worker waits in the pool for its next region.

    :param team: the address of the team that it says it was made for
    :raises Unavailable: if its registers do not show at which barrier it waits
    :raises CorruptState: if its stack cannot be followed
    """
    outermost = stack.groups[-1] if stack.groups else None
    if outermost is None or outermost.entry != BEGIN:
        # Who waits is in the runtime.
        if not stack.runs_other_code and stack.stopped is not None and not stack.reaches_user:
            sp = stack.frames[-1].sp if stack.frames else 0
            unknown = "whether the thread is idle cannot be told, since its stack cannot"
            raise CorruptState(sp, f"{unknown}: {stack.stopped}")
        return False
    return outermost.code is None and _waits_at_dock(stack, outermost, thread, team)


def _waits_at_dock(stack: Parsed, group: Group, thread: GompThread, team: int | None) -> bool:
    layouts = thread.space.layouts
    barrier = layouts["gomp_team"].field("barrier.total").offset
    generation = layouts["gomp_team"].field("barrier.generation").offset - barrier
    dock_offset = layouts["gomp_thread_pool"].field("threads_dock.bar.generation").offset
    dock = thread.pool + dock_offset if thread.pool is not None else None
    at_team = team + barrier + generation if team is not None else None
    # What a handler of a signal waits for is not what the thread waited for before.
    first = group.inner if stack.is_interrupted(group) else 0
    frames = stack.frames[first : group.outer + 1]
    awaited = stack.process.futex_word(frames[0]) if first else stack.futex_word()
    if awaited is not None:
        return awaited == dock  # else at its team's barrier, or in what its code ended with by a jump: a lock
    # It looks at the word without a system call. Then a register has its address, or that of its barrier.
    innermost = next((frame for frame in frames if stack.owners.of(frame) == RUNTIME), None)
    held = set(innermost.registers.values()) if innermost is not None else set()
    for less in (0, generation):
        seen = [word for word in (dock, at_team) if word is not None and word - less in held]
        if len(seen) == 1:
            return seen[0] == dock
    raise Unavailable("the thread's registers do not show whether it waits at its team's barrier or in the pool")


def waits_for_team(stack: Parsed, group: Group, team: GompTeam) -> bool:
    """Return whether the routine of *group* has the address of the barrier of *team*, or of its counter."""
    awaited = stack.process.futex_word(stack.frames[group.inner])
    words = _words_of_barrier(team)
    return awaited in words if awaited is not None else not words.isdisjoint(stack.waiting_words(group))


def is_forming(stack: Parsed, team: GompTeam) -> bool:
    """Return whether the primary thread of *team* is still making the others: it is in the routine that began the
    region, and at none of its barriers.
    """
    try:
        group = stack.innermost_group()
        if group is None or not group.forks or group.code is not None:
            return False
        return not waits_for_team(stack, group, team)
    except OmpdError:
        return False


def is_at_unnamed_barrier(stack: Parsed, group: Group, team: GompTeam) -> bool:
    """Return whether a thread waits at the barrier of *team* in a routine of the runtime that user code has jumped
    to, so that it has no name.
    """
    if group.entry is not None:
        return False
    words, awaited = _words_of_barrier(team), stack.futex_word()
    if awaited is None:
        return not words.isdisjoint(stack.frames[group.inner].registers.values())
    return awaited in words


def _words_of_barrier(team: GompTeam) -> set[int]:
    return {team.view.address_of(f"barrier.{name}") for name in ("total", "generation")}


def barrier_at_end(stack: Parsed, group: Group, team: GompTeam) -> str | None:
    """Return the barrier at which a thread waits that has left the code of the region of *team*, None if it waits at
    none.

    It is that of the region's end, unless the code ended with a jump to a routine that has a barrier of its own: then
    the runtime's outermost routine has called the code by its address, and not a routine of its own.
    """
    if group.code != TASK and not waits_for_team(stack, group, team):
        return None
    direct = stack.calls_its_own(group)
    if direct is None:  # then the barrier at which anybody has arrived
        total = team.barrier.unsigned("barrier.total")
        inner, final = (team.barrier.unsigned(f"barrier.{name}") != total for name in ("awaited", "awaited_final"))
        return INNER if inner and not final else FINAL
    return FINAL if direct else INNER
