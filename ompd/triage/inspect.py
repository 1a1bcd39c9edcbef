"""Makes the result of one target: a JSON object of at most ten kilobytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ompd.debugger.files.finder import FileOptions
from ompd.errors import NoAnswer, OmpdError
from ompd.machine.ranks import rank_of
from ompd.model import Answer, RuntimeRecord, StackFrame, StackRecord, WhyAnswer
from ompd.questions import stacks, why
from ompd.questions.facts.damage import in_what_is_left, is_damaged
from ompd.questions.stacks.loops import Loops
from ompd.questions.why.system import communication
from ompd.session import Session
from ompd.triage.normal import Frame, rolled
from ompd.triage.targets import Wanted

LONGEST = 10_000
"""The size limit of a result as JSON, in bytes."""

CRASH, NO_OPENMP, UNDECIDED = "crash", "no_openmp", "undecided"

_MOST_NAME, _MOST_TEXT = 160, 400
_OUTERMOST, _INNERMOST = 8, 24  # frames to keep of a stack that is too long
_LOOKS, _SECONDS_BETWEEN = 2, 0.5  # the samples of a live process
_MOST_STACKS = 64
_MOST_RUNTIMES = 8
# The names of MPI's routines in C and Fortran, with or without the P of the profiling interface.
_CALL = re.compile(r"P?MPI_[A-Z]\w*|p?mpi_\w+_")
_MOST_CALLS = 8  # limit of MPI calls
_MOST_THREADS = 512  # limit of threads that are searched for MPI calls
_MPI = "libmpi"  # part of the names of Open MPI's, MPICH's and Intel's libraries


def inspect(wanted: Wanted, files: FileOptions, *, max_size: int, max_stop: float | None = None) -> dict[str, Any]:
    """Return the verdict on a target, the stacks of its threads, and its rank, as a result.

    :param max_size: the limit for an unpacked core, in bytes
    :param max_stop: how long a live process may be stopped, in milliseconds
    :raises OmpdError: if the target has no answer, or too little is left of a truncated core
    """
    if wanted.process_id is None:
        with Session.open_core(wanted.name, files, max_size=max_size) as session:
            return _answer(session, None)
    with Session.attach(wanted.process_id, files, max_stop=max_stop) as session:
        earlier = None
        with suppress(NoAnswer):
            earlier = why.look_before(session, _LOOKS, _SECONDS_BETWEEN, beside=False)
        return session.ask(lambda session: _answer(session, earlier), may_stop=earlier is None or earlier.may_stop)


def _answer(session: Session, earlier: Any) -> dict[str, Any]:
    no_answer: OmpdError | None = None
    why_answer: WhyAnswer | None = None
    try:
        why_answer = why.ask(session, earlier)
    except NoAnswer as error:
        no_answer = error
    all_stacks = stacks.ask(session, fold=True)
    failed = next((row for row in all_stacks.rows if row.failed is True and row.frames), None)
    verdict = why_answer.rows[0] if why_answer is not None and why_answer.rows else None
    if failed is None and is_damaged(session) and (verdict is None or verdict.kind == UNDECIDED):
        raise no_answer or in_what_is_left(session, NoAnswer("why its threads wait is unknown"))
    kept = _Stacks(Loops(session))
    for row in all_stacks.rows:
        kept.add(row)
    about: tuple[StackRecord, ...]
    if failed is not None:
        kind, summary, about = CRASH, _crash(failed), (failed,)
    elif verdict is not None:
        kind, summary, about = verdict.kind, verdict.summary, verdict.stacks
    else:
        kind, summary, about = _without_openmp(session, all_stacks, no_answer)
    result = {
        "verdict": kind,
        "stuck": verdict.stuck if verdict is not None and failed is None else None,
        "summary": summary[:_MOST_TEXT],
        "runtimes": [_runtime(row) for row in all_stacks.runtimes[:_MOST_RUNTIMES]],
        "program": _name(all_stacks.target.command or all_stacks.target.executable),
        "pid": all_stacks.target.process_id,
        **_rank(session),
        "about": [kept.add(row, counts=False) for row in about],
        "mpi": _mpi_calls(session, all_stacks),
        "complete": all_stacks.complete and (why_answer is None or why_answer.complete),
        "is_cut": is_damaged(session),
    }
    return _small(result, kept)


def _crash(row: StackRecord) -> str:
    first = _shown(row.frames)[0]
    where = f" {first.file.rpartition('/')[2]}:{first.line}" if first.file else ""
    return f"{row.signal_name or f'signal {row.signal}'} in {first.function or '?'}{where}"


def _without_openmp(
    session: Session, all_stacks: Answer[StackRecord], no_answer: OmpdError | None
) -> tuple[str, str, tuple[StackRecord, ...]]:
    if not all_stacks.rows:
        raise no_answer or NoAnswer(f"{session.target.name}: has no threads")
    first = next(
        (row for row in all_stacks.rows if row.native_thread_id == all_stacks.target.process_id), all_stacks.rows[0]
    )
    if no_answer is not None and all_stacks.runtimes:
        return UNDECIDED, str(no_answer), (first,)
    return NO_OPENMP, "no OpenMP runtime is in the process", (first,)


def _rank(session: Session) -> dict[str, Any]:
    try:
        rank = rank_of(session.process.environment.current()[0])
    except OmpdError:
        return {"rank": None, "size": None, "job": None, "host": None}
    return {"rank": rank.rank, "size": rank.size, "job": _name(rank.job), "host": _name(rank.host)}


def _mpi_calls(session: Session, all_stacks: Answer[StackRecord]) -> list[dict[str, Any]]:
    # Return the MPI calls in which threads wait, each once.
    calls: dict[str, dict[str, Any]] = {}
    if not any(_MPI in (module.name or "") for module in session.process.modules):
        return []
    natives = [native for row in all_stacks.rows if not row.idle for native in (row.threads or (row.native_thread_id,))]
    for native in natives[:_MOST_THREADS]:
        with suppress(OmpdError):
            wait = session.process.system_waits.of(native) if native is not None else None
            if native is not None and wait is not None and wait.kind == "mpi" and wait.routine is not None:
                call = _call(session, native, wait.routine)
                calls.setdefault(json.dumps(call), call)
    return list(calls.values())[:_MOST_CALLS]


def _call(session: Session, native: int, routine: str) -> dict[str, Any]:
    side = None
    with suppress(OmpdError):
        side = communication(session, native, routine)
    rank = side.rank if side is not None and side.rank is not None and side.rank >= 0 else None
    return {
        "routine": routine[:_MOST_NAME],
        "link": side.link if side is not None else None,
        "rank": rank,
        "world": side.is_world if side is not None else None,
    }


def _runtime(row: RuntimeRecord) -> str:
    return f"{row.kind} {row.version}"[:_MOST_NAME] if row.version is not None else row.kind


def _name(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_NAME else f"{text[:_MOST_NAME]}…"


def _shown(frames: Sequence[StackFrame]) -> list[StackFrame]:
    # Return the frames without those inside of an MPI call. A waiting rank polls there, so they vary by chance.
    shown = [frame for frame in frames if frame.kind in ("user", "unknown")] or list(frames)
    call = next((n for n in range(len(shown) - 1, -1, -1) if _CALL.fullmatch(shown[n].function or "")), 0)
    return shown[call:]


def _role(row: StackRecord, thread_num: int | None) -> str:
    if row.thread_num is None and row.runtime is None:
        return "other"
    if row.idle:
        return "idle"
    if not row.level:
        return "initial"
    return "worker" if thread_num else "primary"


class _Stacks:
    """The stacks of one target, each once, with the number of threads in each role."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._numbers: dict[tuple[Frame, ...], int] = {}
        self.threads: list[Counter[str]] = []

    def add(self, row: StackRecord, *, counts: bool = True) -> int:
        """Add the stack of a row, and return the stack's number."""
        # A failed thread keeps its own line and gets no line of a loop, because it has crashed at its line.
        loops = self._loops.around(row) if row.failed is not True else {}
        frames = tuple(rolled([_frame(frame, loops.get(id(frame))) for frame in reversed(_shown(row.frames))]))
        number = self._numbers.setdefault(frames, len(self._numbers))
        if number == len(self.threads):
            self.threads.append(Counter())
        if counts:
            for thread_num in row.thread_nums or (row.thread_num,):
                self.threads[number][_role(row, thread_num)] += 1
        return number

    def __iter__(self) -> Iterator[tuple[tuple[Frame, ...], Counter[str]]]:
        return zip(self._numbers, self.threads, strict=True)


