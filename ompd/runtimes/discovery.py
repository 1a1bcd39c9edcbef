"""Find the OpenMP runtimes of a process, by ``ompd_dll_locations`` or by the symbols that a module exports.

OpenMP 5.2, 20.2.2: the runtime defines ``const char **ompd_dll_locations``, the names of libraries for debuggers. This
module loads no library. The names of the libraries, and the module's name, only select a plugin: one of ompd's own, or
a plugin of another distribution (:mod:`ompd.runtimes.installed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ompd.contract.memory import read_pointer
from ompd.contract.ompd import DLL_LOCATIONS
from ompd.contract.plugin import Plugin
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, OmpdError
from ompd.records import record

if TYPE_CHECKING:
    from ompd.runtimes.installed import Plugins, Selected

# The libraries that ompd's own plugins replace, each with the kind of runtime.
_BUILT_IN = {"libompd.so": "libomp", "libiomp5_db.so": "libiomp5"}
# Real runtimes name one or two libraries.
_MAX_LOCATIONS = 64
_MAX_NAME = 4096

# Entry points, each with the kind of runtime that has it. libomp also has GOMP's entry points, so the order matters.
_ENTRY_POINTS = (
    ("__kmpc_fork_call", "libomp"),
    ("GOMP_parallel", "libgomp"),
    ("GOMP_parallel_start", "libgomp"),
)
_LIBOMP = ("libomp.so", "libomp-")
_UNKNOWN = "unknown"


@record
class HostedBy:
    """A library for debuggers that is used in place of ompd's plugin.

    ``interface`` is ``OMPD`` or ``DMPL``, ``version`` is the library's own version text, and ``digest`` is the SHA-256
    of the loaded file in hexadecimal. The file at ``file`` may have been replaced since.
    """

    interface: str
    file: str
    version: str
    digest: str


@record
class Found:
    """A module that contains an OpenMP runtime.

    ``locations_address`` is the address of its ``ompd_dll_locations``, None in a runtime without OMPD or symbols.
    ``plugin`` is None if the runtime has no plugin, or if the plugin cannot be used because of ``fault``. ``selected``
    is the plugin of another distribution, None for one of ompd's own plugins. ``hosted`` is the library behind the
    plugin, if the user has requested a library for the runtime.
    """

    module: Module
    kind: str
    locations_address: int | None
    plugin: Plugin | None = None
    selected: Selected | None = None
    hosted: HostedBy | None = None

    @property
    def fault(self) -> OmpdError | None:
        """The reason why the plugin cannot be used, None if it can."""
        return self.selected.fault if self.selected is not None else None

    @property
    def is_whole(self) -> bool:
        """Whether all code of the module counts as the runtime's. It does for an unknown runtime in a shared library
        that has ``ompd_dll_locations``.
        """
        return self.kind == _UNKNOWN and self.locations_address is not None and not self.module.is_program

    def served_by(self, name: str) -> bool:
        """Return whether *name*, from ``ompd_dll_locations``, selects this runtime's plugin or one of ompd's own."""
        return built_in(name) is not None or (self.selected is not None and _last(name) == self.selected.name)

    def dll_locations(self, process: Process) -> tuple[str, ...] | None:
        """Return the names in ``ompd_dll_locations``, None while the variable is NULL because the runtime is not
        initialised, or if the runtime does not have the variable.

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


def discover(process: Process, plugins: Callable[[], Plugins], *, are_named: bool = False) -> Iterator[Found]:
    """Yield each module of *process* that holds an OpenMP runtime, by address. A module whose file is missing is not
    found.

    :param plugins: returns the plugins of other distributions, for runtimes without a plugin of ompd's own
    :param are_named: whether the user named plugins. They may select modules that have none of the known symbols
    """
    modules = [module for module in process.modules() if not module.is_system_library]
    runtimes = [seen for module in modules if (seen := _look(process, module)) is not None]
    # A program that refers to the runtime's variable has a copy of the variable (a copy relocation), which the runtime
    # then uses.
    copies = [
        seen
        for seen in runtimes
        if seen.module.is_program
        and any(seen.locations == other.locations is not None for other in runtimes if other is not seen)
    ]
    known = {seen.module for seen in runtimes}
    runtimes = [seen for seen in runtimes if seen not in copies]
    if are_named or not runtimes:
        # A module may be a runtime without any of these symbols.
        runtimes += [_Seen(module) for module in modules if module not in known]
    found = (_found(process, seen, plugins) for seen in sorted(runtimes, key=lambda seen: seen.module.start))
    yield from (runtime for runtime in found if runtime is not None)


