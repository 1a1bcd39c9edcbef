"""The permission to trace processes: Yama, capabilities, seccomp, and a trial on a child."""

from __future__ import annotations

import os
from pathlib import Path

from ompd.binary.core.procfs import parse_status
from ompd.debugger.targets.live import ptrace
from ompd.errors import OmpdError
from ompd.machine.report import Report

_PROC = Path("/proc")
_CAP_SYS_PTRACE = 1 << 19
_CONTAINER = "docker run --cap-add=SYS_PTRACE (podman and Kubernetes have the same capability), or ompd on the host"
_LIVE = "live processes cannot be inspected; cores and snapshots can"


def examine(proc: Path = _PROC, *, tries: bool = True) -> Report:
    """Return the report on tracing.

    :param tries: whether to trace a child of this process, which only waits and exits
    """
    report = Report("machine")
    status = parse_status(_bytes(proc / "self" / "status"))
    try:
        may_trace_all = bool(int(status["CapEff"], 16) & _CAP_SYS_PTRACE)
    except (KeyError, ValueError):
        may_trace_all = None
    _yama(report, proc, may_trace_all)
    if tries:
        _attempt(report, status)
    return report


def _yama(report: Report, proc: Path, may_trace_all: bool | None) -> None:
    scope = _bytes(proc / "sys" / "kernel" / "yama" / "ptrace_scope").decode("ascii", "replace").strip()
    setting = "kernel.yama.ptrace_scope"
    if scope in ("", "0"):
        report.fine(f"{setting} is 0" if scope else f"{setting} does not exist: Yama restricts nothing")
    elif scope == "3":
        report.add(
            "ptrace_scope",
            "error",
            setting,
            "kernel.yama.ptrace_scope is 3: no process may be traced until the machine starts again",
            _LIVE,
            "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.d and start the machine again",
        )
    elif may_trace_all:
        report.fine(f"{setting} is {scope}, and this user has CAP_SYS_PTRACE, which it does not restrict")
    else:
        severity, who = ("warning", "only its parent") if scope == "1" else ("error", "only root")
        report.add(
            "ptrace_scope",
            severity,
            setting,
            f"kernel.yama.ptrace_scope is {scope}: {who} may trace a process",
            "`ompd COMMAND PID` is refused for a process that ompd did not start",
            "sudo sysctl kernel.yama.ptrace_scope=0 (until the next start), or sudo ompd COMMAND PID",
            unavailable={"remedy": "whether this user has CAP_SYS_PTRACE"} if may_trace_all is None else None,
        )


def _attempt(report: Report, status: dict[str, str]) -> None:
    subject = "ptrace"
    try:
        fault = traced_child_fault()
    except OSError as error:
        report.unknown("ptrace_refused", subject, f"no child could be made to trace: {error.strerror}", _LIVE)
        return
    if fault is None:
        report.fine("a child of this process could be traced (PTRACE_SEIZE) and its memory opened")
        return
    filtered = " (a seccomp filter is in force for this process)" if status.get("Seccomp") == "2" else ""
    report.add(
        "ptrace_refused",
        "error",
        subject,
        f"not even a child of this process may be traced: {fault}{filtered}",
        _LIVE,
        f"in a container: {_CONTAINER}",
    )


def traced_child_fault() -> str | None:
    """Trace a child that only waits. Return the error, None if tracing worked.

    :raises OSError: if no child can be forked
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        # The child runs no other code of this process: it waits until the pipe is closed.
        os.close(writing)
        try:
            os.read(reading, 1)
        finally:
            os._exit(0)
    os.close(reading)
    try:
        ptrace.seize(child)
        os.close(os.open(f"/proc/{child}/mem", os.O_RDONLY))
    except (OSError, OmpdError) as error:
        return os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
    else:
        return None
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
