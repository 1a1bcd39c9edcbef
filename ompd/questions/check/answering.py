"""The answer of ``check``: each runtime that a library serves, compared with our plugin for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.contract.plugin import AddressSpace
from ompd.errors import NoAnswer, OmpdError
from ompd.model.checks import CheckAnswer, CheckedLibrary, DifferenceRecord, EntrySeen
from ompd.questions.check.compare import Fact, compare
from ompd.questions.check.facts import REFUSED, Outcome, function_of
from ompd.questions.check.hosted import OfLibrary
from ompd.questions.check.interface import NativeThread, OfSpace
from ompd.questions.check.known import Explained, Known, KnownLibrary, Seen
from ompd.questions.facts.answers import answer, begin, readable_runtimes
from ompd.questions.runtimes import records
from ompd.runtimes.hosted.handles.space import HostedSpace
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> CheckAnswer:
    """Return where the library that the user named, or the runtime itself names, differs from our own plugin.

    :raises NoAnswer: if no library serves a runtime of the process, or none of ours does
    """
    problems = begin(session)
    known = Known()
    rows: list[DifferenceRecord] = []
    libraries: list[CheckedLibrary] = []
    entries: list[EntrySeen] = []
    reasons: list[OmpdError | str] = []
    for runtime in readable_runtimes(session, problems):
        hosted = runtime.space
        if not isinstance(hosted, HostedSpace):
            reasons.append(f"no library serves {runtime.id}")
            continue
        try:
            ours = own_space(session, runtime)
        except OmpdError as error:
            reasons.append(error)
            continue
        if ours is None:
            reasons.append(f"ompd has no plugin for {runtime.id} to compare the library with")
            continue
        library, seen = _check(session, known, runtime, (hosted, ours), rows)
        libraries.append(library)
        entries += seen
    faults = session.hosted_faults
    if not libraries:
        _raise(session, [*faults, *reasons])
    for reason in [*faults, *reasons]:
        problems.note(str(reason))
    for note in session.hosted_notes:
        problems.note(note)
    rows.sort(key=lambda row: (row.entry is not None, row.entry or 0))
    plain = answer(session, rows, records(session, problems), problems)
    return CheckAnswer(
        plain.target, plain.runtimes, plain.rows, plain.complete, plain.warnings, tuple(libraries), tuple(entries)
    )


def own_space(session: Session, runtime: LoadedRuntime) -> AddressSpace | None:
    """Return the runtime as the plugin has it that would serve it without a library, None if there is none.

    :raises OmpdError: if that cannot read it
    """
    module = runtime.found.module
    for found in session.own_runtimes(session.process):
        if found.module is module and found.plugin is not None:
            return found.plugin.process_initialize(session.process.contract, module)
    return None


def is_news(found: CheckAnswer) -> bool:
    """Return whether there is a difference that no entry explains, or an entry is not seen where it should be."""
    return any(row.entry is None for row in found.rows) or any(entry.state == "gone" for entry in found.entries)


def _raise(session: Session, reasons: Sequence[OmpdError | str]) -> None:
    hints = [each.hint for each in reasons if isinstance(each, OmpdError) and each.hint]
    texts = [str(each) for each in reasons] or ["no OpenMP runtime in it has started"]
    raise NoAnswer(f"{session.target.name}: {'; '.join(texts)}", hint=hints[0] if hints else "")


def _check(
    session: Session,
    known: Known,
    runtime: LoadedRuntime,
    spaces: tuple[HostedSpace, AddressSpace],
    rows: list[DifferenceRecord],
) -> tuple[CheckedLibrary, Sequence[EntrySeen]]:
    hosted, ours = spaces
    by = runtime.found.hosted
    file, version, digest = (by.file, by.version, by.digest) if by is not None else ("", "", "")
    which = known.identify(digest, version)
    explained = Explained(known, which)
    module = runtime.found.module
    facts = compare(
        OfLibrary(hosted.client, hosted.space_ref, hosted.id_size),
        OfSpace(ours),
        _threads(session),
        keeps_states=ours.keeps_states(),
        is_runtime=lambda address: session.process.symbols.module_at(address) is module,
    )
    counts = _Counts()
    for fact in facts:
        entry = explained.entry_of(fact)
        counts.add(fact, entry)
        if not fact.is_same:
            rows.append(_record(runtime, fact, entry))
    seen = [_seen(runtime, which, each) for each in explained.seen()]
    return counts.of(runtime, file, version, which), seen


def _threads(session: Session) -> Sequence[NativeThread]:
    return list(_each_thread(session))


def _each_thread(session: Session) -> Iterator[NativeThread]:
    for thread in session.process.threads.ids():
        try:
            yield NativeThread(thread, session.process.threads.pthread_self(thread))
        except OmpdError:
            yield NativeThread(thread, None)


class _Counts:
    # How many facts there were, and what became of them.

    def __init__(self) -> None:
        self.facts = self.same = self.explained = 0

    def add(self, fact: Fact, entry: int | None) -> None:
        self.facts += 1
        if fact.is_same:
            self.same += 1
        elif entry is not None:
            self.explained += 1

    def of(self, runtime: LoadedRuntime, file: str, version: str, which: KnownLibrary) -> CheckedLibrary:
        left = self.facts - self.same - self.explained
        known = which.vendor, which.release, which.what
        return CheckedLibrary(runtime.id, file, version, *known, self.facts, self.same, self.explained, left)


def _record(runtime: LoadedRuntime, fact: Fact, entry: int | None) -> DifferenceRecord:
    sides = {"library": fact.theirs, "ours": fact.ours}
    unavailable = {name: _reason(side) for name, side in sides.items() if side.kind == REFUSED}
    subject = fact.subject
    return DifferenceRecord(
        subject.kind,
        subject.id,
        subject.thread,
        runtime.id,
        fact.name,
        function_of(fact.name),
        _value(fact.theirs),
        _value(fact.ours),
        entry,
        unavailable,
    )


def _value(side: Outcome) -> str | None:
    return side.text if side.kind == "value" or side.text == "not written" else None


def _reason(side: Outcome) -> str:
    return f"ompd_rc_{side.text}: {side.reason}" if side.reason else f"ompd_rc_{side.text}"


def _seen(runtime: LoadedRuntime, which: KnownLibrary, each: Seen) -> EntrySeen:
    state = "seen" if each.explains else "not_seen" if each.places else "not_here"
    return EntrySeen(
        runtime.id,
        each.entry.number,
        each.entry.title,
        "gone" if each.is_gone else state,
        each.places,
        each.explains,
        each.entry.standard,
    )
