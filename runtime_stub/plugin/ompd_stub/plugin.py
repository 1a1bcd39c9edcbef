"""The plugin for this project's stub runtime (``runtime_stub``), whose structures are known by construction.

The plugin reads the structures from one root, by the standards' callbacks and the layout that the stub publishes.
Native stacks show which code a thread executes.
"""

from __future__ import annotations

from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.helpers import demangling
from ompd.contract.memory import StructView
from ompd.contract.plugin import AddressSpace
from ompd.contract.process import Module, Process
from ompd.errors import NotInitialised
from ompd_stub import structures
from ompd_stub.dmpl import PROCESS, VARIABLES, StubLibrary
from ompd_stub.runtime import Runtime
from ompd_stub.threadprivate import Threadprivate


class StubPlugin:
    """Reads the stub."""

    kind = "stub"

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        runtime = self._runtime(process, module)
        if not runtime.root.unsigned("initialized"):
            raise NotInitialised(
                f"{module.name} is loaded, but no OpenMP construct or routine has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return runtime

    def early_copies(self, process: Process, module: Module) -> Threadprivate:
        # A thread makes its copies when it first uses one, which may be before the runtime begins.
        return self._runtime(process, module).threadprivate

    def _runtime(self, process: Process, module: Module) -> Runtime:
        callbacks = process.callbacks(module)
        layouts = structures.load(callbacks)
        root = StructView(callbacks, layouts["stub_process"], callbacks.find_symbol(PROCESS))
        return Runtime(process, module, layouts, root)

    def rtl_names(self, language: int) -> RtlNames | None:
        return StubLibrary().get_rtl_names(language)

    def demangle_name(self, name: str) -> str | None:
        return demangling.source_name(name, VARIABLES)

    def named_variable(self, name: str) -> NamedVariable | None:
        return demangling.variable_of(StubLibrary().demangle_name(name, 1 << 16))
