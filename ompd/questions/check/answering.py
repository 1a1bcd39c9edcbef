"""The answer of ``check``: each runtime that a library serves, compared with our plugin for it."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import AddressSpace
from ompd.errors import NoAnswer, OmpdError
from ompd.model.checks import CheckAnswer, CheckedLibrary, DifferenceRecord, EntrySeen
from ompd.questions.check.compare import REFUSED, Fact, Outcome, compare, function_of
from ompd.questions.check.known import EntryTally, Explained, Known, KnownLibrary
from ompd.questions.check.ompd_library import LibraryAnswers
from ompd.questions.check.plugin import NativeThread, PluginAnswers
from ompd.questions.facts.answers import answer, begin, readable_runtimes
from ompd.questions.runtimes import records
from ompd.runtimes.hosted.handles.space import HostedSpace
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> CheckAnswer:
    """Return the differences between our plugin and the library for debuggers that the user or the runtime names.

    :raises NoAnswer: if no runtime of the process has both a library and a plugin
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
        library, library_entries = _check(session, known, runtime, (hosted, ours), rows)
        libraries.append(library)
        entries += library_entries
    faults = session.hosted_faults
    if not libraries:
        _raise_no_answer(session, [*faults, *reasons])
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
    """Return the runtime's address space by the plugin that would serve it without a library, None without a plugin.

    :raises OmpdError: if the plugin cannot read it
    """
    module = runtime.found.module
    for own_runtime in session.own_runtimes(session.process):
        if own_runtime.module is module and own_runtime.plugin is not None:
            return own_runtime.plugin.process_initialize(session.process.contract, module)
    return None


def is_news(answer: CheckAnswer) -> bool:
    """Return whether a difference has no entry in the table, or an entry's difference no longer occurs."""
    return any(row.entry is None for row in answer.rows) or any(entry.state == "gone" for entry in answer.entries)


def _raise_no_answer(session: Session, reasons: Sequence[OmpdError | str]) -> None:
    hints = [reason.hint for reason in reasons if isinstance(reason, OmpdError) and reason.hint]
    texts = [str(reason) for reason in reasons] or ["no OpenMP runtime in it has started"]
    raise NoAnswer(f"{session.target.name}: {'; '.join(texts)}", hint=hints[0] if hints else "")


def _check(
    session: Session,
    known: Known,
    runtime: LoadedRuntime,
    spaces: tuple[HostedSpace, AddressSpace],
    rows: list[DifferenceRecord],
) -> tuple[CheckedLibrary, Sequence[EntrySeen]]:
    hosted, ours = spaces
    served_by = runtime.found.hosted
    file, version, digest = (
        (served_by.file, served_by.version, served_by.digest) if served_by is not None else ("", "", "")
    )
    library = known.identify(digest, version)
    explained = Explained(known, library)
    facts = compare(
        LibraryAnswers(
            hosted.hosted_library, hosted.ref, {kind: hosted.all_threads.id_size(kind) for kind in ThreadIdKind}
        ),
        PluginAnswers(ours),
        _threads(session),
        keeps_states=ours.keeps_states(),
        symbols=session.process.symbols,
        runtime=runtime.found.module,
    )
    counts = _Counts()
    for fact in facts:
        entry = explained.entry_of(fact)
        counts.add(fact, entry)
        if not fact.is_same:
            rows.append(_record(runtime, fact, entry))
    entries = [_entry_seen(runtime, tally) for tally in explained.tallies()]
    return counts.summary(runtime, file, version, library), entries


def _threads(session: Session) -> Sequence[NativeThread]:
    threads = []
    for thread in session.process.threads.ids():
        try:
            pthread = session.process.threads.pthread_self(thread)
        except OmpdError:
            pthread = None
        threads.append(NativeThread(thread, pthread))
    return threads


class _Counts:
    # Counts all facts, those with equal answers, and the differences that an entry explains.

    def __init__(self) -> None:
        self.facts = 0
        self.same = 0
        self.explained = 0

    def add(self, fact: Fact, entry: int | None) -> None:
        self.facts += 1
        if fact.is_same:
            self.same += 1
        elif entry is not None:
            self.explained += 1

    def summary(self, runtime: LoadedRuntime, file: str, version: str, known: KnownLibrary) -> CheckedLibrary:
        return CheckedLibrary(
            runtime.id,
            file,
            version,
            known.vendor,
            known.release,
            known.what,
            self.facts,
            self.same,
            self.explained,
            self.facts - self.same - self.explained,
        )


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


def _entry_seen(runtime: LoadedRuntime, tally: EntryTally) -> EntrySeen:
    state = "seen" if tally.explains else "not_seen" if tally.places else "not_here"
    return EntrySeen(
        runtime.id,
        tally.entry.number,
        tally.entry.title,
        "gone" if tally.is_gone else state,
        tally.places,
        tally.explains,
        tally.entry.standard,
    )
