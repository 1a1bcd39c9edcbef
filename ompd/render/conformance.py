"""``conformance`` as lines, and as JUnit's XML, which most servers of continuous integration read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from ompd.model.conformance import ConformanceAnswer, ConformanceFinding, news
from ompd.render.words import clean, format_count

_SHOWN_OTHERS = 3
# Characters that XML 1.0 forbids.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def lines(answer: ConformanceAnswer) -> Iterator[str]:
    """Yield lines about the trials, and the findings, unknown findings first."""
    yield f"{clean(answer.file)}"
    yield f"  says       {clean(answer.version) or 'nothing of itself'}, version {answer.api_version} of the interface"
    yield f"  tried on   {', '.join(map(clean, answer.programs)) or 'no program'}"
    known = len(answer.rows) - len(news(answer))
    counts = f"{format_count(len(answer.rows), 'finding')} in {format_count(answer.tried, 'case')}"
    yield f"  found      {counts}{f', {known} of them known' if known else ''}"
    if answer.untried:
        yield f"  not tried  {', '.join(answer.untried)}"
    for row in answer.rows:
        yield ""
        yield from _of_finding(row)
    for key in answer.gone:
        yield ""
        yield f"gone: {clean(key)}: it was expected, and was not found"


def _of_finding(row: ConformanceFinding) -> Iterator[str]:
    mark = "known: " if row.is_known else ""
    yield f"{mark}{row.function}: {clean(row.title)}"
    others = f" (and {row.more} more: {', '.join(map(clean, row.others[:_SHOWN_OTHERS]))})" if row.more else ""
    yield f"  seen       {clean(row.seen)}{others}"
    yield f"  standard   {row.version}, {row.section} {row.level}: {row.expected}"
    yield f"  rule       {row.rule}"
    yield f"  key        {clean(row.key)}"
    for line in row.calls:
        yield f"    {clean(line)}"


def junit(answer: ConformanceAnswer) -> str:
    """Return the answer as JUnit's XML: a test case for each finding, failed unless the finding is known, and one test
    case for all other trials.
    """
    failures = len(news(answer))
    skipped = len(answer.rows) - failures
    counts = f'tests="{len(answer.rows) + 1}" failures="{failures}" errors="0" skipped="{skipped}"'
    found = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuite name={_attribute(f'ompd conformance {answer.file}')} {counts}>",
        f'  <testcase classname="ompd" name="{answer.tried} cases"/>',
    ]
    for row in answer.rows:
        found.append(f"  <testcase classname={_attribute(row.function)} name={_attribute(row.key)}>")
        message = _attribute(f"{row.seen}; {row.version}, {row.section} {row.level} {row.expected}")
        if row.is_known:
            found.append(f"    <skipped message={message}/>")
        else:
            text = escape(_NOT_XML.sub("?", "\n".join((row.title, row.rule, *row.calls))))
            found.append(f"    <failure type={_attribute(row.level)} message={message}>{text}</failure>")
        found.append("  </testcase>")
    return "\n".join([*found, "</testsuite>", ""])


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))
