"""The query ``why``: collects records, makes verdicts on them, and adds stacks and places to the verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os.path import normpath
from pathlib import PurePosixPath

from ompd.analysis.answers import concluded
from ompd.analysis.verdicts.advice import advice
from ompd.analysis.verdicts.sentences import next_step
from ompd.analysis.words import counted
from ompd.errors import NoAnswer, OmpdError
from ompd.model import Answer, Evidence, GraphRecord, Place, StackRecord, VerdictRecord, WhyAnswer
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.questions import places, stacks
from ompd.questions.facts.answers import program_faults
from ompd.questions.facts.damage import changes, is_damaged
from ompd.questions.why.branches import Branches
from ompd.questions.why.collect import collect
from ompd.questions.why.looks import Look
from ompd.questions.why.small_teams import with_small_teams
from ompd.questions.why.sources import MarkedLines
from ompd.questions.why.working import with_spins
from ompd.session import Session

_SPARED = "a thread missed its wake-up; stopping the process would wake it, so it was not stopped"


def ask(session: Session, earlier: Look | None = None) -> WhyAnswer:
    """Return the verdicts on why threads of the process do not go on, the most important first.

    :param earlier: an earlier look at the same process
    :raises NoAnswer: if no OpenMP runtime of the process can be read
    """
    unloaded = _unloaded(session)
    try:
        moment, threads = collect(session, has_times=earlier is not None)
    except NoAnswer as error:
        if unloaded is None:
            raise
        return WhyAnswer(session.stop.record, (), (unloaded,), True, (str(error),))
    moment = with_spins(session, moment)
    branches = Branches(session, moment.threads)
    moment = replace(moment, alone=branches.of_primary_threads())
    before = earlier or Look((), None)
    verdicts, nodes, edges = concluded(moment, before.moments, before.seconds, before.supply)
    verdicts = with_small_teams(session, moment, verdicts)
    verdicts, stacks_answer = _with_stacks(session, branches.added_to(verdicts))
    verdicts = (MarkedLines(session, verdicts[0], moment.held).added(), *verdicts[1:])
    complete, warnings = threads.complete, threads.warnings
    if stacks_answer is not None:
        complete = complete and stacks_answer.complete
        warnings = tuple(dict.fromkeys((*warnings, *stacks_answer.warnings)))
    # An answer with a proven first verdict is complete even if other facts are unreadable. But in a damaged target, or
    # without the program's file, places are unknown.
    is_proven = verdicts[0].stuck is verdicts[0].confidence is Confidence.PROVEN
    complete = complete or (is_proven and not is_damaged(session) and not program_faults(session))
    changed, lost = changes(session), session.process.source_code.fault
    complete, warnings = complete and not changed, tuple(dict.fromkeys((*changed, *warnings)))
    if lost is not None:
        warnings = (*warnings, lost)
    if earlier is not None and not earlier.may_stop:
        warnings = (*warnings, _SPARED)
    if unloaded is not None:
        verdicts = (unloaded, *verdicts) if unloaded.confidence is Confidence.LIKELY else (*verdicts, unloaded)
    if session.target.kind == "live":
        verdicts = tuple(map(_to_profile, verdicts))
    children, other_ranks = (earlier.children, earlier.other_ranks) if earlier is not None else ((), None)
    return WhyAnswer(
        threads.target,
        threads.runtimes,
        verdicts,
        complete,
        warnings,
        GraphRecord(nodes, edges),
        children,
        other_ranks,
    )


def _to_profile(verdict: VerdictRecord) -> VerdictRecord:
    # Of a running process that does not hang, the next question is where its time goes. With few processors it is not.
    if verdict.kind is not VerdictKind.NO_STALL or verdict.next_step != next_step(VerdictKind.NO_STALL, ()):
        return verdict
    return replace(verdict, next_step="ompd profile TARGET")


_INTERPRETS = re.compile("_?Py")
_VERDICTS = 3  # how many of the first verdicts get stacks
_STACKS = 2  # how many stacks a verdict has
_SYSTEM = ("/usr/include/", "/usr/lib/")  # headers of the C and C++ libraries, and of compilers
_CANDIDATES = 4  # how many threads of a verdict are examined for stacks that differ


def _with_stacks(
    session: Session, verdicts: Sequence[VerdictRecord]
) -> tuple[tuple[VerdictRecord, ...], Answer[StackRecord] | None]:
    # Return the verdicts, and the answer of ``stack`` that was used. The first verdicts get stacks of the threads that
    # they name, with only the frames of user code. The answer is None if they name no thread of the process.
    alive = set(session.process.threads.ids())
    named = [[native for native in _named(verdict) if native in alive] for verdict in verdicts[:_VERDICTS]]
    examined = {native for natives in named for native in natives[:_CANDIDATES]}
    if not examined:
        return tuple(verdicts), None
    answer = stacks.ask(session, threads=examined)
    rows = {row.native_thread_id: _of_user(row) for row in answer.rows}
    first = [
        replace(_in_source(verdict, rows), stacks=tuple(_different(rows, natives[:_CANDIDATES])))
        for verdict, natives in zip(verdicts, named, strict=False)
    ]
    return (*first, *verdicts[len(first) :]), answer


def _named(verdict: VerdictRecord) -> Iterator[int]:
    # Yield the native ids of the threads in a verdict. The threads on which the others depend come first. Then come the
    # threads of the links, from the last link backwards.
    links = [link.thread for link in reversed(verdict.cycle) if link.thread is not None]
    yield from dict.fromkeys((*verdict.roots[:_CANDIDATES], *links[:_CANDIDATES]))


def _in_source(verdict: VerdictRecord, rows: Mapping[int | None, StackRecord]) -> VerdictRecord:
    # Return the verdict with places in user code. Code of the system's headers, such as std::mutex::lock, is inlined
    # into user code. A place in such code is replaced by that of its caller in user code.
    callers: dict[Place, Place] = {}
    links = []
    for link in verdict.cycle:
        stack = rows.get(link.thread)
        caller = _caller_of_interpreter(stack) if link.kind is Kind.GIL else _caller(link.where, stack)
        if caller is not None and link.where is not None:
            callers[link.where] = caller
        links.append(replace(link, where=caller or link.where))
    place = verdict.place
    return replace(verdict, cycle=tuple(links), place=callers.get(place, place) if place is not None else None)


def _caller(place: Place | None, stack: StackRecord | None) -> Place | None:
    if place is None or stack is None or place.file is None or not _is_system(place.file):
        return None
    outside_system = (f for f in stack.frames if f.file is not None and not _is_system(f.file))
    return next((Place(f.address, f.function, f.file, f.line, f.unproven) for f in outside_system), None)


def _caller_of_interpreter(stack: StackRecord | None) -> Place | None:
    # Return the place of the code that called the interpreter, and so needs the interpreter's lock. None unless the
    # code is in another file and its line is known.
    frames = stack.frames if stack is not None else ()
    module = frames[0].module if frames else None
    caller = next((f for f in frames if f.module != module), None)
    if caller is None or caller.file is None or _INTERPRETS.match(caller.function or ""):
        return None
    return Place(caller.address, caller.function, caller.file, caller.line, caller.unproven)


def _is_system(file: str) -> bool:
    # Paths are normalised, because clang writes those of headers as "/usr/bin/../lib/gcc/…/../../include/…".
    return normpath(file).startswith(_SYSTEM)


def _of_user(row: StackRecord) -> StackRecord:
    user_frames = tuple(frame for frame in row.frames if frame.kind in ("user", "unknown"))
    return replace(row, frames=user_frames or row.frames)


def _different(rows: Mapping[int | None, StackRecord], natives: Iterable[int]) -> Iterator[StackRecord]:
    # Yield the first stacks that differ: threads at the same place have one stack.
    shown: set[object] = set()
    for native in natives:
        row = rows.get(native)
        places = tuple((f.function, f.file, f.line) for f in row.frames) if row is not None else ()
        if row is not None and places and places not in shown and len(shown) < _STACKS:
            shown.add(places)
            yield row


_MAX_THREADS = 64
_UNLOADING = ("dlclose", "__dlclose", "_dl_close")


def _unloaded(session: Session) -> VerdictRecord | None:
    # Return the verdict on threads that sleep in a system call while the calling code was unloaded, None without such
    # threads. The process crashes when one of them wakes up.
    unmapped = session.process.gone_code()
    if unmapped is None:
        return None
    pcs, module = unmapped
    threads = tuple(sorted(pcs))
    sleepers = counted(len(threads), "thread")
    sleep = "sleeps" if len(threads) == 1 else "sleep"
    library = PurePosixPath(module).name if module is not None else None
    what = (
        f"{library} was unloaded while {sleepers} {sleep} in it"
        if library
        else f"{sleepers} {sleep} in code that is gone"
    )
    evidence = [
        Evidence(f"thread {thread} is in a system call at {pc:#x}, where no code is mapped", "stack")
        for thread, pc in sorted(pcs.items())[:_MAX_THREADS]
    ]
    if module is not None:
        evidence.append(Evidence(f"the code of {module} fits these addresses, and those on the stacks", "derived"))
    place = _unloader(session)
    if place is not None:
        evidence.append(Evidence("this thread is unloading a library", "stack"))
    verdict = VerdictRecord(
        kind=VerdictKind.RUNTIME_UNLOADED,
        stuck=Confidence.LIKELY,
        confidence=Confidence.LIKELY if module is not None else Confidence.POSSIBLE,
        summary=f"{what}: the process crashes when one wakes up",
        roots=threads,
        explains=threads,
        evidence=tuple(evidence),
        unknowns=() if module is not None else ("which library was there",),
        what_if="if the library stayed loaded (RTLD_NODELETE, or no dlclose()), its threads would only be idle",
        next_step=f"ompd stack TARGET --thread {threads[0]} --raw",
        place=place,
    )
    return replace(verdict, advice=advice(verdict))


def _unloader(session: Session) -> Place | None:
    # Return the user's place at which a thread calls dlclose(), None if no thread does.
    process = session.process
    for thread in process.threads.ids():
        with suppress(OmpdError):
            frames = process.stacks.stack(thread).frames
            if any(process.places.locate(frame.call_site).symbol in _UNLOADING for frame in frames):
                return places.innermost_user_place(session, thread)
    return None
