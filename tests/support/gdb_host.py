"""Sourced in gdb: compares the inferior with the truth that OMPD_TEST_QUESTION has as JSON, and prints the answer.

The tests' modules are imported by gdb's Python from the checkout and the environment of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), *map(str, _ROOT.glob(".venv/lib/python3.*/site-packages"))]

from ompd.gdb.debugger import Gdb  # noqa: E402
from ompd.render.json import format_answer  # noqa: E402
from tests.support.runs import Stopped  # noqa: E402
from tests.truth import compare_session  # noqa: E402

COMMANDS = ("runtimes", "threads", "parallel", "tasks", "icvs")

question = json.loads(os.environ["OMPD_TEST_QUESTION"])
stopped = Stopped(
    Path(question["executable"]),
    Path(),
    question["truth"],
    question["program"],
    question["compiler"],
    question["mode"],
    "gdb",
    question["runtime"],
)
found = compare_session(stopped, Gdb().session())
answers = {}
for name in COMMANDS:  # what one answer has loaded must not show in the next
    answers[name] = json.loads(format_answer(name, getattr(Gdb().session(), f"ask_{name}")()))
print("ANSWER" + json.dumps({"differences": found.differences, "equal": found.equal, "answers": answers}))
