"""The work of a worker of any engine: inspects a target in a child process with limits.

The worker has loaded everything before it forks, so that a child starts within milliseconds. If a target crashes the
child, the worker goes on.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from contextlib import suppress
from functools import partial
from typing import Any

# An inspection imports these modules when it needs them. They are loaded here, so that all children share them.
import ompd.binary.dwarf.calls
import ompd.debugger.emulation.decode
import ompd.debugger.emulation.linking
import ompd.debugger.files.compressed
import ompd.debugger.flow.functions
import ompd.debugger.stacks.guesses
import ompd.debugger.stacks.tail_calls
import ompd.debugger.system_waits.kernel
import ompd.debugger.system_waits.waits
import ompd.debugger.variables.locals
import ompd.debugger.variables.mentioned
import ompd.questions.stacks.locals
import ompd.runtimes.installed
import ompd.runtimes.libgomp.plugin
import ompd.runtimes.libomp.plugin  # noqa: F401
from ompd import naming
from ompd.debugger.files.finder import FileOptions
from ompd.errors import OmpdError
from ompd.records import record
from ompd.runtimes.layout.table import shipped_tables
from ompd.safety.child import GivenUp, Killed, end_with, run
from ompd.triage.inspect import inspect
from ompd.triage.targets import Wanted

_ATTEMPTS = 2
_MOST_REASON = 600


@record
class Limits:
    """The limits of one inspection, and the folders of files, which all inspections share."""

    seconds: float
    memory: int
    """The limit of a child's memory, in bytes."""
    max_size: int
    """The limit of an unpacked core in bytes, as in ``inspect()``."""
    max_stop: float | None = None
    """The limit of a stop in milliseconds, as in ``inspect()``."""
    exe: str | None = None
    sysroot: str | None = None
    debug_dir: tuple[str, ...] = ()
    debuginfod: bool = False


def inspect_target(label: str, name: str, process_id: int | None, limits: tuple[Any, ...]) -> dict[str, Any]:
    """Return the result of one target: its verdict, or the reason under ``failed`` why there is none.

    :param label: the user's name of the target
    :param name: the target's name on this worker's machine
    """
    wanted = Wanted(name, process_id)
    limit = Limits(*limits)
    identity = wanted.identity()
    result: dict[str, Any] = {}
    for attempt in range(_ATTEMPTS):
        try:
            answer = run(
                partial(_inspected, wanted, limit),
                seconds=max(1, round(limit.seconds)),
                memory=limit.memory,
                within=limit.seconds,
            )
        except Killed as error:
            result = {"failed": str(error) if not attempt else f"{error}, and so it did before"}
            continue
        except GivenUp as error:
            result = {"failed": str(error)}
        else:
            result = answer if isinstance(answer, dict) else {"failed": "the inspection has no result"}
        break
    return {"target": label, "identity": list(identity) if identity is not None else None, **result}


def _inspected(wanted: Wanted, limits: Limits) -> dict[str, Any]:
    files = FileOptions(limits.exe, limits.sysroot, limits.debug_dir, limits.debuginfod, None)
    try:
        return inspect(wanted, files, max_size=limits.max_size, max_stop=limits.max_stop)
    except OmpdError as error:
        text = f"{error}; {error.hint}" if error.hint else str(error)
        return {"failed": text[:_MOST_REASON]}


def begin() -> None:
    """Make this process a worker: it ignores Ctrl-C, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_with(parent.sentinel, os.getpid())
    _prepare()
    gc.collect()
    gc.freeze()  # children share the loaded objects, and do not have to collect them


def _prepare() -> None:
    # Read the tables and compile the patterns that each inspection needs. Done in this process, so that its children do
    # not have to repeat it.
    with suppress(OmpdError):
        shipped_tables()
    for name in ("f._omp_fn.0", ".omp_outlined.", ".omp_task_entry.", "f.omp.reduction.reduction_func"):
        naming.is_added(name)
        naming.parse_outlined(name)
