"""The inferior that is selected in gdb: whether it can be inspected, and its core file.

This needs only the Python of gdb 12 and later.
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
    """Counts the events of one gdb that may change inferiors.

    ``count`` changes with every such event. ``loaded`` counts only the events that may change the loaded files.
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
        """Return a value that stays the same until something in *inferior*, a ``gdb.Inferior``, changes."""
        return inferior.num, inferior.pid, self.count


def check_stopped(inferior: Any) -> None:
    """Check that *inferior* can be inspected now.

    :raises TargetGone: if it has no process
    :raises TargetError: if some of its threads are running
    :raises Unsupported: if gdb reaches it through another program
    """
    threads = inferior.threads() if inferior.pid else ()
    name = f"process {inferior.pid}"
    running = sum(thread.is_running() for thread in threads)
    if running:
        detail = "" if running == len(threads) else f": {running} of its {len(threads)} threads"
        raise TargetError(f"{name} is running{detail}", hint="stop all of it first: interrupt -a")
    check_reached(inferior)


def check_reached(inferior: Any) -> None:
    """Check that *inferior* can be inspected once it has stopped.

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
    """Return the path of the core file of *inferior*, None if it is a process.

    :raises TargetError: if gdb does not name that file
    """
    if inferior.connection is None or inferior.connection.type != "core":
        return None
    # Before gdb 17 no Python attribute has the path.
    core = _CORE.search(gdb.execute("info files", to_string=True))
    if core is None:
        raise TargetError("gdb does not say which core file it has opened", hint="use `ompd CORE` in a shell")
    return core[1]


def thread_selected() -> Any:
    """Return the selected ``gdb.InferiorThread``, None if none is selected, or it has just ended."""
    try:
        return gdb.selected_thread()
    except SystemError:  # gdb has already deleted its object
        return None


@contextmanager
def selection_kept() -> Iterator[None]:
    """Restore the selected thread and frame at the end of the ``with`` statement."""
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
