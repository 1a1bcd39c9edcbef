"""``doctor`` as lines: findings by area, each with its consequence and its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ompd.model.findings import DoctorAnswer, FindingRecord, LoadChain
from ompd.render.words import LISTED, basename, clean, format_count

_TITLES = {
    "target": "TARGET",
    "files": "FILES",
    "process": "PROCESS",
    "machine": "THIS MACHINE",
    "installation": "THIS INSTALLATION",
}
_STYLES = {"error": "failed", "warning": "wait", "note": ""}
_BEGINS = {
    "program": "the program needs it",
    "preload": "the first one was loaded before the program's libraries (LD_PRELOAD)",
    "dlopen": "the first one was loaded while the program ran (dlopen)",
}
_ARROW = " -> "


def finding_lines(answer: DoctorAnswer, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines, each with its style."""
    area = None
    for row in answer.rows:
        if row.area != area:
            if area is not None:
                yield "", ""
            area = row.area
            yield _TITLES.get(area, area), "head"
        yield from _row(row)
    if answer.rows:
        yield "", ""
    yield _summary(answer), "head"
    if verbose:
        for text in answer.in_order:
            yield f"  in order: {text}", "dim"


def _row(row: FindingRecord) -> Iterator[tuple[str, str]]:
    finding = row.finding if row.finding is not None else f"not known: {row.unavailable.get('finding', '?')}"
    yield f"  {row.severity}: {finding}", _STYLES.get(row.severity, "")
    for chain in row.chains:
        yield f"    {_chain(chain)}", ""
    yield f"    means:  {row.consequence}", ""
    yield f"    remedy: {row.remedy if row.remedy is not None else 'none'}", ""


def _chain(chain: LoadChain) -> str:
    begins = _BEGINS.get(chain.begins or "", f"how it came is not known: {chain.unavailable.get('begins', '?')}")
    path = _ARROW.join(basename(name) for name in chain.modules)
    users = [name for name in chain.needed_by if name not in chain.modules]
    hidden = f" and {len(users) - LISTED} more" if len(users) > LISTED else ""
    users_text = f"; also needed by {', '.join(basename(name) for name in users[:LISTED])}{hidden}" if users else ""
    if len(chain.modules) == 1 and chain.begins == "program":
        return f"{path}: is linked into the program"
    return f"{path}: {begins}{users_text}"


def _summary(answer: DoctorAnswer) -> str:
    counts = Counter(row.severity for row in answer.rows)
    counted = [format_count(counts[severity], severity) for severity in _STYLES if counts[severity]]
    examined = format_count(len(answer.in_order), "thing is", "things are")
    if not counted:
        about = "answers cannot be better" if answer.target.kind != "machine" else "nothing stands in the way of ompd"
        return clean(f"nothing is wrong: {about}; {examined} in order")
    return clean(
        f"{', '.join(counted)}; {examined} in order" + ("" if answer.complete else "; not all could be examined")
    )
