"""Programs of registries (``registries.toml``), unpacked by apt and pip, and their inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.campaign.program import KINDS, THREADS, Built, ends_well
from tests.support.cache import entry, key_of
from tests.support.debs import run_tool, unpack_debs
from tests.support.machine import Missing, clean_environment, toml_of, unpack_wheels
from tests.support.runtimes import RUNTIMES

TABLE = Path(__file__).with_name("registries.toml")
USE = Path(__file__).with_name("use")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Program:
    """One row of registries.toml."""

    name: str
    words: tuple[str, ...]
    debs: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = KINDS
    libraries: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prints: str = ""
    file: str | None = None


@cache
def rows() -> dict[str, Program]:
    """Return the rows of registries.toml by name."""
    table = toml_of(TABLE)["program"]
    lists = ("words", "debs", "wheels", "runtimes", "libraries")
    return {
        row["name"]: Program(**{**row, **{name: tuple(row[name]) for name in lists if name in row}}) for row in table
    }


def fetched(into: Path, names: Sequence[str] | None, runtimes: Sequence[str]) -> Iterator[Built]:
    """Yield the programs *names* on each of *runtimes* that has them. Missing ones are fetched into the folder *into*.

    Programs that cannot be fetched are named on standard error and left out.
    """
    for row in rows().values():
        if names is not None and row.name not in names:
            continue
        try:
            root = _unpacked(row, into)
            for runtime in runtimes:
                if runtime in row.runtimes:
                    yield _on(row, root, runtime, into)
        except Missing as error:
            print(f"not fetched: {row.name}: {error}", file=sys.stderr)


def _unpacked(row: Program, into: Path) -> Path:
    # Rows with the same packages share them.
    folder = into / "registries" / key_of(row.debs, row.wheels, sys.implementation.cache_tag)[:12]
    folder.parent.mkdir(parents=True, exist_ok=True)
    if row.debs:
        unpack_debs(row.name, row.debs, folder)
    else:
        unpack_wheels(row.name, row.wheels, folder)
    return folder


def _inputs() -> Path:
    script = USE / "inputs.py"
    return entry(
        "real-inputs",
        key_of(script.read_text()),
        lambda folder: _none(run_tool("inputs", [sys.executable, str(script), str(folder)], folder)),
    )


def _none(_: object) -> None:
    return None


def _on(row: Program, root: Path, runtime: str, into: Path) -> Built:
    scratch = into / "scratch" / f"{row.name}.{runtime}"
    scratch.mkdir(parents=True, exist_ok=True)
    python = str(Path(sys.executable).resolve())
    for path in _inputs().glob(f"{row.name}.*"):  # the inputs that it expects in its working folder
        link = scratch / path.name.removeprefix(f"{row.name}.")
        if not link.exists():
            link.symlink_to(path)
    places = {"root": str(root), "inputs": str(_inputs()), "scratch": str(scratch)}
    words: list[str] = []
    for word in row.words:
        words += [python, str(USE / "libraries.py")] if word == "{library}" else [word.format(**places)]
    libraries = [*(name.format(**places) for name in row.libraries), str(root / _LIBRARIES)]
    if runtime != "libgomp":
        libraries.insert(0, str(_in_place_of_libgomp(runtime, into)))
    environment = {
        "OMP_NUM_THREADS": str(THREADS),
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": f"{root / 'usr' / 'bin'}:{clean_environment().get('PATH', '')}",
        **({"PYTHONPATH": str(root)} if row.wheels else {}),
        **{name: value.format(**places) for name, value in row.environment.items()},
    }
    file = Path(row.file.format(**places) if row.file is not None else words[0])
    check = ends_well(row.prints)
    return Built(row.name, runtime, "registry", "-", tuple(words), environment, check, file)


def _in_place_of_libgomp(runtime: str, into: Path) -> Path:
    folder = into / "in-place-of-libgomp" / runtime
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "libgomp.so.1"
    if not link.is_symlink():
        link.symlink_to(RUNTIMES[runtime].file())
    return folder
