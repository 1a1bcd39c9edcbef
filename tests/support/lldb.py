"""LLDBs of several versions, each in a separate process: they exclude each other, and a crash ends no test run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ompd.commands.setup.start_files import DEBUGGERS, format_line
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import Missing, clean_environment, intel_runtime
from tests.support.runs import Running, Stopped, can_be_read

VERSIONS = (22, 19, 14)
ANSWER_SECONDS = 100
LOAD = format_line(DEBUGGERS["LLDB"])
"""The command that loads ours."""


def target_create(program: Path, core: Path | None = None) -> str:
    """Return LLDB's command for a target, with its files' names quoted."""
    return f'target create "{program}"' + (f' --core "{core}"' if core is not None else "")


@dataclass(frozen=True)
class Lldb:
    """An unpacked LLDB: the folder of its programs, and the environment that they need."""

    version: int
    binaries: Path
    environment: Mapping[str, str]

    @property
    def command(self) -> str:
        """The path of the debugger."""
        return str(self.binaries / "lldb")


def lldb(version: int) -> Lldb:
    """Return the LLDB of a version.

    :raises Missing: if it was not fetched, or does not run here
    """
    root = deb_folder(f"lldb-{version}")
    home = root / "usr" / "lib" / f"llvm-{version}"
    module = next(path.parent.parent for path in sorted(home.glob("lib/python3.*/*-packages/lldb/__init__.py")))
    environment = {
        **clean_environment(),
        "LD_LIBRARY_PATH": f"{root / 'usr' / 'lib' / 'x86_64-linux-gnu'}:{home / 'lib'}",
        "PYTHONPATH": f"{module}:{root / 'usr' / 'lib' / 'python3' / 'dist-packages'}",
        "LLDB_DEBUGSERVER_PATH": str(home / "bin" / "lldb-server"),
        "TERM": "dumb",
        "HOME": "/nonexistent",
    }
    found = Lldb(version, home / "bin", environment)
    done = subprocess.run([found.command, "--version"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"lldb-{version}", f"does not run: {done.stderr.strip()}")
    return found


class LldbHost:
    """A process that loads one version of LLDB as a library and answers questions (``tests/support/lldb_host.py``)."""

    def __init__(self, version: int) -> None:
        found = lldb(version)
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        if python not in found.environment["PYTHONPATH"]:
            raise Missing(f"lldb-{version}", f"its module is of another Python than {python}", forbidden=True)
        environment = {name: value for name, value in found.environment.items() if name != "PYTHONPATH"}
        # The host must find LLDB's module by itself, as it does for users.
        environment.pop("LLDB_DEBUGSERVER_PATH")
        self.environment = {**environment, "OMPD_LLDB": found.command}
        # The programs that the host launches write their truth into the current folder.
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lldb_host"],
            cwd=self._folder.name,
            env={**self.environment, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def ask(self, question: str, **details: object) -> Any:
        """Return the host's answer; an exception in the host fails the test."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"question": question, **details}) + "\n")
        process.stdin.flush()
        if not can_be_read(process.stdout.fileno(), ANSWER_SECONDS):
            self.close()
            raise TimeoutError(f"LLDB did not answer {question} in {ANSWER_SECONDS} seconds")
        line = process.stdout.readline()
        assert line, f"the process with LLDB died with status {process.wait()}"
        answer = json.loads(line)
        assert "fault" not in answer, answer["fault"]
        return answer

    def compare_core(self, stopped: Stopped) -> Any:
        """Return all answers about a core in LLDB, and their comparison with its truth."""
        return self.ask("compare", core=str(stopped.core), **_facts_of(stopped))

    def compare_live(self, running: Running) -> Any:
        """Return all answers about a live program that LLDB attaches to, and their comparison with its truth."""
        return self.ask("compare", pid=running.pid, **_facts_of(running))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def _facts_of(program: Stopped | Running) -> dict[str, object]:
    return {
        "executable": str(program.executable),
        "truth": program.truth,
        "program": program.program,
        "compiler": program.compiler,
        "mode": program.mode,
        "runtime": program.runtime,
    }


def without_origin_of_signals(answer: dict[str, Any], version: int) -> dict[str, Any]:
    """Return an answer in JSON without the facts on signals that this version of LLDB does not know for cores."""
    if version < 17:  # it does not name its core file, which has the signal's origin
        stacks = [row for verdict in answer.get("why", ()) for row in verdict["stacks"]]
        for row in (*answer.get("threads", ()), *answer.get("stack", ()), *stacks):
            for key in ("si_code", "failed"):
                row[key] = None
                row["unavailable"].pop(key, None)
    return answer


def batch(found: Lldb, commands: Sequence[str], *arguments: str, cwd: Path) -> str:
    """Run *commands* in LLDB, even after one fails, and return its output with the lines of its prompt."""
    with tempfile.NamedTemporaryFile("w", suffix=".lldb") as file:
        file.write("\n".join(commands) + "\n")
        file.flush()
        go_on = "settings set interpreter.stop-command-source-on-error false"
        done = subprocess.run(
            [found.command, "-x", "-b", "-o", go_on, "-o", f"command source {file.name}", *arguments],
            cwd=cwd,
            env={**found.environment, "HOME": str(cwd)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    assert done.returncode >= 0, f"LLDB died of signal {-done.returncode}: {done.stdout}"
    return done.stdout.partition(f"Executing commands in '{file.name}'.\n")[2] or done.stdout


SOURCES = CHECKOUT / "tests" / "lldb"


def build_regions(*, pie: bool = True) -> Path:
    """Return the folder with ``regions`` and ``opener``, which loads the same code as ``libregions.so`` at run time."""
    runtime, gcc = intel_runtime(), compiler("gcc")
    compiling = ["-g", "-O0", "-fopenmp", "-idirafter", str(runtime / "opt" / "compiler" / "include")]
    linking = [f"-L{runtime / 'lib'}", f"-Wl,-rpath,{runtime / 'lib'}", "-liomp5"]
    kind = ["-fPIE"] if pie else ["-fno-pie"]
    flags = ["-pie"] if pie else ["-no-pie"]

    def make(folder: Path) -> None:
        for name in ("regions.c", "opener.c"):
            shutil.copy(SOURCES / name, folder)
        for command in (
            [*compiling, *kind, "-c", "regions.c", "-o", "regions.o"],
            [*flags, "regions.o", "-o", "regions", *linking],
            [*compiling, "-fPIC", "-c", "regions.c", "-o", "library.o"],
            ["-shared", "library.o", "-o", "libregions.so", *linking],
            ["-g", *kind, *flags, "opener.c", "-o", "opener"],
        ):
            subprocess.run([str(gcc.path), *command], cwd=folder, check=True, env=clean_environment())

    texts = [(SOURCES / name).read_text() for name in ("regions.c", "opener.c")]
    return entry("lldb", key_of(texts, gcc.version, pie, str(runtime)), make)


@contextmanager
def lldb_hosts() -> Iterator[Callable[[int], LldbHost]]:
    """Yield a function that returns the :class:`LldbHost` of a version, one host per version."""
    hosts: dict[int, LldbHost] = {}

    def of(version: int) -> LldbHost:
        if version not in hosts:
            hosts[version] = LldbHost(version)
        return hosts[version]

    try:
        yield of
    finally:
        for each in hosts.values():
            each.close()
