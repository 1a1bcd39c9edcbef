"""Answers for the tests' report pages: a program for each verdict, and invented processes that are larger."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ompd.model import (
    Answer,
    Link,
    ParallelRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    StackFrame,
    StackRecord,
    TargetRecord,
    TaskRecord,
    ThreadRecord,
    VerdictRecord,
    Wait,
    WhyAnswer,
)
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.report.gather import PageAnswers
from ompd.report.page import make_page
from tests.support.why import GNU, WHYS, hung

_OTHERS = ("conditions", "guards", "exception", "parted", "locks")  # other programs have the same verdicts
OF_KIND = {name.partition("-")[0]: name for name in reversed(list(WHYS)) if name.partition("-")[0] not in _OTHERS}
"""A program for each verdict."""


def core_of(name: str) -> Path:
    """Return the core of a program of WHYS, built by gcc for libgomp if the program supports this pair.

    :raises Missing: if this machine cannot make the core
    """
    pairs = WHYS[name].pairs()
    core = hung(WHYS[name], *(("gcc", GNU) if ("gcc", GNU) in pairs else pairs[0])).core
    assert core is not None
    return core


@cache
def large(count: int) -> PageAnswers:
    """Return the answers for a team of *count* threads, of which all but one wait at a barrier."""
    function = RegionFunction(0x10, "simulate", "/src/hang.c", 50, "parallel")
    target = TargetRecord("core", "core.1", "hang", 1, None, 6, "SIGABRT", "x86_64", count)
    runtime = RuntimeRecord("libgomp", "libgomp", "GCC 12", "libgomp.so", "ab", "table", None, False)
    threads, stacks = [], []
    for n in range(count):
        place = Place(0x10 + n % 7, f"work_{n % 7}", "/src/hang.c", 50 + n % 5)
        wait = Wait(Kind.BARRIER, 1, arrived=count - 1, expected=count, missing=(1 + 17,)) if n != 17 else None
        threads.append(
            ThreadRecord(
                runtime="libgomp", thread_num=n, team_size=count, level=1, active_level=1, native_thread_id=n + 1,
                thread_type="worker", state="wait_barrier" if wait else "work_parallel", wait=wait, where=place,
                parallel="0x1",
            )
        )  # fmt: skip
        frames = tuple(
            StackFrame(name, "/src/hang.c", 50 + n % 5, 0x10, None, "user", None, n + 1)
            for name in (f"work_{n % 7}", "simulate", "main")
        )
        stacks.append(StackRecord(n + 1, "libgomp", n, count, 1, "0x1", False, "derived", None, frames, (n + 1,), (n,)))
    region = ParallelRecord("0x1", "libgomp", 1, 1, count, None, function, tuple(range(1, count + 1)))
    tasks = tuple(
        TaskRecord(f"0x{n:x}", "libgomp", "explicit", n % 99, None, None, "0x1", function, None, None, "queued")
        for n in range(count)
    )
    links = (
        Link(
            1, tuple(n + 1 for n in range(count) if n != 17), "a barrier", Kind.BARRIER, threads[0].where, "member", 0
        ),
        Link(18, (18,), "it works", Kind.THREAD, threads[17].where, None, 17),
    )
    verdict = VerdictRecord(
        kind=VerdictKind.LAGGARD, stuck=Confidence.UNKNOWN, confidence=Confidence.PROVEN,
        summary="one works", roots=(18,), cycle=links,
        explains=links[0].threads,
    )  # fmt: skip

    def answer(*rows: Any) -> Answer[Any]:
        return Answer(target, (runtime,), rows, True, ())

    return PageAnswers(
        runtimes=answer(runtime), threads=answer(*threads), regions=answer(region), tasks=answer(*tasks),
        icvs=answer(), stacks=answer(*stacks), why=WhyAnswer(target, (runtime,), (verdict,), True, ()), variables={},
        environment=None, modules=[], faults={},
    )  # fmt: skip


def source_of(found: PageAnswers) -> str:
    """Return the text of a page."""
    return make_page(found, ["ompd", "report", "core.1"], "2026-11-23")
