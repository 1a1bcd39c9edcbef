"""Tests a DMPL library against the white paper of 2004: in one process, and in another after each finding."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ompd.conformance.rules import DMPL_RULES
from ompd.conformance.subject import DmplSubject
from ompd.contract.callbacks import Callbacks
from ompd.contract.dmpl import (
    VARINFO_NEEDS_DEREFERENCE,
    Language,
    Result,
    TargetTypeSizes,
    VarInfo,
)
from ompd.contract.dmpl_debugger import Debugger
from ompd.errors import LibraryError, SymbolNotFound, Unsupported
from ompd.model.conformance import ConformanceFinding
from ompd.records import record
from ompd.runtimes.hosted.dmpl.client import HostedLibrary
from ompd.runtimes.hosted.dmpl.protocol import FUNCTIONS, INITIALISE, Call
from ompd.runtimes.hosted.loading.libraries import Opened
from ompd.runtimes.hosted.messages import clean
from ompd.runtimes.hosted.process import Limits

VERSION = "DMPL 2004"
_LIMITS = Limits(seconds=10.0, memory=1 << 29, callbacks=1 << 19)
_ROOM = 200
# The code that the debugger's failing callbacks return.
_FAILURE = 4711
_MOST_FAILURES = 40
_FAILED: Mapping[str, Any] = {
    "get_type_sizes": (_FAILURE, TargetTypeSizes(0, 0, 0, 0, 0)),
    "find_symbol": (_FAILURE, 0),
    "find_type": None,
    "get_data": (_FAILURE, b""),
    "get_pthread_key": (_FAILURE, 0),
    "malloc": None,
}
_NAMES = (
    "main._omp_fn.0",
    "work.omp_outlined",
    ".omp_outlined.",
    "work.omp_outlined_debug__",
    "__emutls_v.counter",
    "counter.cache.",
    "omp_stub_private_counter",
    "omp_stub_at_shared_total",
    "L_main_10__par_region0_2_0",
    "_INTERNAL_8_prog_c_main__par_region0",
    "main",
    "",
)
_FUNCTIONS = tuple(name for call, name in FUNCTIONS.items() if call != Call.EXTEND)
_INITIALISE = INITIALISE[0]


@record
class DmplTried:
    """The findings about a library by their keys, the text of the library's version, and the functions that were not
    tried.
    """

    rows: Mapping[str, ConformanceFinding]
    version: str
    functions: int
    tried: int
    untried: tuple[str, ...]
    notes: tuple[str, ...]


def exported(library: Opened) -> frozenset[str]:
    """Return the DMPL functions that the library exports, spelled as in the header. ``DMPL_initialise`` may be exported
    in either of two spellings.
    """
    functions = library.entries & {*_FUNCTIONS, *INITIALISE}
    return functions | {_INITIALISE} if functions & {*INITIALISE} else functions


def try_dmpl(library: Opened, subjects: Sequence[DmplSubject], *, first: bool = False) -> DmplTried:
    """Return the findings about a DMPL library.

    :param subjects: the programs to try it on; without any, ``DMPL_get_tls_address`` is left out
    :param first: stop at the first finding
    :raises LibraryError: if the library cannot be loaded
    """
    trial = _Trial(library)
    functions = exported(library)
    for name in _FUNCTIONS:
        if name not in functions:
            trial.add(_Case("there", name, "is it there", "exported", "the function"), "the library does not have it")
    is_usable = not trial.rows and trial.starts()
    if is_usable:
        copies = [_Copies(subject) for subject in subjects]
        try:
            for case in (*_of_texts(), *(case for program in copies for case in program.cases())):
                trial.play(case)
                if first and trial.rows:
                    break
        finally:
            trial.end()
        trial.report_printed()
        if not subjects:
            trial.notes.append("without a program there are no threads: DMPL_get_tls_address was not tried")
        elif not trial.rows and not any(program.copies for program in copies):
            trial.notes.append("no thread has a copy of a global variable: little of DMPL_get_tls_address was tried")
    return DmplTried(
        trial.rows,
        trial.version,
        len(functions),
        trial.tried,
        tuple(sorted(trial.untried)) if is_usable else _FUNCTIONS,
        tuple(trial.notes),
    )


@record
class _Case:
    # ``check`` returns the fault, or "". A case with ``alone`` gets a new process.
    key: str
    function: str
    title: str
    rule: str
    expected: str
    check: Callable[[_Tool], str] = lambda tool: ""
    alone: bool = False


class _Trial:
    # The processes of one library, and the findings.

    def __init__(self, library: Opened) -> None:
        self._library = library
        self.rows: dict[str, ConformanceFinding] = {}
        self.notes: list[str] = []
        self.version = ""
        self.tried = 0
        self.untried: set[str] = set()
        # Functions that timed out: every time-out costs seconds.
        self._slow: set[str] = set()
        self._warnings: list[str] = []
        self._tool: _Tool | None = None

    def starts(self) -> bool:
        """Return whether the library starts, and note the text of its version.

        :raises LibraryError: if it cannot be loaded
        """
        self.tried += 1
        try:
            with self._started() as library:
                self.version = clean(library.version_string())
        except Unsupported as error:
            case = _Case("version", "DMPL_version_compatibility", "before initialisation", "version", "1")
            self.add(case, str(error).partition(": ")[2])
        except LibraryError as error:
            if error.call not in _FUNCTIONS:
                raise
            self.add(_Case("set-up", error.call, "before initialisation", "version", "a result"), _fault_of(error))
        return not self.rows

    def _started(self) -> HostedLibrary:
        return HostedLibrary(self._library, limits=_LIMITS, warnings=self._warnings, extends=False)

    def report_printed(self) -> None:
        """Add a finding if the library has printed past the debugger."""
        printed = [text.partition(": ")[2] for text in self._warnings if ": printed " in text]
        if printed:
            case = _Case("prints", _INITIALISE, "this call and others", "no-printing", "nothing on standard output")
            self.add(case, printed[0])

    def play(self, case: _Case) -> None:
        """Try a case, and repeat it in another process if it has a finding."""
        if case.function in self._slow:
            self.untried.add(case.function)
            return
        self.tried += 1
        if case.alone:
            self.end()
        fault = self._check(case)
        if not fault:
            return
        self.end()
        fault_again = self._check(case)
        if fault_again:
            self.add(case, fault_again)
        else:
            self.notes.append(f"{case.function}: {case.title}: {fault}, but not a second time")

    def _check(self, case: _Case) -> str:
        started = time.monotonic()
        try:
            if self._tool is None:
                self._tool = _Tool(self._started())
            return case.check(self._tool)
        except LibraryError as error:
            self.end()
            if time.monotonic() - started > _LIMITS.seconds / 2:
                self._slow.add(case.function)
            return _fault_of(error)

    def end(self) -> None:
        """End the library's process, if there is one."""
        if self._tool is not None:
            self._tool.loaded.close()
            self._tool = None

    def add(self, case: _Case, fault: str) -> None:
        """Add a finding."""
        rule = DMPL_RULES[case.rule]
        key = f"{case.function}/{case.key}"
        finding = ConformanceFinding(
            key,
            case.function,
            case.title,
            rule.level,
            VERSION,
            rule.section,
            rule.words,
            case.expected,
            fault,
            0,
            (),
            (),
        )
        self.rows.setdefault(key, finding)


