"""Finds LLDB's Python module. Each LLDB has its own, which fits only one minor version of Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ompd.records import record
from ompd.safety.trust import others_fault

_SECONDS = 20


@record
class LldbInstall:
    """One LLDB: its ``command``, the ``folder`` of its Python module, the module's native ``extension``, which is
    ``liblldb``, and its ``server`` for live programs.
    """

    command: str
    folder: str
    extension: str | None
    server: str | None


def find_installs() -> Iterator[LldbInstall]:
    """Yield the LLDBs of this machine whose module fits this Python, the newest first.

    If the variable ``OMPD_LLDB`` names one, it is the only candidate.
    """
    visited: set[str] = set()
    chosen = os.environ.get("OMPD_LLDB")
    for command in [chosen] if chosen else sorted(find_commands(), key=_version_of, reverse=True):
        real = os.path.realpath(command)
        if real not in visited:
            visited.add(real)
            install = _install(command, Path(real).parent)
            if install is not None:
                yield install


def find_commands() -> Iterator[str]:
    """Yield the paths of LLDB's commands that no other user could have changed.

    The commands are run to find their modules. So relative folders of ``PATH``, which depend on the current folder, are
    skipped.
    """
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *map(str, Path("/usr/lib").glob("llvm-*/bin"))]
    for folder in folders:
        with suppress(OSError):  # the command is missing or unreadable
            for name in sorted(os.listdir(folder)) if folder.startswith("/") else ():  # noqa: PTH208
                path = f"{folder}/{name}"
                is_name = re.fullmatch(r"lldb(-\d+(\.\d+)*)?", name)
                if is_name and os.access(path, os.X_OK) and others_fault(path, private_groups=True) is None:
                    yield path


def _version_of(command: str) -> tuple[int, ...]:
    # The version in the path without links: lldb-22, /usr/lib/llvm-22/bin/lldb.
    version = re.search(r"(?:lldb|llvm)-(\d+(?:\.\d+)*)", os.path.realpath(command))
    return tuple(map(int, version[1].split("."))) if version else (0,)


def _install(command: str, binaries: Path) -> LldbInstall | None:
    try:
        done = subprocess.run(
            [command, "-P"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # LLDB 14 of Debian prints a folder that does not exist.
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    beside = [binaries.parent / "lib" / python / name for name in ("site-packages", "dist-packages")]
    for folder in (Path(done.stdout.strip() or "/nowhere"), *beside):
        if python in folder.parts and (folder / "lldb" / "__init__.py").is_file():
            server = binaries / "lldb-server"
            library = next(iter(sorted((binaries.parent / "lib").glob("liblldb*.so*"))), None)
            return LldbInstall(
                command, str(folder), str(library) if library else None, str(server) if server.exists() else None
            )
    return None
