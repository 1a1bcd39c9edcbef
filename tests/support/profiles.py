"""Profiles of the program ``fixtures/profile/costs.c``, which loses time in a known way, and its own clocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.model import Estimate, ProfileAnswer
from ompd.model.kinds import Activity
from ompd.questions.profile import sampler
from tests.support.cache import CHECKOUT
from tests.support.live import build_live, working

SOURCES = CHECKOUT / "fixtures" / "profile"
GNU, LLVM = "libgomp", "libomp-19"
_MOST_TRIES = 10
# Waiting threads sleep. On a busy machine a spinning thread has no processor most of the time, and is not seen to wait.
PATIENT = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def line_of(mark: str) -> int:
    """Return the number of the source line that has the comment *mark*."""
    lines = (SOURCES / "costs.c").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"/* {mark} */" in line)


def built(runtime: str) -> Path:
    """Return the program for *runtime*, built with gcc for libgomp, and with clang for LLVM's runtime."""
    return build_live("costs", runtime=runtime, folder=SOURCES, compiler_name="gcc" if runtime == GNU else "clang")


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks cost more than users accept, so that a test takes less time."""
    for part in ("_PROCESSOR_PART", "_STOPPED_PART", "_CROWDED_PART"):
        monkeypatch.setattr(sampler, part, 0.5)


@dataclass(frozen=True)
class Profiled:
    """A profile, and the parts of the time by the program's own clocks."""

    answer: ProfileAnswer
    own: dict[str, float]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the causes, the first one first."""
        return [str(verdict.kind) for verdict in self.answer.verdicts]


def profiled(
    case: str, runtime: str, *, seconds: float, accepted: Callable[[ProfileAnswer], Any] = bool, threads: int = 2
) -> Profiled:
    """Return a profile of the program in a *case*. If it is not *accepted*, look again and longer: a busy machine gives
    few moments in some seconds.
    """
    executable = built(runtime)
    environment = {"OMP_NUM_THREADS": str(threads), **PATIENT}
    with working("costs", case, executable=executable, env=environment) as program, ompd.attach(program.pid) as session:
        for number in range(1, _MOST_TRIES + 1):
            answer = session.ask_profile(number * seconds, rate=60)
            if accepted(answer):
                break
        own = json.loads(program.finish())
    return Profiled(answer, own)


def part_of(answer: ProfileAnswer, activity: Activity) -> Estimate:
    """Return the part of the thread time of the whole run that goes to *activity*."""
    return next((each.share for each in answer.activities if each.activity is activity), Estimate(0.0, 0.0, 0.0))
