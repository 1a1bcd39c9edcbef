"""Stacks of the threads that verdicts name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os.path import normpath

from ompd.model import Answer, Place, StackRecord, VerdictRecord
from ompd.model.kinds import Kind
from ompd.questions import stacks
from ompd.session import Session

_INTERPRETS = re.compile("_?Py")
_VERDICTS = 3  # how many of the first verdicts get stacks
_STACKS = 2  # how many stacks a verdict has
_SYSTEM = ("/usr/include/", "/usr/lib/")  # headers of the C and C++ libraries, and of compilers
_CANDIDATES = 4  # how many threads are looked at to find stacks that differ


def add_stacks(
    session: Session, verdicts: Sequence[VerdictRecord]
) -> tuple[tuple[VerdictRecord, ...], Answer[StackRecord] | None]:
    """Return the verdicts, the first ones with the stacks of threads that they name, and the answer that these are of.

    Only frames of the user's code are kept. The answer is None if no verdict names a thread of the process.
    """
    alive = set(session.process.threads.ids())
    named = [[native for native in _named(verdict) if native in alive] for verdict in verdicts[:_VERDICTS]]
    wanted = {native for some in named for native in some[:_CANDIDATES]}
    if not wanted:
        return tuple(verdicts), None
    answer = stacks.ask(session, threads=wanted)
    found = {row.native_thread_id: _of_user(row) for row in answer.rows}
    first = [
        replace(_in_source(verdict, found), stacks=tuple(_different(found, some[:_CANDIDATES])))
        for verdict, some in zip(verdicts, named, strict=False)
    ]
    return (*first, *verdicts[len(first) :]), answer


def _named(verdict: VerdictRecord) -> Iterator[int]:
    # Those on which the others depend come first; of the links the last one is nearest to where the waits end.
    links = [link.thread for link in reversed(verdict.cycle) if link.thread is not None]
    yield from dict.fromkeys((*verdict.roots[:_CANDIDATES], *links[:_CANDIDATES]))


def _in_source(verdict: VerdictRecord, found: Mapping[int | None, StackRecord]) -> VerdictRecord:
    # Headers of the system are expanded into the user's code, as std::mutex::lock is: who called them is meant.
    callers: dict[Place, Place] = {}
    links = []
    for link in verdict.cycle:
        stack = found.get(link.thread)
        caller = _caller_of_interpreter(stack) if link.kind is Kind.GIL else _caller(link.where, stack)
        if caller is not None and link.where is not None:
            callers[link.where] = caller
        links.append(replace(link, where=caller or link.where))
    place = verdict.place
    return replace(verdict, cycle=tuple(links), place=callers.get(place, place) if place is not None else None)


def _caller(place: Place | None, stack: StackRecord | None) -> Place | None:
    if place is None or stack is None or place.file is None or not _is_system(place.file):
        return None
    own = (f for f in stack.frames if f.file is not None and not _is_system(f.file))
    return next((Place(f.address, f.function, f.file, f.line, f.unproven) for f in own), None)


def _caller_of_interpreter(stack: StackRecord | None) -> Place | None:
    # Who needs the interpreter lock: the code that called the interpreter, if it is another file's, with its own line.
    frames = stack.frames if stack is not None else ()
    module = frames[0].module if frames else None
    own = next((f for f in frames if f.module != module), None)
    if own is None or own.file is None or _INTERPRETS.match(own.function or ""):
        return None
    return Place(own.address, own.function, own.file, own.line, own.unproven)


def _is_system(file: str) -> bool:
    # clang writes headers as "/usr/bin/../lib/gcc/…/../../include/…".
    return normpath(file).startswith(_SYSTEM)


def _of_user(row: StackRecord) -> StackRecord:
    own = tuple(frame for frame in row.frames if frame.kind in ("user", "unknown"))
    return replace(row, frames=own or row.frames)


def _different(found: Mapping[int | None, StackRecord], natives: Iterable[int]) -> Iterator[StackRecord]:
    # Threads that stand in the same place have one stack between them.
    seen: set[object] = set()
    for native in natives:
        row = found.get(native)
        places = tuple((f.function, f.file, f.line) for f in row.frames) if row is not None else ()
        if row is not None and places and places not in seen and len(seen) < _STACKS:
            seen.add(places)
            yield row
