"""Compare gdb's inferior with the truth in OMPD_TEST_QUESTION (JSON), and print the answer; gdb sources this file.

gdb's Python imports the tests' modules from the checkout and from the tests' environment.
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
for name in COMMANDS:  # a new session each: data that one answer loads must not affect the next
    answers[name] = json.loads(format_answer(name, getattr(Gdb().session(), f"ask_{name}")()))
print("ANSWER" + json.dumps({"differences": found.differences, "equal": found.equal, "answers": answers}))
