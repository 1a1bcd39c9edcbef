"""A hosted library as a plugin, and what replaces one that has failed."""

from __future__ import annotations

from typing import NoReturn

from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.plugin import ThreadprivateCopies
from ompd.contract.process import Module, Process
from ompd.errors import NoCall, OmpdError
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.dmpl.beside import Beside
from ompd.runtimes.hosted.handles.space import HostedSpace


class _Named:
    # Parts of :class:`ompd.contract.plugin.Plugin`: by DMPL, if the library has it. OMPD has no calls for names.

    def __init__(self, kind: str, dmpl: Beside | None) -> None:
        self.kind = kind
        self._dmpl = dmpl

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        """See :meth:`Plugin.early_copies`: OMPD knows of none."""
        return None

    def rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Plugin.rtl_names`."""
        return self._dmpl.rtl_names(language) if self._dmpl is not None else None

    def demangle_name(self, name: str) -> str | None:
        """See :meth:`Plugin.demangle_name`."""
        return self._dmpl.demangle_name(name) if self._dmpl is not None else None

    def named_variable(self, name: str) -> NamedVariable | None:
        """See :meth:`Plugin.named_variable`."""
        return self._dmpl.named_variable(name) if self._dmpl is not None else None


class HostedPlugin(_Named):
    """A library that has been initialised for the runtime of one process at one stop.

    :param kind: that of the runtime
    """

    def __init__(self, kind: str, space: HostedSpace) -> None:
        super().__init__(kind, space.beside)
        self._space = space

    def process_initialize(self, process: Process, module: Module) -> HostedSpace:
        """See :meth:`Plugin.process_initialize`."""
        return self._space


class DmplPlugin(_Named):
    """A library that has the functions of DMPL only, so that there are no handles.

    :param kind: that of the runtime
    :param file: the library's
    """

    def __init__(self, kind: str, file: str, dmpl: Beside) -> None:
        super().__init__(kind, dmpl)
        self._file = file

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        """See :meth:`Plugin.early_copies`: ``DMPL_get_tls_address`` takes any thread of the process."""
        return self._dmpl.copies(process.callbacks(module)) if self._dmpl is not None else None

    def process_initialize(self, process: Process, module: Module) -> NoReturn:
        """See :meth:`Plugin.process_initialize`.

        :raises NoCall: always
        """
        raise NoCall(
            f"{self._file} is a DMPL library: DMPL has no function for threads, regions, tasks or control variables",
            hint="an OMPD library has them, and so has ompd's own plugin, without --ompd-library",
        )


class FailedPlugin(_Named):
    """A library that cannot be used, for a runtime for which there is no other plugin.

    :param kind: that of the runtime
    :param error: why not
    """

    def __init__(self, kind: str, error: OmpdError) -> None:
        super().__init__(kind, None)
        self._error = error

    def process_initialize(self, process: Process, module: Module) -> NoReturn:
        """See :meth:`Plugin.process_initialize`.

        :raises OmpdError: always
        """
        raise self._error.with_traceback(None)  # else each raise adds to what it keeps alive


def begin(library: HostedLibrary, process: Process, module: Module, *, is_whole: bool) -> HostedSpace:
    """Return the runtime in *module* as a library has it at this stop. ``ompd_process_initialize``.

    :param is_whole: whether all code of the module is the runtime's
    :raises LibraryError: if the library refuses, or fails
    """
    ref = library.batch().process_initialize(process.callbacks(module)).value()
    return HostedSpace(process, module, library, ref, is_whole=is_whole)
