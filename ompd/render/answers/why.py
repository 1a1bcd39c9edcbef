"""``why`` as text: the verdicts, the first ones in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ompd.model import (
    Answer,
    ChildRecord,
    DifferingVariable,
    DistinctValue,
    Evidence,
    Link,
    StackRecord,
    TargetRecord,
    VerdictRecord,
    WhyAnswer,
)
from ompd.model.kinds import Confidence, EdgeKind, Kind, VerdictKind
from ompd.render.answers.stacks import stack_lines
from ompd.render.excerpts import excerpt_lines
from ompd.render.words import UNKNOWN, abridge_ranges, clean, format_count, format_place, format_threads
from ompd.safety.quoting import quote_file

_FULL = 3  # verdicts in more than one line
_RANKS = 3  # other ranks in a line each; further ones are only counted
_BRIEF = 8  # verdicts in one line; further ones are only counted
_LINKS, _SHORT = 8, 3  # links of the first verdict, and of the others
_FRAMES = 8
_UNKNOWNS = 3
_WIDEST = 40  # characters of a thread's activity
_STEPS = 6  # steps shown of waits for tasks
_VALUES, _LONGEST = 4, 60  # values of a variable, and characters of one
_LABEL = 10  # width of the column of labels
_RULE = "─" * 8
_NEXT = "next"

STUCK = {
    Confidence.PROVEN: "certain: nothing that could not be read can change this",
    Confidence.LIKELY: "likely: something else that could free them was not ruled out",
    Confidence.POSSIBLE: "possible: they may be stuck",
    Confidence.UNKNOWN: "not known: these threads may go on",
}
"""What ``stuck`` means, the confidence that threads never go on."""
CAUSE = {
    Confidence.PROVEN: "certain: read from the program's memory",
    Confidence.LIKELY: "likely: inferred from the code and the stacks",
    Confidence.POSSIBLE: "possible: nothing that was read speaks against it",
    Confidence.UNKNOWN: "not known",
}
"""What ``confidence`` means, the confidence in the cause."""
MEASURED = {
    Confidence.PROVEN: "certain: measured",
    Confidence.LIKELY: "likely: what was measured may not be the only reason",
    Confidence.POSSIBLE: "possible: nothing that was read speaks against it",
    Confidence.UNKNOWN: "not known",
}
"""What ``confidence`` means in a verdict on processors and limits."""
_SHORT_STUCK = {
    Confidence.PROVEN: "certain: these threads never go on",
    Confidence.LIKELY: "likely: these threads never go on",
    Confidence.POSSIBLE: "possible: they may be stuck",
    Confidence.UNKNOWN: "these threads may go on",
}
# What is wrong, in one word; everything else is a hang. Summaries of cycles begin with their word.
_NOUNS: Mapping[VerdictKind, str] = {
    VerdictKind.RUNTIME_REENTRY: "deadlock",
    VerdictKind.DUPLICATE_RUNTIMES: "deadlock",
    VerdictKind.RUNTIME_UNLOADED: "crash",
}
_HOLDERS: Mapping[str, str] = {
    EdgeKind.HELD_BY: "held by {}",
    EdgeKind.MEMBER: "{} has not arrived",
    EdgeKind.EXECUTES: "executed by {}",
    EdgeKind.WAITS_FOR: "which needs {}",
}
_OTHER_HOLDERS = frozenset((EdgeKind.CHILD, EdgeKind.DEPENDS_ON, EdgeKind.MAY_RUN))


def why_lines(
    answer: Answer[VerdictRecord], *, unfold: bool = False, verbose: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the lines of ``why``, each with its style. *unfold* and *verbose* show all verdicts in full."""
    whole = unfold or verbose
    full = answer.rows if whole else answer.rows[:_FULL]
    for number, verdict in enumerate(full):
        if number:
            yield "", ""
        yield from _verdict(answer, verdict, is_first=number == 0, whole=whole, verbose=verbose)
    further = answer.rows[len(full) :]
    if further:
        yield "", ""
    for verdict in further[:_BRIEF]:
        stuck = "" if verdict.is_about_supply else f" ({_SHORT_STUCK[verdict.stuck]})"
        yield f"also: {headline(verdict)}{stuck}", _style(verdict)
    if len(further) > _BRIEF:
        yield f"… {format_count(len(further) - _BRIEF, 'more verdict')}, shown with --all", "dim"


