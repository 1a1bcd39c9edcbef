"""A whole triage: from its targets to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ompd.model.triage import TriageAnswer
from ompd.triage.baseline import Baseline
from ompd.triage.engine import Engine, Inspecting
from ompd.triage.groups import Groups
from ompd.triage.results import ResultFile
from ompd.triage.targets import Wanted
from ompd.triage.work import Limits


def triage(
    targets: Sequence[Wanted],
    engine: Engine,
    limits: Limits,
    *,
    results: str | None = None,
    baseline: Baseline | None = None,
    warnings: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _text: None,
) -> tuple[TriageAnswer, bool]:
    """Return the groups of all targets, and whether Ctrl-C ended the triage before all targets were inspected.

    :param results: a file for the results; targets that have a result in it are not inspected again
    :param baseline: an earlier triage
    :param warnings: further warnings for the answer
    :param progress: called with a line of text after each target
    :raises BadFile: if *results* cannot be written, or is not a file of results
    """
    groups = Groups()
    all_warnings = list(warnings)
    pace = _Pace(len(targets), progress)
    is_interrupted = False
    with ExitStack() as stack:
        file = stack.enter_context(ResultFile(results)) if results is not None else None
        waiting = dict.fromkeys(targets)
        try:
            for result in file.kept(targets) if file is not None else ():
                groups.add(result)
                pace.kept += 1
                waiting.pop(Wanted(result["target"]), None)
            for result in Inspecting(engine, limits).results(waiting):
                groups.add(result)
                pace.step(groups.failed)
                if file is not None:
                    file.add(result)  # last, so that after Ctrl-C the answer has every result in the file
        except KeyboardInterrupt:
            is_interrupted = True
            left = len(targets) - pace.kept - pace.done
            more = f"; `--results {results}` goes on from here" if results is not None else ""
            all_warnings.append(f"interrupted: {left} of {len(targets)} targets were not inspected{more}")
    return groups.answer(all_warnings, baseline), is_interrupted


class _Pace:
    """Reports the progress: the number of finished targets, the rate, and the remaining time."""

    def __init__(self, total: int, progress: Callable[[str], None]) -> None:
        self._total = total
        self._progress = progress
        self._began = time.monotonic()
        self.kept = 0
        """The number of targets that had results in the file."""
        self.done = 0

    def step(self, failed: int) -> None:
        """Count a target, and report the progress."""
        self.done += 1
        seconds = max(time.monotonic() - self._began, 1e-6)
        rate = self.done / seconds
        left = self._total - self.kept - self.done
        text = f"{self.kept + self.done} of {self._total} targets, {rate:.1f} a second, {_duration(left / rate)} left"
        self._progress(f"{text}, {failed} failed" if failed else text)


def _duration(seconds: float) -> str:
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min" if hours else f"{minutes} min {whole_seconds} s" if minutes else f"{whole_seconds} s"
    )
