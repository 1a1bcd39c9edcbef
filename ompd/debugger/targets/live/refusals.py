"""Checks whether a process can be inspected; if not, explains why and what the user can do."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ompd.binary.core.procfs import PF_KTHREAD, parse_stat, parse_status
from ompd.errors import BadProcess, MalformedFile, OmpdError, TargetGone
from ompd.isa.architecture import Architecture
from ompd.isa.processors import ARCHITECTURES

_PROC = Path("/proc")
_CAP_SYS_PTRACE = 1 << 19
_MOST_TRIES, _PAUSE = 100, 1e-3
_EI_CLASS, _EI_DATA, _E_MACHINE = 4, 5, 18
_HEADER = 20
_OTHER_PROCESS = "ps -e lists the processes that there are; of another container only those that are seen from here"
_PROGRAMS = "ps -eo pid,args lists the processes that there are, those of the kernel in brackets"
_AS_ROOT = "run ompd as root (sudo)"
_IN_CONTAINER = "in a container it has to be allowed: docker run --cap-add=SYS_PTRACE; or run ompd on the host"


class Findings(NamedTuple):
    """A readable process: its number, a note for the user about the given number, and its architecture."""

    process_id: int
    note: str | None
    architecture: Architecture


def examine(process_id: int, proc: Path = _PROC) -> Findings:
    """Return the findings on the process *process_id*, or on the process that has a thread with this number.

    :raises BadProcess: if the process cannot be inspected
    """
    folder = proc / str(process_id)
    try:
        status = parse_status((folder / "status").read_bytes())
    except (OSError, ValueError, OverflowError):
        raise BadProcess(process_id, "there is no such process", hint=_OTHER_PROCESS) from None
    note = None
    group = int(status.get("Tgid", process_id))
    if group != process_id:
        note = f"{process_id} is a thread of process {group}, which is shown"
        process_id, folder = group, proc / str(group)
    if process_id == os.getpid():
        raise BadProcess(process_id, "that is the process that asks", hint="a program cannot stop and read itself")
    for _ in range(_MOST_TRIES):
        try:
            return Findings(process_id, note, _look_into(process_id, folder, status))
        except PermissionError:
            raise refusal(process_id, proc) from None
        except (OSError, MalformedFile) as error:
            if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.ESRCH):
                raise BadProcess(process_id, f"cannot be read: {os.strerror(error.errno or 0)}") from error
            if not folder.exists():
                break
            time.sleep(_PAUSE)  # perhaps the process is executing another program now
    raise TargetGone(f"process {process_id} ended while it was looked at")


def find_refusal(process_id: int, *, nonblocking: bool = False, proc: Path = _PROC) -> BadProcess | None:
    """Return why the process with that number cannot be inspected. None if it can be inspected, or does not exist.

    :param nonblocking: whether the process will only be read, and not stopped
    """
    if not (proc / str(process_id)).exists():
        return None
    try:
        findings = examine(process_id, proc)
        status = parse_status((proc / str(findings.process_id) / "status").read_bytes())
    except BadProcess as error:
        return error
    except (OmpdError, OSError):
        return None  # it has ended
    if nonblocking or status.get("TracerPid", "0") == "0":
        return None
    why = refusal(findings.process_id, proc)
    return why if isinstance(why, BadProcess) else None


def _look_into(process_id: int, folder: Path, status: dict[str, str]) -> Architecture:
    if parse_stat((folder / "stat").read_bytes()).flags & PF_KTHREAD:
        raise BadProcess(process_id, "is a thread of the kernel, which has no program", hint=_PROGRAMS)
    thread = living_thread(folder)
    if thread is None:
        parent = status.get("PPid", "?")
        raise BadProcess(
            process_id,
            "has ended and waits for its parent (zombie)",
            hint=f"its parent, process {parent}, has not asked how it ended; it may have left a core file",
        )
    with (folder / "task" / str(thread) / "exe").open("rb") as file:
        architecture = _architecture(process_id, file.read(_HEADER))
    # When mem is opened, the kernel checks whether we may read the memory.
    os.close(os.open(folder / "task" / str(thread) / "mem", os.O_RDONLY))
    return architecture


def living_thread(folder: Path) -> int | None:
    """Return the first thread of the process at *folder* that has not ended, None if all have."""
    for thread in sorted(int(name.name) for name in (folder / "task").iterdir()):
        with suppress(OSError, MalformedFile):
            if parse_stat((folder / "task" / str(thread) / "stat").read_bytes()).state not in "ZX":
                return thread
    return None


def _architecture(process_id: int, header: bytes) -> Architecture:
    bits = {1: 32, 2: 64}.get(header[_EI_CLASS] if len(header) == _HEADER else 0)
    order = "big" if len(header) == _HEADER and header[_EI_DATA] == 2 else "little"
    machine = int.from_bytes(
        header[_E_MACHINE:_HEADER], "big" if header[_EI_DATA : _EI_DATA + 1] == b"\2" else "little"
    )
    architecture = ARCHITECTURES.get(machine)
    if architecture is not None and (bits, order) == (architecture.elf_class, architecture.byte_order):
        return architecture
    supported = ", ".join(a.name for a in ARCHITECTURES.values())
    bitness = f"{bits}-bit " if bits else ""
    raise BadProcess(
        process_id,
        f"runs a {bitness}program (ELF machine number {machine}), which is not supported",
        hint=f"programs of these can be read: {supported}",
    )


def refusal(process_id: int, proc: Path = _PROC) -> OmpdError:
    """Return the likely reason why the system does not let ompd read or trace the process."""
    folder = proc / str(process_id)
    try:
        status = parse_status((folder / "status").read_bytes())
        owner = (folder / "status").stat().st_uid  # the folder itself always belongs to the process's user
    except OSError:
        return TargetGone(f"process {process_id} ended while it was looked at")
    tracer = int(status.get("TracerPid", "0") or 0)
    if tracer:
        name = _read(proc / str(tracer) / "comm")
        return BadProcess(
            process_id,
            f"is traced already, by process {tracer}" + (f" ({name})" if name else ""),
            hint="end that debugger or have it detach; --nonblocking reads without stopping",
        )
    ours = parse_status(_read(proc / "self" / "status").encode())
    user = int(status.get("Uid", "0").split()[0])
    may_trace = bool(int(ours.get("CapEff", "0") or "0", 16) & _CAP_SYS_PTRACE)
    if may_trace:
        return _refused_with_capability(process_id, proc)
    if user != os.geteuid():
        return BadProcess(
            process_id, f"belongs to another user (uid {user})", hint="run ompd as that user, or as root (sudo)"
        )
    scope = _read(proc / "sys" / "kernel" / "yama" / "ptrace_scope")
    if scope not in ("", "0"):
        return _refused_by_yama(process_id, scope)
    if owner != user:
        return BadProcess(
            process_id,
            "lets no one read it (it is set-user-id, has other capabilities, or is not dumpable)",
            hint=_AS_ROOT,
        )
    is_filtered = ours.get("Seccomp", "0") == "2"
    filtered = " (a seccomp filter is in force here)" if is_filtered else ""
    return BadProcess(process_id, f"the system does not allow to trace it{filtered}", hint=_IN_CONTAINER)


def _refused_with_capability(process_id: int, proc: Path) -> BadProcess:
    scope = _read(proc / "sys" / "kernel" / "yama" / "ptrace_scope")
    if scope == "3":
        return _refused_by_yama(process_id, scope)
    return BadProcess(process_id, "the system does not allow to trace it", hint=_IN_CONTAINER)


def _refused_by_yama(process_id: int, scope: str) -> BadProcess:
    if scope == "3":
        return BadProcess(
            process_id,
            "no process may be traced here (kernel.yama.ptrace_scope is 3)",
            hint="this lasts until the machine starts again; a core (kill -ABRT, ulimit -c unlimited) can be read",
        )
    if scope == "2":
        return BadProcess(
            process_id, "only root may trace processes here (kernel.yama.ptrace_scope is 2)", hint=_AS_ROOT
        )
    return BadProcess(
        process_id,
        f"only its parent may trace it (kernel.yama.ptrace_scope is {scope})",
        hint=f"{_AS_ROOT}; or allow it, until the next start, with sysctl kernel.yama.ptrace_scope=0;"
        " or have the program call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
