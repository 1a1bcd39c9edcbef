"""Many cores for ``triage``, made from few: the programs write their own verdicts."""

from __future__ import annotations

import gzip
import lzma
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.compression import zstd_frame
from tests.support.machine import clean_environment
from tests.support.why import GNU, WHYS, Hung, hung

PROGRAMS = (
    *("lock_cycle-two", "lock_cycle-section", "self_lock-lock", "self_lock-mutex", "lock_abandoned-returned"),
    *("barrier_absent-exited", "barrier_mismatch-branch", "laggard-barrier", "external_wait-semaphore"),
    *("orphaned_worksharing-single", "lost_wakeup-lock", "no_stall-parallel"),
)
"""Twelve programs of ``fixtures/programs/why``, each of which hangs in a different way."""

SEED = 23
_SECONDS, _MEMORY, _LARGEST = 30, "48M", "64M"
_MB = 1 << 20


def cores() -> list[Hung]:
    """Return a core of each program."""
    return [hung(WHYS[name], "gcc", GNU) for name in PROGRAMS]


def spread(found: Sequence[Hung], counts: Sequence[int], folder: Path) -> dict[str, set[str]]:
    """Put *count* links to each core into the folder, and return their names by program."""
    names: dict[str, set[str]] = {}
    numbers = _numbers()
    for one, count in zip(found, counts, strict=True):
        assert one.core is not None
        for _ in range(count):
            path = folder / f"core.{next(numbers)}"
            os.link(one.core, path)
            names.setdefault(one.why.name, set()).add(str(path))
    return names


def _numbers() -> Iterator[int]:
    # Yield every number below 10,007 once, in an order that separates the cores of one program.
    number = 0
    while True:
        number = (number + 7919) % 10_007
        yield number


def damaged(core: Path, folder: Path, count: int) -> dict[str, str]:
    """Put *count* damaged copies of a core into the folder; return a regular expression for the error of each."""
    raw = core.read_bytes()
    found: dict[str, str] = {}
    for number in range(count):
        path = folder / f"damaged.{number}"
        path.write_bytes(raw[: 20 + number * 40])  # the rest of the headers is not enough
        found[str(path)] = "header|cut off"
    return found


@dataclass(frozen=True)
class Farm:
    """The cores of one night. *names* has the cores by program. *failing* has targets without an answer, each with a
    regular expression for the error. *words* are the arguments of ``ompd triage``, and *environment* is its
    environment.
    """

    folder: Path
    words: tuple[str, ...]
    names: Mapping[str, set[str]]
    failing: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=clean_environment)


def make_farm(folder: Path, total: int, *, varied: bool) -> Farm:
    """Make *total* targets: a single core of one program, damaged cores, five files that are no cores, two that exhaust
    limits, and for the rest cores of eleven other programs.

    :param varied: use cores of several runs of each program, by the kernel and by gdb, also as ranks of jobs, some of
        them compressed, chosen with a fixed seed; and add a target that exceeds the time limit
    """
    folder.mkdir()
    chance = Random(SEED)
    failing = damaged(_core(PROGRAMS[1]), folder, 20 if varied else 5)
    failing |= _no_cores(folder) | _exhausting(folder)
    words = [str(folder), *(name for name in failing if not name.startswith(f"{folder}/core"))]
    environment = clean_environment()
    if varied:
        failing["coredumpctl:hang"] = f"takes more than {_SECONDS} s"
        words.append("coredumpctl:hang")
        environment["PATH"] = f"{_hanging_coredumpctl(folder)}:{environment['PATH']}"
    each, more = divmod(total - len(failing) - 1, len(PROGRAMS) - 1)
    names: dict[str, set[str]] = {}
    numbers = _numbers()
    made: dict[tuple[Path, str], Path] = {}
    for index, program in enumerate(PROGRAMS):
        variants = _variants(program) if varied else [_core(program)]
        for _ in range(each + (index <= more) if index else 1):
            kind = chance.choice(("", "", "", ".zst", ".gz"))
            path = folder / f"core.{next(numbers)}{kind}"
            core = chance.choice(variants)
            first = made.setdefault((core, kind), path) if kind else core
            if first is path:
                raw = core.read_bytes()
                path.write_bytes(zstd_frame(raw) if kind == ".zst" else gzip.compress(raw, 1))
            else:
                os.link(first, path)
            names.setdefault(program, set()).add(str(path))
    limits = ("--max-time", str(_SECONDS), "--max-memory", _MEMORY, "--max-size", _LARGEST)
    return Farm(folder, (*words, *limits), names, failing, environment)


def _core(program: str, kind: str = "kernel", environment: Mapping[str, str] | None = None) -> Path:
    core = hung(WHYS[program], "gcc", GNU, kind=kind, environment=environment).core
    assert core is not None
    return core


def _variants(program: str) -> list[Path]:
    # Return cores of separate runs, with different process and thread ids, addresses and starts of stacks.
    chance = Random(f"{SEED} {program}")
    ranks = {"OMPI_COMM_WORLD_RANK": str(chance.randrange(64)), "OMPI_COMM_WORLD_SIZE": "64"}
    padding = {"PADDING": "x" * chance.randrange(20_000)}
    return [_core(program), _core(program, environment=padding), _core(program, "gcore", {**ranks, **padding})]


def _no_cores(folder: Path) -> dict[str, str]:
    # triage finds the first two in a folder, because they begin like compressed files. The other three must be named.
    found = {
        "packed.zst": (b"\x28\xb5\x2f\xfd of which nothing follows", "zstd"),
        "letter.gz": (gzip.compress(b"dear\n"), "not an ELF file"),
        "letter.txt": (b"dear\n", "not an ELF file"),
        "program": (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00" + bytes(44), "executable"),
        "empty": (b"", "is empty"),
    }
    for name, (raw, _) in found.items():
        (folder / name).write_bytes(raw)
    return {str(folder / name): reason for name, (_, reason) in found.items()}


def _exhausting(folder: Path) -> dict[str, str]:
    # An intact core whose decompression needs a dictionary of 64 MB, and one that decompresses to more than the limit.
    core = _core(PROGRAMS[2])
    dear, large = folder / "core.dear.xz", folder / "core.large.gz"
    dear.write_bytes(lzma.compress(core.read_bytes(), preset=9))
    large.write_bytes(gzip.compress(core.read_bytes() + bytes(80 * _MB), 1))
    return {str(dear): "takes too much memory", str(large): "more than 64 MB"}


def _hanging_coredumpctl(folder: Path) -> Path:
    programs = folder.with_name(f"{folder.name}.bin")
    programs.mkdir()
    os.mkfifo(programs / "pipe")
    program = programs / "coredumpctl"
    program.write_text(f"#!/bin/sh\nread line < '{programs / 'pipe'}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return programs
