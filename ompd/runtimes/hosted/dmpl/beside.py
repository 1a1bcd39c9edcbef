"""The DMPL functions of a library that may have OMPD's functions as well. They find copies of threadprivate variables,
and translate names. They run in a separate process, which is started on first use.
"""

from __future__ import annotations

from functools import cached_property
from weakref import finalize

from ompd.contract.callbacks import Callbacks
from ompd.contract.dmpl import NamedVariable, ProcessRef, Result, RtlNames
from ompd.contract.dmpl_debugger import Debugger
from ompd.contract.helpers.demangling import variable_of
from ompd.errors import BadFile, BadInput, LibraryError, OmpdError
from ompd.runtimes.hosted.dmpl.client import HostedLibrary
from ompd.runtimes.hosted.loading.libraries import DMPL_ENTRIES, open_library
from ompd.runtimes.hosted.messages import clean
from ompd.runtimes.hosted.narrow import program_for

_MAX_NAME = 1 << 16


class Copies:
    """The copies of threadprivate variables that a runtime keeps, in one process at one stop.

    :param gone: gets the process when these copies are garbage-collected, which may be at any moment
    """

    def __init__(
        self, library: HostedLibrary, debugger: Debugger, callbacks: Callbacks, gone: list[ProcessRef]
    ) -> None:
        self._library, self._debugger = library, debugger
        self._process = debugger.add_process(callbacks)
        finalize(self, gone.append, self._process).atexit = False

    def address(self, thread: int, address: int) -> int | None:
        """Return the address of a thread's copy of the variable at *address*, None if the copy has no storage yet.

        :param thread: the thread's native id
        :raises BadInput: if the library has no copies of the variable
        :raises OmpdError: if a callback or the library failed
        """
        before = self._debugger.fault(self._process)
        code, copy = self._library.get_tls_address(self._debugger.thread(self._process, thread), address)
        if code == Result.OK:
            return copy
        if code == Result.TLS_UNALLOCATED:
            return None
        fault = self._debugger.fault(self._process)
        if fault is not None and fault is not before:
            raise fault.with_traceback(None)
        raise BadInput(f"{address:#x}: {self._library.error_string(code)}")


class Beside:
    """The DMPL functions of a library.

    :param path: the path of the library's file
    :param digest: SHA-256 in hexadecimal of the file that was loaded for OMPD. The file at *path* may have been
        replaced since
    :param warnings: gets each line that the library prints
    """

    def __init__(self, path: str, digest: str, warnings: list[str]) -> None:
        self._path, self._digest, self._warnings = path, digest, warnings
        self._debugger = Debugger(warnings.append)
        self._started: HostedLibrary | None = None
        # Processes of earlier stops. The library's data for them are destroyed later, because the library may be
        # executing a call at the moment.
        self._gone: list[ProcessRef] = []

    def start(self) -> str:
        """Start the library now, and return its own name.

        :raises OmpdError: if the library cannot be started
        """
        library = self._library
        if library is None:
            raise LibraryError(self._path, None, "has no functions of DMPL")
        return library.version_string()

    @property
    def error(self) -> LibraryError | None:
        """The reason why the library's process has ended, None while it runs."""
        return self._started.error if self._started is not None else None

    @property
    def _library(self) -> HostedLibrary | None:
        # The running library, None for a file without DMPL functions. A library that has failed is not started again.
        library = self._opened
        if isinstance(library, OmpdError):
            raise library.with_traceback(None)
        while library is not None and self._gone:
            self._debugger.release(self._gone.pop(), library)
        return library

    @cached_property
    def _opened(self) -> HostedLibrary | OmpdError | None:
        try:
            opened = open_library(self._path, DMPL_ENTRIES)
        except BadFile:
            return None
        try:
            with opened:
                if opened.digest() != self._digest:
                    raise LibraryError(self._path, None, "the file is another one than when it was loaded")
                self._started = HostedLibrary(opened, warnings=self._warnings, program=program_for(opened))
            code = self._started.initialise(self._debugger.table, self._debugger.types)
            if code != Result.OK:
                text = clean(self._started.error_string(code))
                raise LibraryError(self._path, "DMPL_initialise", text)
        except OmpdError as error:
            return error
        return self._started

    def copies(self, callbacks: Callbacks) -> Copies | None:
        """Return the copies that a process's runtime keeps, None if the library has no DMPL functions.

        :raises OmpdError: if the library cannot be started
        """
        library = self._library
        return Copies(library, self._debugger, callbacks, self._gone) if library is not None else None

    def rtl_names(self, language: int) -> RtlNames | None:
        """Return the routines around a construct's code, None without DMPL functions or for an unknown language."""
        library = self._library
        return library.get_rtl_names(language) if library is not None else None

    def demangle_name(self, name: str) -> str | None:
        """Return the source name of a compiler-made name, None without DMPL functions or for another name."""
        library = self._library
        demangled = library.demangle_name(name, _MAX_NAME) if library is not None else None
        return demangled.demangled if demangled is not None and demangled.code == Result.OK else None

    def named_variable(self, name: str) -> NamedVariable | None:
        """Return the variable that a compiler-made name stands for, None without DMPL functions or for another name."""
        library = self._library
        return variable_of(library.demangle_name(name, _MAX_NAME)) if library is not None else None

    def close(self) -> None:
        """End the library's process."""
        if self._started is not None:
            self._started.close()
