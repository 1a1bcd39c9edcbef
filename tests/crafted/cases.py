"""The registry of crafted cases, and the checks that every run on one must pass."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import clean_environment

MB = 1 << 20
HARD_MEMORY = 300 * MB
"""RLIMIT_DATA: the most memory that a run of any case may request from the kernel."""
WALL_SECONDS = 100
MAX_LINE = 1 << 18
_STRANGER = 65534
_CHECKOUT = Path(__file__).resolve().parents[2]
ALL = ("threads", "runtimes", "parallel", "tasks", "stack", "icvs", "var")


class Folder:
    """The folder of a case. The command gets ``core``; other files that the case uses are named by ``uses``. With
    ``is_ours``, the files stay the user's own: ompd reads some files only then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.core = path / "core"
        self.environment: dict[str, str] = {}
        self.arguments: list[str] = []
        self.is_ours = False
        self._used: list[Path] = []

    def write(self, name: str, data: bytes) -> Path:
        """Write a file and return its path."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def sparse(self, name: str, size: int, pieces: Mapping[int, bytes]) -> Path:
        """Write a file of *size* bytes that consists of *pieces* and holes."""
        path = self.write(name, b"")
        with path.open("r+b") as file:
            for at, piece in pieces.items():
                file.seek(at)
                file.write(piece)
            file.truncate(size)
        return path

    def uses(self, *paths: Path) -> None:
        """Count the bytes of other files, too, in the limit of bytes that may be read."""
        self._used += paths

    def give_away(self) -> None:
        """Give the whole folder to another user, because harmful files usually belong to another user."""
        if os.geteuid() == 0 and not self.is_ours:
            for path in (self.path, *self.path.rglob("*")):
                os.lchown(path, _STRANGER, _STRANGER)

    def on_disk(self) -> int:
        """Return the number of bytes that the files take on disks."""
        files = [path for path in self.path.rglob("*") if path.is_file() and not path.is_symlink()] + self._used
        return sum(512 * path.stat().st_blocks for path in files)


@dataclass(frozen=True)
class Case:
    """One way to harm.

    *make* writes the files. *asked* are the commands. The first of them must end with one of *codes* and print text
    that matches *says* (a regular expression) and does not match *never*. Each command may hold *memory* bytes, read
    *reads* bytes, and take *cpu* seconds of a processor. A fixed overhead and *often* times the size on disk are added
    to both limits of bytes. *quick* cases always run, the others only with ``OMPD_FULL=1``.
    """

    name: str
    make: Callable[[Folder], object]
    asked: tuple[str, ...]
    codes: frozenset[int]
    says: str
    never: str
    memory: int
    cpu: int
    reads: int
    often: int
    quick: bool


CASES: dict[str, Case] = {}
_ALWAYS_RUN = 2
# Bytes that any run may read and hold besides: Python's own modules, and system files that a process has mapped.
_READ_ANYWAY = 8 * MB
_HELD_ANYWAY = 16 * MB


def crafted(
    *,
    each: Mapping[str, Any] | None = None,
    asked: Sequence[str] = ALL,
    code: int | Iterable[int] = 1,
    says: str = "",
    never: str = "",
    memory: int = 64 * MB,
    cpu: int = 5,
    reads: int = 16 * MB,
    often: int = 4,
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register a function that writes a case, or one for each value of *each*; see :class:`Case`."""
    codes = frozenset({code} if isinstance(code, int) else code)

    def register(make: Callable[..., object]) -> Callable[..., object]:
        kind = make.__module__.rpartition(".")[2]
        name = f"{kind}/{make.__name__}"
        made = {name: make} if each is None else {f"{name}-{key}": partial(make, **{"how": each[key]}) for key in each}
        # Of cases that differ by a number or a name, always run a few that are far apart.
        apart = max(1, -(-len(made) // _ALWAYS_RUN))
        for number, (own, function) in enumerate(made.items()):
            assert own not in CASES, own
            quick = number % apart == 0
            CASES[own] = Case(own, function, tuple(asked), codes, says, never, memory, cpu, reads, often, quick)
        return make

    return register


@dataclass
class Ran:
    """The result of a run: exit code, text, and cost."""

    argv: list[str]
    code: int
    out: str
    err: str
    killed: str | None
    cpu: float
    held: int | None
    anonymous: int
    read: int
    written: int
    process: int

    def __str__(self) -> str:
        return (
            f"ompd {' '.join(self.argv)}: {self.code}, {self.cpu:.2f} s, {(self.held or 0) >> 20} MB held,"
            f" {self.anonymous >> 20} MB seen, {self.read >> 10} KB read, {self.written >> 10} KB written\n"
            f"{self.out[:1500]}{self.err[:1500]}"
        )


@dataclass
class Server:
    """A process of :mod:`tests.crafted.server`; *prefix* is the command under which it runs."""

    prefix: Sequence[str] = ()
    _process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "tests.crafted.server"],
            cwd=_CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**clean_environment(), "PYTHONPATH": str(_CHECKOUT)},
        )
        self._line(60)

    def _line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], seconds)[0], "the server does not answer"
        return self._process.stdout.readline()

    def run(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], cpu: int = 5, data: int = HARD_MEMORY
    ) -> Ran:
        """Run the command once."""
        assert self._process.stdin is not None
        usual = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OMPD_CACHE": "off", "HOME": str(cwd)}
        request = {
            "argv": list(argv),
            "cwd": str(cwd),
            "env": {**usual, "XDG_DATA_HOME": "/proc/no-such-folder", "TMPDIR": str(cwd), **env},
            "cpu": cpu,
            "data": data,
            "seconds": WALL_SECONDS,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._line(WALL_SECONDS + 20)
        assert line, "the server ended"
        return Ran(list(argv), **json.loads(line))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def arguments_of(case: Case, folder: Folder, command: str) -> list[str]:
    """Return the command line of one command on a case."""
    words = command.split()
    if words[0] == "var" and len(words) == 1:
        words.append("counter")
    if words[0] == "layout":
        return [word.format(folder=folder.path) for word in words]
    if words[0] == "snapshot":
        words += ["-o", str(folder.path / "written")]
    return [words[0], str(folder.core), *words[1:], *folder.arguments]


def run_case(server: Server, case: Case, folder: Folder, command: str) -> Ran:
    """Run one command on a case whose files are written."""
    return server.run(
        arguments_of(case, folder, command),
        cwd=folder.path,
        env=folder.environment,
        cpu=case.cpu,
        data=HARD_MEMORY,
    )


def check(case: Case, folder: Folder, command: str, ran: Ran) -> None:
    """Check the conditions of every run, and the conditions of the case for its first command."""
    assert ran.killed is None, f"ended by force, for its {ran.killed}: {ran}"
    assert ran.code in (0, 1, 2, 3), ran
    for word in ("Traceback", "internal error", "there is not enough memory"):
        assert word not in ran.err, ran
    for text in (ran.out, ran.err):
        odd = [character for character in text if not character.isprintable() and character != "\n"]
        assert not odd, (odd[:10], str(ran))
        longest = max(map(len, text.split("\n")))
        assert longest < MAX_LINE or "--json" in ran.argv, f"a line of {longest} characters: {ran}"
    assert ran.code != 1 or (ran.out == "" and ran.err.startswith("ompd: ")), ran
    on_disk = folder.on_disk()
    held = min(case.memory + _HELD_ANYWAY + case.often * on_disk, HARD_MEMORY + _HELD_ANYWAY)
    assert ran.held is not None and max(ran.held, ran.anonymous) <= held, f"{held} bytes may be held: {ran}"
    allowed = _READ_ANYWAY + case.reads + case.often * on_disk
    assert ran.read <= allowed, f"{ran.read} bytes read, {allowed} allowed: {ran}"
    if command == case.asked[0]:
        assert ran.code in case.codes, ran
        assert re.search(case.says, ran.out + ran.err), (case.says, str(ran))
        assert not case.never or not re.search(case.never, ran.out + ran.err), ran
