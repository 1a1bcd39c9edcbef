"""What a worker does with a target, whatever engine it belongs to: inspects it in a child that has limits.

The child is forked from a worker that has everything loaded: it begins within milliseconds, and whatever a target makes
of it, the worker goes on.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from contextlib import suppress
from functools import partial
from typing import Any

# What an inspection would import when it comes to it: each child would import it anew.
import ompd.binary.dwarf.source.calls
import ompd.debugger.emulation.decode
import ompd.debugger.emulation.linking
import ompd.debugger.files.compressed
import ompd.debugger.flow.functions
import ompd.debugger.stacks.guesses
import ompd.debugger.stacks.tail_calls
import ompd.debugger.system_waits.facts
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
    """What the inspection of one target may take: ``seconds``, and bytes of ``memory``; and what all inspections have
    in common. ``max_size`` and ``max_stop`` are those of ``inspect()``, the rest is where files are.
    """

    seconds: float
    memory: int
    max_size: int
    max_stop: float | None = None
    exe: str | None = None
    sysroot: str | None = None
    debug_dir: tuple[str, ...] = ()
    debuginfod: bool = False


def inspect_target(label: str, name: str, process_id: int | None, limits: tuple[Any, ...]) -> dict[str, Any]:
    """Return the result of one target: what is wrong with it or, under ``failed``, why that is not known.

    :param label: what the user called it
    :param name: what it is called where this worker is
    """
    wanted, kept = Wanted(name, process_id), Limits(*limits)
    identity = wanted.identity()
    result: dict[str, Any] = {}
    for attempt in range(_ATTEMPTS):
        try:
            found = run(
                partial(_inspected, wanted, kept),
                seconds=max(1, round(kept.seconds)),
                memory=kept.memory,
                within=kept.seconds,
            )
        except Killed as error:
            result = {"failed": str(error) if not attempt else f"{error}, and so it did before"}
            continue
        except GivenUp as error:
            result = {"failed": str(error)}
        else:
            result = found if isinstance(found, dict) else {"failed": "the inspection has no result"}
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
    """Make this process a worker: Ctrl-C is for the one that started it, with which it ends, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_with(parent.sentinel, os.getpid())
    _prepare()
    gc.collect()
    gc.freeze()  # what is loaded is shared with the children: they need not look at it


def _prepare() -> None:
    # What an inspection reads or compiles once in a process, whatever the target: its children find it done.
    with suppress(OmpdError):
        shipped_tables()
    for name in ("f._omp_fn.0", ".omp_outlined.", ".omp_task_entry.", "f.omp.reduction.reduction_func"):
        naming.is_added(name)
        naming.parse_outlined(name)
