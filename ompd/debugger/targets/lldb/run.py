"""Running a process under LLDB from one stop to the next, and starting one, for :mod:`ompd.lldb.control`."""

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
"""The name of a place, and the native id of the thread that came there."""


class ProgramEnded(TargetGone):
    """The program ended before it came to the place."""


class RuntimeModule(NamedTuple):
    """An OpenMP runtime that is loaded, as an ``SBModule``: it has the specification's places for events, or not."""

    module: Any
    name: str
    has_events: bool


class Top(NamedTuple):
    """What a thread has where a function begins: its pc and stack pointer, where the call returns to, and the third
    argument.
    """

    pc: int
    stack: int
    back: int
    third_argument: int


# What every runtime of OpenMP exports, as LLDB names it with and without its version; and a place for an event.
_QUERIES = ("omp_get_thread_num", "omp_get_thread_num@@VERSION")
_EVENT = "ompd_bp_parallel_begin"
_BEGUN = "ompd_dll_locations_valid"
# Which libraries have the functions that make threads.
_THREADS = ("libc.so", "libc-", "libpthread", "ld-musl")


class LldbRun:
    """An ``SBProcess`` that can be run on. *debugger* is given up with it if it was made for it."""

    def __init__(self, process: Any, debugger: Any = None, errors: ErrorOutput | None = None) -> None:
        self._lldb = load_lldb()
        self.process = process
        self._errors = errors
        self._own = debugger
        self._launched = debugger is not None
        self.target = process.GetTarget()
        self._debugger = self.target.GetDebugger()
        self._functions: dict[tuple[str, str, int], list[tuple[str, int]]] = {}
        self._kinds: dict[tuple[str, str], bool | None] = {}  # of modules: whether they have events, None for others

    @classmethod
    def launch(
        cls, arguments: Sequence[str], environment: Mapping[str, str], cwd: str | None, *, without_note: bool = False
    ) -> LldbRun:
        """Return a program that was started and is stopped at its first instruction.

        :param without_note: whether what the runtime writes because of OMP_DEBUG is left out
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
                # Each LLDB has its own words for what is not there.
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
        """End the program if it was launched here; another is left as it is."""
        if self._own is not None:
            own, self._own = self._own, None
            self.process.Kill()
            self.show_output()
            if self._errors is not None:
                self._errors.close()
            self._lldb.SBDebugger.Destroy(own)

    def can_be_asked(self) -> bool:
        """Whether the process is at a stop."""
        return self.process.GetState() in (self._lldb.eStateStopped, self._lldb.eStateCrashed)

    def show_output(self) -> None:
        """Write what the program has written, as far as LLDB took it from one that was launched here."""
        if not self._launched:
            return
        for read, file in ((self.process.GetSTDOUT, sys.stdout), (self.process.GetSTDERR, sys.stderr)):
            while piece := read(_OUTPUT_PIECE):
                file.write(piece.replace("\r\n", "\n"))  # it wrote to a terminal
            file.flush()

    # Places

    def at_line(self, file: str, line: int) -> Any:
        """Return a breakpoint at a line.

        :raises BadInput: if it has no code
        """
        return self._found(self.target.BreakpointCreateByLocation(file, line), f"{file}:{line} has no code")

    def at_function(self, name: str) -> Any:
        """Return a breakpoint at a function.

        :raises BadInput: if there is none
        """
        return self._found(self.target.BreakpointCreateByName(name), f"there is no function {name!r}")

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

    def _found(self, breakpoint: Any, fault: str) -> Any:
        if not breakpoint.GetNumLocations():
            self.target.BreakpointDelete(breakpoint.GetID())
            raise BadInput(fault)
        return breakpoint

    def at_symbol(self, name: str) -> Any | None:
        """Return a breakpoint at the address that symbol *name* has, None while no module has it.

        By name LLDB would skip what it takes for the beginning of a function, and this may be a label.
        """
        for module in self.target.module_iter():
            symbol = module.FindSymbol(name)
            if symbol.IsValid():
                return self.target.BreakpointCreateBySBAddress(symbol.GetStartAddress())
        return None

    # Runtimes

    def runtimes(self) -> list[RuntimeModule]:
        """Return the OpenMP runtimes that are loaded now, by the names that they export."""
        found = []
        for module in self.target.module_iter():
            key = module.GetUUIDString() or "", str(module.GetFileSpec().fullpath or "")
            if key not in self._kinds:
                is_runtime = self._has_code(module, FORKS) and self._has_code(module, _QUERIES)
                self._kinds[key] = module.FindSymbol(_EVENT).IsValid() if is_runtime else None
            has_events = self._kinds[key]
            if has_events is not None:
                found.append(RuntimeModule(module, str(module.GetFileSpec().GetFilename()), has_events))
        return found

    def _has_code(self, module: Any, names: Sequence[str]) -> bool:
        # What a module calls elsewhere has a symbol in it, too.
        return any(module.FindSymbol(name, self._lldb.eSymbolTypeCode).IsValid() for name in names)

    def at_begin(self, runtime: RuntimeModule) -> list[Any]:
        """Return a breakpoint where a runtime that has events has begun, and knows whether it passes them."""
        symbol = runtime.module.FindSymbol(_BEGUN)
        return [self.target.BreakpointCreateBySBAddress(symbol.GetStartAddress())] if symbol.IsValid() else []

    def at_entries(self, runtime: RuntimeModule) -> list[Any]:
        """Return breakpoints at the routines of *runtime* that begin regions and make tasks."""
        addresses = {address for name, address in self.functions(runtime.module) if name.startswith(FIRST_ENTRIES)}
        return [self.at_address(address) for address in addresses]

    def at_address(self, address: int) -> Any:
        """Return a breakpoint at an address, where LLDB skips nothing."""
        return self.target.BreakpointCreateByAddress(address)

    def functions(self, module: Any) -> list[tuple[str, int]]:
        """Return the names of the functions of a module that is loaded, with their addresses."""
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
        """Return the addresses of the functions called *name* in the system's libraries, whatever their version."""
        found: set[int] = set()
        for module in self.target.module_iter():
            if str(module.GetFileSpec().GetFilename() or "").startswith(_THREADS):
                found |= {address for symbol, address in self.functions(module) if symbol.partition("@")[0] == name}
        return found

    def is_in_runtime(self, address: int) -> bool:
        """Return whether an OpenMP runtime has code there."""
        module = self._module_at(address)
        return any(runtime.module == module for runtime in self.runtimes())

    def is_in_program(self, address: int) -> bool:
        """Return whether the program itself has code there."""
        return bool(self._module_at(address) == self.target.GetModuleAtIndex(0))

    def _module_at(self, address: int) -> Any:
        return self.target.ResolveLoadAddress(address).GetModule()

    # Threads

    @property
    def stop_id(self) -> int:
        """The number of the stop, another one after the process has run."""
        return int(self.process.GetStopID())

    @property
    def pointer_size(self) -> int:
        """Bytes of an address."""
        return int(self.target.GetAddressByteSize())

    def read(self, address: int, size: int) -> bytes:
        """Return memory, nothing where there is none."""
        data = self.process.ReadMemory(address, size, self._lldb.SBError())
        return bytes(data or b"")

    def top(self, thread: int) -> Top:
        """Return what a thread has that is at the first instruction of a function."""
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
        """Run until a thread comes to one of *places*, and return who came where.

        :param places: make a breakpoint, or None as long as a library that is not loaded has to have it
        :param what: the places in words
        :param more: makes breakpoints at other places as they come, by the names of these: it is asked at the start and
            whenever a library was loaded
        :param deadline: when the time is over, by the monotonic clock, if some of it has passed already
        :raises TargetGone: if the program ended
        :raises TimeLimit: if it took longer
        :raises TargetError: if something else stopped it
        """
        check_stopped(self._lldb, self.process)
        deadline = time.monotonic() + seconds if deadline is None else deadline
        made: dict[str, Any] = {}
        others: list[tuple[str, Any]] = []
        try:
            while True:
                for name, make in places.items():
                    if name not in made and (breakpoint := make()) is not None:
                        made[name] = breakpoint
                others += more() if more is not None else ()
                with self._stopping_at_libraries(len(made) < len(places) or more is not None):
                    in_time = self._continue(deadline - time.monotonic())
                hits = self._hits({breakpoint.GetID(): name for name, breakpoint in (*made.items(), *others)})
                if hits:
                    return hits
                self._check_stop(what, in_time, seconds)
        finally:
            for _, breakpoint in (*made.items(), *others):
                self.target.BreakpointDelete(breakpoint.GetID())

    def run_for(self, seconds: float) -> None:
        """Run for so long.

        :raises TargetGone: if the program ended
        :raises TargetError: if something else stopped it
        """
        check_stopped(self._lldb, self.process)
        deadline = time.monotonic() + seconds
        what = f"the end of {seconds:g} seconds"
        while self._continue(deadline - time.monotonic()):
            self._check_stop(what, True, seconds)  # a library was loaded
        if self.process.GetState() == self._lldb.eStateExited:
            self._check_stop(what, True, seconds)

    @contextmanager
    def _stopping_at_libraries(self, wanted: bool) -> Iterator[None]:
        name = self._debugger.GetInstanceName()
        if not wanted:
            yield
            return
        self._lldb.SBDebugger.SetInternalVariable(_LIBRARY_STOPS, "true", name)
        try:
            yield
        finally:
            self._lldb.SBDebugger.SetInternalVariable(_LIBRARY_STOPS, "false", name)

    def _continue(self, seconds: float) -> bool:
        # Whether it stopped by itself. LLDB has no time limit, but it can be interrupted from another thread.
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
        found = []
        if self.process.GetState() == self._lldb.eStateStopped:
            for thread in self.process:
                if thread.GetStopReason() == self._lldb.eStopReasonBreakpoint:
                    data = [thread.GetStopReasonDataAtIndex(n) for n in range(0, thread.GetStopReasonDataCount(), 2)]
                    found += [(names[number], thread.GetThreadID()) for number in data if number in names]
        if found:
            self.select(found[0][1])
        return found

    def select(self, thread: int) -> None:
        """Select a thread in LLDB, by its native id."""
        self.process.SetSelectedThreadByID(thread)

    def _check_stop(self, what: str, in_time: bool, seconds: float) -> None:
        # Return where the stop was only for a library.
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
        # LLDB's own breakpoint in the loader has a negative number.
        return bool(
            thread.GetStopReason() == self._lldb.eStopReasonBreakpoint
            and thread.GetStopReasonDataCount()
            and thread.GetStopReasonDataAtIndex(0) >> 31
        )
