"""Names that plugins know: the runtime's routines around constructs, and variables that a preprocessor renamed.

For a renamed variable, a plugin knows the original name and the sharing. In DMPL, these are the functions
``DMPL_get_rtl_names`` and ``DMPL_demangle_name``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.dmpl import VarInfo
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.contract.dmpl import NamedVariable, RtlNames
    from ompd.session import Session

_C = ord("c")


class RuntimeNames:
    """The names that the plugins of one stop know. If a plugin fails for a name, it counts as not knowing the name."""

    def __init__(self, session: Session) -> None:
        plugins = (runtime.found.plugin for runtime in session.runtimes)
        self._plugins = [plugin for plugin in plugins if plugin is not None]
        self._variables: dict[str, NamedVariable | None] = {}

    def variable(self, name: str) -> NamedVariable | None:
        """Return the original name and sharing of a variable, None if no compiler has renamed it."""
        if name not in self._variables:
            self._variables[name] = self._find(name)
        return self._variables[name]

    def _find(self, name: str) -> NamedVariable | None:
        for plugin in self._plugins:
            with suppress(OmpdError):  # the plugin does not know
                variable = plugin.named_variable(name)
                if variable is not None and _is_sound(variable):
                    return variable
        return None

    def holds_address(self, name: str) -> bool:
        """Return whether the variable *name* is stored as a pointer to its value."""
        variable = self.variable(name)
        return variable is not None and variable.is_address

    def between(self, names: Sequence[str | None]) -> Sequence[int]:
        """Return the indexes of the runtime's functions around the code of constructs on a stack.

        For each construct these are the routine that calls its code, the routine that the encountering task called, and
        all functions in between. A worker's stack has only the first routine.

        :param names: the functions' symbols, innermost first
        """
        indexes: set[int] = set()
        for routines in self._routines:
            invoker: int | None = None
            for index, name in enumerate(names):
                if name == routines.main_task_dispatcher:
                    indexes.update(range(index if invoker is None else invoker, index + 1))
                    invoker = None
                elif name == routines.microtask_invoker:
                    indexes.add(index)
                    invoker = index
        return sorted(indexes)

    @cached_property
    def _routines(self) -> Sequence[RtlNames]:
        names = []
        for plugin in self._plugins:
            with suppress(OmpdError):  # the plugin does not know
                names.append(plugin.rtl_names(_C))
        return [routines for routines in names if routines is not None]


def _is_sound(variable: NamedVariable) -> bool:
    # Foreign plugins may return any types.
    return isinstance(variable.name, str) and isinstance(variable.sharing, VarInfo)
