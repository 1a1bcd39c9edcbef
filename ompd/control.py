"""Sessions on a process under LLDB: asked at one stop, and for those of :func:`ompd.launch` run to the next."""

from __future__ import annotations

from typing import Any

from ompd.debugger.targets.lldb import LldbFiles, LldbTarget
from ompd.inspection import Inspection
from ompd.session import LoadedRuntime


class LldbInspection(Inspection):
    """A process under LLDB, an ``SBProcess``, at one stop. Once it has run, every question raises StaleHandle."""

    target: LldbTarget

    def __init__(self, process: Any) -> None:
        super().__init__(LldbTarget(process), LldbFiles(process))

    @property
    def runtimes(self) -> tuple[LoadedRuntime, ...]:
        """See :attr:`Session.runtimes`.

        :raises StaleHandle: if the process has run since
        """
        self.target.check()
        return super().runtimes
