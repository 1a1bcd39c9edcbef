"""``make fuzz``: run cases for a given time, guided by the code that they reach (atheris, if it is installed).

    python -m tests.fuzz [--time SECONDS] [--seed SEED]     cores, files and crafted ones, a third of the time each
    python -m tests.fuzz again VICTIM NUMBER                one seeded case, as a failed test names it
    python -m tests.fuzz again FILE                         a find that was kept

The corpus is kept in ``.cache/fuzz``, finds in ``tests/finds``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parents[2] / ".cache" / "fuzz"
SEED = os.environ.get("OMPD_FUZZ_SEED", "ompd")
os.environ["OMPD_CACHE"] = "off"  # no case may use another one's results
TARGETS = ("cores", "formats", "crafted")
_MAX_LENGTH = 4096


class Drawn(random.Random):
    """Random numbers made of bytes: other bytes make another case. After them a seeded generator continues."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self._left = data

    def getrandbits(self, k: int, /) -> int:
        """Return *k* bits, from the bytes while some are left."""
        size = (k + 7) // 8
        if len(self._left) < size:
            return super().getrandbits(k)
        raw, self._left = self._left[:size], self._left[size:]
        return int.from_bytes(raw, "little") & (1 << k) - 1

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self.getrandbits(16) / 65536


class Runner:
    """Runs and counts cases made of bytes, and keeps each find once."""

    def __init__(self, target: str) -> None:
        from tests.fuzz import crafted, run

        self._run: Any = run
        self._crafted: Any = crafted
        self._target = target
        self._seen: dict[str, Path] = {}
        self.cases = 0

    def __call__(self, data: bytes) -> None:
        self.cases += 1
        {"cores": self.cores, "formats": self.formats, "crafted": self.crafted}[self._target](data)

    def cores(self, data: bytes) -> None:
        """Run a case of a damaged core; the first byte selects the victim."""
        names = list(self._run.VICTIMS)
        name = names[data[0] % len(names)] if data else names[0]
        case = self._run.damager(name).case(Drawn(data[1:]))
        try:
            self._run.check(self._run.damager(name).victim, case, text=self.cases % 8 == 0)
        except self._run.Find as find:
            if self._is_new(find):
                self._say(find, self._run.keep_core_find(name, data, case, find))

    def formats(self, data: bytes) -> None:
        """Read a damaged file; the first byte selects its kind."""
        formats = self._run.formats
        kinds = list(formats.KINDS)
        kind = kinds[data[0] % len(kinds)] if data else kinds[0]
        raw = formats.built(kind, Drawn(data[1:]))
        started = time.process_time()
        try:
            formats.survive(kind, raw)
            if time.process_time() - started > 5:
                raise TimeoutError(f"{kind}: took {time.process_time() - started:.1f} s")
        except Exception as find:  # noqa: BLE001  which is what is looked for
            if self._is_new(find):
                self._say(find, self._run.keep_format_find(kind, raw, find))

    def crafted(self, data: bytes) -> None:
        """Damage a crafted file; the first two bytes select it."""
        try:
            self._crafted.run(data)
        except self._run.Find as find:
            if self._is_new(find):
                self._say(find, self._run.keep_crafted_find(data, find))

    def _is_new(self, find: BaseException) -> bool:
        known = f"{type(find).__name__} {self._run.signature(find)}"
        if known in self._seen:
            return False
        self._seen[known] = Path()
        return True

    def _say(self, find: BaseException, path: Path) -> None:
        print(f"FIND {path}: {type(find).__name__}: {find}"[:2000], flush=True)


def _child(target: str, seconds: int, seed: str) -> None:
    corpus = CACHE / target
    corpus.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(seed)
    try:
        import atheris
    except ImportError:
        print("atheris is not installed (pip install -e '.[fuzz]'): cases are not guided by coverage", flush=True)
        _unguided(target, seconds, numbers)
        return
    for number in range(1024 if target == "crafted" else 64):  # enough for each crafted file, and more
        start = corpus / f"start-{number:02}"
        named = number.to_bytes(2, "little") if target == "crafted" else b""
        if not start.exists():
            start.write_bytes(named + numbers.randbytes(1 + numbers.randrange(100 if named else 400)))
    with atheris.instrument_imports(include=["ompd"]):
        runner = Runner(target)
    with _sharing():
        if target == "cores":
            for name in runner._run.VICTIMS:
                runner._run.damager(name)
        flags = [f"-max_total_time={seconds}", f"-max_len={_MAX_LENGTH}", "-timeout=60", "-rss_limit_mb=3000"]
        flags += [f"-seed={numbers.randrange(1 << 31)}", f"-artifact_prefix={CACHE}/", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *flags, str(corpus)], runner)
        atheris.Fuzz()


def _unguided(target: str, seconds: int, numbers: random.Random) -> None:
    runner = Runner(target)
    end = time.monotonic() + seconds
    with _sharing():
        while time.monotonic() < end:
            runner(numbers.randbytes(1 + numbers.randrange(400)))
    print(f"{target}: {runner.cases} cases", flush=True)


def _sharing() -> contextlib.AbstractContextManager[None]:
    from tests.fuzz.parses import parsed_once

    return parsed_once()


def _again(what: list[str]) -> None:
    from tests.fuzz import run

    with _sharing():
        if len(what) == 2:
            print(*run.run_seeded(what[0], SEED, int(what[1]), 1))
        elif what[0].endswith(".json"):
            kept = json.loads(Path(what[0]).read_text())
            data = bytes.fromhex(kept["recipe"])
            print(run.run(kept["victim"], Drawn(data[1:])))
        elif Path(what[0]).name.startswith("crafted-"):
            from tests.fuzz import crafted

            crafted.run(Path(what[0]).read_bytes())
        else:
            kind = next(kind for kind in run.formats.KINDS if Path(what[0]).name.startswith(f"{kind}-"))
            run.formats.KINDS[kind][1](Path(what[0]).read_bytes())


def main() -> int:
    """Run the command line. Return 1 if there are finds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("again", nargs="*")
    parser.add_argument("--time", type=int, default=600)
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--target", choices=TARGETS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.again[:1] == ["again"]:
        _again(chosen.again[1:])
        return 0
    if chosen.target is not None:
        _child(chosen.target, chosen.time, chosen.seed)
        return 0
    found = 0
    for target in TARGETS:
        command = [sys.executable, "-m", "tests.fuzz", "--target", target, "--seed", chosen.seed]
        child = subprocess.Popen(
            [*command, "--time", str(chosen.time // len(TARGETS))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert child.stdout is not None
        CACHE.mkdir(parents=True, exist_ok=True)
        log = CACHE / f"{target}.log"
        with log.open("w") as file:
            for line in child.stdout:
                file.write(line)
                if line.startswith(("FIND", "Done", "stat::", "atheris is not", target)):
                    print(f"{target}: {line}", end="", flush=True)
                found += line.startswith("FIND")
        if child.wait() != 0:
            print(f"{target}: ended with status {child.returncode}; {log} says why", flush=True)
            found += 1
    print(f"{found} finds")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
