"""What a runtime with OMPT keeps for its own part, as it has it: the identifiers that it gives, its numbers of states
and types of tasks. Handles have these methods; of what it does not have, a runtime's raise
:class:`~ompd.errors.Unsupported`.

The report of 2015 has runtimes number threads, regions and tasks. In OpenMP 5 a tool may give each a word instead
(``tool_data``), and so its runtimes have no such numbers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class OwnState(NamedTuple):
    """A state of a thread by the runtime's own *number*, and its *name* there without a prefix."""

    number: int
    name: str


class Numbered(Protocol):
    """What a runtime with OMPT may have given a number."""

    def ompt_id(self) -> int:
        """Return the number, unique among those of its kind, that the runtime tells tools (``ompt_thread_id_t``,
        ``ompt_parallel_id_t``, ``ompt_task_id_t`` of the report of 2015).

        :raises Unsupported: if it gives none
        """


class NumberedThread(Numbered, Protocol):
    """A thread, with its state as the runtime has it."""

    def ompt_state(self) -> OwnState:
        """Return the state that the runtime has noted, in its own numbers: OpenMP 5's, or those of the report of 2015,
        which tells more of some waits.

        :raises Unavailable: if it notes none in this process
        """


class NumberedTask(Numbered, Protocol):
    """A task, with its type as the runtime has it."""

    def ompt_type(self) -> str:
        """Return the type that the runtime tells tools: ``initial``, ``implicit``, ``explicit`` or ``target``; of the
        report of 2015 ``serial`` in place of ``initial``, and ``degenerate`` for a task that never was deferred.

        :raises Unsupported: if the runtime has no OMPT
        """
