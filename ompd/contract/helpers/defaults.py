"""What is the same for several runtimes: parts of plugins, address spaces and handles for theirs to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, Unsupported

if TYPE_CHECKING:
    from ompd.contract.dmpl import NamedVariable, RtlNames


class Common:
    """Parts of :class:`ompd.contract.plugin.Plugin`. ``ROUTINES`` are what ``rtl_names`` returns."""

    ROUTINES: ClassVar[tuple[str, str]]

    def rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Plugin.rtl_names`: they are the same for all languages."""
        import ompd.contract.helpers.demangling as demangling

        return demangling.rtl_names(language, *self.ROUTINES)

    def demangle_name(self, name: str) -> str | None:
        """See :meth:`Plugin.demangle_name`."""
        import ompd.contract.helpers.demangling as demangling

        return demangling.source_name(name)

    def named_variable(self, name: str) -> NamedVariable | None:
        """See :meth:`Plugin.named_variable`: gcc and clang give the variables of a construct their own names."""
        return None

    def early_copies(self, process: Process, module: Module) -> None:
        """See :meth:`Plugin.early_copies`: threads get theirs from the runtime once it runs."""


class Plain:
    """Parts of :class:`ompd.contract.plugin.AddressSpace`, for runtimes that keep copies of threadprivate variables in
    lists of their own, if any, and that say what is wrong with their structures to whoever asks for them.
    """

    @property
    def threadprivate_mechanism(self) -> str:
        """See :attr:`AddressSpace.threadprivate_mechanism`."""
        return "cached"

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`: they keep none of threads that they do not know."""
        return None

    def damage(self) -> Sequence[CorruptState]:
        """See :meth:`AddressSpace.damage`."""
        return ()


class AllQueued:
    """Parts of the same, for runtimes whose ``queued_tasks`` has all explicit tasks."""

    def waiting_tasks(self) -> Sequence[NoReturn]:
        """See :meth:`AddressSpace.waiting_tasks`: none."""
        return ()

    def prioritized_tasks(self) -> Sequence[NoReturn]:
        """See :meth:`AddressSpace.prioritized_tasks`: none."""
        return ()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """See :meth:`AddressSpace.unlisted_tasks`: none."""
        return {}


class Unnoted:
    """Parts of handles, for runtimes that work for code of gcc, which records nothing of constructs."""

    def source(self) -> None:
        """See :meth:`TaskHandle.source` and :meth:`ParallelHandle.source`: there is none."""


class Unnumbered:
    """Parts of handles, for runtimes with OMPT of OpenMP 5."""

    def ompt_id(self) -> int:
        """See :meth:`Numbered.ompt_id`.

        :raises Unsupported: always
        """
        raise Unsupported("with OpenMP 5's OMPT a runtime gives no identifiers: tools give words (tool_data)")
