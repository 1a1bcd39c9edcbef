"""What libgomp keeps of no thread, region or task: parts of their handles."""

from __future__ import annotations

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.kept import OwnState
from ompd.contract.plugin import FrameAddress
from ompd.errors import Unavailable, Unsupported


class NoTool:
    """What libgomp keeps of no thread, region or task, for want of OMPT."""

    def tool_data(self) -> int:
        """Not kept."""
        raise Unavailable("libgomp has no OMPT, so that it keeps no tool's data")

    def ompt_id(self) -> int:
        """Not kept."""
        raise Unsupported("libgomp has no OMPT, so that it gives no identifiers")

    def ompt_state(self) -> OwnState:
        """Not kept."""
        raise Unsupported("libgomp has no OMPT, so that it notes no states")

    def ompt_type(self) -> str:
        """Not kept."""
        raise Unsupported("libgomp has no OMPT, so that its tasks have no type of it")


class NoFrames(Unnoted, NoTool):
    """What it keeps of no task."""

    def is_tied(self) -> bool:
        """See :meth:`TaskHandle.is_tied`: all are, since ``GOMP_task`` ignores ``untied``."""
        return True

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Not kept."""
        raise Unavailable("libgomp keeps no frames of tasks")
