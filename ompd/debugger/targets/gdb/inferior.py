"""The inferior that is selected in gdb: whether it can be asked, and the core file if it is one.

Everything here is in the Python of gdb 12 and later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.errors import TargetError, TargetGone, Unsupported

_CORE = re.compile(r"Local core dump file:\n\t`(.*?)', file type ", re.DOTALL)
_CONNECTED = ("native", "core")


class Stops:
    """Counts whatever may change what inferiors hold: ``count`` stands for one moment. ``loaded`` counts what may
    change which files they have loaded. Make one for each gdb.
    """

    def __init__(self) -> None:
        self.count = self.loaded = 0
        events = gdb.events
        for registry in (events.cont, events.stop, events.exited, events.inferior_call):
            registry.connect(self._note)
        for registry in (events.memory_changed, events.register_changed):
            registry.connect(self._note)
        for registry in (events.new_objfile, events.clear_objfiles, events.exited):
            registry.connect(self._note_files)

    def _note(self, _event: object) -> None:
        self.count += 1

    def _note_files(self, _event: object) -> None:
        self.count += 1
        self.loaded += 1

    def of(self, inferior: Any) -> tuple[int, int, int]:
        """Return what is the same for *inferior*, a ``gdb.Inferior``, as long as nothing in it has changed."""
        return inferior.num, inferior.pid, self.count


def check_stopped(inferior: Any) -> None:
    """Raise unless *inferior* can be looked at.

    :raises TargetGone: if it has no process
    :raises TargetError: if the process is running, or some of its threads are
    :raises Unsupported: if gdb reaches it through another program
    """
    threads = inferior.threads() if inferior.pid else ()
    name = f"process {inferior.pid}"
    running = sum(thread.is_running() for thread in threads)
    if running:
        some = "" if running == len(threads) else f": {running} of its {len(threads)} threads"
        raise TargetError(f"{name} is running{some}", hint="stop all of it first: interrupt -a")
    check_reached(inferior)


def check_reached(inferior: Any) -> None:
    """Raise unless *inferior* is something that can be looked at once it has stopped.

    :raises TargetGone: if it has no process
    :raises Unsupported: if gdb reaches it through another program
    """
    if not inferior.pid or not inferior.threads():
        raise TargetGone("there is no process", hint="run the program, attach to it, or load a core file")
    name = f"process {inferior.pid}"
    kind = inferior.connection.type if inferior.connection is not None else "unknown"
    if kind not in _CONNECTED:
        raise Unsupported(
            f"gdb reaches {name} by its target {kind!r}, and ompd inspects processes of this machine and core files",
            hint="on the machine of the process use `ompd PID`, or write a core in gdb with generate-core-file",
        )


def core_of(inferior: Any) -> str | None:
    """Return the path of the core file that *inferior* is, None if it is a process.

    :raises TargetError: if gdb does not say which file that is
    """
    if inferior.connection is None or inferior.connection.type != "core":
        return None
    # Python is not told it before gdb 17.
    found = _CORE.search(gdb.execute("info files", to_string=True))
    if found is None:
        raise TargetError("gdb does not say which core file it has opened", hint="use `ompd CORE` in a shell")
    return found[1]


def thread_selected() -> Any:
    """Return the ``gdb.InferiorThread`` that is selected, None without one, or if it has ended and gdb is about to
    notice.
    """
    try:
        return gdb.selected_thread()
    except SystemError:  # gdb has lost its object
        return None


@contextmanager
def selection_kept() -> Iterator[None]:
    """Restore which thread and frame are selected, whatever is selected meanwhile."""
    thread, frame = thread_selected(), None
    with suppress(gdb.error):
        frame = gdb.selected_frame()
    try:
        yield
    finally:
        if thread is not None and thread.is_valid():
            thread.switch()
            if frame is not None and frame.is_valid():
                frame.select()
