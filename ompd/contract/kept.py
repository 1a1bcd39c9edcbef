"""Facts that a runtime with OMPT keeps in its own terms: identifiers, state numbers, task types.

Handles have these methods, which raise :class:`~ompd.errors.Unsupported` for facts that the runtime does not have.
Under the OMPT report of 2015, runtimes number threads, regions and tasks. In OpenMP 5 a tool may attach a word to each
instead (``tool_data``), and runtimes have no such numbers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class OwnState(NamedTuple):
    """A thread state in the runtime's own terms: its *number*, and its *name* without the prefix."""

    number: int
    name: str


class Numbered(Protocol):
    """A thread, region or task, which a runtime with OMPT may have numbered."""

    def ompt_id(self) -> int:
        """Return the number by which the runtime reports this object to tools. It is unique among threads, among
        regions or among tasks. In the OMPT report of 2015 its type is ``ompt_thread_id_t``, ``ompt_parallel_id_t`` or
        ``ompt_task_id_t``.

        :raises Unsupported: if the runtime gives no numbers
        """


class NumberedThread(Numbered, Protocol):
    """A thread, with its state in the runtime's own terms."""

    def ompt_state(self) -> OwnState:
        """Return the state that the runtime records, numbered as in OpenMP 5 or as in the report of 2015, which has
        more waiting states.

        :raises Unavailable: if the runtime records no states in this process
        """


class NumberedTask(Numbered, Protocol):
    """A task, with its type in the runtime's own terms."""

    def ompt_type(self) -> str:
        """Return the task's type as the runtime reports it to tools: ``initial``, ``implicit``, ``explicit`` or
        ``target``. A runtime with the OMPT of 2015 says ``serial`` instead of ``initial``, and ``degenerate`` for a
        task that was not deferred.

        :raises Unsupported: if the runtime has no OMPT
        """
