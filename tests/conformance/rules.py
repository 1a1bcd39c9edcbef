"""Write the tables of rules in docs/conformance.md: ``python -m tests.conformance.rules``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ompd.conformance.rules import DMPL_RULES, RULES, Rule

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
HEAD = "| rule | OpenMP 5.2 | | what it says, in our words |\n|---|---|---|---|\n"
DMPL_HEAD = HEAD.replace("OpenMP 5.2", "white paper")
OWN = "the routine's own"


def with_table(page: str) -> str:
    """Return the page with a row for each rule; demanded rules come first."""
    return _with_rows(_with_rows(page, HEAD, RULES), DMPL_HEAD, DMPL_RULES)


def _with_rows(page: str, head: str, rules: Mapping[str, Rule]) -> str:
    rows = "".join(
        f"| {name} | {rule.section or OWN} | {rule.level} | {rule.words} |\n"
        for name, rule in sorted(rules.items(), key=lambda item: item[1].level)
    )
    return re.sub(re.escape(head) + r"(?:[|<].*\n)*", lambda _: head + rows, page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
