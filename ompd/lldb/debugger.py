"""LLDB for the commands: the state of one debugger, its process, threads and frames."""

from __future__ import annotations

import os
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.debugger.targets.lldb.files import LldbFiles
from ompd.debugger.targets.lldb.target import LldbTarget, check_stopped, stop_of
from ompd.errors import OmpdError, TargetGone
from ompd.frontends.debugger import Debugger, ProcessState, Sessions
from ompd.frontends.prompt import Screen, clean_lines
from ompd.inspection import Inspection
from ompd.lldb.control import LldbInspection
from ompd.model import StackFrame
from ompd.render.words import Indices

_STATE = "__ompd__"
_MOST_FRAMES = 256  # between a thread's innermost frame and the user's first


class State:
    """The state of one debugger."""

    def __init__(self) -> None:
        self.module = ""  # LLDB's name for the module that users load
        self.prints_stops = False
        self.has_hook = False  # whether targets have ompd's stop hook
        self.last_printed: tuple[int, int] | None = None  # the stop at which the line was last printed
        self.names: tuple[tuple[int, int], dict[int, str]] | None = None  # a stop, and the names of its threads
        self.hides = True  # whether LLDB hides frames of runtimes if it can
        self._sessions: Sessions[LldbInspection] = Sessions()
        self._of_hits: Sessions[Inspection] = Sessions()

    def session(self, process: Any, ompd_library: str | None = None) -> LldbInspection:
        """Return the session of this stop of *process*. It is the same object until the process runs or loads modules.

        Sessions of earlier stops are closed. A session with a library also closes other sessions with a library,
        because each of them has a process for its library.

        :param ompd_library: as for :func:`ompd.from_lldb`
        """
        check_stopped(lldb, process)
        stop = stop_of(process)
        key = stop[0], ompd_library
        for other_key, other in self._sessions.all():
            has_other_library = other_key != key and ompd_library is not None and other_key[1] is not None
            if has_other_library or not other.target.is_current:
                self._sessions.close(other_key)
        moment = (*stop, process.GetTarget().GetNumModules())
        session = self._sessions.find(key, moment)
        if session is None:
            session = self._sessions.keep(key, moment, LldbInspection(process, ompd_library=ompd_library))
        return session

    def session_of_hit(self, process: Any) -> Inspection:
        """Return a session for a hit of a breakpoint, after which the process may continue at once.

        Facts from files are kept from one hit to the next while LLDB's modules stay the same.
        """
        modules = process.GetUniqueID(), process.GetTarget().GetNumModules()
        session = self._of_hits.find("", modules)
        if session is not None and isinstance(session.target, LldbTarget) and session.target.is_current:
            return session
        target = LldbTarget(process, lasting=True)
        if session is None:
            return self._of_hits.keep("", modules, Inspection(target, LldbFiles(process)))
        session.begin_stop(target, session.process.at_another_stop(target))
        return session


def state_of(internal_dict: dict[str, Any]) -> State:
    """Return the state of the debugger to which LLDB gave *internal_dict*."""
    return internal_dict.setdefault(_STATE, State())  # type: ignore[no-any-return]


def run_command(debugger: Any, text: str, target: Any = None) -> str:
    """Run an LLDB command and return its output.

    :param target: the ``SBTarget`` or ``SBThread`` for which the command runs, None for no particular one
    :raises OmpdError: if LLDB refuses the command
    """
    result = lldb.SBCommandReturnObject()
    context = lldb.SBExecutionContext(target) if target is not None else lldb.SBExecutionContext()
    debugger.GetCommandInterpreter().HandleCommand(text, context, result)
    if not result.Succeeded():
        raise OmpdError(f"LLDB refused {text!r}: {result.GetError()}")
    return result.GetOutput() or ""


