"""Names that the plugins of a process know: the runtime's routines around constructs, and the original names and
sharing of variables that a preprocessor renamed. DMPL's ``DMPL_get_rtl_names`` and ``DMPL_demangle_name``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ompd.contract.dmpl import VarInfo
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.contract.dmpl import NamedVariable, RtlNames
    from ompd.contract.plugin import Plugin
    from ompd.session import Session

_T = TypeVar("_T")

_C = ord("c")


class RuntimeNames:
    """The names that the plugins of one stop know. A plugin that fails counts as one without the name."""

    def __init__(self, session: Session) -> None:
        plugins = (runtime.found.plugin for runtime in session.runtimes)
        self._plugins = [plugin for plugin in plugins if plugin is not None]
        self._variables: dict[str, NamedVariable | None] = {}
        self._routines: Sequence[RtlNames] | None = None

    def variable(self, name: str) -> NamedVariable | None:
        """Return the original name and sharing of a variable, None if no compiler has renamed it."""
        if name not in self._variables:
            told = self._ask(lambda plugin: plugin.named_variable(name))
            self._variables[name] = next((each for each in told if _is_sound(each)), None)
        return self._variables[name]

    def holds_address(self, name: str) -> bool:
        """Return whether the storage of a variable of that name holds its address."""
        variable = self.variable(name)
        return variable is not None and variable.is_address

    def between(self, names: Sequence[str | None]) -> Sequence[int]:
        """Return the indexes of the runtime's functions around the code of constructs on a stack.

        They reach from the routine that calls the code to the routine that the encountering task called. A worker's
        stack has only the first.

        :param names: the functions' symbols, innermost first
        """
        if self._routines is None:
            self._routines = self._ask(lambda plugin: plugin.rtl_names(_C))
        found: set[int] = set()
        for routines in self._routines:
            invoker: int | None = None
            for at, name in enumerate(names):
                if name == routines.main_task_dispatcher:
                    found.update(range(at if invoker is None else invoker, at + 1))
                    invoker = None
                elif name == routines.microtask_invoker:
                    found.add(at)
                    invoker = at
        return sorted(found)

    def _ask(self, ask: Callable[[Plugin], _T | None]) -> list[_T]:
        found = []
        for plugin in self._plugins:
            try:
                answer = ask(plugin)
            except OmpdError:
                continue  # the plugin does not know
            if answer is not None:
                found.append(answer)
        return found


def _is_sound(variable: NamedVariable) -> bool:
    # Foreign plugins may return any types.
    return isinstance(variable.name, str) and isinstance(variable.sharing, VarInfo)
