"""What a debugger gives to the commands at its prompt, and the sessions on what it debugs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from ompd.errors import OmpdError
from ompd.frontends.prompt import Screen
from ompd.frontends.selecting import numbers_of_team
from ompd.inspection import Inspection
from ompd.model import StackFrame
from ompd.records import record
from ompd.render.words import Indices

_MAX_SESSIONS = 4  # processes that are debugged side by side, of which the last answers are kept

S = TypeVar("S", bound=Inspection)


@record
class ProcessState:
    """The process or core file that a debugger has selected, and how many threads it has."""

    process_id: int
    is_core: bool
    thread_count: int


class Debugger(ABC):
    """A debugger, as the commands see it: its process, threads and frames. Threads are named by their native ids."""

    name: str
    """Of the debugger, as in messages."""
    prompt: str
    """What it prints before a command."""
    script: str
    """The file of ``ompd/`` that users load."""

    # The settings of `auto`

    @property
    @abstractmethod
    def prints_stops(self) -> bool:
        """Whether each stop prints a line."""

    @abstractmethod
    def print_stops(self, on: bool) -> None:
        """Print a line at each stop from now on, or no more."""

    # The process

    @abstractmethod
    def version(self) -> str:
        """Return the debugger's version."""

    @abstractmethod
    def screen(self) -> Screen:
        """Return how wide answers may be, and whether they have colours."""

    @abstractmethod
    def session(self, ompd_library: str | None = None) -> Inspection:
        """Return the session of the selected process at this stop, the same one until something in it changes.

        :param ompd_library: as for :func:`ompd.open_core`
        """

    @abstractmethod
    def process_state(self) -> ProcessState:
        """Return what the selected process is.

        :raises OmpdError: if there is none, or it runs
        """

    # Threads

    @abstractmethod
    def indices(self) -> Indices:
        """Return the debugger's numbers of the threads."""

    @abstractmethod
    def selected_thread(self) -> int:
        """Return the selected thread.

        :raises TargetGone: if none is
        """

    @abstractmethod
    def thread_name(self, thread: int) -> str:
        """Return what the debugger calls a thread.

        :raises TargetGone: if it has no such thread
        """

    @abstractmethod
    def select_thread(self, thread: int) -> None:
        """Select a thread.

        :raises TargetGone: if the debugger has no such thread
        """

    def thread_numbers(self) -> Sequence[str]:
        """Return the OpenMP numbers of the threads in the team of the selected one, none if they are unknown."""
        with suppress(OmpdError):
            return numbers_of_team(self.session(), self.selected_thread())
        return ()

    # Frames of the selected thread

    @abstractmethod
    def select_frame(self, frame: StackFrame, stack_pointer: str) -> bool:
        """Select the debugger's frame for *frame*, and return whether it has one.

        :param stack_pointer: the register's name
        """

    @abstractmethod
    def selected_frame(self, stack_pointer: str) -> tuple[int | None, str] | None:
        """Return the stack pointer in the selected frame, and its function; None if no frame is selected.

        :param stack_pointer: the register's name
        """

    @abstractmethod
    def where(self) -> str:
        """Return what the debugger prints of the selected frame."""


class Sessions(Generic[S]):
    """The sessions on the processes that are debugged side by side, each at its last stop."""

    def __init__(self) -> None:
        self._sessions: dict[Any, tuple[Hashable, S]] = {}

    def find(self, key: Hashable, moment: Hashable, make: Callable[[], S]) -> S:
        """Return the session with that *key* if it is of that *moment*; else close it, and make a new one."""
        kept_moment, session = self._sessions.pop(key, (None, None))
        if session is not None and kept_moment != moment:
            session.close()
            session = None
        if session is None:
            session = make()
        self._sessions[key] = moment, session
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))[1].close()
        return session

    def close(self, is_over: Callable[[Any, S], bool]) -> None:
        """Close the sessions of which *is_over* says so, by their keys."""
        for key, (_, session) in list(self._sessions.items()):
            if is_over(key, session):
                del self._sessions[key]
                session.close()
