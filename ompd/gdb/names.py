"""Names of threads (``OMP 1/4``) for editors that use gdb's own debug adapter."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import OmpdError
from ompd.frontends.selecting import names_of
from ompd.gdb.debugger import Gdb
from ompd.safety.isolation import Isolation

_ADAPTER = "gdb.dap"


def add_names(debugger: Gdb, isolation: Isolation) -> None:
    """Name the threads at each stop if an editor shows them."""
    given_names: dict[int, str] = {}  # by native id

    @isolation
    def name_threads(_event: object = None) -> None:
        if _ADAPTER not in sys.modules:
            return
        with suppress(OmpdError, gdb.error):
            names = names_of(debugger.session())
            for thread in gdb.selected_inferior().threads():
                native = native_id(thread)
                # Do not replace a name that the user has set.
                if thread.name in (given_names.get(native), _own_name(native)):
                    thread.name = names.get(native)
            given_names.clear()
            given_names.update(names)

    gdb.events.stop.connect(name_threads)


def _own_name(thread: int) -> str | None:
    try:
        return Path("/proc", str(thread), "comm").read_bytes().decode("utf-8", "replace").removesuffix("\n")
    except OSError:
        return None