def headline(verdict: VerdictRecord) -> str:
    """Return the summary behind the leading words for what is wrong and how sure that is: ``likely hang: …``."""
    kind, stuck, summary = verdict.kind, verdict.stuck, verdict.summary
    if kind in (VerdictKind.NO_STALL, VerdictKind.SMALL_TEAM) or summary.startswith("no "):
        return summary
    if verdict.is_about_supply:
        return summary if kind is VerdictKind.LIMITS else f"slow: {summary}"
    if stuck is Confidence.UNKNOWN:
        return f"{'slow' if kind is VerdictKind.OVERSUBSCRIBED else 'waiting'}: {summary}"
    noun = _NOUNS.get(kind, "hang")
    if stuck is Confidence.POSSIBLE and noun == "hang" and not summary.startswith("deadlock"):
        return f"possibly stuck: {summary}"
    named = summary if summary.startswith("deadlock") else f"{noun}: {summary}"
    return named if stuck is Confidence.PROVEN else f"{stuck} {named}"


def sentence(text: str) -> str:
    """Return a text as a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def _style(verdict: VerdictRecord) -> str:
    if verdict.stuck is Confidence.PROVEN:
        return "failed"
    if verdict.stuck in (Confidence.LIKELY, Confidence.POSSIBLE) or verdict.kind is VerdictKind.UNDECIDED:
        return "wait"
    return "head"


def _labelled(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}} {text}"


def _verdict(
    answer: Answer[VerdictRecord], verdict: VerdictRecord, *, is_first: bool, whole: bool, verbose: bool
) -> Iterator[tuple[str, str]]:
    # Yield the verdict, the place and the steps to take; then how the verdict is known.
    yield sentence(headline(verdict)), _style(verdict)
    if verdict.others is not None:
        yield sentence(verdict.others), ""
    in_full = is_first or whole
    is_certainty_told = verdict.kind is VerdictKind.NO_STALL or verdict.stuck is Confidence.POSSIBLE
    if not is_certainty_told and not verdict.is_about_supply:
        yield sentence(_SHORT_STUCK[verdict.stuck]), ""
    beside = beside_of(answer, whole=whole) if is_first and isinstance(answer, WhyAnswer) else ()
    yield from ((said_of(other), "wait") for other in beside)
    if is_first and isinstance(answer, WhyAnswer):
        yield from ((line, "dim") for line in _further_ranks(answer, whole=whole))
    for excerpt in verdict.sources if in_full else ():
        if verbose or excerpt.lines:
            yield "", ""
            yield from ((f"  {line}".rstrip(), style) for line, style in excerpt_lines(excerpt))
    steps = [(_NEXT, f"ompd why {other.process_id}") for other in beside]
    steps += steps_of(verdict, answer.target, verbose=verbose) if in_full else []
    if steps:
        yield "", ""
        yield from ((_labelled(label, text), "" if label == _NEXT else "head") for label, text in steps)
    details = list(_details(answer, verdict, is_first=is_first, whole=whole, verbose=verbose))
    if details and in_full:
        yield "", ""
        yield f"  {_RULE} how this is known", "dim"
    yield from details


def beside_of(answer: WhyAnswer, *, whole: bool = False) -> tuple[ChildRecord, ...]:
    """Return the child processes and the other ranks to name, all waiting ranks if *whole*."""
    ranks = answer.other_ranks.waiting if answer.other_ranks is not None else ()
    return (*answer.children, *(ranks if whole else ranks[:_RANKS]))


def said_of(other: ChildRecord) -> str:
    """Return the sentence about a child process or another rank."""
    kind = f"rank {other.rank}, process" if other.rank is not None else "child process"
    program = f" ({clean(other.program)})" if other.program is not None else ""
    return sentence(f"{kind} {other.process_id}{program}: {other.summary}; {_SHORT_STUCK[other.stuck]}")


def _further_ranks(answer: WhyAnswer, *, whole: bool) -> Iterator[str]:
    ranks = answer.other_ranks
    if ranks is None:
        return
    hidden = () if whole else ranks.waiting[_RANKS:]
    if hidden:
        numbers = abridge_ranges([other.rank for other in hidden if other.rank is not None])
        yield f"… {format_count(len(hidden), 'more rank')} ({numbers}) with waiting threads, shown with --all"
    if ranks.inspected < ranks.on_host:
        yield f"{ranks.inspected} of {ranks.on_host} other ranks on this host were looked at."


def steps_of(verdict: VerdictRecord, target: TargetRecord, *, verbose: bool = False) -> Iterator[tuple[str, str]]:
    """Yield what to do after reading a verdict, each step as its label and its text."""
    for number, text in enumerate(verdict.advice):
        yield "" if number else "do this", sentence(text)
    if verdict.place is not None and not any(excerpt.lines for excerpt in verdict.sources):
        yield "look at", format_place(verdict.place, verbose=verbose)
    if verdict.next_step is not None:
        yield _NEXT, _command(verdict.next_step, target)


def sureness_of(verdict: VerdictRecord) -> Iterator[tuple[str, str]]:
    """Yield how sure a verdict is, each part as its label and its text."""
    if verdict.is_about_supply:
        yield "cause", MEASURED[verdict.confidence]
        return
    yield "stuck", STUCK[verdict.stuck]
    yield "cause", CAUSE[verdict.confidence]


def _details(
    answer: Answer[VerdictRecord], verdict: VerdictRecord, *, is_first: bool, whole: bool, verbose: bool
) -> Iterator[tuple[str, str]]:
    in_full = is_first or whole
    if verbose:
        yield _labelled("verdict", verdict.kind), ""
    if in_full and verdict.kind is not VerdictKind.NO_STALL:
        yield from ((_labelled(label, text), "") for label, text in sureness_of(verdict))
    yield from (
        (_labelled(label, text), "")
        for label, text in notes_on(verdict, is_first=is_first, whole=whole, verbose=verbose)
    )
    if verdict.cycle:
        yield "", ""
        most = len(verdict.cycle) if whole else _LINKS if is_first else _SHORT
        yield from ((line, "") for line in _chain(verdict.cycle, most, verbose))
        named = {native for link in verdict.cycle for native in link.threads}
        further = [native for native in verdict.explains if native not in named]
        if further:
            depend = "depends" if len(further) == 1 else "depend"
            yield f"  {format_count(len(further), 'more thread')} ({format_threads(further)}) {depend} on these", ""
    for stack in verdict.stacks if in_full else ():
        yield "", ""
        yield from _stack(answer, stack, whole=whole, verbose=verbose)


# The cycle or chain


def _chain(links: Sequence[Link], most: int, verbose: bool) -> Iterator[str]:
    cells = list(chain_rows(links, most, verbose=verbose))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield ("  " + "  ".join(map(str.ljust, row, widths))).rstrip()
    if len(links) > most:
        yield f"  … {format_count(len(links) - most, 'more link')}, shown with --all"


def chain_rows(links: Sequence[Link], most: int, *, verbose: bool = False) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each link its name, the object of its wait, its place, and how the object depends on the next link."""
    for link, holder in zip(links[:most], _holders(links), strict=False):
        yield _who(link, verbose), _what(link), format_place(link.where, verbose=verbose) if link.where else "", holder


