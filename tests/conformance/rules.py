"""Writes the table of rules in docs/conformance.md: ``python -m tests.conformance.rules``."""

from __future__ import annotations

import re
from pathlib import Path

from ompd.conformance.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
HEAD = "| rule | OpenMP 5.2 | | what it says, in our words |\n|---|---|---|---|\n"
OWN = "the routine's own"


def with_table(page: str) -> str:
    """Return the page with a row for each rule, those that are demanded first."""
    rows = "".join(
        f"| {name} | {rule.section or OWN} | {rule.level} | {rule.words} |\n"
        for name, rule in sorted(RULES.items(), key=lambda item: item[1].level)
    )
    return re.sub(re.escape(HEAD) + r"(?:[|<].*\n)*", lambda _: HEAD + rows, page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
