"""What ``ompd triage`` costs: the tables of docs/triage.md, also part of ``make bench``.

``python -m bench.triage`` prints them, ``--write`` puts them into the page too. ``python -m bench.triage COUNT`` prints
what the process that collects takes for so many made-up results.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import commands, report
from bench.measure import Command, NotMeasured, Sample, by_turns, output_of, run
from ompd.model.triage import TriageAnswer
from ompd.render.json import format_triage
from ompd.triage.engine import Engine
from ompd.triage.run import triage
from ompd.triage.targets import Wanted
from ompd.triage.work import Limits
from tests.support import Missing
from tests.support.triage import cores, spread

PAGE = Path(__file__).parents[1] / "docs" / "triage.md"
FEW, MANY = 24, 120  # cores, of twelve programs
COUNTS = (100, 1_000, 10_000)  # results
RATE, RATIO, MEGABYTES = 20.0, 1.6, 150.0
GROWTH = 1.5  # of the time for a result, of ten times as many: less is what a processor's caches do
ROUNDS = 5
_STACKS, _FRAMES, _GROUPS = 8, 12, 12
_MB = 1e6
_OURS = 0.9  # of a processor that a benchmark has used until then


@dataclass(frozen=True)
class Costs:
    """The least that was seen, in seconds: of processors for one core by one and by two workers (``each``,
    ``each_of_two``), of a clock for ``MANY`` less ``FEW`` of them (``one``, ``two``), unless others used the processors
    (``was_busy``); and by their number what results take, seconds of a processor and bytes (``collected``).
    """

    each: float
    each_of_two: float
    one: float
    two: float
    was_busy: bool
    collected: dict[int, tuple[float, int]]

    def rows(self) -> list[list[str]]:
        """Return the lines of the table."""
        most = max(self.collected)
        seconds, size = self.collected[most]
        return [
            ["a core, ms of a processor", f"{self.each * 1e3:.0f}", ""],
            ["cores a second of a processor", f"{1 / self.each:.1f}", self._said(f"≥ {RATE:.0f}", self._is_slow())],
            ["cores a second of two, by two workers", f"{2 / self.each_of_two:.1f}", ""],
            [
                "two workers are faster by, with a processor each",
                f"{2 * self.each / self.each_of_two:.2f}",
                self._said(f"≥ {RATIO}", self._is_dear()),
            ],
            self._by_the_clock(),
            *([f"{count:,} results, s", f"{found[0]:.2f}", ""] for count, found in self.collected.items()),
            [f"{most:,} results, ms each", f"{seconds / most * 1e3:.2f}", self._said("linear", self._grows())],
            [f"{most:,} results, MB", f"{size / _MB:.0f}", self._said(f"≤ {MEGABYTES:.0f}", self._is_large())],
        ]

    def _by_the_clock(self) -> list[str]:
        what = "two workers are faster by, on this machine"
        if self.was_busy:
            return [what, "?", "it was busy with other work"]
        return [what, f"{self.one / self.two:.2f}", self._said(f"≥ {RATIO}", self._is_alone())]

    def _said(self, demand: str, is_missed: bool) -> str:
        return f"{demand}: {'MISSED' if is_missed else 'kept'}"

    def _is_slow(self) -> bool:
        return 1 / self.each < RATE

    def _is_dear(self) -> bool:
        return 2 * self.each / self.each_of_two < RATIO

    def _is_alone(self) -> bool:
        return not self.was_busy and self.one / self.two < RATIO

    def _is_large(self) -> bool:
        return max(size for _, size in self.collected.values()) > MEGABYTES * _MB

    def _grows(self) -> bool:
        # From the middle count to the largest one: of few results the beginning is the most.
        *_, middle, most = sorted(self.collected)
        return self.collected[most][0] / most > GROWTH * self.collected[middle][0] / middle

    def missed(self) -> list[str]:
        """Return a sentence for each demand that is missed."""
        return [
            f"triage: {words}"
            for words, is_missed in (
                (f"{1 / self.each:.1f} cores a second of a processor, {RATE:.0f} are demanded", self._is_slow()),
                (
                    f"two workers take {self.each_of_two / self.each:.2f} times the processor time of one",
                    self._is_dear(),
                ),
                (f"two workers are {self.one / self.two:.2f} times as fast, {RATIO} is demanded", self._is_alone()),
                (f"more than {MEGABYTES:.0f} MB for {max(self.collected):,} results", self._is_large()),
                ("the time for a result grows with their number", self._grows()),
            )
            if is_missed
        ]


def measure(rounds: int) -> Costs:
    """Return the figures.

    :raises Missing: if the programs cannot be built
    :raises NotMeasured: if a command fails
    """
    found = cores()
    was_busy = os.getloadavg()[0] > len(os.sched_getaffinity(0)) - _OURS
    with tempfile.TemporaryDirectory(dir=_folder_beside(found)) as place:
        tasks = {}
        for count in (FEW, MANY):
            folder = Path(place, str(count))
            folder.mkdir()
            spread(found, [count // len(found)] * len(found), folder)
            for workers in (1, 2):
                words = commands.ompd(folder, "triage", "--workers", str(workers))
                tasks[f"{count} {workers}"] = partial(run, words)
        samples: dict[str, list[Sample]] = by_turns(tasks, rounds)
    least = {
        name: (min(each.processor for each in some), min(each.seconds for each in some))
        for name, some in samples.items()
    }
    each, two = ((least[f"{MANY} {n}"][0] - least[f"{FEW} {n}"][0]) / (MANY - FEW) for n in (1, 2))
    walls = [least[f"{MANY} {n}"][1] - least[f"{FEW} {n}"][1] for n in (1, 2)]
    return Costs(each, two, *walls, was_busy, {count: _collected(count, rounds) for count in COUNTS})


def _folder_beside(found: Sequence[Any]) -> Path:
    # Links to cores have to be on the same disk.
    folder: Path = found[0].core.parent.parent
    return folder


def _collected(count: int, rounds: int) -> tuple[float, int]:
    command = Command("collect", (sys.executable, "-m", "bench.triage", str(count)))
    printed = [output_of(command).split() for _ in range(rounds)]
    if not all(printed):
        raise NotMeasured(f"{' '.join(command.words)} failed")
    return min(float(seconds) for seconds, _ in printed), max(int(size) for _, size in printed)


def table(found: Costs) -> list[str]:
    """Return the lines of the section."""
    return [
        "### Many cores in groups",
        "",
        *report.table(("ompd triage", "least of all rounds", "demanded"), found.rows()),
    ]


# Made-up results


class _Made(Executor):
    # Has each result at once, as it comes out of a pipe.
    def submit(self, _function: Any, /, name: str, *_arguments: Any, **_where: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(pickle.loads(pickle.dumps(_result(name))))
        return future


def _result(name: str) -> dict[str, Any]:
    number = int(name.rpartition(".")[2])
    group = number * number % _GROUPS
    stacks = [
        {
            "frames": [[f"function_{depth}_{stack}_{group}", 0, 10 * depth, None, 1, None] for depth in range(_FRAMES)],
            "threads": {"worker": 7, "primary": 1},
        }
        for stack in range(_STACKS)
    ]
    return {
        "target": name,
        "identity": [number, number],
        "verdict": "laggard",
        "summary": f"7 threads wait for thread 1 ({number}), which works",
        "about": [0, 1],
        "stacks": stacks,
        "files": ["/home/user/program/source.c"],
        **{"rank": number, "size": None, "job": "4711", "host": f"node{number // 8}"},
        "mpi": [{"routine": "MPI_Allreduce", "link": None, "rank": None, "world": True}] if group else [],
    }


def _names(count: int) -> Iterator[Wanted]:
    return (Wanted(f"/cores/core.{number}") for number in range(count))


def collect(count: int) -> TriageAnswer:
    """Print seconds of the processor, and bytes that this process had at most, for a triage of so many results."""
    targets = tuple(_names(count))
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        engine = Engine(_Made, lambda _: None, 2)
        answer, _ = triage(targets, engine, Limits(60.0, 1 << 30, 1 << 40), results=f"{folder}/results")
        size = len(format_triage(answer))
        seconds = time.process_time() - start
    assert answer.inspected == count and size
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return answer


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with ``--write`` put into the page; returns the exit status: 1 if a demand is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.triage", description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", help="only collect so many made-up results")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs that count ({ROUNDS})")
    parser.add_argument("--write", action="store_true", help="put the table into docs/triage.md too")
    options = parser.parse_args(arguments)
    if options.count is not None:
        collect(options.count)
        return 0
    try:
        found = measure(options.rounds)
    except (Missing, NotMeasured) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    text = "\n".join([report.machine(options.rounds), "", *table(found)[2:]])
    print(text)
    if options.write:
        report.write(text, PAGE)
    for sentence in found.missed():
        print(f"bench: missed: {sentence}", file=sys.stderr)
    return int(bool(found.missed()))


if __name__ == "__main__":
    sys.exit(main())
