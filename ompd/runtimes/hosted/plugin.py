"""A hosted library as a plugin, and what replaces one that has failed."""

from __future__ import annotations

from typing import NoReturn

from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.process import Module, Process
from ompd.errors import OmpdError
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.handles.space import HostedSpace


class _OnlyOmpd:
    # Parts of :class:`ompd.contract.plugin.Plugin` for which OMPD has no call.

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def early_copies(self, process: Process, module: Module) -> None:
        """See :meth:`Plugin.early_copies`: OMPD knows of none."""

    def rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Plugin.rtl_names`: OMPD has no call for them."""
        return None

    def demangle_name(self, name: str) -> str | None:
        """See :meth:`Plugin.demangle_name`: nor these."""
        return None

    def named_variable(self, name: str) -> NamedVariable | None:
        """See :meth:`Plugin.named_variable`: nor these."""
        return None


class HostedPlugin(_OnlyOmpd):
    """A library that has been initialised for the runtime of one process at one stop.

    :param kind: that of the runtime
    """

    def __init__(self, kind: str, space: HostedSpace) -> None:
        super().__init__(kind)
        self._space = space

    def rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Plugin.rtl_names`: by DMPL, if the library has it."""
        return self._space.beside.rtl_names(language) if self._space.beside is not None else None

    def demangle_name(self, name: str) -> str | None:
        """See :meth:`Plugin.demangle_name`: likewise."""
        return self._space.beside.demangle_name(name) if self._space.beside is not None else None

    def named_variable(self, name: str) -> NamedVariable | None:
        """See :meth:`Plugin.named_variable`: likewise."""
        return self._space.beside.named_variable(name) if self._space.beside is not None else None

    def process_initialize(self, process: Process, module: Module) -> HostedSpace:
        """See :meth:`Plugin.process_initialize`."""
        return self._space


class FailedPlugin(_OnlyOmpd):
    """A library that cannot be used, for a runtime for which there is no other plugin.

    :param kind: that of the runtime
    :param error: why not
    """

    def __init__(self, kind: str, error: OmpdError) -> None:
        super().__init__(kind)
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
