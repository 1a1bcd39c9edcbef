"""Programs that look stuck. They run until they wait; ``why`` then answers for the live process and for a core."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import ompd
from ompd.model import WhyAnswer
from ompd.questions import why as question
from tests.support.cache import CHECKOUT
from tests.support.live import build_live
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read, write_gcore
from tests.support.why import ALL_RUNTIMES

SOURCES = CHECKOUT / "fixtures" / "proof"
SETTLED_SECONDS = 0.15


@dataclass(frozen=True)
class Proof:
    """A program of ``fixtures/proof`` that runs with the arguments *case*.

    :param signal: the signal that lets it continue; None if the end of its standard input does
    :param ways: targets for which nothing may be proven ("live", "core"); a core lacks some facts
    :param stuck: the arguments with which it is stuck, None if its twin is another program
    """

    program: str
    case: tuple[str, ...] = ("goes-on",)
    stuck: tuple[str, ...] | None = ("stuck",)
    compilers: tuple[str, ...] = ("gcc", "clang")
    runtimes: tuple[str, ...] = ALL_RUNTIMES
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    signal: int | None = None
    openmp: bool = True
    ways: tuple[str, ...] = ("live", "core")
    folder: Path = SOURCES

    @property
    def name(self) -> str:
        levels = (flag[1:] for flag in self.flags if flag.startswith("-O"))
        return "-".join((self.program, *self.case, *levels))


def named(value: object) -> str:
    return value.name if isinstance(value, Proof) else str(value)


def await_rest(process_id: int) -> None:
    """Wait until all threads sleep and stay asleep, for at most a second: threads may spin, as in Intel's locks."""
    deadline = time.monotonic() + 1
    before, since = None, time.monotonic()
    while time.monotonic() < deadline:
        threads = sorted(Path(f"/proc/{process_id}/task").iterdir())
        now = [
            (thread.name, (thread / "syscall").read_text(), (thread / "schedstat").read_text()) for thread in threads
        ]
        if now != before or any(text.startswith("running") for _, text, _ in now):
            before, since = now, time.monotonic()
        elif time.monotonic() - since > SETTLED_SECONDS:
            return
        time.sleep(0.02)


@contextmanager
def at_rest(
    proof: Proof, words: tuple[str, ...], compiler: str, runtime: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program until it, or the process that it names, waits; the context kills it at its end."""
    # Code matters to ``why`` even if it is never executed.
    flags = (*proof.flags, "-DIS_STUCK") if words == proof.stuck else proof.flags
    executable = build_live(
        proof.program,
        openmp=proof.openmp,
        runtime=runtime,
        flags=flags,
        compiler_name=compiler,
        folder=proof.folder,
    )
    process = subprocess.Popen(
        [str(executable), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **proof.environment},
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert can_be_read(process.stdout.fileno(), READY_SECONDS), "it does not begin"
        ready, *others = process.stdout.readline().split()
        assert ready == "ready"
        process_id = int(others[0]) if others else process.pid
        await_rest(process_id)
        yield process, process_id
    finally:
        process.kill()
        process.communicate()


def asked(process_id: int, folder: Path) -> dict[str, WhyAnswer]:
    """Return the answers for a live process, and for a core of it that gdb writes."""
    with ompd.attach(process_id) as session:
        found = {"live": session.ask_why(samples=1)}
    core = folder / "core"
    write_gcore(process_id, core)
    with ompd.open_core(core) as session:
        found["core"] = question.ask(session)
    return found


def proofs_in(answers: Mapping[str, WhyAnswer]) -> dict[str, list[str]]:
    return {
        way: [f"{verdict.kind}: {verdict.summary}" for verdict in answer.rows if verdict.stuck == "proven"]
        for way, answer in answers.items()
    }