def _frame(frame: StackFrame, loop: int | None) -> Frame:
    if _CALL.fullmatch(frame.function or ""):
        return Frame((frame.function or "").lstrip("Pp"), None, None)
    construct = frame.construct
    kind = (construct.kind or "construct") if construct is not None else None
    return Frame(_name(frame.function), _name(frame.file), frame.line, loop, construct=kind)


def _small(result: dict[str, Any], kept: _Stacks) -> dict[str, Any]:
    # The verdict's stacks come first, then the stacks with most threads, until the result is full.
    files: dict[str, int] = {}
    all_stacks = [(frames, dict(sorted(threads.items()))) for frames, threads in kept]
    about = dict.fromkeys(result["about"])
    rest_by_threads = sorted(
        (n for n in range(len(all_stacks)) if n not in about), key=lambda n: (-sum(all_stacks[n][1].values()), n)
    )
    order = [*about, *rest_by_threads][:_MOST_STACKS]
    for longest in (None, _OUTERMOST + _INNERMOST, _OUTERMOST):
        files.clear()
        stacks = [{"frames": [*_packed(all_stacks[n][0], longest, files)], "threads": all_stacks[n][1]} for n in order]
        packed = {**result, "about": [*range(len(about))], "stacks": stacks}
        packed |= {"files": list(files), "left_out": len(all_stacks) - len(order)}
        if _size(packed) <= LONGEST:
            return packed
    while stacks and _size(packed) > LONGEST:
        stacks.pop()
        packed["left_out"] += 1
        packed["about"] = [n for n in packed["about"] if n < len(stacks)]
    return packed


def _packed(frames: Sequence[Frame], longest: int | None, files: dict[str, int]) -> Iterator[list[Any]]:
    chosen = list(frames)
    if longest is not None and len(chosen) > longest:
        gap = len(chosen) - longest
        outer = min(_OUTERMOST, longest // 2)
        chosen = [*chosen[:outer], Frame(f"… {gap} frames …", None, None), *chosen[outer + gap :]]
    for frame in chosen:
        file = files.setdefault(frame.file, len(files)) if frame.file is not None else None
        yield [frame.function, file, frame.line, frame.loop, frame.depth, frame.construct]


def _size(packed: dict[str, Any]) -> int:
    return len(json.dumps(packed))
