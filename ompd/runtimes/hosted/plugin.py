"""A hosted library as a plugin."""

from __future__ import annotations

from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.plugin import ThreadprivateCopies
from ompd.contract.process import Module, Process
from ompd.errors import OmpdError
from ompd.runtimes.hosted.dmpl.beside import Beside
from ompd.runtimes.hosted.handles.space import HostedSpace


class HostedPlugin:
    """A library as plugin for the runtime of one process at one stop. Names come from DMPL, because OMPD has no calls
    for names.

    :param kind: the kind of the runtime
    :param space: the runtime, or the error that explains why it has no handles
    :param dmpl: the library's DMPL functions, if it has them
    """

    def __init__(self, kind: str, space: HostedSpace | OmpdError, dmpl: Beside | None) -> None:
        self.kind = kind
        self._space = space
        self._dmpl = dmpl

    def process_initialize(self, process: Process, module: Module) -> HostedSpace:
        if isinstance(self._space, OmpdError):
            raise self._space.with_traceback(None)  # otherwise each raise would extend the error's traceback
        return self._space

    def early_copies(self, process: Process, module: Module) -> ThreadprivateCopies | None:
        # DMPL_get_tls_address accepts any thread of the process. OMPD has no call for copies.
        if self._dmpl is None or isinstance(self._space, HostedSpace):
            return None
        return self._dmpl.copies(process.callbacks(module))

    def rtl_names(self, language: int) -> RtlNames | None:
        return self._dmpl.rtl_names(language) if self._dmpl is not None else None

    def demangle_name(self, name: str) -> str | None:
        return self._dmpl.demangle_name(name) if self._dmpl is not None else None

    def named_variable(self, name: str) -> NamedVariable | None:
        return self._dmpl.named_variable(name) if self._dmpl is not None else None
