"""Measuring whole processes: what one run cost, many by turns, and what to say of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

from tests.support import clean_environment

CHECKOUT = Path(__file__).resolve().parents[1]
_LAUNCH = Path(__file__).with_name("launch.py")
_BLOCK = 512  # getrusage(2) counts ru_inblock in these, whatever the disk's are

_T = TypeVar("_T")


class NotMeasured(Exception):
    """A command failed or answered wrongly, or something that is needed is not here. The text says what."""


@dataclass(frozen=True)
class Command:
    """A command to measure: what tables call it, its words, variables that it needs besides."""

    label: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """What one run cost: wall time, processor time (user and system), peak resident memory, and what was read from
    disk rather than from memory.
    """

    seconds: float
    processor: float
    peak_bytes: int
    read_bytes: int


@dataclass(frozen=True)
class Figures:
    """Several runs of one command: the least of its processor times, the middle, least and most of its wall times, and
    the most of the others.
    """

    processor: float
    seconds: float
    least_seconds: float
    most_seconds: float
    peak_bytes: int
    read_bytes: int

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Figures:
        """Return the figures of *samples*."""
        times = [sample.seconds for sample in samples]
        return cls(
            min(sample.processor for sample in samples),
            median(times),
            min(times),
            max(times),
            max(sample.peak_bytes for sample in samples),
            max(sample.read_bytes for sample in samples),
        )


def _environment(command: Command) -> dict[str, str]:
    # PYTHONDONTWRITEBYTECODE would have every run compile the package, which no user's does.
    clean = {name: value for name, value in clean_environment().items() if not name.startswith("PYTHON")}
    return {**clean, **command.environment}


def run(command: Command) -> Sample:
    """Run *command* once.

    :raises NotMeasured: if it does not end with exit status 0
    """
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_LAUNCH), *command.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(command),
            check=False,
        )
        if done.returncode == 0:
            seconds, processor, peak, blocks, status = done.stdout.split()
            # Without stopping a process not all is told of it, and the command says so.
            if status == "0" or (status == "3" and "--nonblocking" in command.words):
                return Sample(float(seconds), float(processor), int(peak) * 1024, int(blocks) * _BLOCK)
        errors.seek(0)
        raise NotMeasured(f"{' '.join(command.words)} failed: {errors.read().strip()[-500:]}")


def output_of(command: Command) -> str:
    """Return what *command* prints, unmeasured and whatever its exit status."""
    done = subprocess.run(
        command.words,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(command),
        check=False,
    )
    return done.stdout


def by_turns(tasks: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """Return what *rounds* calls of each task gave, after one call that does not count.

    The tasks take turns, each round begins with another one: a machine that is busy for a while slows all of them.
    """
    names = list(tasks)
    for name in names:
        tasks[name]()
    found: dict[str, list[_T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(tasks[name]())
    return found


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Let the kernel forget the contents of files. Pages that a running process has mapped stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # what is not yet on the disk would stay too
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
