"""The states of threads.

The runtime keeps OMPT's states only if OMP_DEBUG=enabled or a tool requested them when the program started. Otherwise
the member ``state`` is 0, which would mean work_serial. The state of a thread is then derived from its team, and from
the runtime's routines that its innermost user code has called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ompd.contract.code_owners import SYSTEM, USER
from ompd.contract.helpers.entries import WAITING, asks_only, is_overhead
from ompd.contract.memory import read_unsigned
from ompd.contract.ompt import State, is_wait, state_name
from ompd.contract.plugin import ThreadState
from ompd.errors import CorruptState, MemoryFault, OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Stack
    from ompd.runtimes.libomp.handles import Thread
    from ompd.runtimes.libomp.plugin import Runtime

_RUNTIME = "runtime"
_DERIVED = "derived"

# The state of a thread in a routine, by the name that naming.routine_name() returns. Routines are looked up from the
# user's frame inwards, so routines that user code calls take precedence over routines that the runtime calls.
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
    # After the barrier at a region's end, a worker waits in the barrier at the beginning of the next region. So a
    # worker of a live team has reached the region's end, unless the primary thread has only just woken the worker.
    "__kmp_fork_barrier": State.WAIT_BARRIER_IMPLICIT_PARALLEL,
    # The routine that acquires the lock of a reduction. Reductions have several entry points, which all call it.
    "__kmp_enter_critical_section_reduce_block": State.WAIT_LOCK,
    "__kmp_barrier": State.WAIT_BARRIER,
    "__kmp_barrier_template": State.WAIT_BARRIER,  # __kmp_barrier may end by a jump to it
}

# The outermost routines on the stack of a worker. A worker at a barrier of its region is in a further routine.
_WORKER_BEGINNINGS = ("__kmp_launch_worker", "__kmp_launch_thread")
_WORKING = (State.WORK_SERIAL, State.WORK_PARALLEL)
# The routines of _ROUTINE_STATES in which libomp does not record that the thread waits.
_UNNOTED = {name for name, state in _ROUTINE_STATES.items() if State.WAIT_TASKWAIT <= state < State.WAIT_TARGET}
# Routines of the C library in which a thread of the runtime sleeps until another thread wakes it up.
_SLEEPING = re.compile(r"pthread_cond_(?:clock|timed)?wait|futex_\w*wait")
# kmp.h, flags of ident_t
_IDENT_BARRIER_EXPLICIT, _IDENT_BARRIER_IMPLICIT = 0x20, 0x40
# 0x40 alone is any construct: KMP_IDENT_BARRIER_IMPL and KMP_IDENT_BARRIER_IMPL_FOR are equal.
_IDENT_CONSTRUCT, _IDENT_CONSTRUCTS = 0x1C0, {0xC0: "sections", 0x140: "single"}
# States that even a runtime that keeps no states records. UNDEFINED also occurs in unused memory.
_ALWAYS_NOTED = {State.WORK_SERIAL, State.WORK_PARALLEL, State.UNDEFINED}


def are_kept(runtime: Runtime) -> bool:
    """Return whether the runtime keeps states.

    :raises Unavailable: if neither a symbol nor the threads show whether states are kept
    """
    address = runtime.process.symbol_in(runtime.module, "ompt_enabled")
    if address is not None:
        # ompt_callbacks_active_t: bit 0 is "enabled", set by OMP_DEBUG=enabled and by a tool
        return bool(runtime.process.read(address, 1)[0] & 1)
    if runtime.stripped is not None:
        return _threads_have_states(runtime)
    return read_unsigned(runtime.process, runtime.global_address("ompd_state"), 8) != 0


def _threads_have_states(runtime: Runtime) -> bool:
    # Only a runtime that keeps states also keeps frames of tasks and tools' data. The workers of such a runtime never
    # have the state 0, work_serial. Any runtime records work_parallel for a thread that forms a team, and undefined in
    # reductions.
    noted: dict[str, set[int]] = {"initial": set(), "worker": set()}
    for thread in runtime.threads():
        try:
            if thread.has_data_of_ompt():
                return True
            noted[thread.thread_type()].add(thread.kept_state()[0])
        except (MemoryFault, CorruptState):
            continue
    if State.WORK_SERIAL in noted["worker"]:
        return False
    if (noted["initial"] | noted["worker"]) - _ALWAYS_NOTED:
        return True
    raise Unavailable("the runtime has no symbols that would tell whether it keeps states, and no state shows it")


def thread_state(thread: Thread) -> ThreadState:
    """Return the state of *thread*, and the state's source.

    :raises Unavailable: if the runtime keeps no states, and the stack does not show the state
    :raises CorruptState: if the thread is in no team, but its stack has the code of a region or task
    """
    is_kept = thread.runtime.states_are_kept
    value, wait_id = thread.kept_state() if is_kept else (State.UNDEFINED, 0)
    if thread.team is None:
        if _is_in_code(thread):
            raise CorruptState(thread.address, "a thread is in no team, and in the code of a region or task")
        # The thread is idle even if the runtime recorded another state: a worker that has left a region keeps the state
        # of the region's closing barrier.
        return ThreadState(State.IDLE, None, _RUNTIME if value == State.IDLE else _DERIVED)
    if not is_kept:
        return ThreadState(_derived(thread), None, _DERIVED)
    if value in _WORKING:
        unnoted = _unnoted_wait(thread, state_name(value))
        if unnoted is not None:
            return ThreadState(unnoted, None, _DERIVED)
    return ThreadState(value, wait_id if is_wait(value) and wait_id else None, _RUNTIME)


def _is_in_code(thread: Thread) -> bool:
    code = thread.runtime.stacks.code
    if not code.has_names:
        return False  # a stripped runtime's names are derived from the idle threads, so they cannot contradict that
    try:
        frames = _stack(thread).frames
    except OmpdError:
        return False
    return any(code.begins_region(*pair) or code.begins_task(*pair) for pair in pairwise(frames))


def entry_inside(thread: Thread) -> str:
    """Return the routine of the runtime that the innermost code of a thread has called, ``""`` if there is none."""
    routines = routines_inside(thread)
    return routines[0] if routines else ""


def routines_inside(thread: Thread) -> Sequence[str]:
    """Return the runtime's routines inside of the innermost code of a thread, outermost first."""
    return thread.runtime.stacks.routines_inside(thread)[0]


