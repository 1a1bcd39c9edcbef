"""Run cases: choose cores, word failures, and make finds small and keep them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz import formats
from tests.fuzz.damage import Case, Damager, minimised
from tests.fuzz.oracle import Find, Victim, seeded
from tests.fuzz.victims import Core
from tests.support import stopped

FINDS = Path(__file__).parents[1] / "finds"

# Programs with regions, tasks, locks, barriers and variables; both kinds of core, all modes.
VICTIMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "deadlock": ("deadlock", {}),
    "nested": ("nested", {}),
    "task_tree": ("task_tree", {}),
    "serialized": ("serialized_three", {"mode": "neither"}),
    "barrier_gcore": ("barrier", {"kind": "gcore"}),
    "icvs": ("icvs_env", {}),
    "task_queued": ("task_queued", {"mode": "tool"}),
    "two_initial": ("two_initial", {"mode": "neither"}),
    "ticket_lock": ("lock_kinds", {"env": {"KMP_LOCK_KIND": "ticket"}}),
    "queuing_lock_gcore": ("lock_kinds", {"env": {"KMP_LOCK_KIND": "queuing"}, "mode": "neither", "kind": "gcore"}),
}


@cache
def damager(name: str) -> Damager:
    """Return the maker of cases for one victim."""
    program, options = VICTIMS[name]
    return Damager(Victim(name, Core(stopped(program, **options).core)))


def run(name: str, numbers: random.Random, *, text: bool = False) -> tuple[Case, str]:
    """Run the case of a victim that *numbers* determine; return the case and its outcome.

    :raises Find: if a rule is broken
    """
    maker = damager(name)
    case = maker.case(numbers)
    try:
        return case, check(maker.victim, case, text=text)
    except Find as find:
        find.add_note(f"case: {case.what}, {len(case.patches)} patches, {len(case.holes)} holes, reads {case.reads}")
        raise


def check(victim: Victim, case: Case, *, text: bool = False) -> str:
    """Run one case."""
    return victim.check(case.patches, case.holes, order=case.order, text=text, reads=case.reads)


def run_seeded(name: str, seed: str, first: int, count: int) -> Iterator[str]:
    """Run cases by their numbers, and yield their outcomes. The text of a find has the command to run it again."""
    for number in range(first, first + count):
        try:
            _, outcome = run(name, seeded(seed, name, number), text=number % 8 == 0)
        except Find as find:
            raise Find(
                f"{find}\n{' '.join(getattr(find, '__notes__', ()))}\n"
                f"again: OMPD_FUZZ_SEED={seed} python -m tests.fuzz again {name} {number}"
            ) from find.__cause__
        yield outcome


def signature(find: BaseException) -> str:
    """Return the part of its text that a find shares with other finds of the same fault."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", str(find))[:100]


def keep_core_find(name: str, recipe: bytes, case: Case, find: Find) -> Path:
    """Write a find of a damaged core: its smallest case, and the bytes that made the case.

    Addresses differ from machine to machine, so the recipe is only a seed for more cases like it. The case itself needs
    a test of its own.
    """

    def fails(trial: Case) -> bool:
        try:
            check(damager(name).victim, trial)
        except Find as other:
            return signature(other) == signature(find)
        return False

    small = minimised(damager(name).victim, case, fails)
    text = {
        "victim": name,
        "recipe": recipe.hex(),
        "find": str(find).splitlines()[0][:300],
        "way": small.what,
        "patches": [[at, patch.hex()] for at, patch in small.patches[:20]],
        "holes": [[hex(start), hex(end)] for start, end in small.holes[:20]],
    }
    return _keep(f"core-{name}", signature(find), json.dumps(text, indent=1).encode() + b"\n", ".json")


def keep_format_find(kind: str, data: bytes, find: BaseException) -> Path:
    """Write a find of a damaged file: its smallest bytes."""

    def fails(trial: bytes) -> bool:
        try:
            formats.survive(kind, trial)
        except Exception as other:  # noqa: BLE001  which is what is looked for
            return type(other) is type(find)
        return False

    step = 0 if isinstance(find, TimeoutError) else len(data) // 2  # slow finds cannot be tried often
    while step:
        start = 0
        while start < len(data):
            shorter = data[:start] + data[start + step :]
            zeroed = data[:start] + bytes(len(data[start : start + step])) + data[start + step :]
            if fails(shorter):
                data = shorter
                continue
            if zeroed != data and fails(zeroed):
                data = zeroed
            start += step
        step //= 2
    return _keep(kind, signature(find), data, ".bin")


def keep_crafted_find(data: bytes, find: BaseException) -> Path:
    """Write a find of a damaged crafted file: the bytes that made the file."""
    return _keep("crafted", signature(find), data, ".bin")


def _keep(start: str, text: str, raw: bytes, suffix: str) -> Path:
    FINDS.mkdir(exist_ok=True)
    words = re.sub(r"[^a-z]+", "-", text.lower()).strip("-")[:40].strip("-")
    path = FINDS / f"{start}-{words}{suffix}"
    path.write_bytes(raw)
    return path
