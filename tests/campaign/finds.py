"""Keep all that shows a broken law again, with the smallest command that does so."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.campaign.judge import judged, keep, worded
from tests.campaign.programs import Built
from tests.campaign.samples import QUESTIONS, RAW, Sample

_MOST_OF_A_LAW, _MOST_OF_A_PROGRAM = 6, 2  # finds with the same law; more are only counted
_MOST_BYTES = 8 << 30  # of a core that is kept
_LONGEST_SHRINKING = 60.0  # seconds
_OF_TWO = re.compile(r" of [a-z ]+ and [a-z ]+: ")  # a disagreement
_T = TypeVar("_T")


def smallest(
    candidates: Sequence[_T], questions: Sequence[str], breaks: Callable[[_T, Sequence[str]], bool]
) -> tuple[_T, tuple[str, ...]] | None:
    """Return the first candidate that breaks a law, and the questions needed for that; None if no candidate does.

    One question is returned if one is enough, else those that remain after each superfluous one is dropped.
    """
    for candidate in candidates:
        if not breaks(candidate, questions):
            continue
        for question in questions:
            if breaks(candidate, (question,)):
                return candidate, (question,)
        left = tuple(questions)
        for question in questions:
            fewer = tuple(other for other in left if other != question)
            if fewer and breaks(candidate, fewer):
                left = fewer
        return candidate, left
    return None


class Finds:
    """The folder of a campaign's finds."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder = folder
        self.kept = 0
        self._number = 1
        self._seed = seed
        self._times: Counter[str] = Counter()

    def add(
        self,
        program: Built,
        moment: str,
        law: str,
        samples: Sequence[Sample],
        files: Mapping[str, Path],
        *,
        by_witness: bool = False,
    ) -> None:
        """Keep the evidence of a broken law.

        :param moment: the kind of the moment, and its number in the campaign
        :param samples: the answers of that moment
        :param files: cores and snapshots of that moment by kind, the smallest first
        :param by_witness: whether only a witness noticed the broken law
        """
        keys = worded(law), f"{program.name} {program.runtime} {worded(law)}"
        if self._times[keys[0]] >= _MOST_OF_A_LAW or self._times[keys[1]] >= _MOST_OF_A_PROGRAM:
            return
        self._times.update(keys)
        self.kept += 1
        words = re.sub(r"[^a-z]+", "-", worded(law).lower()).strip("-")[:40].strip("-")
        while list(self.folder.glob(f"{self._number:03}-*")):  # kept by an earlier campaign with this seed
            self._number += 1
        folder = self.folder / f"{self._number:03}-{program.name}-{words}"
        folder.mkdir(parents=True)
        answers = []
        for sample in samples:
            answers.append(folder / f"{sample.kind.replace(' ', '-')}-{sample.command}.json.gz")
            keep(sample, answers[-1])
        executable = program.file if by_witness else None
        shown = self._shrunk(law, list(files.values()), answers, executable)
        targets, questions = shown if shown is not None else ((), ())
        # Cores are large. Keep one only if nothing smaller shows the law.
        wanted = set(targets) if shown is not None else set(files.values())
        kept = {path: _compressed(path, folder) for path in files.values() if path in wanted or _is_small(path)}
        lines = [
            f"law          {law}",
            f"program      {program.name} on {program.runtime}: {shlex.join(program.words)}",
            *(f"environment  {name}={value}" for name, value in sorted(program.environment.items())),
            f"seed         {self._seed}",
            f"moment       {moment}",
        ]
        if shown is None:
            lines.append(
                "again        by another sample of the program: nothing that was kept showed it, as far as was tried"
            )
        else:
            places = [str(kept.get(path, path)) for path in targets]
            option = f" --program {shlex.quote(str(executable))}" if executable is not None else ""
            lines.append(
                f"again        python -m tests.campaign.judge --questions {','.join(questions)}{option}"
                f" {shlex.join(places)}"
            )
            cores = [place for place in places if not place.endswith(".json.gz")]
            asked = ["stack --raw" if name == RAW else name for name in questions]
            lines += [f"             ompd {name} {shlex.quote(core)} --json" for core in cores for name in asked]
        errors = "".join(f"\n{sample.kind} {sample.command}:\n{sample.errors}" for sample in samples if sample.errors)
        (folder / "how.txt").write_text("\n".join(lines) + "\n" + errors)

    def _shrunk(
        self, law: str, files: Sequence[Path], answers: Sequence[Path], executable: Path | None
    ) -> tuple[tuple[Path, ...], tuple[str, ...]] | None:
        end = time.monotonic() + _LONGEST_SHRINKING
        is_of_two = _OF_TWO.search(law) is not None
        alone: list[tuple[Path, ...]] = [(path,) for path in files if not is_of_two]
        together = [(one, other) for number, one in enumerate(files) for other in files[:number]]
        kept_alone = [(path,) for path in answers if not is_of_two]
        with_answers = [(kept, path) for kept in answers for path in (*files, *answers) if kept != path]
        candidates = [*alone, *together, *kept_alone, *with_answers]
        wanted = _law_alone(law)

        def breaks(targets: tuple[Path, ...], questions: Sequence[str]) -> bool:
            if time.monotonic() > end:
                return False
            has_core = any(not path.name.endswith(".json.gz") for path in targets)
            said = judged(targets, questions, executable if has_core else None)
            return any(_law_alone(text) == wanted for text in said)

        # Try first the questions that the law names; they are likely to be enough.
        return smallest(candidates, sorted(QUESTIONS, key=lambda name: name not in law), breaks)


def _law_alone(law: str) -> str:
    # A disagreement is the same for any two targets.
    return worded(_OF_TWO.sub(" ", law, count=1))[:60]


def _is_small(path: Path) -> bool:
    return path.stat().st_size < 64 << 20


def _compressed(path: Path, folder: Path) -> Path:
    if path.stat().st_size > _MOST_BYTES:
        return path
    kept = folder / f"{path.name}.gz"
    with path.open("rb") as source, gzip.open(kept, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return kept
