"""``make real``: ``ompd`` is asked at random moments of programs that nobody here wrote, and laws judge its answers.

    python -m tests.real --programs FOLDER [--samples N | --time SECONDS] [--seed SEED] [--runtimes NAME,NAME]

FOLDER holds what ``tests/real/programs.py`` names, unpacked. Answers that break a law, or are not complete, are kept
in ``.cache/real``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema

from ompd.render.schema import format_schema
from tests.real import laws
from tests.real.programs import KINDS, RECIPES, Built, built
from tests.real.samples import COMMANDS, TOGETHER, Sample, take, threads_of
from tests.support.machine import Missing

CACHE = Path(__file__).parents[2] / ".cache" / "real"
_MOST_CHECKED = 200_000  # characters of an answer that is compared with its schema, which is slow
# The program ended meanwhile, or the machine was so busy that it did not stop in time.
_NO_FAULT = ("ended while", "ended before", "there is no such process", "zombie", "was not stopped within")
_LONGEST_PAUSE = 0.1  # seconds between two samples
_SAMPLES_PER_RUN = 12  # then the program is begun anew


@dataclass
class Tally:
    """What the samples of a program on a runtime came to."""

    codes: Counter[int] = field(default_factory=Counter)
    longest_stop: float = 0.0
    longest: float = 0.0
    no_state: int = 0
    no_where: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


class Campaign:
    """Samples, judged and counted."""

    def __init__(self, folder: Path) -> None:
        self.tallies: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
        self._folder = folder
        self._schemas = {
            name: jsonschema.Draft202012Validator(json.loads(format_schema(name))) for name in (*COMMANDS, "parallel")
        }

    def add(self, program: Built, sample: Sample) -> None:
        """Judge a sample."""
        tally = self.tallies[program.name, program.runtime, sample.command]
        tally.codes[sample.code] += 1
        tally.longest = max(tally.longest, sample.seconds)
        broken = list(self._broken(sample))
        for answer in sample.answers.values():
            tally.longest_stop = max(tally.longest_stop, laws.longest_stop_ms(answer))
            if not answer["complete"]:
                tally.reasons.update(map(_worded, set(answer["warnings"])))
        for row in sample.answers.get("threads", {}).get("threads", ()):
            tally.no_state += row["runtime"] is not None and row["state"] is None
            has_place = row["where"] is not None or row["at_end_of"] is not None
            tally.no_where += not has_place and row["state"] not in ("idle", None)
            if row["runtime"] is not None and row["state"] is None:
                tally.reasons[f"state: {_worded(row['unavailable'].get('state', 'nothing says why'))}"] += 1
        tally.broken.update(map(_worded, broken))
        if broken or sample.code != 0:
            name = f"{program.file.name}-{sample.command}-{sum(tally.codes.values())}"
            said = "".join(f"{law}\n" for law in broken)
            (self._folder / f"{name}.txt").write_text(f"{said}exit {sample.code}\n{sample.errors}\n{sample.output}")

    def _broken(self, sample: Sample) -> Iterator[str]:
        if sample.code == 1 and any(known in sample.errors for known in _NO_FAULT) and "Traceback" not in sample.errors:
            return
        if sample.code not in (0, 3):
            yield f"exit code {sample.code}: {(sample.errors.strip().splitlines() or [''])[-1]}"
        if "Traceback" in sample.errors:
            yield f"a traceback: {sample.errors.strip().splitlines()[-1]}"
        for command, answer in sample.answers.items():
            code = sample.code if sample.command != TOGETHER else 0 if answer["complete"] else 3
            yield from laws.broken(command, answer, code, sample.before, sample.after)
            if len(sample.output) < _MOST_CHECKED:
                yield from (f"schema: {error.message}" for error in self._schemas[command].iter_errors(answer))
        if sample.command == TOGETHER and sample.answers:
            yield from laws.broken_together(sample.answers)

    def report(self) -> None:
        """Print a row for each program and runtime, and what was counted."""
        heads = ("program", "runtime", "question", "samples", "exit", "stop ms", "slowest s", "?", "no WHERE", "broken")
        rows = [heads]
        for (name, runtime, command), tally in self.tallies.items():
            codes = " ".join(f"{code}:{times}" for code, times in sorted(tally.codes.items()))
            counts = (sum(tally.codes.values()), codes, f"{tally.longest_stop:.1f}", f"{tally.longest:.1f}")
            last = (tally.no_state, tally.no_where, sum(tally.broken.values()))
            rows.append((name, runtime, command, *map(str, counts), *map(str, last)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for title in ("broken", "reasons"):
            print(f"\n{title}:")
            for (name, runtime, command), tally in self.tallies.items():
                for text, times in getattr(tally, title).most_common():
                    print(f"  {times:4} {name} {runtime} {command}: {text}")


def _worded(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)[:300]


@contextmanager
def running(program: Built) -> Iterator[int]:
    """Run a program, and end it at the end."""
    process = subprocess.Popen(
        [str(program.file), *program.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        start_new_session=True,
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def sample(campaign: Campaign, program: Built, commands: Sequence[str], samples: int, chance: random.Random) -> None:
    """Take so many samples of each command of a program that is begun anew from time to time."""
    left = [command for command in commands for _ in range(samples)]
    chance.shuffle(left)
    while left:
        with running(program) as process_id:
            time.sleep(0.2 + chance.random())
            for _ in range(_SAMPLES_PER_RUN):
                if not left or not threads_of(process_id) or _is_zombie(process_id):
                    break
                campaign.add(program, take(process_id, left.pop()))
                time.sleep(chance.random() * _LONGEST_PAUSE)


def _is_zombie(process_id: int) -> bool:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def main() -> int:
    """Run a campaign; 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=Path, required=True, help="the folder that holds them, unpacked")
    parser.add_argument("--names", default=",".join(recipe.name for recipe in RECIPES))
    parser.add_argument("--runtimes", default=",".join(KINDS))
    parser.add_argument("--commands", default=",".join((*COMMANDS, TOGETHER)))
    parser.add_argument("--samples", type=int, default=4, help="of each question, program, runtime")
    parser.add_argument("--time", type=float, help="begin no further program after so many seconds")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--into", type=Path, default=CACHE, help="where programs and finds are kept")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    chance = random.Random(given.seed)
    finds = given.into / f"finds-{given.seed}"
    finds.mkdir(parents=True, exist_ok=True)
    campaign, started = Campaign(finds), time.monotonic()
    commands = given.commands.split(",")
    try:
        programs = list(built(given.programs, given.into, given.names.split(","), given.runtimes.split(",")))
        while programs:
            if given.time is not None:
                chance.shuffle(programs)
            for program in programs:
                if given.time is not None and time.monotonic() - started > given.time:
                    break
                share = given.samples // 2 + (given.samples % 2 if program.level == "O3" else 0)
                sample(campaign, program, commands, share, chance)
            if given.time is None or time.monotonic() - started > given.time:
                break
    except Missing as missing:
        print(f"not here: {missing}", file=sys.stderr)
    finally:
        campaign.report()
    return 1 if any(tally.broken for tally in campaign.tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