class Lldb(Debugger):
    """LLDB while it runs one command.

    :param debugger: an ``SBDebugger``
    :param exe_ctx: the context of the command; None for the current selection
    """

    name, prompt, script = "LLDB", "(lldb) ", "lldb_script.py"

    def __init__(self, debugger: Any, state: State, exe_ctx: Any = None) -> None:
        self.debugger, self.state = debugger, state
        self.exe_ctx = exe_ctx if exe_ctx is not None else lldb.SBExecutionContext()

    @property
    def prints_stops(self) -> bool:
        """Whether each stop prints a line."""
        return self.state.prints_stops

    def print_stops(self, on: bool) -> None:
        """Print a line at each stop from now on, or stop doing so."""
        self.state.prints_stops = on
        # Only a command makes a stop hook, and LLDB does not return its number, by which it could be deleted. So the
        # hook stays, and prints nothing if the line is off.
        if on and not self.state.has_hook:
            self.state.has_hook = True
            for target in targets_of(self.debugger):
                run_command(self.debugger, f"target stop-hook add -P {self.state.module}.StopHook", target)
                _watch_begin(target, self.state.module)

    @property
    def is_starting(self) -> bool:
        """Whether this is the first stop of the process."""
        return bool(self.process().GetStopID() <= 1)

    def version(self) -> str:
        """Return LLDB's version."""
        return str(self.debugger.GetVersionString()).splitlines()[0].removeprefix("lldb version ")

    def screen(self) -> Screen:
        """Return LLDB's settings for colour and width. Without a terminal: no colour, and no width."""
        terminal = os.isatty(1)
        return Screen(
            color=terminal and bool(self.debugger.GetUseColor()),
            width=self.debugger.GetTerminalWidth() if terminal else None,
        )

    def session(self, ompd_library: str | None = None) -> LldbInspection:
        """Return the session of this stop of the process.

        :param ompd_library: as for :func:`ompd.from_lldb`
        """
        return self.state.session(self.process(), ompd_library)

    def process(self) -> Any:
        """Return the ``SBProcess`` of the command."""
        process = self.exe_ctx.GetProcess()
        return process if process.IsValid() else self.debugger.GetSelectedTarget().GetProcess()

    def process_state(self) -> ProcessState:
        """Return the state of the process.

        :raises OmpdError: if there is none, or it runs
        """
        process = self.process()
        check_stopped(lldb, process)
        return ProcessState(process.GetProcessID(), process.GetPluginName().endswith("-core"), process.GetNumThreads())

    def indices(self) -> Indices:
        """Return LLDB's numbers of the process's threads."""
        return Indices("LLDB", {thread.GetThreadID(): thread.GetIndexID() for thread in self.process()})

    def thread(self) -> Any:
        """Return the selected ``SBThread``."""
        thread = self.exe_ctx.GetThread()
        return thread if thread.IsValid() else self.process().GetSelectedThread()

    def frame(self) -> Any:
        """Return the selected ``SBFrame``."""
        frame = self.exe_ctx.GetFrame()
        return frame if frame.IsValid() else self.thread().GetSelectedFrame()

    def selected_thread(self) -> int:
        """Return the native id of the selected thread."""
        return int(self.thread().GetThreadID())

    def thread_name(self, thread: int) -> str:
        """Return LLDB's number of a thread, in words.

        :raises TargetGone: if LLDB has no such thread
        """
        return f"LLDB's thread #{thread_with(self.process(), thread).GetIndexID()}"

    def select_thread(self, thread: int) -> None:
        """Select a thread, and its innermost frame.

        :raises TargetGone: if LLDB has no such thread
        """
        process = self.process()
        selected = thread_with(process, thread)
        if not process.SetSelectedThread(selected):
            raise TargetGone(f"LLDB has no thread {thread}")
        selected.SetSelectedFrame(0)
        self.exe_ctx = lldb.SBExecutionContext(selected)

    def select_frame(self, frame: StackFrame, stack_pointer: str) -> bool:
        """Select LLDB's frame for *frame*, and return whether it has one."""
        thread = self.thread()
        for number in range(_MOST_FRAMES):
            candidate = thread.GetFrameAtIndex(number)
            if not candidate.IsValid():
                return False
            if candidate.GetPC() == frame.address and candidate.GetCFA() == frame.cfa:
                return bool(thread.SetSelectedFrame(number).IsValid())
        return False

    def selected_frame(self, stack_pointer: str) -> tuple[int | None, str]:
        """Return the stack pointer in the selected frame, and its function."""
        frame = self.frame()
        sp = frame.GetSP()
        # LLDB adds parameters to the names of some functions. Cut them off.
        name = (frame.GetFunctionName() or "").partition("(")[0]
        return sp if sp != lldb.LLDB_INVALID_ADDRESS else None, name

    def where(self) -> str:
        """Return LLDB's text for the selected frame."""
        thread = self.thread()
        number = thread.GetSelectedFrame().GetFrameID()
        # No colours: clean_lines cannot tell LLDB's escapes from those in the target's text.
        colors = self.debugger.GetUseColor()
        self.debugger.SetUseColor(False)
        try:
            text = run_command(self.debugger, f"frame select {number}", thread)
        finally:
            self.debugger.SetUseColor(colors)
        return clean_lines(text.rstrip("\n").expandtabs())


def targets_of(debugger: Any) -> list[Any]:
    """Return all targets of *debugger*, and the dummy target, whose settings LLDB copies to later targets."""
    targets = (debugger.GetTargetAtIndex(number) for number in range(debugger.GetNumTargets()))
    return [debugger.GetDummyTarget(), *targets]


def _watch_begin(target: Any, module: str) -> None:
    # Set a breakpoint at ompd_dll_locations_valid, which a runtime passes once it is initialised. The symbol may be a
    # label inside of a function, and LLDB would set a breakpoint by name behind an assumed prologue. So Arming sets it
    # at the symbol's address, in each module that is loaded.
    breakpoint = target.BreakpointCreateFromScript(
        f"{module}.Arming", lldb.SBStructuredData(), lldb.SBFileSpecList(), lldb.SBFileSpecList()
    )
    breakpoint.AddName("ompd")
    breakpoint.SetAutoContinue(True)
    breakpoint.SetScriptCallbackFunction(f"{module}.note_begin")


def thread_with(process: Any, native: int) -> Any:
    """Return the ``SBThread`` of *process* with the native id *native*.

    :raises TargetGone: if there is none
    """
    thread = process.GetThreadByID(native)
    if not thread.IsValid():
        raise TargetGone(f"LLDB has no thread {native}")
    return thread
