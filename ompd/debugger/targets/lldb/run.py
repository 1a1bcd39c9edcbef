"""Starts a process under LLDB, and runs it from one stop to the next, for :mod:`ompd.lldb.control`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ompd.debugger.targets.lldb.loading import load_lldb
from ompd.debugger.targets.lldb.output import ErrorOutput
from ompd.debugger.targets.lldb.target import check_stopped
from ompd.errors import BadInput, TargetError, TargetGone, TimeLimit, Unavailable
from ompd.naming import FIRST_ENTRIES, FORKS

_OUTPUT_PIECE = 1 << 14
_LIBRARY_STOPS = "target.process.stop-on-sharedlibrary-events"

Hit = tuple[str, int]
"""The name of a place, and the native id of the thread that reached it."""


class ProgramEnded(TargetGone):
    """The program ended before it reached the place."""


class RuntimeModule(NamedTuple):
    """A loaded OpenMP runtime, as an ``SBModule``. ``has_events``: whether it has the specification's event places."""

    module: Any
    name: str
    has_events: bool


class Top(NamedTuple):
    """A thread at the first instruction of a function: its pc, its stack pointer, the return address, and the third
    argument.
    """

    pc: int
    stack: int
    back: int
    third_argument: int


# Every OpenMP runtime exports this; LLDB may add its version.
_QUERIES = ("omp_get_thread_num", "omp_get_thread_num@@VERSION")
_EVENT = "ompd_bp_parallel_begin"
_BEGUN = "ompd_dll_locations_valid"
# The libraries with the functions that create threads.
_THREADS = ("libc.so", "libc-", "libpthread", "ld-musl")


