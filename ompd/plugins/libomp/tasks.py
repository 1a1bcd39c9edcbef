"""Tasks (``kmp_taskdata_t``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ompd.errors import Unavailable

if TYPE_CHECKING:
    from ompd.contract.plugin import FrameAddress, ParallelHandle, TaskHandle
    from ompd.plugins.libomp.plugin import Runtime


@dataclass(frozen=True)
class Task:
    """A task, by the address of its ``kmp_taskdata_t``. So far it has an identity and nothing else."""

    runtime: Runtime
    address: int

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.address:#x}"

    def _untold(self) -> Unavailable:
        return Unavailable("tasks are not told yet")

    def generating(self) -> TaskHandle | None:
        """Not told by this plugin yet."""
        raise self._untold()

    def scheduling(self) -> TaskHandle | None:
        """Not told by this plugin yet."""
        raise self._untold()

    def parallel(self) -> ParallelHandle | None:
        """Not told by this plugin yet."""
        raise self._untold()

    def function(self) -> int | None:
        """Not told by this plugin yet."""
        raise self._untold()

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Not told by this plugin yet."""
        raise self._untold()

    def tool_data(self) -> int:
        """Not told by this plugin yet."""
        raise self._untold()
