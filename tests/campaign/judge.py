"""Print the laws that the answers of a target break: ``python -m tests.campaign.judge TARGET [OTHER]``.

TARGET is a core, compressed or not, the id of a process, or a file with answers that a campaign has kept. With OTHER,
both targets show one moment and must agree. The exit code is 1 if a law is broken.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from ompd.render.schema import format_schema
from tests.campaign import agreement, laws, witnesses
from tests.campaign.kinds import OMPT
from tests.campaign.samples import QUESTIONS, RAW, TOGETHER, Sample, Target, ask
from tests.support.machine import Missing

_MOST_ROWS = 40  # rows of an answer to validate with the schema, which is slow
# Messages that the program ended meanwhile.
_ENDED = ("ended while", "ended before", "there is no such process", "zombie")
_BUSY = ("was not stopped within",)


def broken(sample: Sample) -> list[str]:
    """Return the laws that a sample breaks by itself."""
    return list(_broken(sample))


def is_of_an_end(sample: Sample) -> bool:
    """Return whether an answer is missing because the program ended."""
    return sample.code == 1 and any(known in sample.errors for known in _ENDED) and "Traceback" not in sample.errors


def is_busy(sample: Sample) -> bool:
    """Return whether the answer is missing, or a stop was too long, because other processes had the processors."""
    is_refused = sample.code == 1 and any(known in sample.errors for known in _BUSY)
    return (is_refused and "Traceback" not in sample.errors) or laws.broken_stops(sample.stops, len(sample.before))[
        1
    ] > 0


def _broken(sample: Sample) -> Iterator[str]:
    yield from laws.broken_stops(sample.stops, len(sample.before))[0]
    yield from laws.broken_memory(sample.grown)
    if is_of_an_end(sample) or (sample.code == 1 and is_busy(sample)):
        return
    if sample.code not in (0, 3):
        yield f"exit code {sample.code}: {(sample.errors.strip().splitlines() or [''])[-1]}"
    if "Traceback" in sample.errors:
        yield f"a traceback: {sample.errors.strip().splitlines()[-1]}"
    if sample.command == TOGETHER and sample.answers:
        whole = all(answer["complete"] for answer in sample.answers.values())
        if (sample.code == 0) != whole:
            yield f"exit code {sample.code}, where complete is {whole}"
    for command, answer in sample.answers.items():
        code = sample.code if sample.command != TOGETHER else 0 if answer["complete"] else 3
        yield from laws.broken(command, answer, code, sample.before, sample.after)
        if command == "why" and sample.kind != OMPT:  # the OMPT tool really holds all threads
            yield from laws.proven(answer)
        name = "stack" if command == RAW else command
        part = laws.sampled(answer, name, _MOST_ROWS)
        yield from (f"schema of {command}: {error.message[:300]}" for error in _schema(name).iter_errors(part))
    yield from laws.broken_together(sample.answers)


def by_witnesses(target: Target, executable: Path, answers: Mapping[str, Any]) -> list[str]:
    """Return contradictions between the answers and gdb or the kernel, for a stopped process or a core."""
    if not answers:
        return []
    try:
        return witnesses.broken(target, executable, answers)
    except Missing:
        return []


def worded(text: str) -> str:
    """Return a broken law without addresses and numbers, which differ from moment to moment."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)[:300]


def keep(sample: Sample, file: Path) -> None:
    """Write a sample to a file for :func:`read`."""
    known = {**asdict(sample), "output": "", "before": sorted(sample.before), "after": sorted(sample.after)}
    if not sample.answers:
        known["output"] = sample.output
    with gzip.open(file, "wt") as out:
        json.dump(known, out)


def read(file: Path) -> Sample:
    """Read a sample that was kept."""
    with gzip.open(file, "rt") as kept:
        known: dict[str, Any] = json.load(kept)
    stops = tuple((length, waited) for length, waited in known["stops"])
    threads = {key: frozenset(known[key]) for key in ("before", "after")}
    return Sample(**{**known, **threads, "stops": stops})


def answered(target: Target, questions: Sequence[str]) -> Sample:
    """Return the answers of a target, which may be a file with kept answers."""
    if isinstance(target, Path) and target.name.endswith(".json.gz"):
        kept = read(target)
        if kept.command != TOGETHER or not kept.answers:
            return kept
        answers = {name: kept.answers[name] for name in questions if name in kept.answers}
        code = kept.code if kept.code not in (0, 3) else 0 if all(a["complete"] for a in answers.values()) else 3
        return replace(kept, answers=answers, code=code)
    return ask(target, "again", TOGETHER, questions)


def judged(targets: Sequence[Target], questions: Sequence[str], executable: Path | None = None) -> list[str]:
    """Return the laws that several targets of one moment break.

    :param executable: the program, if gdb is to be a witness
    """
    samples = [answered(target, questions) for target in targets]
    found: list[str] = []
    for target, sample in zip(targets, samples, strict=True):
        found += broken(sample)
        if executable is not None:
            found += by_witnesses(target, executable, sample.answers)
    for sample in samples[1:]:
        found += agreement.disagreements(samples[0].answers, sample.answers)
    return found


@cache
def _schema(command: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads(format_schema(command)))


def main(words: Iterable[str] | None = None) -> int:
    """Print the broken laws. Return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.judge", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--questions", default=",".join(QUESTIONS))
    parser.add_argument("--program", type=Path, help="the executable; gdb is a witness then")
    given = parser.parse_args(list(words) if words is not None else None)
    targets = [int(word) if word.isdigit() else Path(word) for word in given.targets]
    found = judged(targets, given.questions.split(","), given.program)
    for law in found:
        print(law)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
