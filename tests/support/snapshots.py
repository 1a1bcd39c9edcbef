"""All answers about a core and about its snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ompd
import ompd.questions.snapshot
from ompd.errors import OmpdError
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads
from ompd.render.json import format_answer

QUESTIONS = {
    "runtimes": runtimes.ask,
    "threads": threads.ask,
    "parallel": regions.ask,
    "tasks": tasks.ask,
    "icvs": icvs.ask,
    "stack": stacks.ask,
}


def snapshot(core: Path, folder: Path, **options: Any) -> Path:
    path = folder / "snapshot"
    with ompd.open_core(core) as session:
        session.snapshot(path, **options)
    return path


def answers(core: Path, **where: Any) -> dict[str, Any]:
    # Return the answers in JSON without their target, with a new session for each question.
    found = {}
    for name, ask in QUESTIONS.items():
        with ompd.open_core(core, **where) as session:
            try:
                found[name] = json.loads(format_answer(name, ask(session)))
                del found[name]["target"]
            except OmpdError as error:
                found[name] = str(error)
    return found


def without_files(path: Path) -> dict[str, Any]:
    return answers(path, sysroot="/nonexistent")