@record
class _Seen:
    # A module that looks like a runtime: the address of its `ompd_dll_locations`, the names there, and the kind. If
    # `is_doubtful`, the plugin of another distribution may fit better than the kind's.
    module: Module
    locations: int | None = None
    names: tuple[str, ...] = ()
    kind: str | None = None
    is_doubtful: bool = True


def built_in(name: str) -> str | None:
    """Return the kind of ompd's own plugin that *name*, from ``ompd_dll_locations``, selects. None if it selects none.

    Only the name counts; the file need not exist.
    """
    return _BUILT_IN.get(_last(name))


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _look(process: Process, module: Module) -> _Seen | None:
    try:
        locations = process.symbol_in(module, DLL_LOCATIONS)
        names = _names(process, module, locations)
        kind = next(filter(None, map(built_in, names)), None)
        is_named = kind is not None
        if kind is None:
            kind = next((kind for name, kind in _ENTRY_POINTS if process.symbol_in(module, name) is not None), None)
        if kind is None and locations is None:
            return None
        if kind == "libomp":
            # LLVM's and Intel's runtimes have the same entry points. Intel's is never stripped, so it has this symbol.
            file = _last(module.name)
            is_unnamed = not is_named and not file.startswith(_LIBOMP)
            if "libiomp5" in file or (is_unnamed and process.symbol_in(module, "__kmp_version_lib_ver") is not None):
                kind = "libiomp5"
    except OmpdError:
        return None  # a runtime with damaged symbols cannot be read
    # libgomp has no OMPD, so a module with its entry points and with OMPD may be another runtime. LLVM's runtime names
    # its library once it is initialised.
    is_doubtful = not is_named and locations is not None and (bool(names) or kind in (None, "libgomp"))
    if is_doubtful and kind == "libgomp" and "libgomp" not in module.name:
        kind = None
    return _Seen(module, locations, names, kind, is_doubtful)


def _names(process: Process, module: Module, locations: int | None) -> tuple[str, ...]:
    try:
        return Found(module, _UNKNOWN, locations).dll_locations(process) or ()
    except OmpdError:
        return ()  # dll_locations() reports the damage


def _found(process: Process, seen: _Seen, plugins: Callable[[], Plugins]) -> Found | None:
    selected = _selected(process, seen, plugins()) if seen.is_doubtful else None
    if selected is not None:
        try:
            kind = selected.plugin.kind if selected.plugin is not None else _UNKNOWN
        except OmpdError:
            kind = _UNKNOWN
        return Found(seen.module, kind, seen.locations, selected.plugin, selected)
    if seen.kind is None and seen.locations is None:
        return None
    return Found(seen.module, seen.kind or _UNKNOWN, seen.locations, _plugin(seen.kind))


def _selected(process: Process, seen: _Seen, plugins: Plugins) -> Selected | None:
    # The first name in the runtime's ``ompd_dll_locations`` that has a plugin selects it. If none has, the first plugin
    # whose name is a symbol of the module is selected.
    for name in map(_last, seen.names):
        selected = plugins.get(name)
        if selected is not None:
            return selected
    try:
        symbols = process.symbols_in(seen.module, plugins.names)
    except OmpdError:
        return None
    return next((plugins.get(name) for name in plugins.names if name in symbols), None)


def _plugin(kind: str | None) -> Plugin | None:
    # Only the needed plugin is imported, because importing takes longer than finding the runtime.
    if kind in ("libomp", "libiomp5"):
        from ompd.runtimes.libomp.plugin import LibompPlugin

        return LibompPlugin()
    if kind == "libgomp":
        from ompd.runtimes.libgomp.plugin import LibgompPlugin

        return LibgompPlugin()
    return None
