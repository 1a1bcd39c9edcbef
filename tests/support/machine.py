"""The tests' tools, present or missing, and Intel's OpenMP runtime, which is fetched as a wheel."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.cache import CACHE, CHECKOUT, entry, key_of, locked

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:  # tomli is not installed yet
        from pip._vendor import tomli as tomllib

TABLE = CHECKOUT / "tests" / "tools.toml"
# `make test-full`: the product of all axes instead of pairs.
FULL = os.environ.get("OMPD_FULL") == "1"
REMOVED_PREFIXES = ("OMP_", "KMP_", "GOMP_", "LD_")
REMOVED = {"DEBUGINFOD_URLS", "COLUMNS", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"}
# Parts of the wheel that no test uses, such as device offloading: 135 of its 150 MB.
UNUSED = ("libomptarget*", "libarcher*", "libiompstubs5*")


class Missing(Exception):
    """A test cannot run here: *tool* is missing, or the machine forbids its use and no installation helps."""

    def __init__(self, tool: str, why: str, *, forbidden: bool = False) -> None:
        super().__init__(f"{tool}: {why}")
        self.tool = tool
        self.why = why
        self.forbidden = forbidden


def toml_of(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    return tomllib.loads(file.read_text())


@dataclass(frozen=True)
class Tool:
    """A row of tools.toml."""

    name: str
    tests: str
    required: bool
    commands: tuple[str, ...] = ()
    package: str | None = None
    wheel: str | None = None
    version: str | None = None
    wheels: tuple[str, ...] = ()
    debs: tuple[str, ...] = ()
    lone: tuple[str, ...] = ()
    suite: str | None = None
    programs: tuple[str, ...] = ()
    full: bool = False


@cache
def table() -> dict[str, Tool]:
    """Return the rows of tools.toml by name."""
    rows = toml_of(TABLE)["tool"]
    lists = ("commands", "wheels", "debs", "lone", "programs")
    return {row["name"]: Tool(**{**row, **{name: tuple(row.get(name, ())) for name in lists}}) for row in rows}


def clean_environment() -> dict[str, str]:
    """Return this process's environment without variables that affect a program, gdb or ompd."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in REMOVED and not name.startswith(REMOVED_PREFIXES)
    }


