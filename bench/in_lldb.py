"""How long LLDB takes once it has loaded a core of 512 threads: ``python -m bench.in_lldb``.

For ``ompd threads``, and for its own ``bt all`` where that leaves the runtimes' frames out, against where it does not.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

from bench.targets import MANY
from tests.support import Missing, stopped
from tests.support.lldb import LOAD, VERSIONS, Lldb, batch, lldb, target_create

_MOST_SECONDS = 1.0
_MOST_RATIO = 1.3
_HIDES = 20  # the first version that leaves frames out
_ROUNDS = 5


def _seconds(found: Lldb, command: str, *before: str) -> tuple[float, str]:
    """Return the seconds that *command* takes in a debugger that has just loaded the core, and what it prints."""
    core = stopped("many", threads=MANY)
    printed = batch(
        found,
        [
            LOAD,
            *before,
            target_create(core.executable, core.core),
            "script import time; begin = time.perf_counter()",
            command,
            "script print('took', time.perf_counter() - begin)",
        ],
        cwd=Path("/tmp"),
    )
    return float(re.findall(r"^took (\S+)", printed, re.MULTILINE)[0]), printed


def measure(found: Lldb) -> float:
    """Return the median of the seconds that the first ``ompd threads`` takes."""
    seconds = []
    for _ in range(_ROUNDS):
        took, printed = _seconds(found, "ompd threads")
        if f"{MANY + 1} threads" not in printed and f"{MANY} threads" not in printed:
            sys.exit(f"no answer: {printed}")
        seconds.append(took)
    return statistics.median(seconds)


def measure_frames(found: Lldb) -> tuple[float, float]:
    """Return the medians of the seconds that the first ``bt all`` takes, with frames left out and without."""
    seconds: dict[str, list[float]] = {"on": [], "off": []}
    for _ in range(_ROUNDS):
        for switched, times in seconds.items():
            took, printed = _seconds(found, "bt all", f"ompd bt {switched}")
            if ("__kmpc_fork_call" in printed or "GOMP_parallel" in printed) == (switched == "on"):
                sys.exit(f"ompd bt {switched} did not do it")
            times.append(took)
    return statistics.median(seconds["on"]), statistics.median(seconds["off"])


def main() -> int:
    """Measure in every LLDB that is here; 1 if one takes longer than it may."""
    status = 0
    for version in VERSIONS:
        try:
            found = lldb(version)
        except Missing as error:
            print(error)
            continue
        seconds = measure(found)
        kept = seconds <= _MOST_SECONDS
        print(f"LLDB {version}: ompd threads, {MANY} threads: {seconds:.2f} s ({'kept' if kept else 'missed'}: ≤ 1 s)")
        status |= not kept
        if version >= _HIDES:
            hiding, plain = measure_frames(found)
            kept = hiding <= _MOST_RATIO * plain
            words = f"{hiding:.2f} s without the runtimes' frames, {plain:.2f} s with"
            print(f"LLDB {version}: bt all: {words} ({'kept' if kept else 'missed'}: ≤ {_MOST_RATIO} times)")
            status |= not kept
    return status


if __name__ == "__main__":
    sys.exit(main())
