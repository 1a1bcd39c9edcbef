"""Core files on this machine: where the kernel writes them, how much memory they have, and which service keeps them."""

from __future__ import annotations

import os
import re
import resource
import shutil
from pathlib import Path

from ompd.machine.report import Report

_ROOT = Path("/")
# Bits of coredump_filter, core(5): private memory without a file, and the ELF headers of files.
_ANONYMOUS_PRIVATE, _ELF_HEADERS = 1 << 0, 1 << 4
_KEEPERS = {
    "systemd-coredump": ("/var/lib/systemd/coredump", "ompd COMMAND coredumpctl:PID"),
    "apport": ("/var/lib/apport/coredump or, unpacked from a report, /var/crash", "apport-unpack REPORT FOLDER"),
    "abrt-hook-ccpp": ("/var/spool/abrt", "abrt-cli list"),
}
_LOST = "a program that crashes leaves no core to inspect"


def examine(root: Path = _ROOT) -> Report:
    """Return the report on cores: this machine's settings, and the limits that children of this process inherit."""
    report = Report("machine")
    is_piped = _pattern(report, root)
    if is_piped is not None:
        _limit(report, is_piped=is_piped)
    _filter(report, root)
    return report


def _pattern(report: Report, root: Path) -> bool | None:
    file = root / "proc/sys/kernel/core_pattern"
    subject = "kernel.core_pattern"
    try:
        pattern = file.read_text(errors="replace").strip()
    except OSError as error:
        report.unknown("core_pattern", subject, f"{file}: {error.strerror}", "where cores are written is unknown")
        return None
    if pattern.startswith("|"):
        _piped(report, root, pattern)
        return True
    if not pattern:
        report.add(
            "core_pattern",
            "warning",
            subject,
            "kernel.core_pattern is empty",
            _LOST,
            "sudo sysctl kernel.core_pattern=core.%p",
        )
        return None
    folder = pattern.rpartition("/")[0]
    if pattern.startswith("/") and not os.access(root / folder.lstrip("/"), os.W_OK) and "%" not in folder:
        report.add(
            "core_pattern",
            "warning",
            subject,
            f"cores are written as {pattern}, and this user cannot write to {folder or '/'}",
            _LOST,
            "sudo sysctl kernel.core_pattern=core.%p, or have that folder made writable",
        )
        return False
    where = "in the folder where the program runs" if not pattern.startswith("/") else f"in {folder or '/'}"
    report.fine(f"the kernel writes cores as {pattern}, {where}")
    return False


def _piped(report: Report, root: Path, pattern: str) -> None:
    program = pattern[1:].split(maxsplit=1)[0] if pattern[1:].split() else ""
    name = program.rpartition("/")[2]
    keeper = next((service for service in _KEEPERS if name.startswith(service)), None)
    if keeper is None:
        report.add(
            "core_pattern",
            "note",
            "kernel.core_pattern",
            f"the kernel pipes cores to {program or 'nothing'}",
            "where that program keeps them, if it does, is unknown",
            "sudo sysctl kernel.core_pattern=core.%p writes them as files",
        )
        return
    folder, command = _KEEPERS[keeper]
    if not (root / program.lstrip("/")).exists():
        report.add(
            "core_pattern",
            "warning",
            "kernel.core_pattern",
            f"the kernel pipes cores to {program}, which is not here (it may be on the host of a container)",
            _LOST + ", unless the host keeps it",
            "sudo sysctl kernel.core_pattern=core.%p, on the host",
        )
        return
    report.add(
        "core_pattern",
        "note",
        "kernel.core_pattern",
        f"the kernel pipes cores to {keeper}, which keeps them in {folder}",
        "a core is not in the folder where the program ran",
        command,
    )
    if keeper == "systemd-coredump":
        _systemd(report, root)


def _systemd(report: Report, root: Path) -> None:
    settings: dict[str, str] = {}
    folders = [root / "etc/systemd/coredump.conf.d", root / "usr/lib/systemd/coredump.conf.d"]
    files = [root / "etc/systemd/coredump.conf", *(f for folder in folders for f in sorted(folder.glob("*.conf")))]
    for file in files:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            setting = re.fullmatch(r"\s*(\w+)\s*=\s*(.*?)\s*", line)
            if setting is not None:
                settings[setting[1]] = setting[2]
    if settings.get("Storage", "").lower() == "none":
        report.add(
            "core_pattern",
            "warning",
            "systemd-coredump",
            "systemd-coredump keeps no cores (Storage=none)",
            _LOST,
            "Storage=external in /etc/systemd/coredump.conf",
        )
    limits = [f"{name}={settings[name]}" for name in ("ProcessSizeMax", "ExternalSizeMax") if settings.get(name)]
    if limits:
        report.add(
            "core_pattern",
            "note",
            "systemd-coredump",
            f"systemd-coredump limits the size of cores: {', '.join(limits)}",
            "larger cores are cut off or not kept, and some threads or all of memory are missing in them",
            "ProcessSizeMax=infinity and ExternalSizeMax=infinity in /etc/systemd/coredump.conf",
        )
    if shutil.which("coredumpctl") is None:
        report.add(
            "core_pattern",
            "warning",
            "systemd-coredump",
            "systemd-coredump keeps cores, and coredumpctl is not in PATH",
            "ompd cannot find them by process number",
            "install systemd-coredump's tools, or give ompd the file in /var/lib/systemd/coredump",
        )


def _limit(report: Report, *, is_piped: bool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft == resource.RLIM_INFINITY:
        report.fine("the size of cores has no limit (ulimit -c)")
        return
    # The kernel ignores the limit for piped cores, except that 1 disables them (core(5)).
    if is_piped and soft != 1:
        report.fine(f"the limit of the size of cores, {soft} bytes, does not apply to cores that are piped")
        return
    remedy = "ulimit -c unlimited, in the shell that starts the program"
    if hard != resource.RLIM_INFINITY:
        remedy += f"; the hard limit is {hard} bytes: * hard core unlimited in /etc/security/limits.conf"
    report.add(
        "core_limit",
        "warning",
        "RLIMIT_CORE",
        "programs started from here leave no core: ulimit -c is 0" if not soft else f"cores end after {soft} bytes",
        _LOST if not soft else "larger cores are cut off",
        remedy,
    )


def _filter(report: Report, root: Path) -> None:
    file = root / "proc/self/coredump_filter"
    try:
        mask = int(file.read_text().strip(), 16)
    except (OSError, ValueError):
        report.unknown("coredump_filter", "coredump_filter", f"{file} cannot be read", "cores may lack memory")
        return
    missing = []
    if not mask & _ANONYMOUS_PRIVATE:
        missing.append("private memory (bit 0): stacks, the heap and all variables that were written to")
    if not mask & _ELF_HEADERS:
        missing.append("the first pages of files (bit 4): build-ids, by which files are verified")
    if not missing:
        report.fine(f"coredump_filter is {mask:#x}: cores have what ompd reads")
        return
    report.add(
        "coredump_filter",
        "error" if not mask & _ANONYMOUS_PRIVATE else "warning",
        "coredump_filter",
        f"coredump_filter is {mask:#x}",
        f"cores leave out {'; and '.join(missing)}",
        f"echo {mask | _ANONYMOUS_PRIVATE | _ELF_HEADERS | 0x33:#x} > /proc/self/coredump_filter,"
        " in the shell that starts the program",
    )
