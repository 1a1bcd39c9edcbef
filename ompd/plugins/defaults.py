"""What is the same for runtimes that keep copies of threadprivate variables in lists of their own, if any, and that say
what is wrong with their structures to whoever asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ompd.contract.process import Module, Process
from ompd.errors import CorruptState


class WithoutEarlyCopies:
    """A part of :class:`ompd.contract.plugin.Plugin`."""

    def early_copies(self, process: Process, module: Module) -> None:
        """See :meth:`Plugin.early_copies`: threads get theirs from the runtime once it runs."""


class Plain:
    """Parts of :class:`ompd.contract.plugin.AddressSpace`, for a plugin's own to begin with."""

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