def _fault_of(error: LibraryError) -> str:
    return f"{error.fault} in {error.call}" if error.call else error.fault


class _Tool:
    # A debugger that initialises a library. One call of one of its callbacks may fail.

    def __init__(self, library: HostedLibrary) -> None:
        self.loaded = library
        self.debugger = Debugger()
        self.calls: Counter[str] = Counter()
        self._failing: tuple[str, int] | None = None
        table = self.debugger.table
        counted = {name: self._counted(name, getattr(table, name)) for name in _FAILED}
        self.code = library.initialise(replace(table, **counted), self.debugger.types)

    def _counted(self, name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return _FAILED[name] if (name, self.calls[name]) == self._failing else callback(*arguments)

        return call

    def ask(
        self, callbacks: Callbacks, copy: tuple[int, int], failing: tuple[str, int] | None = None
    ) -> tuple[int, int]:
        """Ask the library for the address of a thread's copy of a variable, in a new process of which it knows nothing
        yet. Return the library's code and the address.

        :param copy: the thread's native id, and the variable's address
        :param failing: the name of a callback, and which of its calls fails; None for no failure
        """
        self._failing = failing
        self.calls.clear()
        process = self.debugger.add_process(callbacks)
        thread, address = copy
        return self.loaded.get_tls_address(self.debugger.thread(process, thread), address)


# Texts and names


def _of_texts() -> Iterator[_Case]:
    names, routines, errors = (FUNCTIONS[call] for call in (Call.DEMANGLE_NAME, Call.GET_RTL_NAMES, Call.ERROR_STRING))
    right = "one of the three codes, with the name's length"
    yield _Case("first", _INITIALISE, "the 15 callbacks of the header", "initialise", "DMPL_ok", _initialise)
    yield _Case("text", FUNCTIONS[Call.VERSION_STRING], "before initialisation", "own-text", "a text", _version)
    yield _Case("codes", errors, "the codes of the header", "error-text", "a text", _errors)
    yield _Case("codes", names, "names of compilers, and others", "name-result", right, _codes)
    yield _Case("too-long", names, "a buffer that is too small", "name-length", "DMPL_name_too_long", _too_long)
    yield _Case("flags", names, "the meaning of names", "name-flags", "a code of DMPL_varinfo", _flags)
    yield _Case("names", routines, "all languages", "routines", "two names, or a null pointer", _routines)


def _initialise(tool: _Tool) -> str:
    return f"returned {tool.code}" if tool.code else ""


def _version(tool: _Tool) -> str:
    return "" if tool.loaded.version_string() else "returned no text"


def _errors(tool: _Tool) -> str:
    codes = [code for code in Result if code < Result.FIRST_USER_CODE]
    lost = [code.name.lower() for code in codes if not tool.loaded.error_string(code)]
    return f"returned no text for DMPL_{lost[0]}" if lost else ""


def _codes(tool: _Tool) -> str:
    for name in _NAMES:
        result = tool.loaded.demangle_name(name, _ROOM)
        if result.code not in (Result.OK, Result.NAME_TOO_LONG, Result.NAME_UNCHANGED):
            return f"returned {result.code} for {name!r}"
        size = len(result.demangled.encode())
        if result.code == Result.OK and result.length not in (size, size + 1):
            return f"returned the length {result.length} with {result.demangled!r}"
    return ""


def _too_long(tool: _Tool) -> str:
    for name in _NAMES:
        whole = tool.loaded.demangle_name(name, _ROOM)
        size = len(whole.demangled.encode())
        if whole.code != Result.OK or size < 2:
            continue
        for room in (1, size - 1):
            short = tool.loaded.demangle_name(name, room)
            if short.code != Result.NAME_TOO_LONG:
                return f"returned {short.code} for {name!r}, whose name has {size} bytes, and a buffer of {room}"
            again = tool.loaded.demangle_name(name, short.length)
            if (again.code, again.demangled) != (whole.code, whole.demangled):
                return f"asked for a buffer of {short.length} bytes, and then returned {again.code} for {name!r}"
    return ""


def _flags(tool: _Tool) -> str:
    for name in _NAMES:
        result = tool.loaded.demangle_name(name, _ROOM)
        if result.flags & ~VARINFO_NEEDS_DEREFERENCE not in tuple(VarInfo):
            return f"returned the flags {result.flags:#x} for {name!r}"
        if result.decl_line < 0:
            return f"returned the line {result.decl_line} for {name!r}"
    return ""


def _routines(tool: _Tool) -> str:
    for language in Language:
        names = tool.loaded.get_rtl_names(language)
        if names is not None and not all(names):
            return f"returned a structure without a name for DMPL_lang_{language.name.lower()}"
    return ""


# Copies of threadprivate objects


class _NoSymbols:
    # A debugger's process without symbols. A library that still finds a copy there uses data of another process.

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._callbacks, name)

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        raise SymbolNotFound(name)


