"""Build ``examples/blame``, a tool for OMPT, and its programs, and parse the tool's reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.build import compiler, run_compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.runtimes import RUNTIMES
from tests.support.stub import INCLUDE

FOLDER = CHECKOUT / "examples" / "blame"
WAYS = {  # of straggler.c: threads, laggard, and the report's name for the others' wait
    "barrier": (4, 2, "barriers"),
    "lock": (4, 2, "locks"),
    "task": (2, 1, "tasks"),
    "serial": (4, 0, "idle"),
}


@dataclass(frozen=True)
class Charge:
    """A line of the report: *seconds* of waiting for thread *number* of *size*, and its functions, innermost first."""

    seconds: float
    number: int
    size: int
    thread: int
    kinds: dict[str, float]
    functions: list[str]


@dataclass(frozen=True)
class Report:
    """The tool's output. *others* is the share too small to be shown, *nobody* the share due to no thread at work."""

    threads: int
    seconds: float
    runtime: str
    charges: list[Charge]
    others: float
    nobody: float


_SHARE = r"^ *[\d.]+ %  ([\d.]+) s  for "


def parsed(text: str) -> Report:
    """Return the only report in *text*."""
    (head,) = re.findall(r"^blame: (\d+) threads have waited for ([\d.]+) s in all  \((.*)\)$", text, re.MULTILINE)
    charges = []
    for part in re.split(r"^(?= *[\d.]+ %)", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        found = re.fullmatch(_SHARE + r"thread (\d+)/(\d+) \((\d+)\)((?:  \w+ [\d.]+)*)", lines[0])
        if found is not None:
            kinds = {name: float(seconds) for name, seconds in re.findall(r"(\w+) ([\d.]+)", found[5])}
            functions = [line.split()[0] for line in lines[1:]]
            charges.append(Charge(float(found[1]), int(found[2]), int(found[3]), int(found[4]), kinds, functions))
    left = {name: sum(map(float, re.findall(_SHARE + name, text, re.MULTILINE))) for name in ("others", "nobody")}
    return Report(int(head[0]), float(head[1]), head[2], charges, left["others"], left["nobody"])


@cache
def tool(compiler_name: str = "gcc", flags: tuple[str, ...] = ()) -> Path:
    """Return the tool's library, built without a warning, with the options of its Makefile."""
    used = compiler(compiler_name)
    sources = sorted(FOLDER.glob("*.[ch]"))
    names = ["blame.c", "accounts.c", "report.c", "symbols.c"]
    options = ["-g", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", *flags]
    command = [str(used.path), *options, f"-I{INCLUDE}", "-shared", "-o", "libblame.so"]
    command += [*(str(FOLDER / name) for name in names), "-lpthread", "-ldl"]
    texts = [path.read_text() for path in (*sources, *sorted(INCLUDE.iterdir()))]
    key = key_of("blame", used.version, command, texts)
    return entry("programs", key, lambda folder: run_compiler(command, folder)) / "libblame.so"


@cache
def program(source: Path, runtime: str, compiler_name: str = "gcc") -> Path:
    """Return a program of one file, linked with *runtime*."""
    openmp, used = RUNTIMES[runtime], compiler(compiler_name)
    library = openmp.file().parent
    compiling = [str(used.path), "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", f"-I{INCLUDE}"]
    # -fopenmp would link the compiler's own runtime, too.
    named = openmp.options[:1]
    linking = [str(used.path), "-o", source.stem, f"{source.stem}.o", f"-L{library}", f"-Wl,-rpath,{library}", *named]

    def make(folder: Path) -> None:
        run_compiler([*compiling, "-c", str(source), "-o", f"{source.stem}.o"], folder)
        run_compiler([*linking, "-lpthread"], folder)

    key = key_of("blame", used.version, source.read_text(), compiling, linking, openmp.version())
    return entry("programs", key, make) / source.stem
