"""Finding the OpenMP runtimes of a process: by ``ompd_dll_locations``, as the standard says, else by what a module
exports.

OpenMP 5.2, 20.2.2: the runtime defines ``const char **ompd_dll_locations``. That names libraries for a debugger to
load, of which it has to choose one that suits it; we load none of them. What they and the module are called only
selects one of our own plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ompd.contract.memory import read_pointer
from ompd.contract.ompd import DLL_LOCATIONS
from ompd.contract.plugin import Plugin
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, OmpdError

# Names that select a plugin of ours: that of the stub's, which is no file, and those of libraries whose work ours do.
_BUILT_IN = {"ompd-stub": "stub", "libompd.so": "libomp", "libiomp5_db.so": "libiomp5"}
# Real runtimes name one or two libraries.
_MAX_LOCATIONS = 64
_MAX_NAME = 4096

# Entry points by which a runtime is known without any of OMPD, and the kind each tells. libomp and the stub have GOMP's
# too, so order counts.
_ENTRY_POINTS = (
    ("omp_stub_break", "stub"),
    ("__kmpc_fork_call", "libomp"),
    ("GOMP_parallel", "libgomp"),
    ("GOMP_parallel_start", "libgomp"),
)
_LIBOMP = ("libomp.so", "libomp-")


@dataclass(frozen=True, slots=True)
class Found:
    """A module with an OpenMP runtime in it.

    ``locations_address`` is where its ``ompd_dll_locations`` lies, None in a runtime without OMPD or without symbols.
    ``plugin`` is ours for it, None if there is none.
    """

    module: Module
    kind: str
    locations_address: int | None
    plugin: Plugin | None

    def dll_locations(self, process: Process) -> tuple[str, ...] | None:
        """Return the names in ``ompd_dll_locations``, None while it is NULL: the runtime has not initialised yet.

        :raises CorruptState: if the vector or a name does not end
        """
        if self.locations_address is None:
            return None
        vector = read_pointer(process, self.locations_address)
        if vector is None:
            return None
        names: list[str] = []
        while len(names) < _MAX_LOCATIONS:
            name = read_pointer(process, vector + len(names) * process.pointer_size)
            if name is None:
                return tuple(names)
            names.append(process.read_string(name, _MAX_NAME).decode("utf-8", "replace"))
        raise CorruptState(vector, f"{DLL_LOCATIONS} names more than {_MAX_LOCATIONS} libraries")


def discover(process: Process) -> Iterator[Found]:
    """Yield each module of *process* that holds an OpenMP runtime, by address. One without its file is not seen."""
    runtimes: list[Found] = []
    for module in process.modules():
        if module.is_system_library:
            continue
        try:
            found = _probe(process, module)
        except OmpdError:
            continue  # a module whose symbols are damaged is not a runtime we could read
        if found is not None:
            runtimes.append(found)
    for found in runtimes:
        # A program that refers to a runtime's variable has room for it, which the runtime then uses.
        others = (other for other in runtimes if other.locations_address == found.locations_address is not None)
        if not (found.module.is_program and any(other.module is not found.module for other in others)):
            yield found


def built_in(name: str) -> str | None:
    """Return the kind of the plugin of ours that a name in ``ompd_dll_locations`` selects, None if it selects none.

    A name selects by itself: no file is looked for.
    """
    return _BUILT_IN.get(name.rpartition("/")[2])


def chosen(names: Sequence[str]) -> int | None:
    """Return the index of the first of *names* that selects a plugin of ours, None if none does."""
    return next((index for index, name in enumerate(names) if built_in(name) is not None), None)


def _probe(process: Process, module: Module) -> Found | None:
    locations = process.symbol_in(module, DLL_LOCATIONS)
    named = _named_kind(process, module, locations) if locations is not None else None
    kind = named
    if kind is None:
        kind = next((kind for name, kind in _ENTRY_POINTS if process.symbol_in(module, name) is not None), None)
    if kind is None and locations is None:
        return None
    if kind == "libomp":
        # Both have the same entry points; the symbol is that of one that is not stripped, as Intel's never is.
        file = module.name.rpartition("/")[2]
        is_unnamed = named is None and not file.startswith(_LIBOMP)
        if "libiomp5" in file or (is_unnamed and process.symbol_in(module, "__kmp_version_lib_ver") is not None):
            kind = "libiomp5"
    return Found(module, kind or "unknown", locations, _plugin(kind))


def _plugin(kind: str | None) -> Plugin | None:
    # Few processes have more than one runtime, and a plugin takes longer to import than to find out whose it is.
    if kind in ("libomp", "libiomp5"):
        from ompd.runtimes.libomp.plugin import LibompPlugin  # noqa: PLC0415

        return LibompPlugin()
    if kind == "libgomp":
        from ompd.runtimes.libgomp.plugin import LibgompPlugin  # noqa: PLC0415

        return LibgompPlugin()
    if kind == "stub":
        from ompd.runtimes.stub.plugin import StubPlugin  # noqa: PLC0415

        return StubPlugin()
    return None


def _named_kind(process: Process, module: Module, locations: int) -> str | None:
    try:
        names = Found(module, "unknown", locations, None).dll_locations(process) or ()
    except OmpdError:
        return None  # what is damaged there, whoever asks for the names is told
    index = chosen(names)
    return built_in(names[index]) if index is not None else None
