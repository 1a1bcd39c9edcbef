"""The hosted libraries of one session, the runtimes that they serve, and their failures.

Each runtime has a separate library in a separate process until the session ends. At each stop the library initialises
the inspected process anew. A library that fails is abandoned. If ompd has its own plugin for the runtime, that plugin
then reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ompd.contract.plugin import Plugin
from ompd.contract.process import Process
from ompd.errors import LibraryError, NoCall, NotInitialised, OmpdError
from ompd.runtimes.discovery import Found, HostedBy
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.dmpl.beside import Beside
from ompd.runtimes.hosted.handles.space import HostedSpace
from ompd.runtimes.hosted.loading.folders import Finder
from ompd.runtimes.hosted.loading.libraries import OMPD_ENTRIES, Opened, open_library, open_named
from ompd.runtimes.hosted.narrow import program_for
from ompd.runtimes.hosted.plugin import HostedPlugin

NAMED = "named"
"""The value that requests the libraries which the runtimes name."""

_Runtime = tuple[str, int]  # file and address of the runtime's module
_NONE_NAMED = "names no library for debuggers"


class Libraries:
    """The libraries of one session.

    :param wanted: the path of a library, or :data:`NAMED`
    :param finder: finds the target's files on this machine
    """

    def __init__(self, wanted: str, finder: Finder) -> None:
        self._wanted = wanted
        self._finder = finder
        self._serving: dict[_Runtime, _Serving] = {}
        self._failed: dict[_Runtime, OmpdError] = {}
        self._notes: list[str] = []

    @property
    def faults(self) -> Sequence[OmpdError]:
        """The reasons why libraries were abandoned."""
        for runtime, serving in self._serving.items():
            error = serving.error
            if error is not None:
                self._failed.setdefault(runtime, error)
        return tuple(self._failed.values())

    @property
    def lost(self) -> int:
        """The number of libraries that failed after they had begun to serve."""
        return sum(serving.has_begun and serving.error is not None for serving in self._serving.values())

    @property
    def notes(self) -> Sequence[str]:
        """Lines that libraries have printed, and reasons why files were skipped."""
        return tuple(dict.fromkeys(self._notes))

    def over(self, process: Process, runtimes: Iterator[Found]) -> Iterator[Found]:
        """Yield the runtimes. Those that a library can serve get the library's plugin."""
        candidates = list(runtimes)
        chosen = self._chosen(process, candidates)
        for runtime in candidates:
            yield self._over(process, runtime) if runtime in chosen else runtime

    def close(self) -> None:
        """End all libraries."""
        for serving in self._serving.values():
            serving.close()
        self._serving.clear()

    def _chosen(self, process: Process, runtimes: Sequence[Found]) -> Sequence[Found]:
        # A library serves the runtimes that name a file with its file name; if there are none, the runtimes that have
        # ``ompd_dll_locations``; if there are none, all.
        named = [runtime for runtime in runtimes if runtime.locations_address is not None]
        if self._wanted == NAMED:
            return named or runtimes
        last = self._wanted.rpartition("/")[2]
        fitting = [
            runtime for runtime in named if any(name.rpartition("/")[2] == last for name in _names(process, runtime))
        ]
        return fitting or named or runtimes

    def _over(self, process: Process, runtime: Found) -> Found:
        key = runtime.module.name, runtime.module.start
        try:
            if key in self._failed:
                raise self._failed[key].with_traceback(None)
            serving = self._serving.get(key)
            plugin = serving.begin_again(process, runtime) if serving is not None else None
            if serving is None or plugin is None:
                serving = self._serving[key] = self._start(process, runtime)
                plugin = serving.begin(process, runtime)
        except NotInitialised as error:
            # The runtime has not named a library yet, which is no failure of a library. ompd's own plugin would report
            # the same.
            return (
                runtime
                if runtime.plugin is not None
                else replace(runtime, plugin=HostedPlugin(runtime.kind, error, None))
            )
        except OmpdError as error:
            self._failed.setdefault(key, error)
            return (
                runtime
                if runtime.plugin is not None
                else replace(runtime, plugin=HostedPlugin(runtime.kind, error, None))
            )
        return replace(runtime, plugin=plugin, selected=None, hosted=serving.by)

    def _start(self, process: Process, runtime: Found) -> _Serving:
        with self._open(process, runtime) as opened:
            digest = opened.digest()
            dmpl = Beside(opened.name, digest, self._notes)
            # A debugger restarts a library at each stop, and the library prints the same again.
            self._notes[:] = dict.fromkeys((*self._notes, *opened.passed_over))
            if opened.entries.isdisjoint(OMPD_ENTRIES):
                return _Serving(None, HostedBy("DMPL", opened.name, dmpl.start(), digest), dmpl)
            library = HostedLibrary(opened, warnings=self._notes, program=program_for(opened))
        return _Serving(library, HostedBy("OMPD", opened.name, library.version_text, digest), dmpl)

    def _open(self, process: Process, runtime: Found) -> Opened:
        try:
            names = runtime.dll_locations(process)
        except OmpdError:
            if self._wanted == NAMED:
                raise
            names = ()
        if names is None and runtime.locations_address is not None:
            # Start no library yet, because it would read variables that are not initialised.
            raise NotInitialised(f"{runtime.module.name} is loaded, but no OpenMP construct or routine has run yet")
        if self._wanted != NAMED:
            return open_library(self._wanted)
        if not names:
            raise OmpdError(f"{runtime.module.name} {_NONE_NAMED}", hint="--ompd-library FILE names one")
        return open_named(names, runtime.module.name, self._finder)


def _names(process: Process, runtime: Found) -> Sequence[str]:
    try:
        return runtime.dll_locations(process) or ()
    except OmpdError:
        return ()


class _Serving:
    # A running library, and its address space of the last stop. A library that has only DMPL's functions has no address
    # space, and keeps no data from one stop to the next.

    def __init__(self, library: HostedLibrary | None, by: HostedBy, beside: Beside) -> None:
        self._library, self.by = library, by
        self._beside = beside
        self._space: HostedSpace | None = None
        self.has_begun = False

    @property
    def error(self) -> LibraryError | None:
        return self._library.error if self._library is not None else self._beside.error

    def begin(self, process: Process, runtime: Found) -> Plugin:
        if self._library is None:
            self.has_begun = True
            no_handles = NoCall(
                f"{self.by.file} is a DMPL library: DMPL has no function for threads, regions, tasks or control"
                " variables",
                hint="an OMPD library has them, and so has ompd's own plugin, without --ompd-library",
            )
            return HostedPlugin(runtime.kind, no_handles, self._beside)
        if self._space is not None:
            self._library.forget(self._space.ref)
            self._space = None
        ref = self._library.batch().process_initialize(process.callbacks(runtime.module)).value()
        self._space = HostedSpace(
            process, runtime.module, self._library, ref, is_whole=runtime.is_whole, beside=self._beside
        )
        self.has_begun = True
        return HostedPlugin(runtime.kind, self._space, self._beside)

    def begin_again(self, process: Process, runtime: Found) -> Plugin | None:
        # None if the library has to be restarted. Intel's library (2024.2 to 2026.2) refuses a second process, because
        # it keeps a text from the first process and takes it for an address.
        try:
            return self.begin(process, runtime)
        except LibraryError as error:
            if error.has_ended:
                raise
            self.close()
            return None

    def close(self) -> None:
        self._beside.close()
        if self._library is not None:
            self._library.close()
