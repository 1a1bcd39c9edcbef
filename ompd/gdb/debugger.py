"""gdb for the commands: the state of one gdb, its inferior, threads and frames."""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.targets.gdb.files import file_options
from ompd.debugger.targets.gdb.inferior import Stops, check_stopped, core_of, thread_selected
from ompd.debugger.targets.gdb.target import GdbTarget, native_id
from ompd.debugger.targets.live.files import LiveFiles
from ompd.errors import TargetGone
from ompd.frontends.debugger import Debugger, ProcessState, Sessions
from ompd.frontends.prompt import Screen, clean_lines
from ompd.gdb.sessions import opened
from ompd.inspection import Inspection
from ompd.model import StackFrame
from ompd.render.words import Indices

_MOST_FRAMES = 256  # between a thread's innermost frame and the user's first


class Gdb(Debugger):
    """gdb, and the state of ompd's commands in it. Make only one object."""

    name, prompt, script = "gdb", "(gdb) ", "gdb_script.py"

    def __init__(self) -> None:
        self.stops = Stops()
        self.prefixes: tuple[str, ...] = ()
        self.walks = False  # whether a command of ours runs the program, and prints its stop itself
        self.events: set[int] = set()  # numbers of breakpoints at events
        self.arm: Callable[[], None] = lambda: None  # sets a breakpoint at runtimes' begin, if anything needs it
        self._prints_stops = False
        self._sessions: Sessions[Inspection] = Sessions()
        self._of_thread: Sessions[Inspection] = Sessions()

    @property
    def prints_stops(self) -> bool:
        """Whether each stop prints a line."""
        return self._prints_stops

    def print_stops(self, on: bool) -> None:
        """Print a line at each stop from now on, or stop doing so."""
        self._prints_stops = on
        self.arm()

    def version(self) -> str:
        """Return gdb's version."""
        return str(gdb.VERSION)

    def screen(self) -> Screen:
        """Return gdb's settings for colour and width. Without a terminal: no colour, and no width."""
        terminal = os.isatty(1)
        return Screen(
            color=terminal and bool(gdb.parameter("style enabled")), width=gdb.parameter("width") if terminal else None
        )

    def session(self, ompd_library: str | None = None) -> Inspection:
        """Return the session of the selected inferior at this stop. It is the same object until something in the
        inferior changes.

        :param ompd_library: as for :func:`ompd.open_core`
        """
        inferior = gdb.selected_inferior()
        check_stopped(inferior)
        core = core_of(inferior)
        options = file_options()
        moment = (*self.stops.of(inferior), core, options.sysroot, tuple(options.debug_dirs))
        key = inferior.num, ompd_library
        session = self._sessions.find(key, moment)
        if session is None:
            session = self._sessions.keep(key, moment, opened(inferior, core, self.stops, ompd_library))
        return session

    def session_of_thread(self) -> Inspection:
        """Return a session for the selected thread only. It can be used while other threads run, for example in the
        condition of a breakpoint. The list of modules is kept until gdb's modules change.
        """
        inferior = gdb.selected_inferior()
        thread = thread_selected()
        if not any(other.is_running() for other in inferior.threads()) or thread is None:
            return self.session()
        target = GdbTarget(inferior, self.stops, alone=thread)
        modules = inferior.num, inferior.pid, self.stops.loaded
        session = self._of_thread.find("", modules)
        if session is None:
            files = LiveFiles(inferior.pid, target.mappings(), target.auxiliary_vector(), file_options())
            return self._of_thread.keep("", modules, Inspection(target, files))
        session.begin_stop(target, session.process.at_another_stop(target))
        return session

    def process_state(self) -> ProcessState:
        """Return the state of the selected inferior.

        :raises OmpdError: if it has no process, or if the process is running
        """
        inferior = gdb.selected_inferior()
        check_stopped(inferior)
        return ProcessState(inferior.pid, core_of(inferior) is not None, len(inferior.threads()))

    def indices(self) -> Indices:
        """Return gdb's numbers of the selected inferior's threads."""
        return Indices("gdb", {native_id(thread): thread.num for thread in gdb.selected_inferior().threads()})

    def selected_thread(self) -> int:
        """Return the native id of the selected thread.

        :raises TargetGone: if no thread is selected
        """
        thread = thread_selected()
        if thread is None:
            raise TargetGone("no thread is selected", hint="thread 1")
        return native_id(thread)

    def thread_name(self, thread: int) -> str:
        """Return gdb's number of a thread, in words.

        :raises TargetGone: if gdb has no such thread
        """
        return f"gdb's thread {thread_of(thread).num}"

    def select_thread(self, thread: int) -> None:
        """Select a thread, and its innermost frame.

        :raises TargetGone: if gdb has no such thread
        """
        thread_of(thread).switch()

    def thread_numbers(self) -> Sequence[str]:
        """Return the OpenMP numbers of the threads in the team of the selected one, empty if they are unknown."""
        with suppress(gdb.error):
            return super().thread_numbers()
        return ()

    def select_frame(self, frame: StackFrame, stack_pointer: str) -> bool:
        """Select gdb's frame for *frame*, and return whether it has one."""
        with suppress(gdb.error):
            candidate: Any = gdb.newest_frame()
            for _ in range(_MOST_FRAMES):
                if candidate is None:
                    return False
                # gdb ends a stack with main, so main's caller is missing, and main's CFA (None) is unknown. Then the
                # equal pc suffices.
                cfa = _cfa_of(candidate, stack_pointer) if candidate.pc() == frame.address else 0
                if cfa in (frame.cfa, None):
                    candidate.select()
                    return True
                candidate = candidate.older()
        return False

    def selected_frame(self, stack_pointer: str) -> tuple[int, str] | None:
        """Return the stack pointer in the selected frame, and its function; None if no frame is selected."""
        with suppress(gdb.error):
            frame = gdb.selected_frame()
            return int(frame.read_register(stack_pointer)) & (1 << 64) - 1, frame.name() or ""
        return None

    def where(self) -> str:
        """Return gdb's text for the selected frame."""
        # No colours: clean_lines cannot tell gdb's escapes from those in the target's text.
        return clean_lines(gdb.execute("with style sources off -- frame", to_string=True).rstrip("\n").expandtabs())


def thread_of(native: int) -> Any:
    """Return the ``gdb.InferiorThread`` with the native id *native*.

    :raises TargetGone: if there is none
    """
    for thread in gdb.selected_inferior().threads():
        if native_id(thread) == native:
            return thread
    raise TargetGone(f"gdb has no thread {native}")


def _cfa_of(frame: Any, stack_pointer: str) -> int | None:
    # Return the canonical frame address, which is the caller's stack pointer, None if it is unknown.
    with suppress(gdb.error):
        while frame is not None and frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        caller = frame.older() if frame is not None else None
        return int(caller.read_register(stack_pointer)) & (1 << 64) - 1 if caller is not None else None
    return None


def writable(text: str) -> str:
    """Return *text* with escapes for characters that the locale cannot encode: gdb would raise an error for these."""
    name = locale.nl_langinfo(locale.CODESET)
    return text.encode(name, "backslashreplace").decode(name, "replace")
