"""What a thread is doing.

The runtime keeps OMPT's states only if OMP_DEBUG=enabled or a tool asked for them when the program started; without,
the field is 0, which would read as work_serial. Then the state is derived: from the teams, and from the runtime's
routines that lie on the thread's stack inside of the user's innermost frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ompd import naming
from ompd.contract.code_owners import SYSTEM, UNKNOWN, USER
from ompd.contract.helpers.entries import WAITING, asks_only, is_overhead
from ompd.contract.helpers.stacks import interrupted_at
from ompd.contract.ompt import State, is_wait, state_name
from ompd.contract.plugin import ThreadState
from ompd.contract.process import Frame, Shape, Stack
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libomp.stacks.code import Code, calls_user_code, is_entry
from ompd.runtimes.libomp.stacks.unnamed import Unnamed
from ompd.runtimes.libomp.teams.threads import Thread, Threads

RUNTIME = "runtime"
DERIVED = "derived"

# A routine's name, less what naming.routine_name() takes off, and the state of a thread that is in it. Those that
# user code calls come before those that the runtime itself calls, since both are looked for from the user's frame
# inwards.
_ROUTINE_STATES = {
    **WAITING,
    "__kmpc_critical": State.WAIT_CRITICAL,
    "__kmpc_critical_with_hint": State.WAIT_CRITICAL,
    "__kmpc_set_lock": State.WAIT_LOCK,
    "__kmpc_set_nest_lock": State.WAIT_LOCK,
    "__kmpc_ordered": State.WAIT_ORDERED,
    "__kmpc_doacross_wait": State.WAIT_ORDERED,
    "GOMP_doacross_wait": State.WAIT_ORDERED,
    "GOMP_doacross_ull_wait": State.WAIT_ORDERED,
    "__kmpc_atomic_start": State.WAIT_ATOMIC,
    "__kmpc_omp_taskwait": State.WAIT_TASKWAIT,
    "__kmpc_omp_taskwait_51": State.WAIT_TASKWAIT,
    "__kmpc_omp_wait_deps": State.WAIT_TASKWAIT,
    "__kmpc_omp_taskwait_deps_51": State.WAIT_TASKWAIT,
    "__kmpc_end_taskgroup": State.WAIT_TASKGROUP,
    "__kmp_join_barrier": State.WAIT_BARRIER_IMPLICIT_PARALLEL,
    # A worker that has arrived at a region's closing barrier waits in the next region's opening one already. One of a
    # team that is live has arrived, unless the primary thread has only just called it and it has not woken up yet.
    "__kmp_fork_barrier": State.WAIT_BARRIER_IMPLICIT_PARALLEL,
    # Of reductions, after whatever entry point their kind has.
    "__kmp_enter_critical_section_reduce_block": State.WAIT_LOCK,
    "__kmp_barrier": State.WAIT_BARRIER,
    "__kmp_barrier_template": State.WAIT_BARRIER,  # where the one before ended by a jump to it
}

# With which the stack of a worker begins, where it is named. At its region's barriers it is in another one, too.
_BEGINNINGS = ("__kmp_launch_worker", "__kmp_launch_thread")
_WORKING = (State.WORK_SERIAL, State.WORK_PARALLEL)
_UNMARKED = {name for name, state in _ROUTINE_STATES.items() if State.WAIT_TASKWAIT <= state < State.WAIT_TARGET}
# The C library's, by which the runtime has a thread sleep until another one wakes it up
_SLEEPING = re.compile(r"pthread_cond_(?:clock|timed)?wait|futex_\w*wait")
# kmp.h, flags of ident_t
_IDENT_BARRIER_EXPLICIT, _IDENT_BARRIER_IMPLICIT = 0x20, 0x40


class States:
    """What the threads of one runtime do."""

    def __init__(self, runtime: Threads, code: Code, unnamed: Unnamed | None) -> None:
        self._runtime = runtime
        self._code = code
        self._unnamed = unnamed
        # The routines inside of the user's innermost frame, outermost first, and whether there is one, by stacks'
        # shapes, or by threads.
        self._known: dict[Shape | int, tuple[list[str], bool]] = {}

    def of(self, thread: Thread) -> ThreadState:
        """Return what *thread* is doing, and how that is known.

        :raises Unavailable: if the runtime keeps no states and its stack does not tell either
        :raises CorruptState: if it is idle by its team, and its stack shows that it is not
        """
        kept = self._runtime.states_are_kept
        value, wait_id = thread.kept_state() if kept else (State.UNDEFINED, 0)
        if thread.team is None:
            if self._is_in_code(thread):
                raise CorruptState(thread.address, "a thread is in no team, and in the code of a region or task")
            # A worker that left a region for good keeps the state of that region's closing barrier.
            return ThreadState(State.IDLE, None, RUNTIME if value == State.IDLE else DERIVED)
        if not kept:
            return ThreadState(self._derived(thread), None, DERIVED)
        if value in _WORKING:
            unmarked = self._waiting_routine(thread, state_name(value))
            if unmarked is not None:
                return ThreadState(unmarked, None, DERIVED)
        return ThreadState(value, wait_id if is_wait(value) and wait_id else None, RUNTIME)

    def _is_in_code(self, thread: Thread) -> bool:
        if not self._code.has_names:
            return False  # what stacks show of a stripped runtime rests on who is idle
        try:
            frames = self._stack(thread).frames
        except OmpdError:
            return False
        begins = self._code.begins_region, self._code.begins_task
        return any(begin(inner, outer) for inner, outer in pairwise(frames) for begin in begins)

    def entry_inside(self, thread: Thread) -> str:
        """Return the routine of the runtime that the innermost code of a thread called, ``""`` if it is in none."""
        routines, _ = self._routines(thread)
        return routines[0] if routines else ""

    def routines_inside(self, thread: Thread) -> Sequence[str]:
        """Return the runtime's routines that are inside of the innermost code of a thread, outermost first."""
        return self._routines(thread)[0]

    def _waiting_routine(self, thread: Thread, word: str) -> State | None:
        # libomp never notes that a thread waits in taskwait or taskgroup, or for a lock of another kind than queuing:
        # it then says that it works.
        routines, reaches_user = self._routines(thread)
        found = next((_ROUTINE_STATES[name] for name in routines if name in _UNMARKED), None)
        if found is None and not reaches_user and self._stack(thread).stopped is not None:
            raise Unavailable(
                f"the runtime says {word}, also of a thread that waits for tasks, and its stack is not known"
            )
        return found

    def _stack(self, thread: Thread) -> Stack:
        return self._runtime.process.stack(thread.native_thread_id())

    def _derived(self, thread: Thread) -> State:
        routines, reaches_user = self._routines(thread)
        for name in routines:
            state = _barrier_kind(thread) if name == "__kmpc_barrier" else _ROUTINE_STATES.get(name)
            if state is not None:
                return state
        if reaches_user and (not routines or asks_only(routines[0])):
            # In the user's own code, or in a library called from it: level 0 is outside of all regions.
            return State.WORK_PARALLEL if thread.current_parallel() is not None else State.WORK_SERIAL
        if routines and (is_overhead(routines[0]) or routines[0] in _BEGINNINGS) and not self._sleeps(thread):
            return State.OVERHEAD
        if routines and not reaches_user and self._is_between_regions(thread):
            return State.WAIT_BARRIER_IMPLICIT_PARALLEL  # as where __kmp_fork_barrier has its name
        if not routines and not reaches_user and self._is_outside(thread):
            return State.OVERHEAD
        if routines:
            untold = f"{routines[0] or 'the routine of the runtime that it is in, which has no name,'} does not tell it"
        else:
            untold = "its stack could not be followed to code of the user's"
        raise Unavailable(f"the runtime keeps no states in this process (OMP_DEBUG=enabled makes it), and {untold}")

    def _is_outside(self, thread: Thread) -> bool:
        # Whether its whole stack is the C library's: a thread that was made and has not come to the runtime, or is
        # ending.
        stack = self._stack(thread)
        owners = {self._runtime.owners.at(frame.call_site) for frame in stack.frames}
        return stack.stopped is None and owners == {SYSTEM}

    def _is_between_regions(self, thread: Thread) -> bool:
        unnamed = self._unnamed
        return unnamed is not None and any(map(unnamed.is_between_regions, self._stack(thread).frames))

    def _sleeps(self, thread: Thread) -> bool:
        # Whether it waits for another thread to wake it up, which a routine that goes on by itself does not do.
        process = self._runtime.process
        for frame in self._stack(thread).frames:
            owner = self._runtime.owners.at(frame.call_site)
            if owner == USER:
                return False
            if owner == SYSTEM and _SLEEPING.search(process.locate(frame.call_site).symbol or ""):
                return True
        return False

    def _routines(self, thread: Thread) -> tuple[list[str], bool]:
        # The runtime's routines that are inside of the user's innermost frame, outermost first, and whether there is
        # such a frame. A handler of a signal is no end to the wait in which the signal came.
        stack = self._stack(thread)
        # Without names they are known by what is on the very stack, too.
        key = stack.shape if self._code.has_names else thread.address
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._routines_on(stack.frames)
        return known

    def _routines_on(self, frames: Sequence[Frame]) -> tuple[list[str], bool]:
        found: tuple[list[str], bool] = [], True
        for at in interrupted_at(frames, lambda index: calls_user_code(self._code.routine_of(frames[index]) or "")):
            found = self._routines_in(frames[at:])
            if found != ([], True):
                break
        return found

    def _routines_in(self, frames: Sequence[Frame]) -> tuple[list[str], bool]:
        names: list[str] = []
        unknown = False
        for index, frame in enumerate(frames):
            routine = self._code.routine_of(frame)
            outer = frames[index + 1] if index + 1 < len(frames) else None
            if outer is not None and self._is_code_left(frame, outer):
                # The innermost code has left the stack: it ended by a jump to this.
                return (names if routine is None else [*names, routine])[::-1], True
            if routine is not None:
                if unknown and not names and calls_user_code(routine):
                    return [], True  # whatever it is, the runtime called it as user code
                names.append(routine)
                continue
            owner = self._runtime.owners.at(frame.call_site)
            if owner == USER:
                # The entry point may have jumped to the routine that does its work.
                called = naming.routine_name(self._runtime.process.routine_called(frame.pc)) if names else ""
                return [called, *names[::-1]] if is_entry(called) and called != names[-1] else names[::-1], True
            unknown = unknown or owner == UNKNOWN
            if names:
                break
        return names[::-1], False

    def _is_code_left(self, frame: Frame, outer: Frame) -> bool:
        if self._runtime.owners.at(frame.call_site) == USER:
            return False
        return self._code.begins_region(frame, outer) or self._code.begins_task(frame, outer)


def _barrier_kind(thread: Thread) -> State:
    # clang's code tells the barrier which it is, by the flags of the place that the runtime notes for the thread.
    try:
        ident = thread.th_ident
        flags = thread.runtime.structures.view("ident_t", ident).unsigned("flags") if ident is not None else 0
    except OmpdError:
        return State.WAIT_BARRIER
    if flags & _IDENT_BARRIER_EXPLICIT:
        return State.WAIT_BARRIER_EXPLICIT
    return State.WAIT_BARRIER_IMPLICIT_WORKSHARE if flags & _IDENT_BARRIER_IMPLICIT else State.WAIT_BARRIER
