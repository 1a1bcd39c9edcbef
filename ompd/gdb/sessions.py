"""Sessions on a process or core file in gdb."""

from __future__ import annotations

from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.base import Target
from ompd.debugger.targets.core import CoreTarget
from ompd.debugger.targets.gdb.files import GdbFiles, file_options
from ompd.debugger.targets.gdb.inferior import Stops, check_stopped, core_of
from ompd.debugger.targets.gdb.target import GdbTarget
from ompd.debugger.targets.live.files import LiveFiles
from ompd.inspection import Inspection


def opened(inferior: Any, core: str | None, stops: Stops, ompd_library: str | None) -> Inspection:
    """Return a session on *inferior*, a ``gdb.Inferior``, at this stop, or on its core file *core*."""
    target: Target
    files: FileFinder
    if core is not None:
        target, files = CoreTarget(core), GdbFiles(inferior.progspace)
    else:
        target = GdbTarget(inferior, stops)
        files = LiveFiles(inferior.pid, target.mappings(), target.auxiliary_vector(), file_options())
    return Inspection(target, files, ompd_library=ompd_library)


def opened_here(ompd_library: str | None) -> Inspection:
    """Return a session on the selected inferior."""
    inferior = gdb.selected_inferior()
    check_stopped(inferior)
    return opened(inferior, core_of(inferior), Stops(), ompd_library)
