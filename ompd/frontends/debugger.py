"""The interface of a debugger for the commands at its prompt, and the sessions on its processes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from ompd.errors import NoAnswer, OmpdError, Unavailable
from ompd.frontends.prompt import Screen, clean_lines
from ompd.frontends.selecting import numbers_of_team
from ompd.inspection import Inspection
from ompd.model import StackFrame
from ompd.records import record
from ompd.render.summary import format_summary
from ompd.render.words import Indices

_MAX_SESSIONS = 4  # processes whose last session is kept, for a debugger with several processes
_PROCESS = re.compile(r"^process \d+: ")  # at the beginning of an error; the line is about the process anyway

S = TypeVar("S", bound=Inspection)


@record
class ProcessState:
    """The process or core file that a debugger has selected, with its number of threads."""

    process_id: int
    is_core: bool
    thread_count: int


class Debugger(ABC):
    """A debugger, as the commands see it: its process, threads and frames. Threads are given by native id."""

    name: str
    """The debugger's name in messages."""
    prompt: str
    """The prompt that the debugger prints."""
    script: str
    """The file in ``ompd/`` that users load."""

    # The settings of `auto`

    @property
    @abstractmethod
    def prints_stops(self) -> bool:
        """Whether each stop prints a line."""

    @abstractmethod
    def print_stops(self, on: bool) -> None:
        """Start or stop printing a line at each stop."""

    @property
    def is_starting(self) -> bool:
        """Whether the program may not have loaded its libraries yet."""
        return False

    def summary(self) -> str:
        """Return the line for this stop, ``""`` if none is to be printed."""
        if not self.prints_stops:
            return ""
        try:
            return format_summary(self.session().ask_threads(), self.selected_thread())
        except OmpdError as error:
            if self.is_starting and isinstance(error, NoAnswer):
                return ""
            return clean_lines(f"OpenMP: {_PROCESS.sub('', str(error))}")

    # The process

    @abstractmethod
    def version(self) -> str:
        """Return the debugger's version."""

    @abstractmethod
    def screen(self) -> Screen:
        """Return the width of answers, and whether they have colours."""

    @abstractmethod
    def session(self, ompd_library: str | None = None) -> Inspection:
        """Return the session of the selected process at this stop, the same one until the process changes.

        :param ompd_library: as for :func:`ompd.open_core`
        """

    @abstractmethod
    def process_state(self) -> ProcessState:
        """Return the state of the selected process.

        :raises OmpdError: if there is no process, or it is running
        """

    def check_runs(self, hint: str = "") -> None:
        """Check that the selected process, if there is one, is no core file.

        :raises Unavailable: if it is a core file; with *hint*
        """
        try:
            is_core = self.process_state().is_core
        except OmpdError:  # there is no process, or it is running
            return
        if is_core:
            raise Unavailable("a core file does not run", hint=hint)

    # Threads

    @abstractmethod
    def indices(self) -> Indices:
        """Return the debugger's numbers of the threads."""

    @abstractmethod
    def selected_thread(self) -> int:
        """Return the selected thread.

        :raises TargetGone: if no thread is selected
        """

    @abstractmethod
    def thread_name(self, thread: int) -> str:
        """Return the debugger's name of a thread.

        :raises TargetGone: if the debugger has no such thread
        """

    @abstractmethod
    def select_thread(self, thread: int) -> None:
        """Select a thread, and its innermost frame.

        :raises TargetGone: if the debugger has no such thread
        """

    def thread_numbers(self) -> Sequence[str]:
        """Return the OpenMP numbers of the threads in the selected thread's team, empty if they are unknown."""
        with suppress(OmpdError):
            return numbers_of_team(self.session(), self.selected_thread())
        return ()

    # Frames of the selected thread

    @abstractmethod
    def select_frame(self, frame: StackFrame, stack_pointer: str) -> bool:
        """Select the debugger's frame for *frame*, and return whether there is one.

        :param stack_pointer: the register's name
        """

    @abstractmethod
    def selected_frame(self, stack_pointer: str) -> tuple[int | None, str] | None:
        """Return the stack pointer in the selected frame and the frame's function, None if no frame is selected.

        :param stack_pointer: the register's name
        """

    @abstractmethod
    def where(self) -> str:
        """Return the debugger's text for the selected frame."""


class Sessions(Generic[S]):
    """The sessions on the debugger's processes, each at its last stop."""

    def __init__(self) -> None:
        self._sessions: dict[Hashable, tuple[Hashable, S]] = {}

    def find(self, key: Hashable, moment: Hashable) -> S | None:
        """Return the session of *key* if it is of *moment*. Otherwise close it, and return None."""
        kept_moment, session = self._sessions.get(key, (None, None))
        if session is not None and kept_moment != moment:
            self.close(key)
            return None
        if session is not None:
            self._sessions[key] = self._sessions.pop(key)  # it is the latest now
        return session

    def keep(self, key: Hashable, moment: Hashable, session: S) -> S:
        """Return *session*, and keep it for :meth:`find`.

        Only a few are kept: the session that was not used for longest is closed.
        """
        self._sessions[key] = moment, session
        while len(self._sessions) > _MAX_SESSIONS:
            self.close(next(iter(self._sessions)))
        return session

    def all(self) -> list[tuple[Any, S]]:
        """Return the keys with their sessions."""
        return [(key, session) for key, (_, session) in self._sessions.items()]

    def close(self, key: Hashable) -> None:
        """Close the session of *key*."""
        self._sessions.pop(key)[1].close()