def run_in(folder: Path, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a command in *folder* with an empty standard input, and return its exit code and output."""
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=clean_environment(),
        check=False,
    )


@cache
def find(name: str) -> Path | None:
    """Return the executable of a tool, or None if no command of its row runs.

    OMPD_COMPILERS replaces compilers for all tests (``clang=clang-22,gcc=gcc-11``).
    """
    name = _chosen().get(name, name)
    for tool in table().values():
        if name in tool.programs:
            return _unpacked(tool, name)
    for command in table()[name].commands:
        words = shlex.split(command)
        path = shutil.which(words[0])
        if path is None:
            continue
        done = subprocess.run(
            [path, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
            check=False,
        )
        if done.returncode == 0:
            return Path(path)
    return None


def _chosen() -> dict[str, str]:
    pairs = (pair.partition("=") for pair in os.environ.get("OMPD_COMPILERS", "").split(",") if pair)
    return {name: other for name, _, other in pairs}


def _unpacked(tool: Tool, program: str) -> Path | None:
    # Return a script that runs a program of an unpacked package with the libraries unpacked beside it.
    root = CACHE / "debs" / tool.name / "usr"
    if not (root / "bin" / program).exists():
        return None
    libraries = shlex.quote(str(root / "lib" / "x86_64-linux-gnu"))
    scripts = {
        name: f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {shlex.quote(str(root / "bin" / name))} "$@"\n'
        for name in tool.programs
    }

    def make(folder: Path) -> None:
        for name, script in scripts.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)

    # All scripts are in one folder: tests look for the C++ compiler beside the C compiler.
    return entry("compilers", key_of(scripts), make) / program


def require(name: str) -> Path:
    """Return the executable of a tool.

    :raises Missing: if there is none
    """
    path = find(name)
    if path is None:
        row = table().get(name)
        raise Missing(name, f"not found (Debian package {row.package})" if row is not None else "not fetched")
    return path


def intel_folder(version: str | None = None) -> Path:
    """Return the folder for the wheel of Intel's runtime, of *version* or, if None, of the version in tools.toml."""
    return CACHE / "intel" / str(version or table()["intel-openmp"].version)


def intel_runtime() -> Path:
    """Return the unpacked wheel: ``lib/libiomp5.so``, its debug file and OMPD library; ``opt/compiler/include`` has
    headers.

    :raises Missing: if it was not fetched
    """
    folder = intel_folder()
    if not (folder / "lib" / "libiomp5.so").exists():
        raise Missing("intel-openmp", f"no runtime in {folder} (python -m tests.support.tools intel)")
    return folder


def fetch_intel(version: str | None = None) -> Path:
    """Return the unpacked wheel of Intel's runtime; if it is missing, this interpreter's pip fetches it.

    :param version: a version other than that of tools.toml, which all tests use
    :raises Missing: if pip cannot
    """
    row, folder = table()["intel-openmp"], intel_folder(version)
    with locked(f"intel-{version or row.version}"):
        if not (folder / "lib" / "libiomp5.so").exists():
            unpacked = folder.with_name(folder.name + ".part")
            shutil.rmtree(unpacked, ignore_errors=True)
            # Use --prefix, because --target of older releases of pip loses lib/libiomp5.so.
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--no-compile",
                "--ignore-installed",
                "--no-warn-script-location",
                "--disable-pip-version-check",
                "--prefix",
                str(unpacked),
                f"{row.wheel}=={version or row.version}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = sorted(unpacked.rglob("libiomp5.so"))
            if done.returncode or not found:
                raise Missing("intel-openmp", f"pip failed: {done.stderr.strip() or 'no libiomp5.so in the wheel'}")
            root = found[0].parent.parent
            for pattern in UNUSED:
                for file in (root / "lib").glob(pattern):
                    file.unlink()
            shutil.rmtree(folder, ignore_errors=True)
            root.rename(folder)
            shutil.rmtree(unpacked, ignore_errors=True)
    return folder


def wheel_folder(name: str) -> Path:
    """Return the folder for PYTHONPATH with the wheels of a row of tools.toml.

    :raises Missing: if they were not fetched
    """
    folder = _wheel_folder(table()[name])
    if not folder.is_dir():
        raise Missing(name, f"nothing in {folder} (python -m tests.support.tools wheels)")
    return folder


def _wheel_folder(tool: Tool) -> Path:
    return CACHE / "wheels" / f"{tool.name}-{sys.implementation.cache_tag}-{key_of(tool.wheels)[:12]}"


def fetch_wheels(name: str) -> Path:
    """Return :func:`wheel_folder`; if it is missing, this interpreter's pip fetches the wheels first.

    :raises Missing: if pip cannot
    """
    tool = table()[name]
    return unpack_wheels(name, tool.wheels, _wheel_folder(tool))


def unpack_wheels(name: str, wheels: Sequence[str], folder: Path) -> Path:
    """Return *folder*; if it is missing, fill it with *wheels* for this Python first.

    :raises Missing: naming the tool *name*, if pip cannot fetch the wheels
    """
    with locked(f"wheels-{folder.name}"):
        if not folder.is_dir():
            unfinished = folder.with_name(folder.name + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            command = [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"),
                *("--only-binary=:all:", "--disable-pip-version-check", "--target", str(unfinished), *wheels),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Missing(name, f"pip failed: {done.stderr.strip()}")
            unfinished.rename(folder)
    return folder


def missing_tools() -> list[Tool]:
    """Return the rows of tools.toml whose tools this machine lacks."""
    return [tool for tool in wanted_tools() if not _is_here(tool)]


def wanted_tools() -> list[Tool]:
    """Return the rows of tools.toml that this run of the tests uses."""
    return [tool for tool in table().values() if FULL or not tool.full]


def _is_here(tool: Tool) -> bool:
    if tool.wheel:
        return (intel_folder() / "lib" / "libiomp5.so").exists()
    if tool.wheels:
        return _wheel_folder(tool).is_dir()
    if tool.debs or tool.lone:
        return (CACHE / "debs" / tool.name).is_dir()
    return find(tool.name) is not None


def require_module(name: str) -> Any:
    """Return the Python module *name*. If it is not installed, skip the calling test file; with OMPD_REQUIRE=all the
    file fails.
    """
    try:
        return import_module(name)
    except ImportError:
        if os.environ.get("OMPD_REQUIRE") == "all":
            raise
        pytest.skip(f"missing: {name}", allow_module_level=True)
