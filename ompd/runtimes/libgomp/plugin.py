"""The plugin that reads libgomp."""

from __future__ import annotations

from ompd.contract.helpers.defaults import Common
from ompd.contract.plugin import AddressSpace
from ompd.contract.process import Module, Process
from ompd.runtimes.libgomp import proof


class LibgompPlugin(Common):
    """Reads libgomp."""

    kind = "libgomp"
    ROUTINES = ("GOMP_parallel", "gomp_thread_start")  # on an initial thread GOMP_parallel itself calls the code

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        return proof.proven(process, module)
