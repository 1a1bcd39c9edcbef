"""Debian packages that exclude each other, downloaded and unpacked into ``.cache/debs/NAME`` but never installed."""

from __future__ import annotations

import compileall
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.cache import CACHE, locked
from tests.support.machine import Missing, run_in, table

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def deb_folder(name: str) -> Path:
    """Return the folder in which the packages of a row of tools.toml are unpacked; it corresponds to ``/``.

    :raises Missing: if the packages were not fetched
    """
    folder = CACHE / "debs" / name
    if not folder.is_dir():
        raise Missing(name, f"nothing in {folder} (python -m tests.support.tools debs)")
    return folder


def fetch_debs(name: str) -> Path:
    """Return :func:`deb_folder`; if it is missing, apt fetches the packages first.

    :raises Missing: if apt cannot fetch them
    """
    row = table()[name]
    options = suite_options(row.suite) if row.suite is not None else ()
    folder = unpack_debs(name, row.debs or row.lone, CACHE / "debs" / name, alone=not row.debs, options=options)
    # LLDB writes no bytecode: each start would compile its module anew, and this would double its run time.
    for modules in folder.glob(f"usr/lib/llvm-*/lib/python{sys.version_info[0]}.{sys.version_info[1]}"):
        compileall.compile_dir(modules, quiet=2)
    return folder


def unpack_debs(
    name: str, wanted: Sequence[str], folder: Path, *, alone: bool = False, options: Sequence[str] = ()
) -> Path:
    """Return *folder*. If it is missing, fill it with the packages *wanted* and with their dependencies that this
    machine does not have.

    :param alone: leave the dependencies out
    :param options: options of apt from :func:`suite_options`; then all dependencies are fetched, even a C library
    :raises Missing: naming the tool *name*, if apt cannot fetch a package
    """
    with locked(f"debs-{folder.name}"):
        if not folder.is_dir():
            unfinished = folder.with_name(folder.name + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            downloads = unfinished / "downloads"
            downloads.mkdir(parents=True)
            simulate = ["apt-get", *options, "-s", "--no-install-recommends", "install", *wanted]
            try:
                simulated = run_tool(name, simulate, downloads)
            except Missing:
                # apt knows no packages before its first update
                run_tool(name, ["apt-get", *options, "-qq", "update"], downloads)
                simulated = run_tool(name, simulate, downloads)
            needed = {line.split()[1] for line in simulated.splitlines() if line.startswith("Inst ") and not alone}
            run_tool(name, ["apt-get", *options, "-qq", "download", *sorted(needed.union(wanted))], downloads)
            for package in sorted(downloads.glob("*.deb")):
                run_tool(name, ["dpkg-deb", "-x", str(package), str(unfinished)], downloads)
            shutil.rmtree(downloads)
            unfinished.rename(folder)
    return folder


def run_tool(name: str, command: Sequence[str], folder: Path) -> str:
    """Run *command* in *folder*, which fetches or unpacks the tool *name*, and return its output.

    :raises Missing: if the command is missing or fails
    """
    try:
        done = run_in(folder, command)
    except FileNotFoundError as error:
        raise Missing(name, f"{command[0]} is not here") from error
    if done.returncode:
        raise Missing(name, f"{' '.join(command[:2])} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


@cache
def suite_options(suite: str, kind: str = "deb") -> tuple[str, ...]:
    """Return the options that make apt use another suite than this machine's, as if no package were installed. With
    *kind* ``deb-src`` apt uses the suite's source packages. apt keeps its lists in the cache.

    :raises Missing: if this machine does not run Debian
    """
    if not _KEYS.exists():
        raise Missing("apt", f"{_KEYS} is not here: this is not Debian")
    name = suite if kind == "deb" else f"{suite}-{kind}"
    root = CACHE / "apt" / name
    options = ("-o", f"Dir={root}", "-o", f"Dir::State::status={root / 'var/lib/dpkg/status'}")
    with locked(f"apt-{name}"):
        if not (root / "ready").exists():
            for part in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d"):
                (root / part).mkdir(parents=True, exist_ok=True)
            for part in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"):
                (root / part).mkdir(parents=True, exist_ok=True)
            (root / "var/lib/dpkg/status").touch()
            (root / "etc/apt/sources.list").write_text(f"{kind} [signed-by={_KEYS}] {_archive()} {suite} main\n")
            run_tool(suite, ["apt-get", *options, "-o", "Acquire::Languages=none", "-qq", "update"], root)
            (root / "ready").touch()
    return options


@cache
def _archive() -> str:
    # Return the archive that this machine's apt uses: it has other suites, too.
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    archives = run_tool("apt", command, CACHE).split()
    found = next((archive for archive in archives if archive.rstrip("/").endswith("/debian")), None)
    if found is None:
        raise Missing("apt", "its sources name no archive of Debian")
    return found