class _Copies:
    # The cases of ``DMPL_get_tls_address`` on a program.

    def __init__(self, subject: DmplSubject) -> None:
        self.subject = subject
        self.copies: dict[tuple[int, int], int] = {}
        """The address of each copy, by thread and variable."""

    def cases(self) -> Iterator[_Case]:
        """Yield the cases; the first one finds the copies."""
        name = FUNCTIONS[Call.GET_TLS_ADDRESS]
        right = "a code of the header, or one from 100 on"
        yield _Case("codes", name, "global variables of the program", "tls-result", right, self._codes)
        yield _Case("copies", name, "one variable in each thread", "copies", "another address in each", self._apart)
        yield _Case(
            "processes", name, "two processes at once", "no-global-data", "each by its own data", self._two_processes
        )
        for failing in _FAILED:
            title, right = f"DMPL_{failing}_fp fails", "a failure, or the right address"
            check = partial(self._with_failure, failing)
            yield _Case(f"fault-{failing}", name, title, "callback-error", right, check)
        function = FUNCTIONS[Call.DESTROY_PROCESS_INFO]
        yield _Case(
            "release", function, "all that was put", "release", "DMPL_ok, and nothing left", self._release, True
        )

    def _codes(self, tool: _Tool) -> str:
        process = tool.debugger.add_process(self.subject.callbacks)
        for address in self.subject.addresses:
            for thread in self.subject.threads:
                ref = tool.debugger.thread(process, thread)
                code, copy = tool.loaded.get_tls_address(ref, address)
                if code not in (Result.OK, Result.TLS_UNALLOCATED) and code < Result.FIRST_USER_CODE:
                    return f"returned {code} for {address:#x}"
                if (code, copy) != tool.loaded.get_tls_address(ref, address):
                    return f"returned another result the second time for {address:#x}"
                if code == Result.OK:
                    self.copies[thread, address] = copy
        return ""

    def _apart(self, _tool: _Tool) -> str:
        for variable in {variable for _, variable in self.copies}:
            copies = [copy for (_, address), copy in self.copies.items() if address == variable]
            if len(set(copies)) < len(copies):
                return f"gave two threads the same copy of {variable:#x}"
        return ""

    def _two_processes(self, tool: _Tool) -> str:
        for copy, right in list(self.copies.items())[:1]:
            if tool.ask(self.subject.callbacks, copy) != (Result.OK, right):
                return "returned another result in a debugger that had kept nothing yet"
            code, _ = tool.ask(_NoSymbols(self.subject.callbacks), copy)
            if code == Result.OK:
                return "returned DMPL_ok for a process without symbols, after a call for one with them"
            if tool.ask(self.subject.callbacks, copy) != (Result.OK, right):
                return "returned another result after a call for another process"
        return ""

    def _with_failure(self, failing: str, tool: _Tool) -> str:
        for copy, right in list(self.copies.items())[:1]:
            tool.ask(self.subject.callbacks, copy)
            for nth in range(1, min(tool.calls[failing], _MOST_FAILURES) + 1):
                code, address = tool.ask(self.subject.callbacks, copy, (failing, nth))
                if code == Result.OK and address != right:
                    return f"returned DMPL_ok with {address:#x}, not {right:#x}, where call {nth} failed"
        return ""

    def _release(self, tool: _Tool) -> str:
        process = tool.debugger.add_process(self.subject.callbacks)
        for thread, address in self.copies:
            tool.loaded.get_tls_address(tool.debugger.thread(process, thread), address)
        codes = tool.debugger.release(process, tool.loaded)
        if any(codes):
            return f"returned {max(codes)}"
        left = tool.debugger.allocated
        return f"left {left} pieces of storage" if left else ""
