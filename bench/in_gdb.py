"""How long gdb takes for ``omp threads`` once it has loaded a core of 512 threads: ``python -m bench.in_gdb``.

Against the shell's command on the same core, with the start of its Python, in seconds of the processor; and for gdb's
``bt`` of all threads with our frame filter, against that without.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from bench.targets import MANY
from tests.support import Missing, clean_environment, stopped
from tests.support.gdb import LOAD, NAMES, Gdb, batch, gdb, open_core

_MOST_RATIO = 1.3
_ROUNDS = 5
_FOLDER = Path("/tmp")


def _seconds(found: Gdb, command: str) -> float:
    """Return the seconds that *command* takes in a gdb that has just loaded the core."""
    core = stopped("many", threads=MANY)
    begin, end = "python import time; begin = time.process_time()", "python print('took', time.process_time() - begin)"
    told = batch(found, [LOAD, *open_core(core.executable, core.core), begin, command, end], cwd=_FOLDER)
    if len(re.findall(r"^#0 ", told[command], re.MULTILINE)) < MANY and f"{MANY + 1} threads" not in told[command]:
        sys.exit(f"no answer: {told[command][:2000]}")
    return float(told[end].split()[1])


def _shell_seconds() -> float:
    core = stopped("many", threads=MANY)
    before = os.times()
    subprocess.run(
        [str(Path(sys.executable).with_name("ompd")), "threads", str(core.core)],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure in every gdb that is here; 1 if one takes longer than it may."""
    status = 0
    for name in NAMES:
        try:
            found = gdb(name)
        except Missing as error:
            print(error)
            continue
        # In turn, so that what the machine does besides is the same for both.
        pairs = [(_seconds(found, "omp threads"), _shell_seconds()) for _ in range(_ROUNDS)]
        ours, shells = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
        kept = ours <= _MOST_RATIO * shells
        print(
            f"{name}: omp threads, {MANY} threads: {ours:.2f} s, in the shell {shells:.2f} s"
            f" ({'kept' if kept else 'missed'}: ≤ {_MOST_RATIO} times)"
        )
        status |= not kept
        everything = "thread apply all bt"
        stacks = [(_seconds(found, everything), _seconds(found, f"{everything} -no-filters")) for _ in range(_ROUNDS)]
        hiding, plain = (statistics.median(seconds) for seconds in zip(*stacks, strict=True))
        print(f"{name}: {everything}: {hiding:.2f} s without the runtimes' frames, {plain:.2f} s with")
    return status


if __name__ == "__main__":
    sys.exit(main())
