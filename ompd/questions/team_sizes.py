"""The number of threads that each region requested, and what gave it fewer.

Compilers pass the value of a ``num_threads`` clause to a routine: gcc's code to the one that begins the region, clang's
to ``__kmpc_push_num_threads`` before it. No runtime keeps the value, so it is read from the code of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, entry_of
from ompd.contract.plugin import ParallelHandle, TeamSizing
from ompd.contract.process import Frame
from ompd.errors import OmpdError, PluginFault, Unavailable
from ompd.questions import places
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.contract.process import Process
    from ompd.debugger.flow.passed import Passed, PresentCall

CLAUSE, IF, NTHREADS = "num_threads", "if", "nthreads-var"
LEVELS, DYNAMIC, LIMIT = "max-active-levels-var", "dyn-var", "thread-limit-var"
# The environment variable that sets each variable.
_ENVIRONMENT = {LEVELS: "OMP_MAX_ACTIVE_LEVELS", DYNAMIC: "OMP_DYNAMIC", LIMIT: "OMP_THREAD_LIMIT"}
_NUMBER = 2  # the index of the number among a routine's arguments
_CONDITION = 3  # of __kmpc_fork_call_if
_MOST = 1 << 31  # larger numbers are negative ones
_UNREADABLE = "the routine that began the region is not to be told from the stack"


class Requested(NamedTuple):
    """The number of ``threads`` that a region requested.

    ``by`` is ``num_threads`` for the value of that clause, ``if`` for the one thread of a false ``if`` clause, and
    ``nthreads-var`` for a region without either.
    """

    threads: int
    by: str


class Reduction(NamedTuple):
    """The variable that gave a team fewer threads than requested: its name ``by`` and its ``value``."""

    by: str
    value: int | bool


def requested(session: Session, region: ParallelHandle) -> Requested:
    """Return the number of threads that a region requested.

    :raises Unavailable: if that is unknown
    """
    size = region.size()
    try:
        present, routine = _beginning(session, region)
        number = _clause(session, present, routine, size)
    except OmpdError as error:
        raise Unavailable(str(error)) from error  # code that cannot be read leaves only this number unknown
    if number is None:
        number = Requested(_sizing(region).nthreads, NTHREADS)
    if not size <= number.threads < _MOST:
        raise Unavailable(f"the code seems to request {number.threads} threads, and the team has {size}")
    return number


def reduction(region: ParallelHandle, threads: int) -> Reduction | None:
    """Return what gave a region fewer than the *threads* that it requested, None if it got all.

    The runtimes go through the variables in this order: max-active-levels-var, dyn-var, thread-limit-var.

    :raises Unavailable: if the variables do not decide it
    """
    size = region.size()
    if size == threads:
        return None
    sizing = _sizing(region)
    if sizing.max_active_levels is None and sizing.active_level > 0 and size == 1:
        raise Unavailable("this release of the runtime decides by nest-var, which is not read")
    if sizing.max_active_levels is not None and sizing.active_level >= sizing.max_active_levels:
        if size > 1:
            raise Unavailable("max-active-levels-var has changed since the region began")
        return Reduction(LEVELS, sizing.max_active_levels)
    if sizing.thread_limit == size and region.enclosing() is None:
        return Reduction(LIMIT, sizing.thread_limit)
    candidates = [Reduction(DYNAMIC, True)] if sizing.dynamic else []
    if sizing.thread_limit is not None:
        candidates.append(Reduction(LIMIT, sizing.thread_limit))
    names = [*(found.by for found in candidates), *sizing.others]
    if len(names) > 1 or not candidates:
        each = " or ".join(names)
        raise Unavailable(f"it may have been {each}" if names else "no variable of the task explains it")
    return candidates[0]


def words(session: Session, reduced: Reduction) -> str:
    """Return a reduction in words, with the environment variable if the program was started with the same value."""
    value = str(reduced.value).lower()
    variable = _ENVIRONMENT[reduced.by]
    with suppress(OmpdError):
        if session.process.environment.at_start().get(variable, "").strip().lower() == value:
            return f"{variable}={value}"
    return f"{reduced.by} is {value}"


def _sizing(region: ParallelHandle) -> TeamSizing:
    try:
        return region.sizing()
    except PluginFault as error:
        raise Unavailable(str(error)) from error  # plugins for earlier releases of ompd lack this method


# The call that began a region


def _beginning(session: Session, region: ParallelHandle) -> tuple[PresentCall, str]:
    # The user's call of the routine that began a region, and that routine's name.
    with suppress(Unavailable):
        frames = region.encountering_frames()
        if frames and places.code_owner(session, frames[0].call_site) != RUNTIME:
            name = _routine(session.process.calls.routine_called(frames[0].pc))
            if naming.begins_region(name) or _calls_code(session, frames[0], region):
                return _passed(session).call(frames), name
    return _left_by_jump(session, region)


def _passed(session: Session) -> Passed:
    return places.followed_functions(session).passed


def _routine(symbol: str | None) -> str:
    return naming.routine_name(symbol).rstrip("_")


def _calls_code(session: Session, frame: Frame, region: ParallelHandle) -> bool:
    # Whether a frame itself calls the code of the region, as a serialized region's is called.
    return session.process.calls.target(frame.pc) == region.function() and region.size() == 1


def _left_by_jump(session: Session, region: ParallelHandle) -> tuple[PresentCall, str]:
    # The same for a function that ended by a jump to the routine, and has no frame.
    thread = region.thread(0)
    frames = session.process.stacks.stack(thread.native_thread_id()).frames
    codes = [code for code in thread.construct_code() if code.region is not None and code.region.id == region.id]
    contract: Process = session.process.contract
    for code in codes[-1:]:
        for index in range(code.frame + 1, len(frames) - 1):
            symbol = session.process.places.locate(frames[index].call_site).symbol
            if not naming.is_entry(symbol):
                continue
            reached, start = entry_of(contract, frames[index].call_site), _start(session, frames[index + 1], region)
            ways = session.process.calls.tail_calls(start, reached) if start is not None and reached else ()
            if len(ways) != 1 or not naming.begins_region(_routine(symbol)):
                break
            jumps = [jump.address for jump in ways[0]]
            return _passed(session).call(frames[index + 1 :], jumps), _routine(symbol)
    raise Unavailable(_UNREADABLE)


def _start(session: Session, frame: Frame, region: ParallelHandle) -> int | None:
    # The function that *frame* has called. A frame of the runtime has called the enclosing region's code.
    if places.code_owner(session, frame.call_site) == RUNTIME:
        enclosing = region.enclosing()
        return enclosing.function() if enclosing is not None else None
    return session.process.calls.target(frame.pc) or session.process.calls.function_called(frame)


# The clause


def _clause(session: Session, present: PresentCall, routine: str, size: int) -> Requested | None:
    # What the clauses of a region request, None without a clause.
    passed = _passed(session)
    if not naming.begins_region(routine):
        # The code of a construct is called directly if its if clause is false.
        if passed.last_call(present, (naming.SERIALIZES,), naming.FORKS) is None:
            raise Unavailable(_UNREADABLE)
        return Requested(1, IF)
    if routine.startswith("GOMP_"):
        number = passed.number(present, _NUMBER)
        # gcc passes 1 for a false if clause, too.
        return Requested(number, CLAUSE) if number else None
    if routine == naming.FORK_IF and size == 1 and not passed.number(present, _CONDITION):
        return Requested(1, IF)
    if passed.last_call(present, naming.UNREAD_PUSHES, _ENDS) is not None:
        raise Unavailable("the region requests a list of numbers, which is not read")
    call = passed.last_call(present, naming.PUSHES, _ENDS)
    number = passed.number_before(present, call, _NUMBER) if call is not None else 0
    return Requested(number, CLAUSE) if 0 < number < _MOST else None


_ENDS: Sequence[str] = (*naming.FORKS, naming.FORK_IF, naming.SERIALIZES)
