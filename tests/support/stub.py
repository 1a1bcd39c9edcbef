"""The stub runtime (``runtime_stub``), which its Makefile builds once for all test processes, and its plugin."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.m32 import m32_flags, m32_version
from tests.support.machine import clean_environment, require, tomllib

SOURCES = CHECKOUT / "runtime_stub"
INCLUDE = SOURCES / "include"
PLUGIN = SOURCES / "plugin"
DUMP = CHECKOUT / "tests" / "stub" / "dump.c"
"""Source that makes programs write down the runtime's structures."""


@cache
def sources_key() -> str:
    """Return a key of the stub's sources."""
    folders = ("src", "include", "dmpl", "ompd", "preload")
    files = [SOURCES / "Makefile", *(path for folder in folders for path in sorted((SOURCES / folder).rglob("*.[ch]")))]
    return key_of(*((str(path.relative_to(SOURCES)), path.read_text()) for path in files))


@cache
def stub_folder(compiler: str = "gcc", flags: tuple[str, ...] = ()) -> Path:
    """Return the folder with ``libomp_stub.so`` and ``libomp_stub_label.so``.

    :param flags: options for compiling and linking, in addition to the Makefile's
    :raises Missing: if the compiler or make is missing
    """
    path = require(compiler)
    require("libc-headers")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def make(folder: Path) -> None:
        run_make(folder, f"CC={path}", f"CFLAGS={shlex.join(flags)}")

    return entry("stub", key_of(sources_key(), version, flags), make)


@cache
def host32() -> Path:
    """Return the 32-bit program that hosts 32-bit libraries.

    :raises Missing: if this machine cannot build or run 32-bit programs
    """
    path, flags = require("gcc"), m32_flags()
    sources = [source.read_text() for source in sorted((SOURCES / "host").iterdir())]

    def make(folder: Path) -> None:
        options = shlex.join((*flags.compile, *flags.link))
        run_make(folder, f"CC={path}", f"HOST32_CFLAGS={options}", targets=["host32"])

    return entry("stub-host32", key_of(sources, sources_key(), m32_version()), make) / "host32"


def run_make(folder: Path, *arguments: str, targets: Sequence[str] = ()) -> str:
    """Run the stub's Makefile to build into *folder*, and return its output.

    :raises AssertionError: if it fails
    """
    done = subprocess.run(
        ["make", "-s", "-C", str(SOURCES), f"BUILD={folder}", *arguments, *targets],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"make {' '.join(arguments)} in runtime_stub:\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


@cache
def plugin_folder() -> Path:
    """Return a folder like the one that `pip install --target` makes of the stub's plugin, but with a link to this
    checkout.
    """
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]

    def make(folder: Path) -> None:
        install_plugin(folder, project["name"], project["version"], project["entry-points"]["ompd.runtimes"])
        (folder / "ompd_stub").symlink_to(PLUGIN / "ompd_stub")

    return entry("stub-plugin", key_of(project, str(PLUGIN)), make)


def install_plugin(folder: Path, name: str, version: str, points: Mapping[str, str]) -> Path:
    """Write into *folder* the metadata that installers write for a distribution with entry points for ompd; return its
    folder.

    :param points: the objects of the entry points by name
    """
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[console_scripts]\nother = other:main\n\n[ompd.runtimes]\n{lines}")
    return metadata
