"""The program that a library is tried on: a stopped one, whose threads our own plugin identifies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.contract.callbacks import Callbacks
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import AddressSpace, ThreadHandle
from ompd.errors import NoAnswer, OmpdError
from ompd.records import record
from ompd.runtimes.hosted.trial.client import Answers
from ompd.session import Session

_MOST_ADDRESSES = 200


@record
class TeamThread:
    """A thread in a region: its identifiers by kind, and its place in the team."""

    identifiers: dict[int, bytes]
    thread_num: int
    team_size: int
    level: int


@record
class Subject:
    """A program: the answers of its callbacks, and two threads of one team, the second for comparing."""

    name: str
    answers: Answers
    thread: TeamThread
    other: TeamThread
    keeps_states: bool


@record
class DmplSubject:
    """A program for a DMPL library: its threads, by native id, and the addresses of its static variables."""

    name: str
    callbacks: Callbacks
    threads: tuple[int, ...]
    addresses: tuple[int, ...]


def _data_addresses(session: Session) -> Sequence[int]:
    # The addresses of the program's global variables, none without symbols.
    program = session.process.modules.program
    if program is None or program.symbols is None:
        return ()
    return sorted({symbol.address + program.bias for symbol in program.symbols.variables()})


def dmpl_subjects(session: Session) -> Iterator[DmplSubject]:
    """Yield a subject for each runtime of a program, to try a DMPL library on.

    :raises NoAnswer: if there is none
    """
    addresses = tuple(_data_addresses(session)[:_MOST_ADDRESSES])
    for runtime in session.runtimes:
        callbacks = session.process.contract.callbacks(runtime.found.module)
        yield DmplSubject(session.target.name, callbacks, tuple(session.process.threads.ids()), addresses)
    if not session.runtimes:
        raise NoAnswer(f"{session.target.name}: no OpenMP runtime in it")


def subjects(session: Session) -> Iterator[Subject]:
    """Yield a subject for each readable runtime of a program, to try an OMPD library on.

    :raises NoAnswer: if there is none
    """
    reasons: list[str] = []
    has_subject = False
    for runtime in session.runtimes:
        if runtime.space is None:
            reasons.append(str(runtime.fault or f"{runtime.id} cannot be read"))
            continue
        pair = _pair(runtime.space, session)
        if pair is None:
            reasons.append(f"{runtime.id} has no two threads in a region")
            continue
        answers = Answers(session.process.contract.callbacks(runtime.found.module))
        has_subject = True
        yield Subject(session.target.name, answers, *pair, runtime.space.keeps_states())
    if not has_subject:
        raise NoAnswer(f"{session.target.name}: {'; '.join(reasons) or 'no OpenMP runtime in it'}")


def _pair(space: AddressSpace, session: Session) -> tuple[TeamThread, TeamThread] | None:
    teams: dict[str, list[TeamThread]] = {}
    for thread in space.threads():
        try:
            region = thread.current_parallel()
            number = thread.thread_num()
            if region is None or number is None or region.level() < 1:
                continue
            member = TeamThread(_identifiers(thread, session), number, region.size(), region.level())
        except OmpdError:
            continue
        teams.setdefault(region.id, []).append(member)
    for team in teams.values():
        if len(team) > 1:
            # The thread with the highest number comes first. The primary thread's number is 0, as unset memory is, so a
            # wrong answer would pass as right.
            ordered = sorted(team, key=lambda member: -member.thread_num)
            return ordered[0], ordered[1]
    return None


def _identifiers(thread: ThreadHandle, session: Session) -> dict[int, bytes]:
    native = thread.native_thread_id()
    process = session.process
    return {
        ThreadIdKind.PTHREAD: process.threads.pthread_self(native).to_bytes(process.memory.pointer_size, "little"),
        ThreadIdKind.LWP: native.to_bytes(4, "little"),
    }