def _who(link: Link, verbose: bool = False) -> str:
    if len(link.threads) > 1:
        natives = ",".join(map(str, link.threads)) if verbose else format_threads(link.threads)
        return f"{format_count(len(link.threads), 'thread')} ({natives})"
    return link.name


def _what(link: Link) -> str:
    if link.kind is Kind.THREAD:
        reason = link.object.removeprefix("it ").removeprefix("they ") or ("work" if len(link.threads) > 1 else "works")
        # A long reason why the thread is unknown is a sentence, shown below.
        return reason if len(reason) <= _WIDEST else UNKNOWN
    verb = "wait" if len(link.threads) > 1 else "waits"
    return f"{verb} {'at' if link.kind.is_place else 'for'} {link.object}"


def _holders(links: Sequence[Link]) -> Iterator[str]:
    # Yield how each object of a wait depends on the next thread; in a cycle the first thread follows the last.
    for link, following in zip(links, (*links[1:], links[0]), strict=True):
        after = "itself" if following is link and len(link.threads) < 2 else following.name
        if link.holder is None:
            yield "its holder is not known" if link.kind.is_lock else ""
        elif link.kind is Kind.JOIN and link.holder == EdgeKind.WAITS_FOR:
            yield f"which is {after}"
        elif link.holder in _HOLDERS:
            yield _HOLDERS[link.holder].format(after)
        elif link.holder in _OTHER_HOLDERS:
            yield f"which needs {after}"
        else:
            relation = "held by" if link.kind.is_lock else "which needs"
            yield f"{relation} {after}, inferred: {link.holder}"


