"""Samples of programs at random moments, judged and counted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign import judge, kinds, laws
from tests.campaign.agreement import disagreements
from tests.campaign.finds import Finds
from tests.campaign.programs import Built
from tests.campaign.samples import COMMANDS, Sample, ask, threads_of, write_snapshot
from tests.campaign.witnesses import ompt
from tests.support.machine import Missing, clean_environment
from tests.support.runs import cores_allowed

_LONGEST_PAUSE = 0.1  # seconds between two samples
_SAMPLES_PER_RUN = 12  # then the program is restarted
_PATIENCE = 20.0  # seconds that a program gets to end by itself, so that its result can be checked
_LONGEST_RUN = 300.0  # seconds for an undisturbed run of a program whose result was wrong
_MOST_RUNS = 40  # of a program that ends before it can be asked anything
_SNAPSHOT = "snapshot"


@dataclass
class Tally:
    """The results of all samples of a program on a runtime.

    :param moments: their number, by what was done to the program
    :param answers: their number, by kind of target
    """

    moments: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    longest_stop: float = 0.0
    slowest: float = 0.0
    grown: int = 0
    busy: int = 0
    ended: int = 0
    no_state: int = 0
    no_where: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Return the tally as JSON."""
        return dict(vars(self))


class Campaign:
    """Samples of programs, judged and counted.

    :param folder: where programs run, and where their cores are kept while they are judged
    :param moments: what to do to programs: some of :data:`kinds.MOMENTS`
    """

    def __init__(self, finds: Finds, folder: Path, chance: random.Random, moments: Sequence[str]) -> None:
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self.missing: Counter[str] = Counter()
        self._finds = finds
        self._folder = folder
        self._chance = chance
        self._moments = moments
        self._number = 0

    @property
    def is_broken(self) -> bool:
        """Whether a law was broken."""
        return any(tally.broken for tally in self.tallies.values())

    def results(self, seed: str) -> dict[str, Any]:
        """Return the results of all programs, for a file."""
        rows = [
            {"program": name, "runtime": runtime, **tally.as_json()} for (name, runtime), tally in self.tallies.items()
        ]
        return {"seed": seed, "missing": self.missing, "rows": rows}

    def sample(self, program: Built, samples: int, end: float | None = None) -> None:
        """Take *samples* samples of each kind from a program, which is restarted from time to time.

        :param end: the time after which no sample is begun
        """
        # libgomp has no OMPT.
        moments = [m for m in self._moments if m != kinds.OMPT or program.runtime != "libgomp"]
        left = [moment for moment in moments for _ in range(samples)]
        self._chance.shuffle(left)
        for _ in range(_MOST_RUNS + len(left)):
            if not left or (end is not None and time.monotonic() > end):
                return
            self._run(program, left, end)
        self.missing[f"{program.name} on {program.runtime} ended too early"] += 1

    def _run(self, program: Built, left: list[str], end: float | None) -> None:
        tally = self.tallies[program.name, program.runtime]
        has_time = self._chance.random() < 0.25
        with tempfile.TemporaryDirectory(prefix="ompd-real-", dir=self._folder) as name:
            folder = Path(name)
            has_tool = left[-1] == kinds.OMPT
            with _running(program, folder, ompt.environment(folder) if has_tool else {}) as process:
                kinds.await_runtime(process)
                time.sleep(0.2 + self._chance.random())
                for _ in range(_SAMPLES_PER_RUN):
                    if not left or (end is not None and time.monotonic() > end) or process.poll() is not None:
                        break
                    moment = next((m for m in reversed(left) if (m == kinds.OMPT) == has_tool), None)
                    if moment is None:
                        break
                    left.remove(moment)
                    self._number += 1
                    try:
                        self._at(moment, program, process, folder)
                        tally.moments[moment] += 1
                    except kinds.Gone:
                        left.append(moment)
                        break
                    except Missing as missing:
                        self.missing[str(missing)] += 1
                    if moment == kinds.ABORT:
                        return
                    time.sleep(self._chance.random() * _LONGEST_PAUSE)
                self._check_end(program, process, folder, has_time)

    def _check_end(self, program: Built, process: subprocess.Popen[bytes], folder: Path, has_time: bool) -> None:
        # Asking a program must not change its result.
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(_PATIENCE if has_time else 0)
            tally = self.tallies[program.name, program.runtime]
            tally.ended += 1
            wrong = program.check(status, (folder / "output").read_text(errors="replace"))
            if wrong is not None and (alone := self._wrong_alone(program, folder)) is not None:
                self.missing[f"{program.name} on {program.runtime} fails by itself: {alone}"] += 1
            elif wrong is not None:
                self._found(program, "at its end", [f"the program was harmed: {wrong}"], [], {})

    def _wrong_alone(self, program: Built, folder: Path) -> str | None:
        # Return the fault in the program's result when ompd is not run on it. Some programs overrun their stack anyway.
        with _running(program, folder) as process, suppress(subprocess.TimeoutExpired):
            return program.check(process.wait(_LONGEST_RUN), (folder / "output").read_text(errors="replace"))
        return None

    def _at(self, moment: str, program: Built, process: subprocess.Popen[bytes], folder: Path) -> None:
        if moment == kinds.LIVE:
            self._live(program, process.pid, folder)
        elif moment == kinds.STOPPED:
            self._stopped(program, process.pid, folder)
        elif moment == kinds.OMPT:
            self._held_by_tool(program, process.pid, folder)
        else:
            self._aborted(program, process, folder)

    def _live(self, program: Built, process_id: int, folder: Path) -> None:
        command = self._chance.choice((*COMMANDS, _SNAPSHOT))
        if not threads_of(process_id) or kinds.is_gone(process_id):
            raise kinds.Gone
        files: dict[str, Path] = {}
        if command == _SNAPSHOT:
            samples = list(self._snapshot(process_id, kinds.LIVE_SNAPSHOT, folder, files))
        else:
            samples = [ask(process_id, kinds.LIVE, command)]
        self._judge(program, kinds.LIVE, samples, files, [])

    def _stopped(self, program: Built, process_id: int, folder: Path) -> None:
        files: dict[str, Path] = {}
        found = []
        with kinds.standing_still(process_id):
            threads = sorted(threads_of(process_id))
            samples = [ask(process_id, kinds.STOPPED)]
            found += judge.by_witnesses(process_id, program.file, samples[0].answers)
            samples += self._snapshot(process_id, kinds.SNAPSHOT, folder, files)
            with suppress(Missing):
                core = kinds.take_gcore(process_id, folder)
                samples.append(ask(core, kinds.GCORE))
                found += _counted(samples[-1], kinds.threads_in_core(core), "the core's notes")
                samples += self._snapshot(core, kinds.SNAPSHOT_OF_CORE, folder, files)
                files[kinds.GCORE] = core
            if sorted(threads_of(process_id)) != threads:
                raise kinds.Gone  # the process was killed or resumed from outside
            for sample in samples:
                found += _counted(sample, threads, "/proc")
        if not kinds.is_gone(process_id) and not kinds.goes_on(process_id):
            found.append("the process did not go on after SIGCONT")
        self._judge(program, kinds.STOPPED, samples, files, found)

    def _held_by_tool(self, program: Built, process_id: int, folder: Path) -> None:
        with ompt.moment(process_id, folder) as known:
            if not known:
                if kinds.is_gone(process_id):
                    raise kinds.Gone
                raise Missing("OMPT", f"not all threads of {program.name} on {program.runtime} came to the tool")
            sample = ask(process_id, kinds.OMPT)
            found = [f"OMPT: {law}" for law in ompt.broken(known, sample.answers)] if sample.answers else []
        self._judge(program, kinds.OMPT, [sample], {}, found)

    def _aborted(self, program: Built, process: subprocess.Popen[bytes], folder: Path) -> None:
        files: dict[str, Path] = {}
        core = kinds.take_kernel_core(process, folder)
        samples = [ask(core, kinds.ABORT)]
        found = judge.by_witnesses(core, program.file, samples[0].answers)
        found += _counted(samples[0], kinds.threads_in_core(core), "the core's notes")
        samples += self._snapshot(core, kinds.SNAPSHOT_OF_CORE, folder, files)
        files[kinds.ABORT] = core
        self._judge(program, kinds.ABORT, samples, files, found)

    def _snapshot(self, target: int | Path, kind: str, folder: Path, files: dict[str, Path]) -> Iterator[Sample]:
        # Yield the sample of writing the snapshot, then the sample of its answers.
        file = folder / f"{kind.replace(' ', '-')}.core"
        written = write_snapshot(target, file)
        yield written
        if file.exists():
            files[kind] = file
            yield ask(file, kind)

    def _judge(
        self,
        program: Built,
        moment: str,
        samples: Sequence[Sample],
        files: Mapping[str, Path],
        found: Sequence[str],
    ) -> None:
        broken = [(law, True) for law in found]
        for sample in samples:
            broken += [(law, False) for law in judge.broken(sample)]
            self._count(program, sample)
        answering = [sample for sample in samples if sample.answers and sample.command != _SNAPSHOT]
        if moment != kinds.LIVE:
            for other in answering[1:]:
                names = answering[0].kind, other.kind
                broken += [(law, False) for law in disagreements(answering[0].answers, other.answers, names)]
        for by_witness in (False, True):
            said = [law for law, is_witness in broken if is_witness == by_witness]
            self._found(program, moment, said, samples, files, by_witness=by_witness)

    def _found(
        self,
        program: Built,
        moment: str,
        broken: Sequence[str],
        samples: Sequence[Sample],
        files: Mapping[str, Path],
        *,
        by_witness: bool = False,
    ) -> None:
        tally = self.tallies[program.name, program.runtime]
        tally.broken.update(map(judge.worded, broken))
        for law in {judge.worded(law): law for law in broken}.values():
            where = f"{moment}, number {self._number}"
            print(f"broken: {program.name} on {program.runtime}, {where}: {law}", flush=True)
            self._finds.add(program, where, law, samples, files, by_witness=by_witness)

    def _count(self, program: Built, sample: Sample) -> None:
        tally = self.tallies[program.name, program.runtime]
        tally.answers[sample.kind] += 1
        tally.slowest = max(tally.slowest, sample.seconds)
        tally.grown = max(tally.grown, sample.grown)
        tally.busy += judge.is_busy(sample)
        is_end = judge.is_of_an_end(sample)
        tally.codes["ended" if is_end else str(sample.code)] += 1
        tally.longest_stop = max([tally.longest_stop, *(length / 1e6 for length, _ in sample.stops)])
        for answer in sample.answers.values():
            if not answer["complete"]:
                tally.reasons.update(map(judge.worded, set(answer["warnings"])))
        if sample.code == 3 and not sample.answers:
            tally.reasons[judge.worded(sample.errors.strip())] += 1
        for row in sample.answers.get("threads", {}).get("threads", ()):
            has_place = row["where"] is not None or row["at_end_of"] is not None
            tally.no_where += not has_place and row["state"] not in ("idle", None)
            if row["runtime"] is not None and row["state"] is None:
                tally.no_state += 1
                tally.reasons[f"state: {judge.worded(row['unavailable'].get('state', 'nothing says why'))}"] += 1


def _counted(sample: Sample, threads: Sequence[int], where: str) -> list[str]:
    if "threads" not in sample.answers:
        return []
    return laws.broken_counts(sample.answers["threads"]["threads"], threads, where)


@contextmanager
def _running(program: Built, folder: Path, more: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    # Run a program. At the end, kill it and all processes that it has started.
    with (folder / "output").open("wb") as output, cores_allowed():
        process = subprocess.Popen(
            program.words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**clean_environment(), **program.environment, **(more or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
