"""The benchmark's command line, ``python -m bench``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from bench import commands, in_gdb, learner, pages, report, tools, triage
from bench.measure import Command, NotMeasured
from bench.targets import (
    ALIVE,
    FEW,
    GNUS,
    MANY,
    MOST,
    QUEUED,
    RUNNING,
    SOME,
    WHY_MOST,
    Group,
    cold,
    crowd,
    hosted,
    learning,
    live,
    measure_conclusion,
    measure_growth,
    measure_stops,
    megabytes,
    own,
    queued,
    seconds,
    stacks,
    times,
    times_gdb,
    warm,
)
from tests.support import Missing, NotReady, Stopped, running, stopped
from tests.support.libomp_build import NAME as OWN
from tests.support.libomp_build import build_libomp

_EXIT_MISSED, _EXIT_NOT_MEASURED = 1, 2
_ROUNDS, _QUICK_ROUNDS = 15, 3


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Compare ompd with gdb on cores and processes of an OpenMP program.",
        epilog="Exit status: 0 all demands are kept, 1 one is missed, 2 it could not be measured.",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help=f"runs of each command that count ({_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"only {_QUICK_ROUNDS} rounds")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md too")
    parser.add_argument(
        "--plugin", type=Path, metavar="FILE", help="__init__.py of LLVM's OMPD plugin for gdb, if it is not found"
    )
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def _core(threads: int) -> Stopped:
    try:
        return stopped("many", threads=threads)
    except Missing as error:
        if not error.forbidden:
            raise
        print(f"gdb's gcore writes the core of {threads} threads, because {error.why}")
        return stopped("many", threads=threads, kind="gcore")


def _tasks() -> Stopped:
    # Without throttling the runtime queues as many as there are.
    environment = {"KMP_ENABLE_TASK_THROTTLING": "0", "TASKS": str(QUEUED)}
    return stopped("task_queued", mode="neither", threads=RUNNING, env=environment)


def _title(program: Stopped, what: str) -> str:
    size = program.core.stat()
    kind = "kernel core" if program.kind == "kernel" else "core by gcore"
    return f"{what}, {kind} of {size.st_size / 1e6:.0f} MB ({size.st_blocks * 512 / 1e6:.0f} on disk)"


def _groups(cores: Mapping[int, Stopped], peers: Mapping[int, Command | str]) -> Iterator[Group]:
    limits = {FEW: (times_gdb(1.0),), MANY: (times_gdb(1.0), megabytes(100)), MOST: (times_gdb(1.0), seconds(1.5))}
    for threads, program in cores.items():
        if threads != SOME:
            why = (times("ompd threads", WHY_MOST),) if threads >= MANY else ()
            yield warm(program, _title(program, f"{threads} threads"), limits[threads], peers.get(threads), why)
    yield stacks(cores[MANY], f"stacks of {MANY} threads", (times_gdb(1.0), megabytes(150)))
    yield hosted(cores[MANY], _title(cores[MANY], f"{MANY} threads by Intel's OMPD library"))
    gnus = stopped("many", mode="neither", threads=GNUS, runtime="libgomp")
    yield warm(gnus, _title(gnus, f"{GNUS} threads of libgomp"), (seconds(1.0), megabytes(150)), None)
    crowded = stopped("many", mode="neither", threads=MANY, runtime="libgomp", env={"MANY_IN_CRITICAL": "1"})
    yield crowd(crowded, _title(crowded, f"{MANY} threads of libgomp, all but one at a critical section"))
    limits = {FEW: (seconds(0.6),), MANY: (seconds(0.6),), MOST: (seconds(2.0),)}
    for threads, program in cores.items():
        if threads != SOME:
            yield cold(program, f"{threads} threads, files not in memory", limits[threads])
    tasks = _tasks()
    yield queued(tasks, _title(tasks, f"{QUEUED:,} queued and {RUNNING} running tasks"), (times_gdb(1.0),))
    for threads, most in ((FEW, 0.6), (MANY, 0.8)):
        try:
            build_libomp()
        except Missing as error:
            print(f"No table for a libomp with debug information: {error}")
            return
        program = stopped("many", mode="neither", threads=threads, runtime=OWN)
        title = f"{threads} threads of an LLVM libomp with its own debug information"
        yield own(program, _title(program, title), (times_gdb(most),))


def _live(rounds: int, say: Callable[[list[str]], None]) -> list[str]:
    # Returns what is missed. Its stacks are as large as by default, as in the cores.
    missed: list[str] = []
    stops = []
    for threads in (FEW, SOME, ALIVE, MANY):
        with tempfile.TemporaryDirectory() as folder, running("many", folder=Path(folder), threads=threads) as program:
            commands.check_answer(program)
            stops.append(measure_stops(program, threads, rounds, 50e-3 if threads == ALIVE else None))
            if threads in (FEW, MANY):
                limits = (times_gdb(1.0), megabytes(100)) if threads == MANY else ()
                group = live(program, f"{threads} threads, a live process", limits)
                figures = group.measure(rounds)
                say(report.group_table(group, figures))
                missed += group.missed(figures)
    _learning(rounds, say)
    say(report.stops_table(stops))
    return missed + [sentence for each in stops for sentence in each.missed()]


def _learning(rounds: int, say: Callable[[list[str]], None]) -> None:
    try:
        with learner.running() as (process_id, imported):
            group = learning(process_id, f"a live process of PyTorch's, with {', '.join(imported)}")
            say(report.group_table(group, group.measure(rounds)))
    except Missing as error:
        print(f"No table for PyTorch: {error}")


def _pages(say: Callable[[list[str]], None]) -> list[str]:
    # Returns what is missed. Where there is no browser that is said, and nothing else is left out.
    try:
        found = pages.measure()
    except Missing as error:
        print(f"No table for pages: {error}")
        return []
    say(pages.table(found))
    return [sentence for name, each in found.items() for sentence in each.missed(name)]


def _notes(programs: Iterable[Stopped], peers: Iterable[Command | str]) -> list[str]:
    notes = []
    if not all(map(commands.reads_debug_file, programs)):
        notes.append("gdb does not find the runtime's debug file here: it has less to do than it should.")
    reasons = dict.fromkeys(peer for peer in peers if isinstance(peer, str))
    notes += [f"No row for gdb with LLVM's OMPD plugin: {reason}." for reason in reasons]
    return notes


def _measure(options: argparse.Namespace) -> list[str]:
    cores = {threads: _core(threads) for threads in (FEW, SOME, MANY, MOST)}
    for program in cores.values():
        commands.check_answer(program)
    peers = {threads: commands.plugin(cores[threads], options.plugin) for threads in (FEW, MANY)}
    said: list[str] = []
    missed: list[str] = []

    def say(lines: list[str]) -> None:
        block = ["", *lines] if said else lines
        print("\n".join(block), flush=True)
        said.extend(block)

    say([report.machine(options.rounds), *_notes(cores.values(), peers.values())])
    for group in _groups(cores, peers):
        figures = group.measure(options.rounds)
        say(report.group_table(group, figures))
        if group.cold and not any(found.read_bytes for found in figures.values()):
            say(["Nothing was read from the disk: files could not be dropped from memory, these times are warm."])
        missed += group.missed(figures)
    missed += _live(options.rounds, say)
    growth = measure_growth(cores, options.rounds)
    say(report.growth_table(growth))
    conclusion = measure_conclusion(options.rounds)
    say(report.conclusion_table(conclusion))
    debuggers = in_gdb.measure()
    say(in_gdb.table(debuggers))
    ompt = tools.measure()
    say(tools.table(ompt))
    missed += _pages(say)
    many = triage.measure(min(options.rounds, triage.ROUNDS))
    say(triage.table(many))
    if options.write:
        report.write("\n".join(said))
    missed += growth.missed() + conclusion.missed()
    return [*missed, *debuggers.missed, *ompt.missed(), *many.missed()]


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; returns its exit status."""
    try:
        missed = _measure(_options(arguments))
    except (Missing, NotReady, NotMeasured) as error:
        print(f"bench: {error}", file=sys.stderr)
        return _EXIT_NOT_MEASURED
    for sentence in missed:
        print(f"bench: missed: {sentence}", file=sys.stderr)
    return _EXIT_MISSED if missed else 0


if __name__ == "__main__":
    sys.exit(main())
