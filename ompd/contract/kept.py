"""Facts that a runtime with OMPT keeps in its own terms: identifiers, numbers of states, types of tasks.

Handles have these methods, which raise :class:`~ompd.errors.Unsupported` for facts that the runtime does not have. By
the report of 2015 runtimes number threads, regions and tasks. In OpenMP 5 a tool may give each a word instead
(``tool_data``), and runtimes have no such numbers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class OwnState(NamedTuple):
    """A state of a thread by the runtime's own *number*, and its *name* there without a prefix."""

    number: int
    name: str


class Numbered(Protocol):
    """A thread, region or task, which a runtime with OMPT may have given a number."""

    def ompt_id(self) -> int:
        """Return the number that the runtime reports to tools, unique among those of its kind. In the OMPT report of
        2015 it is ``ompt_thread_id_t``, ``ompt_parallel_id_t`` or ``ompt_task_id_t``.

        :raises Unsupported: if it gives none
        """


class NumberedThread(Numbered, Protocol):
    """A thread, with its state as the runtime has it."""

    def ompt_state(self) -> OwnState:
        """Return the state that the runtime records, by the numbers of OpenMP 5 or those of the report of 2015, which
        has more states of waiting.

        :raises Unavailable: if it records none in this process
        """


class NumberedTask(Numbered, Protocol):
    """A task, with its type as the runtime has it."""

    def ompt_type(self) -> str:
        """Return the type that the runtime reports to tools: ``initial``, ``implicit``, ``explicit`` or ``target``. By
        the report of 2015 it is ``serial`` instead of ``initial``, and ``degenerate`` for a task that was not deferred.

        :raises Unsupported: if the runtime has no OMPT
        """
