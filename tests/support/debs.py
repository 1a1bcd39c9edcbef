"""Debian packages that exclude each other: downloaded and unpacked into ``.cache/debs/NAME``, never installed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.support.cache import CACHE, locked
from tests.support.machine import Missing, run_in, table


def deb_folder(name: str) -> Path:
    """Return where the packages of a row of tools.toml are unpacked, as if it were ``/``.

    :raises Missing: if they were not fetched
    """
    folder = CACHE / "debs" / name
    if not folder.is_dir():
        raise Missing(name, f"nothing in {folder} (python -m tests.support.tools debs)")
    return folder


def fetch_debs(name: str) -> Path:
    """Return :func:`deb_folder`, after filling it by apt if it is not there.

    :raises Missing: if apt cannot
    """
    row = table()[name]
    return unpack_debs(name, row.debs or row.lone, CACHE / "debs" / name, alone=not row.debs)


def unpack_debs(name: str, wanted: Sequence[str], folder: Path, *, alone: bool = False) -> Path:
    """Return *folder*, after filling it with the packages *wanted*, and with what they need and this machine does not
    have, if it is not there.

    :param alone: without what they need
    :raises Missing: of the tool *name*, if apt cannot
    """
    with locked(f"debs-{folder.name}"):
        if not folder.is_dir():
            unfinished = folder.with_name(folder.name + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            downloads = unfinished / "downloads"
            downloads.mkdir(parents=True)
            simulate = ["apt-get", "-s", "--no-install-recommends", "install", *wanted]
            try:
                simulated = run_tool(name, simulate, downloads)
            except Missing:
                run_tool(name, ["apt-get", "-qq", "update"], downloads)  # no package is known before the first time
                simulated = run_tool(name, simulate, downloads)
            needed = {line.split()[1] for line in simulated.splitlines() if line.startswith("Inst ") and not alone}
            run_tool(name, ["apt-get", "-qq", "download", *sorted(needed.union(wanted))], downloads)
            for package in sorted(downloads.glob("*.deb")):
                run_tool(name, ["dpkg-deb", "-x", str(package), str(unfinished)], downloads)
            shutil.rmtree(downloads)
            unfinished.rename(folder)
    return folder


def run_tool(name: str, command: Sequence[str], folder: Path) -> str:
    """Return what a *command* prints that fetches or unpacks the tool *name*, run in *folder*.

    :raises Missing: if it is not here, or fails
    """
    try:
        done = run_in(folder, command)
    except FileNotFoundError as error:
        raise Missing(name, f"{command[0]} is not here") from error
    if done.returncode:
        raise Missing(name, f"{' '.join(command[:2])} failed: {done.stderr.strip()[-400:]}")
    return done.stdout
