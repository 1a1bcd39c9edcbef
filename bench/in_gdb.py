"""What gdb takes for our commands: ``python -m bench.in_gdb``, which ``make bench`` has, too.

``omp threads`` once it has loaded a core of 512 threads, against the shell's command on the same core, with the start
of its Python; gdb's ``bt`` of all threads with our frame filter, against that without; and ``$_ompd_thread_num()`` in
the condition of a breakpoint, against a condition of gdb's own. In seconds of the processor, gdb's alone.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import report
from bench.targets import MANY
from tests.support import Missing, clean_environment, stopped
from tests.support.debs import deb_folder
from tests.support.gdb import LOAD, NAMES, Gdb, batch, gdb, open_core, open_program

_MOST_RATIO = 1.3
_MOST_MILLISECONDS = 5.0
_ROUNDS = 5
_FOLDER = Path("/tmp")
_HITS = 200
_TEAM = 4
_SOURCE = f"""
__attribute__((noinline)) void hit(volatile int *count) {{ ++*count; }}
int main(void) {{
    volatile int total = 0;
#pragma omp parallel num_threads({_TEAM})
    for (int i = 0; i < {_HITS // _TEAM}; i++)
        hit(&total);
    return 0;
}}
"""


class InGdb(NamedTuple):
    """Rows of the table, and what is missed in sentences."""

    rows: Sequence[Sequence[str]]
    missed: Sequence[str]


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


def _build(folder: Path) -> dict[str, Path]:
    """Return a program whose threads come to ``hit`` so often, by the runtime that it runs on."""
    (folder / "hits.c").write_text(_SOURCE)
    library = next(deb_folder("libomp-19").rglob("libomp.so.5"))
    programs = {}
    for runtime, words in {
        "libgomp": ["gcc", "-g", "-fopenmp", "hits.c"],
        "stripped libomp": ["clang", "-g", "-fopenmp", "-c", "hits.c", "-o", "hits.o"],
    }.items():
        if shutil.which(words[0]) is None:
            continue
        programs[runtime] = folder / runtime.replace(" ", "_")
        if words[0] == "gcc":
            words += ["-o", str(programs[runtime])]
        subprocess.run(words, cwd=folder, check=True, env=clean_environment())
        if words[0] == "clang":
            link = ["clang", "hits.o", "-o", str(programs[runtime]), str(library), f"-Wl,-rpath,{library.parent}"]
            subprocess.run(link, cwd=folder, check=True, env=clean_environment())
    return programs


def _milliseconds(found: Gdb, program: Path, condition: str) -> float:
    """Return the milliseconds of a thread that comes to a breakpoint whose condition is not true."""
    begin, end = "python import time; begin = time.process_time()", "python print('took', time.process_time() - begin)"
    told = batch(
        found, [LOAD, open_program(program), f"break hit if {condition}", begin, "run", end], cwd=program.parent
    )
    if "exited normally" not in told["run"]:
        sys.exit(f"it does not run: {told['run'][:2000]}")
    return float(told[end].split()[1]) / _HITS * 1e3


def _of(name: str, found: Gdb, programs: dict[str, Path]) -> InGdb:
    # By turns, so that what the machine does besides is the same for both.
    rows, missed = [], []
    pairs = [(_seconds(found, "omp threads"), _shell_seconds()) for _ in range(_ROUNDS)]
    ours, shells = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    if ours > _MOST_RATIO * shells:
        missed.append(f"{name}: omp threads takes {ours / shells:.2f} times what it takes in the shell")
    kept = f"≤ {_MOST_RATIO} of the shell's: {'MISSED' if ours > _MOST_RATIO * shells else 'kept'}"
    rows.append([name, f"`omp threads`, {MANY} threads", f"{ours:.2f} s", f"{shells:.2f} s in the shell", kept])
    everything = "thread apply all bt"
    stacks = [(_seconds(found, everything), _seconds(found, f"{everything} -no-filters")) for _ in range(_ROUNDS)]
    hiding, plain = (statistics.median(seconds) for seconds in zip(*stacks, strict=True))
    rows.append([name, f"`{everything}`", f"{hiding:.2f} s", f"{plain:.2f} s with the runtimes' frames", ""])
    for runtime, program in programs.items():
        costs = [
            (
                _milliseconds(found, program, "$_ompd_thread_num() == 99"),
                _milliseconds(found, program, "$_gthread == 99"),
            )
            for _ in range(_ROUNDS)
        ]
        each, own = (statistics.median(values) for values in zip(*costs, strict=True))
        late = each - own > _MOST_MILLISECONDS
        if late:
            missed.append(f"{name}: a condition with $_ompd_thread_num() takes {each - own:.1f} ms on {runtime}")
        demand = f"≤ {_MOST_MILLISECONDS:.0f} ms more: {'MISSED' if late else 'kept'}"
        what = f"`if $_ompd_thread_num() == 99`, {runtime}"
        rows.append([name, what, f"{each:.1f} ms a hit", f"{own:.1f} ms for `$_gthread == 99`", demand])
    return InGdb(rows, missed)


def measure() -> InGdb:
    """Measure in every gdb that is here."""
    rows: list[Sequence[str]] = []
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        programs = _build(Path(folder))
        for name in NAMES:
            try:
                found = gdb(name)
            except Missing as error:
                print(error)
                continue
            each = _of(name, found, programs)
            rows += each.rows
            missed += each.missed
    return InGdb(rows, missed)


def table(found: InGdb) -> list[str]:
    """Return the lines of the section."""
    header = ["gdb", "what", "processor time in gdb", "against", "demanded"]
    return ["### Commands in gdb", "", *report.table(header, found.rows)]


def main() -> int:
    """Measure and print; 1 if something takes longer than it may."""
    found = measure()
    print("\n".join(table(found)))
    for sentence in found.missed:
        print(f"bench: missed: {sentence}", file=sys.stderr)
    return int(bool(found.missed))


if __name__ == "__main__":
    sys.exit(main())
