"""Default methods of plugins, address spaces and handles that several runtimes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, Unsupported

if TYPE_CHECKING:
    from ompd.contract.dmpl import NamedVariable, RtlNames


class Common:
    """Methods of :class:`ompd.contract.plugin.Plugin`. ``ROUTINES`` are the names that ``rtl_names`` returns."""

    ROUTINES: ClassVar[tuple[str, str]]

    def rtl_names(self, language: int) -> RtlNames | None:
        # The routines are the same for all languages.
        import ompd.contract.helpers.demangling as demangling

        return demangling.rtl_names(language, *self.ROUTINES)

    def demangle_name(self, name: str) -> str | None:
        import ompd.contract.helpers.demangling as demangling

        return demangling.source_name(name)

    def named_variable(self, name: str) -> NamedVariable | None:
        return None  # gcc and clang give the variables of a construct their own names

    def early_copies(self, process: Process, module: Module) -> None:
        """Return None, because threads have no copies before the runtime is initialised."""


class Plain:
    """Methods of :class:`ompd.contract.plugin.AddressSpace`. They are for plugins that notice damage only when a query
    reads it, and for runtimes that keep copies of threadprivate variables, if any, only for their own threads.
    """

    @property
    def threadprivate_mechanism(self) -> str:
        return "cached"

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        return None  # these runtimes keep copies only for their own threads

    def damage(self) -> Sequence[CorruptState]:
        return ()


class AllQueued:
    """Methods of :class:`ompd.contract.plugin.AddressSpace`, for runtimes whose ``queued_tasks`` returns all explicit
    tasks.
    """

    def waiting_tasks(self) -> Sequence[NoReturn]:
        return ()

    def prioritized_tasks(self) -> Sequence[NoReturn]:
        return ()

    def unlisted_tasks(self) -> Mapping[str, int]:
        return {}


class Unnoted:
    """Methods of handles, for runtimes of gcc's code, which has no notes about its constructs."""

    def source(self) -> None:
        """Return None, because gcc writes no notes about constructs."""


class Unnumbered:
    """Methods of handles, for runtimes with the OMPT of OpenMP 5. Tools get no numbers of threads, regions and tasks
    from it.
    """

    def ompt_id(self) -> NoReturn:
        raise Unsupported("with OpenMP 5's OMPT a runtime gives no identifiers: tools give words (tool_data)")
