"""The installation of ompd: Python, optional packages, LLDB, debuginfod, the cache, the sandbox."""

from __future__ import annotations

import os
import platform
import shlex
import stat
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from ompd.debugger.targets.lldb.install import find_commands, find_installs
from ompd.machine.packages import Distribution, distribution_of
from ompd.machine.report import Report
from ompd.runtimes.hosted.loading import sandbox
from ompd.runtimes.hosted.loading.folders import SystemFolders

_OLDEST = (3, 10)


def examine(environment: Mapping[str, str] | None = None, *, asks_lldb: bool = True) -> Report:
    """Return the report on this installation.

    :param environment: environment variables; those of this process if None
    :param asks_lldb: whether to run this machine's LLDBs to find their Python modules
    """
    environment = os.environ if environment is None else environment
    report = Report("installation")
    distribution = distribution_of()
    _python(report)
    _packages(report)
    if asks_lldb:
        _lldb(report, distribution)
    _debuginfod(report, environment, distribution)
    _cache(report, environment)
    _sandbox(report, distribution)
    return report


def _python(report: Report) -> None:
    version = platform.python_version()
    if sys.version_info >= _OLDEST:
        report.fine(f"Python {version} ({sys.executable or 'of another program'})")
        return
    report.add(
        "python",
        "error",
        "Python",
        f"Python {version} is older than 3.10",
        "ompd is not made for it",
        "install Python 3.10 or newer, and ompd with it",
    )


def is_installed(name: str) -> bool:
    """Return whether this Python has the module *name*, without running it. Its parent packages are imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def pip_install(package: str) -> str:
    """Return the command that installs *package* for this Python."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install {package}"


def _packages(report: Report) -> None:
    wanted = (
        (
            ("unicorn",),
            "unicorn",
            "note",
            "functions of a stripped runtime are decoded and not emulated: some facts about libgomp and libomp without"
            " debug information are unknown",
        ),
        (("compression.zstd", "backports.zstd"), "backports.zstd", "warning", "cores compressed by zstd are not read"),
        (("lz4.frame",), "lz4", "note", "cores compressed by lz4 are not read"),
        (("elftools.elf.elffile",), "pyelftools", "note", "`ompd layout add` has no second reader"),
    )
    for modules, package, severity, consequence in wanted:
        if any(map(is_installed, modules)):
            report.fine(f"{package} is installed")
            continue
        report.add(
            "package_missing",
            severity,
            package,
            f"the Python package {package} is not installed",
            consequence,
            pip_install(package),
        )


def _lldb(report: Report, distribution: Distribution) -> None:
    subject = "LLDB"
    here = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    lost = "ompd.launch() and ompd.from_lldb() do not work in this Python"
    install = next(find_installs(), None)
    if install is not None:
        report.fine(f"{install.command} has a module for {here}: {install.folder}")
        return
    commands = list({os.path.realpath(command): command for command in find_commands()}.values())
    if not commands:
        report.add(
            "lldb_missing",
            "note",
            subject,
            "no LLDB is found (in PATH and /usr/lib/llvm-*)",
            f"{lost}, and there are no ompd commands at LLDB's prompt; cores and processes are inspected without it",
            distribution.install("lldb") or "install LLDB, or name one: OMPD_LLDB=/path/to/lldb",
        )
        return
    report.add(
        "lldb_python",
        "note",
        subject,
        f"no LLDB has a Python module for {here}: {', '.join(commands)}",
        f"{lost}; LLDB's own prompt works with the Python that it was built with",
        "run ompd with the Python of that LLDB, or name another one: OMPD_LLDB=/path/to/lldb",
    )


def _debuginfod(report: Report, environment: Mapping[str, str], distribution: Distribution) -> None:
    urls = environment.get("DEBUGINFOD_URLS", "").split()
    if urls:
        report.fine(f"DEBUGINFOD_URLS names {', '.join(urls)}; --debuginfod downloads from there")
        return
    report.add(
        "debuginfod",
        "note",
        "DEBUGINFOD_URLS",
        "DEBUGINFOD_URLS is not set",
        "debug information and files of other machines are not downloaded, even with --debuginfod",
        f"export DEBUGINFOD_URLS={distribution.debuginfod}",
    )


def _cache(report: Report, environment: Mapping[str, str]) -> None:
    subject = "cache"
    slower = "what was derived of files is derived again by each command, which takes longer"
    if environment.get("OMPD_CACHE") == "off":
        report.fine("the cache is turned off (OMPD_CACHE=off)")
        return
    home = environment.get("HOME", "")
    root = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if not root.startswith("/"):
        report.add(
            "cache",
            "note",
            subject,
            "neither XDG_CACHE_HOME nor HOME names a folder",
            slower,
            "export XDG_CACHE_HOME=/a/folder/of/yours",
        )
        return
    folder = Path(root) / "ompd"
    place = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path("/"))
    fault = _folder_fault(place, is_own=place == folder)
    if fault is None:
        report.fine(f"the cache is in {folder}")
        return
    report.add(
        "cache",
        "warning",
        str(place),
        f"{place} {fault}, so that {'nothing is kept there' if place == folder else f'{folder} cannot be made'}",
        slower,
        f"chmod 700 {shlex.quote(str(folder))}"
        if place == folder and fault == _OPEN
        else "export XDG_CACHE_HOME=/a/folder/of/yours",
    )


_SECCOMP_PACKAGES = {"debian": "libseccomp2", "fedora": "libseccomp", "arch": "libseccomp", "opensuse": "libseccomp2"}
# The first version of Landlock's interface that can forbid signals to other processes.
_LANDLOCK_WITH_SIGNALS = 6


def _sandbox(report: Report, distribution: Distribution) -> None:
    subject = "libraries for debuggers"
    version = sandbox.landlock_version()
    bits = 64 if sys.maxsize > 1 << 32 else 32
    has_seccomp = any(map(os.path.exists, SystemFolders().places(sandbox.LIBSECCOMP, bits)))
    kept = "in a process of its own with limits of memory, files and time, and without new privileges"
    if version:
        report.fine(f"Landlock (version {version}) keeps a library for debuggers from files")
    else:
        report.add(
            "sandbox",
            "note",
            subject,
            "the kernel does not offer Landlock (Linux 5.13, and `landlock` in its lsm=)",
            f"a library that you have ompd load may read and write your files; it runs {kept}",
            None,
        )
    if has_seccomp:
        report.fine(f"{sandbox.LIBSECCOMP} keeps a library for debuggers from system calls")
        return
    package = _SECCOMP_PACKAGES.get(distribution.family or "", "libseccomp")
    signals = "" if version >= _LANDLOCK_WITH_SIGNALS else ", and send signals to your processes"
    report.add(
        "sandbox",
        "note",
        subject,
        f"{sandbox.LIBSECCOMP} is not installed",
        f"a library that you have ompd load may make any system call{signals}; it runs {kept}",
        distribution.install(package) or f"install {package}",
    )


_OPEN = "may be written by others"


def _folder_fault(path: Path, *, is_own: bool) -> str | None:
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    if is_own and status.st_uid != os.geteuid():
        return "belongs to another user"
    if is_own and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return _OPEN
    return None if os.access(path, os.W_OK | os.X_OK) else "is not writable"