def _unnoted_wait(thread: Thread, state: str) -> State | None:
    # libomp does not record that a thread waits in taskwait or taskgroup, or for a lock that is not a queuing lock.
    # Such a thread has the state of a working thread.
    routines, has_user_frame = thread.runtime.stacks.routines_inside(thread)
    unnoted = next((_ROUTINE_STATES[name] for name in routines if name in _UNNOTED), None)
    if unnoted is None and not has_user_frame and _stack(thread).stopped is not None:
        raise Unavailable(
            f"the runtime says {state}, also of a thread that waits for tasks, and its stack is not known"
        )
    return unnoted


def _stack(thread: Thread) -> Stack:
    return thread.runtime.process.stack(thread.native_thread_id())


def _derived(thread: Thread) -> State:
    routines, has_user_frame = thread.runtime.stacks.routines_inside(thread)
    for name in routines:
        state = _kind_of_barrier(thread) if name == "__kmpc_barrier" else _ROUTINE_STATES.get(name)
        if state is not None:
            return state
    if has_user_frame and (not routines or asks_only(routines[0])):
        # The thread is in the user's code, or in a library that the user's code called. Level 0 is outside of all
        # regions.
        return State.WORK_PARALLEL if thread.current_parallel() is not None else State.WORK_SERIAL
    if routines and (is_overhead(routines[0]) or routines[0] in _WORKER_BEGINNINGS) and not _sleeps(thread):
        return State.OVERHEAD
    if routines and not has_user_frame and _is_between_regions(thread):
        return State.WAIT_BARRIER_IMPLICIT_PARALLEL  # with symbols, the stack would have __kmp_fork_barrier
    if not routines and not has_user_frame and _is_in_system_code(thread):
        return State.OVERHEAD
    if routines:
        reason = f"{routines[0] or 'the routine of the runtime that it is in, which has no name,'} does not tell it"
    else:
        reason = "its stack could not be followed to code of the user's"
    raise Unavailable(f"the runtime keeps no states in this process (OMP_DEBUG=enabled makes it), and {reason}")


def _is_in_system_code(thread: Thread) -> bool:
    # Whether all frames belong to the C library, as in a new thread that has not entered the runtime, or in a thread
    # that exits.
    stack = _stack(thread)
    owners = {thread.runtime.owners.at(frame.call_site) for frame in stack.frames}
    return stack.stopped is None and owners == {SYSTEM}


def _is_between_regions(thread: Thread) -> bool:
    unnamed = thread.runtime.unnamed
    return unnamed is not None and any(map(unnamed.is_between_regions, _stack(thread).frames))


def _sleeps(thread: Thread) -> bool:
    # Whether the thread waits for another thread to wake it up.
    process = thread.runtime.process
    for frame in _stack(thread).frames:
        owner = thread.runtime.owners.at(frame.call_site)
        if owner == USER:
            return False
        if owner == SYSTEM and _SLEEPING.search(process.locate(frame.call_site).symbol or ""):
            return True
    return False


def ended_construct(thread: Thread) -> str | None:
    """Return ``sections`` or ``single`` if a thread waits at the end of this construct, None if that is not known."""
    if "__kmpc_barrier" not in routines_inside(thread):
        return None
    return _IDENT_CONSTRUCTS.get(_flags_of_barrier(thread) & _IDENT_CONSTRUCT)


def _flags_of_barrier(thread: Thread) -> int:
    # clang's code passes an ident_t whose flags have the kind of barrier, and the runtime records this ident_t for the
    # thread. Return 0 if they are unknown.
    try:
        ident = thread.th_ident
        return thread.runtime.structures.view("ident_t", ident).unsigned("flags") if ident is not None else 0
    except OmpdError:
        return 0


def _kind_of_barrier(thread: Thread) -> State:
    flags = _flags_of_barrier(thread)
    if flags & _IDENT_BARRIER_EXPLICIT:
        return State.WAIT_BARRIER_EXPLICIT
    return State.WAIT_BARRIER_IMPLICIT_WORKSHARE if flags & _IDENT_BARRIER_IMPLICIT else State.WAIT_BARRIER
