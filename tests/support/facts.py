"""The numbers of facts of each kind that a program must show (``tests/facts.json``)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.truth import Comparison

FACTS = Path(__file__).parents[1] / "facts.json"


def expected(program: str, mode: str) -> dict[str, int]:
    return json.loads(FACTS.read_text())[program][mode]


def facts_told(found: Comparison) -> dict[str, int]:
    # With -g clang puts bodies into separate functions, so only gcc's code has the fact "address".
    return {key: count for key, count in sorted(found.equal.items()) if key != "address"}
