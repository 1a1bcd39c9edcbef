"""How long ``ompd threads`` takes in LLDB once it has loaded a core of 512 threads: ``python -m bench.in_lldb``."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

import ompd
from bench.targets import MANY
from tests.support import Missing, stopped
from tests.support.lldb import VERSIONS, Lldb, batch, lldb

_MOST_SECONDS = 1.0
_ROUNDS = 5
_SCRIPT = Path(ompd.__file__).with_name("lldb_script.py")


def measure(found: Lldb) -> float:
    """Return the median of the seconds that the first ``ompd threads`` takes in a debugger that has loaded the core."""
    core = stopped("many", threads=MANY)
    seconds = []
    for _ in range(_ROUNDS):
        printed = batch(
            found,
            [
                f"command script import {_SCRIPT}",
                f"target create {core.executable} --core {core.core}",
                "script import time; begin = time.perf_counter()",
                "ompd threads",
                "script print('took', time.perf_counter() - begin)",
            ],
            cwd=Path("/tmp"),
        )
        if f"{MANY + 1} threads" not in printed and f"{MANY} threads" not in printed:
            sys.exit(f"no answer: {printed}")
        seconds.append(float(re.findall(r"^took (\S+)", printed, re.MULTILINE)[0]))
    return statistics.median(seconds)


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
    return status


if __name__ == "__main__":
    sys.exit(main())