# Stacks and notes


def _stack(
    answer: Answer[VerdictRecord], stack: StackRecord, *, whole: bool, verbose: bool
) -> Iterator[tuple[str, str]]:
    shown = Answer(answer.target, answer.runtimes, (stack,), True, ())
    for line, style in stack_lines(shown, unfold=whole, verbose=verbose, most=_FRAMES):
        yield f"  {line}", style if style == "dim" else ""


def notes_on(
    verdict: VerdictRecord, *, is_first: bool, whole: bool, verbose: bool, has_values: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield the notes on how a verdict is known, each as its label and its text.

    :param has_values: whether notes may show values of variables
    """
    if verdict.what_if is not None:
        yield "free", verdict.what_if
    if (verdict.kind.is_about_tasks or verdict.is_about_supply) and not verbose:
        # Neither tasks between threads nor processors are links, so show the evidence about them.
        for item in verdict.evidence[:_STEPS]:
            yield "because", item.text
    if verdict.branch is not None and (is_first or whole):
        place = format_place(verdict.branch, verbose=verbose)
        calls = " and ".join(clean(name)[:_LONGEST] for name in verdict.branch_calls[:_VALUES])
        returns = "return" if len(verdict.branch_calls) > 1 else "returns"
        by = f", by what {calls} {returns}" if calls else ""
        yield "branch", f"{place}: one side leads to the barrier, the other does not{by}"
        yield from dict.fromkeys(_variables(verdict.variables, verbose=verbose, has_values=has_values))
    most = len(verdict.unknowns) if whole else _UNKNOWNS if is_first else 1
    for unknown in verdict.unknowns[:most]:
        yield "not known", unknown
    if len(verdict.unknowns) > most:
        yield "", f"… {len(verdict.unknowns) - most} more, shown with --all"
    for item in verdict.evidence if verbose else ():
        yield "evidence", _evidence(item)


def _variables(variables: Sequence[DifferingVariable], *, verbose: bool, has_values: bool) -> Iterator[tuple[str, str]]:
    # A variable that the branch does not read, a loop's variable or the thread's number, is only shown if *verbose*.
    for variable in variables:
        if not variable.is_read and not verbose:
            continue
        parts = [
            *_values(variable.arrived, "at the barrier"),
            *_values(variable.absent, "that did not come"),
            *(f"unknown {_SIDES.get(key, key)}: {clean(reason)}" for key, reason in variable.unavailable.items()),
        ]
        differs = len({value.text for value in (*variable.arrived, *variable.absent)}) > 1
        values = f" = {'; '.join(parts)}" if has_values else ", whose values are left out here"
        yield "differs" if differs else "reads", f"{clean(variable.name)}{values}"


_SIDES = {"arrived": "at the barrier", "absent": "elsewhere"}


def _values(values: Sequence[DistinctValue], where: str) -> Iterator[str]:
    if not values:
        return
    count = format_count(sum(len(value.threads) for value in values), "thread")
    numbers = [value.value for value in values if isinstance(value.value, int) and not isinstance(value.value, bool)]
    if len(numbers) == len(values) and min(numbers) >= 0:
        shown = abridge_ranges(numbers)
    else:
        shown = ", ".join(clean(value.text)[:_LONGEST] for value in values[:_VALUES])
        shown += f", … ({len(values)} values)" if len(values) > _VALUES else ""
    yield f"{shown} in {count} {where}"


def _evidence(item: Evidence) -> str:
    read = f" [{item.address:#x}: {item.value:#x}]" if item.address is not None and item.value is not None else ""
    return f"{item.source}: {item.text}{read}"


def _command(text: str, target: TargetRecord) -> str:
    words = _target_words(target)
    return text.replace(" TARGET", f" {words}" if words else "")


def _target_words(target: TargetRecord) -> str:
    if target.kind == "live":
        return str(target.process_id)
    return quote_file(target.file) if target.kind == "core" and target.file is not None else ""
