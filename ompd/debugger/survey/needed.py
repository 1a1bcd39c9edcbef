"""Why each module is in the process: by the libraries that files were linked with (``DT_NEEDED``).

The loader finds a library by its own name (``DT_SONAME``) or by its file's name. If no other module needs a module,
``dlopen`` loaded it; or LD_PRELOAD or ``/etc/ld.so.preload`` named it, and it was loaded before the program's own
libraries. The loader's list of modules is in the order of loading. The caller of ``dlopen`` is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ompd.contract.process import Module
from ompd.debugger.modules.loader import Loader
from ompd.debugger.modules.modules import LoadedModule
from ompd.errors import MalformedFile, OmpdError

_LISTED = 4  # names of modules in a reason


class Chain(NamedTuple):
    """Why a module is loaded, as in :class:`ompd.model.LoadChain`. ``fault`` is why ``begins`` is unknown."""

    begins: str | None
    modules: tuple[Module, ...]
    needed_by: tuple[Module, ...]
    fault: str | None


class Dependencies:
    """The dependencies between a process's modules.

    :param loader: its list has the order of loading
    """

    def __init__(self, modules: Iterable[LoadedModule], loader: Loader) -> None:
        loaded = list(modules)
        self._program = next((module.record for module in loaded if module.is_program), None)
        self._loader = loader
        self._unread: list[Module] = []
        names: dict[str, Module] = {}
        needs_by_module: list[tuple[Module, Sequence[str]]] = []
        for module in loaded:
            record = module.record
            soname, needed = self._linked(module)
            names.setdefault(_basename(record.name), record)
            if soname is not None:
                names.setdefault(soname, record)
            needs_by_module.append((record, needed))
        self._needs: Mapping[Module, list[Module]] = {
            record: [names[key] for name in needed if (key := name if name in names else _basename(name)) in names]
            for record, needed in needs_by_module
        }
        self._needed_by: dict[Module, list[Module]] = {record: [] for record in self._needs}
        for user, used in self._needs.items():
            for record in dict.fromkeys(used):
                if record is not user:
                    self._needed_by[record].append(user)

    def _linked(self, module: LoadedModule) -> tuple[str | None, Sequence[str]]:
        # The module's DT_SONAME and DT_NEEDED; None and nothing if they are unknown, as with a snapshot's extract,
        # which has no dynamic section.
        if module.elf is not None and not module.is_extract:
            with suppress(MalformedFile):
                return module.elf.soname(), module.elf.needed()
        self._unread.append(module.record)
        return None, ()

    def chain(self, module: Module) -> Chain:
        """Return why *module* is in the process."""
        users = tuple(self._needed_by.get(module, ()))
        path = _shortest(self._program, module, self._needs)
        if path is not None:
            return Chain("program", path, users, None)
        fault = self._doubt(module)
        sections: list[int] = []
        try:
            sections = [link_map.l_ld for link_map in self._loader.link_maps]
        except OmpdError as error:
            fault = fault or f"the order in which modules were loaded: {error}"
        path = self._from_root(module, sections)
        if fault is not None:
            return Chain(None, path, users, fault)
        # The libraries that the program needs are loaded before it runs.
        positions = [_position(module, sections) for module in self._reached()]
        first = _position(path[0], sections)
        if first is None or not any(positions):
            return Chain(None, path, users, "the loader's list does not have the modules that are mapped")
        is_early = first < max(position for position in positions if position is not None)
        return Chain("preload" if is_early else "dlopen", path, users, None)

    def _reached(self) -> list[Module]:
        # The libraries that the program needs, directly or through other libraries.
        reached = {} if self._program is None else {self._program: None}
        waiting = list(reached)
        for module in waiting:
            for used in self._needs.get(module, ()):
                if used not in reached:
                    reached[used] = None
                    waiting.append(used)
        return list(reached)

    def _from_root(self, target: Module, sections: Sequence[int]) -> tuple[Module, ...]:
        # The chain to *target* from a module that no other module needs; from the first loaded one if there are several
        # such modules. If the libraries only need each other, the chain is only *target*.
        following: dict[Module, Module | None] = {target: None}
        waiting = [target]
        roots: list[Module] = []
        for module in waiting:
            users = self._needed_by.get(module, ())
            if not users:
                roots.append(module)
            for user in users:
                if user not in following:
                    following[user] = module
                    waiting.append(user)
        order = {root: _position(root, sections) for root in roots}
        ranked = [(position, number) for number, root in enumerate(roots) if (position := order[root]) is not None]
        path = [roots[min(ranked)[1]] if ranked else roots[0] if roots else target]
        while (step := following[path[-1]]) is not None:
            path.append(step)
        return tuple(path)

    def _doubt(self, module: Module) -> str | None:
        unread = [other for other in self._unread if other is not module]
        if self._program is None:
            return "which module is the program is unknown"
        if not unread:
            return None
        listed = ", ".join(_basename(module.name) for module in unread[:_LISTED])
        remainder = f" and {len(unread) - _LISTED} more" if len(unread) > _LISTED else ""
        return f"what these need is unknown, because their files are not here: {listed}{remainder}"


def _shortest(
    start: Module | None, target: Module, needs: Mapping[Module, Sequence[Module]]
) -> tuple[Module, ...] | None:
    if start is None:
        return None
    before: dict[Module, Module | None] = {start: None}
    waiting = [start]
    for module in waiting:
        if module is target:
            path = [module]
            while (step := before[path[-1]]) is not None:
                path.append(step)
            return tuple(reversed(path))
        for used in needs.get(module, ()):
            if used not in before:
                before[used] = module
                waiting.append(used)
    return None


def _position(module: Module, sections: Sequence[int]) -> int | None:
    return next((number for number, section in enumerate(sections) if module.start <= section < module.end), None)


def _basename(name: str) -> str:
    return name.removesuffix(" (deleted)").rpartition("/")[2]