class LldbRun:
    """An ``SBProcess`` that can be continued.

    :param debugger: the ``SBDebugger`` that was created for it, which is closed with it
    :param errors: the standard error of the process
    """

    def __init__(self, process: Any, debugger: Any = None, errors: ErrorOutput | None = None) -> None:
        self._lldb = load_lldb()
        self.process = process
        self._errors = errors
        self._own = debugger
        self._launched = debugger is not None
        self.target = process.GetTarget()
        self._debugger = self.target.GetDebugger()
        self._functions: dict[tuple[str, str, int], list[tuple[str, int]]] = {}
        self._has_events: dict[tuple[str, str], bool | None] = {}  # by module, None if it is no OpenMP runtime

    @classmethod
    def launch(
        cls, arguments: Sequence[str], environment: Mapping[str, str], cwd: str | None, *, without_note: bool = False
    ) -> LldbRun:
        """Start a program, and return it stopped at its first instruction.

        :param without_note: whether to drop the line that the runtime writes because of OMP_DEBUG
        :raises BadInput: if it cannot be started
        :raises Unsupported: if there is no LLDB
        """
        if not arguments:
            raise BadInput("there is no program to start", hint='ompd.launch(["./a.out", "argument"])')
        lldb = load_lldb()
        debugger = lldb.SBDebugger.Create()
        debugger.SetAsync(False)
        errors = ErrorOutput(without_note=without_note)
        try:
            error = lldb.SBError()
            target = debugger.CreateTarget(arguments[0], None, None, True, error)
            if error.Fail() or not target.IsValid():
                # LLDB's versions have different messages for a missing file.
                is_there = os.sep not in arguments[0] or os.path.exists(arguments[0])  # noqa: PTH110
                why = error.GetCString() or "it is not a program" if is_there else f"{arguments[0]!r} does not exist"
                raise BadInput(f"{arguments[0]} cannot be started: {why}")
            info = lldb.SBLaunchInfo(list(arguments[1:]))
            info.SetEnvironmentEntries([f"{name}={value}" for name, value in environment.items()], False)
            info.SetWorkingDirectory(cwd or os.getcwd())  # noqa: PTH109
            info.SetLaunchFlags(info.GetLaunchFlags() | lldb.eLaunchFlagStopAtEntry)
            info.AddOpenFileAction(2, errors.path, False, True)
            process = target.Launch(info, error)
            if error.Fail():
                raise BadInput(f"{arguments[0]} cannot be started: {error.GetCString()}")
            errors.start()
            return cls(process, debugger, errors)
        except BaseException:
            errors.close()
            lldb.SBDebugger.Destroy(debugger)
            raise

    def close(self) -> None:
        """End the program if it was launched here; otherwise leave the process as it is."""
        if self._own is not None:
            own_debugger, self._own = self._own, None
            self.process.Kill()
            self.show_output()
            if self._errors is not None:
                self._errors.close()
            self._lldb.SBDebugger.Destroy(own_debugger)

    def can_be_asked(self) -> bool:
        """Return whether the process is stopped."""
        return self.process.GetState() in (self._lldb.eStateStopped, self._lldb.eStateCrashed)

    def show_output(self) -> None:
        """Copy the output that LLDB has collected from a program that was launched here."""
        if not self._launched:
            return
        for read, file in ((self.process.GetSTDOUT, sys.stdout), (self.process.GetSTDERR, sys.stderr)):
            while piece := read(_OUTPUT_PIECE):
                file.write(piece.replace("\r\n", "\n"))  # the program's terminal added \r
            file.flush()

    # Places

    def at_line(self, file: str, line: int) -> Any:
        """Return a breakpoint at a line.

        :raises BadInput: if it has no code
        """
        return self._with_code(self.target.BreakpointCreateByLocation(file, line), f"{file}:{line} has no code")

    def at_function(self, name: str) -> Any:
        """Return a breakpoint at a function.

        :raises BadInput: if there is none
        """
        return self._with_code(self.target.BreakpointCreateByName(name), f"there is no function {name!r}")

    def at_functions_like(self, pattern: str, thread: int) -> Any:
        """Return a breakpoint at all functions that match a regular expression, for one thread.

        :raises Unavailable: if there are none
        """
        breakpoint = self.target.BreakpointCreateByRegex(pattern)
        if not breakpoint.GetNumLocations():
            self.target.BreakpointDelete(breakpoint.GetID())
            raise Unavailable("no function in the program's symbols is the code of a region")
        breakpoint.SetThreadID(thread)
        return breakpoint

    def _with_code(self, breakpoint: Any, fault: str) -> Any:
        # Return the breakpoint if it has a location, else delete it.
        if not breakpoint.GetNumLocations():
            self.target.BreakpointDelete(breakpoint.GetID())
            raise BadInput(fault)
        return breakpoint

    def at_symbol(self, name: str) -> Any | None:
        """Return a breakpoint at the address of symbol *name*, None while no module has it.

        A breakpoint by name would skip the prologue of a function, and the symbol may be a label.
        """
        for module in self.target.module_iter():
            symbol = module.FindSymbol(name)
            if symbol.IsValid():
                return self.target.BreakpointCreateBySBAddress(symbol.GetStartAddress())
        return None

    # Runtimes

    def runtimes(self) -> list[RuntimeModule]:
        """Return the loaded OpenMP runtimes, recognised by their exported names."""
        runtimes = []
        for module in self.target.module_iter():
            key = module.GetUUIDString() or "", str(module.GetFileSpec().fullpath or "")
            if key not in self._has_events:
                is_runtime = self._has_code(module, FORKS) and self._has_code(module, _QUERIES)
                self._has_events[key] = module.FindSymbol(_EVENT).IsValid() if is_runtime else None
            has_events = self._has_events[key]
            if has_events is not None:
                runtimes.append(RuntimeModule(module, str(module.GetFileSpec().GetFilename()), has_events))
        return runtimes

    def _has_code(self, module: Any, names: Sequence[str]) -> bool:
        # Search symbols of code only: a module also has symbols of the functions that it calls in other modules.
        return any(module.FindSymbol(name, self._lldb.eSymbolTypeCode).IsValid() for name in names)

    def at_begin(self, runtime: RuntimeModule) -> list[Any]:
        """Return a breakpoint at the place where a runtime is initialised, and has decided whether to report events.
        Empty for a runtime without events.
        """
        symbol = runtime.module.FindSymbol(_BEGUN)
        return [self.target.BreakpointCreateBySBAddress(symbol.GetStartAddress())] if symbol.IsValid() else []

    def at_entries(self, runtime: RuntimeModule) -> list[Any]:
        """Return breakpoints at the routines of *runtime* that begin regions and create tasks."""
        addresses = {address for name, address in self.functions(runtime.module) if name.startswith(FIRST_ENTRIES)}
        return [self.at_address(address) for address in addresses]

    def at_address(self, address: int) -> Any:
        """Return a breakpoint exactly at an address."""
        return self.target.BreakpointCreateByAddress(address)

    def functions(self, module: Any) -> list[tuple[str, int]]:
        """Return the names and addresses of the functions of a loaded module."""
        header = self._address_of(module)
        key = module.GetUUIDString() or "", str(module.GetFileSpec().fullpath or ""), header
        if key not in self._functions:
            self._functions[key] = [
                (symbol.GetName() or "", symbol.GetStartAddress().GetLoadAddress(self.target))
                for symbol in module
                if symbol.GetType() == self._lldb.eSymbolTypeCode
            ]
        return self._functions[key]

    def is_loaded(self, module: Any) -> bool:
        """Return whether a module is in the memory of the process."""
        return self._address_of(module) != int(self._lldb.LLDB_INVALID_ADDRESS)

    def _address_of(self, module: Any) -> int:
        return int(module.GetObjectFileHeaderAddress().GetLoadAddress(self.target))

    def functions_called(self, name: str) -> set[int]:
        """Return the addresses of the functions called *name* in the system's libraries, of all versions."""
        addresses: set[int] = set()
        for module in self.target.module_iter():
            if str(module.GetFileSpec().GetFilename() or "").startswith(_THREADS):
                addresses |= {address for symbol, address in self.functions(module) if symbol.partition("@")[0] == name}
        return addresses

    def is_in_runtime(self, address: int) -> bool:
        """Return whether an OpenMP runtime has code at *address*."""
        module = self._module_at(address)
        return any(runtime.module == module for runtime in self.runtimes())

    def is_in_program(self, address: int) -> bool:
        """Return whether the program itself has code at *address*."""
        return bool(self._module_at(address) == self.target.GetModuleAtIndex(0))

    def _module_at(self, address: int) -> Any:
        return self.target.ResolveLoadAddress(address).GetModule()

    # Threads

    @property
    def stop_id(self) -> int:
        """The number of the stop, which changes when the process runs."""
        return int(self.process.GetStopID())

    @property
    def pointer_size(self) -> int:
        """Bytes of an address."""
        return int(self.target.GetAddressByteSize())

    def read(self, address: int, size: int) -> bytes:
        """Return memory: *size* bytes, or fewer bytes or none if it is unreadable."""
        data = self.process.ReadMemory(address, size, self._lldb.SBError())
        return bytes(data or b"")

    def top(self, thread: int) -> Top:
        """Return the facts about a thread that is at the first instruction of a function."""
        frame = self.process.GetThreadByID(thread).GetFrameAtIndex(0)
        stack, size = frame.GetSP(), self.pointer_size
        words = [self.process.ReadPointerFromMemory(stack + n * size, self._lldb.SBError()) for n in (0, 3)]
        third = frame.FindRegister("rdx").GetValueAsUnsigned() if size == 8 else words[1]
        return Top(frame.GetPC(), stack, words[0], third)

    # Running

    def run_to(
        self,
        places: Mapping[str, Callable[[], Any | None]],
        what: str,
        seconds: float,
        more: Callable[[], Iterable[tuple[str, Any]]] | None = None,
        deadline: float | None = None,
    ) -> Sequence[Hit]:
        """Run until threads reach some of *places*, and return the hits.

        :param places: functions that create a breakpoint, or return None until the library with the place is loaded
        :param what: the places in words
        :param more: returns new breakpoints at other places, with their names; called at the start and whenever a
            library was loaded
        :param deadline: the end of the time by the monotonic clock, if some of it has passed already
        :raises TargetGone: if the program ended
        :raises TimeLimit: if it took longer
        :raises TargetError: if something else stopped it
        """
        check_stopped(self._lldb, self.process)
        deadline = time.monotonic() + seconds if deadline is None else deadline
        breakpoints: dict[str, Any] = {}
        further: list[tuple[str, Any]] = []
        try:
            while True:
                for name, create in places.items():
                    if name not in breakpoints and (breakpoint := create()) is not None:
                        breakpoints[name] = breakpoint
                further += more() if more is not None else ()
                with self._stopping_at_libraries(len(breakpoints) < len(places) or more is not None):
                    in_time = self._continue(deadline - time.monotonic())
                hits = self._hits({breakpoint.GetID(): name for name, breakpoint in (*breakpoints.items(), *further)})
                if hits:
                    return hits
                self._check_stop(what, in_time, seconds)
        finally:
            for _, breakpoint in (*breakpoints.items(), *further):
                self.target.BreakpointDelete(breakpoint.GetID())

    def run_for(self, seconds: float) -> None:
        """Run for that many seconds.

        :raises TargetGone: if the program ended
        :raises TargetError: if something else stopped it
        """
        check_stopped(self._lldb, self.process)
        deadline = time.monotonic() + seconds
        event = f"the end of {seconds:g} seconds"
        while self._continue(deadline - time.monotonic()):
            self._check_stop(event, True, seconds)  # a library was loaded
        if self.process.GetState() == self._lldb.eStateExited:
            self._check_stop(event, True, seconds)

    @contextmanager
    def _stopping_at_libraries(self, is_needed: bool) -> Iterator[None]:
        name = self._debugger.GetInstanceName()
        if not is_needed:
            yield
            return
        self._lldb.SBDebugger.SetInternalVariable(_LIBRARY_STOPS, "true", name)
        try:
            yield
        finally:
            self._lldb.SBDebugger.SetInternalVariable(_LIBRARY_STOPS, "false", name)

    def _continue(self, seconds: float) -> bool:
        # Return whether the process stopped by itself. LLDB has no time limit for this, but another thread can
        # interrupt it.
        late = threading.Event()

        def interrupt() -> None:
            late.set()
            self.process.SendAsyncInterrupt()

        timer = threading.Timer(max(seconds, 0), interrupt)
        asynchronous = self._debugger.GetAsync()
        self._debugger.SetAsync(False)
        timer.start()
        try:
            error = self.process.Continue()
        finally:
            timer.cancel()
            timer.join()
            self._debugger.SetAsync(asynchronous)
            self.show_output()
        if error.Fail():
            raise TargetError(f"LLDB cannot continue: {error.GetCString()}")
        return not late.is_set()

    def _hits(self, names: Mapping[int, str]) -> list[Hit]:
        hits = []
        if self.process.GetState() == self._lldb.eStateStopped:
            for thread in self.process:
                if thread.GetStopReason() == self._lldb.eStopReasonBreakpoint:
                    data = [thread.GetStopReasonDataAtIndex(n) for n in range(0, thread.GetStopReasonDataCount(), 2)]
                    hits += [(names[number], thread.GetThreadID()) for number in data if number in names]
        if hits:
            self.select(hits[0][1])
        return hits

    def select(self, thread: int) -> None:
        """Select a thread in LLDB, by its native id."""
        self.process.SetSelectedThreadByID(thread)

    def _check_stop(self, what: str, in_time: bool, seconds: float) -> None:
        # Raise unless the process stopped only because a library was loaded.
        number, lldb = self.process.GetProcessID(), self._lldb
        if self.process.GetState() == lldb.eStateExited:
            raise ProgramEnded(
                f"process {number} ended with status {self.process.GetExitStatus()} before it came to {what}"
            )
        if not in_time:
            raise TimeLimit(f"process {number} did not come to {what} in {seconds:g} seconds")
        check_stopped(lldb, self.process)
        harmless = (lldb.eStopReasonNone, lldb.eStopReasonInvalid, lldb.eStopReasonTrace, lldb.eStopReasonExec)
        for thread in self.process:
            if thread.GetStopReason() not in harmless and not self._is_library_stop(thread):
                why = thread.GetStopDescription(100) or "something else"
                raise TargetError(f"process {number} was stopped by {why} before it came to {what}")

    def _is_library_stop(self, thread: Any) -> bool:
        # LLDB's internal breakpoint in the loader has a negative number.
        return bool(
            thread.GetStopReason() == self._lldb.eStopReasonBreakpoint
            and thread.GetStopReasonDataCount()
            and thread.GetStopReasonDataAtIndex(0) >> 31
        )
