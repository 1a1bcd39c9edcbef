"""Facts that may fail one by one, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ompd.errors import OmpdError, Unavailable, Unsupported

Value = TypeVar("Value")

# A core that is damaged throughout must not drown the answer in complaints.
_MAX_WARNINGS = 50


class Facts:
    """The facts of one row. A failure leaves None and its reason, and does not affect the other facts."""

    def __init__(self, row: str, problems: Problems) -> None:
        self.unavailable: dict[str, str] = {}
        self.is_whole = True  # nothing is missing that should have been readable
        self._row = row
        self._problems = problems

    def get(self, key: str, ask: Callable[[], Value]) -> Value | None:
        """Return what *ask* returns, or None after noting the reason under *key*."""
        try:
            return ask()
        except OmpdError as error:
            self.untold(key, error)
        return None

    def own(self, key: str, ask: Callable[[], Value]) -> Value | None:
        """Return the same of what a runtime has for its own part. That it has no such thing is a reason, and no
        failure.
        """
        try:
            return ask()
        except Unsupported as error:
            self.unavailable[key] = str(error)
        except OmpdError as error:
            self.untold(key, error)
        return None

    def known(self, what: str, ask: Callable[[], Value], otherwise: Value) -> Value:
        """Return what *ask* answers, or *otherwise*, which says that nothing is known, where this target or plugin
        cannot tell. What fails is noted.
        """
        try:
            return ask()
        except Unavailable:
            return otherwise
        except OmpdError as error:
            self.unread(what, error)
        return otherwise

    def untold(self, key: str, error: OmpdError) -> None:
        """Note why a fact is unknown; also report it as unreadable, unless this target just does not have it."""
        self.unavailable[key] = str(error)
        if not isinstance(error, Unavailable):
            self.unread(key, error)

    def unread(self, what: str, error: OmpdError) -> None:
        """Note that the answer lacks what it has of other rows, and why."""
        self.is_whole = False
        self._problems.unreadable_fact(f"{self._row}: {what}", error)


class Problems:
    """What went wrong in one answer: ``complete`` is False once something was unreadable; notes leave it True."""

    def __init__(self) -> None:
        self.complete = True
        self._warnings: dict[str, None] = {}
        self._faults: dict[str, tuple[str, int]] = {}  # the first thing that is lost by it, and how many others

    def note(self, text: str) -> None:
        """Report something that does not make the answer incomplete."""
        self._warnings[text] = None

    def unreadable(self, text: str) -> None:
        """Report something that could not be read."""
        self.complete = False
        self._warnings[text] = None

    def lost(self, what: str, error: OmpdError) -> None:
        """Report why something is left out: as a note if this target does not have it, else as unreadable."""
        if isinstance(error, Unavailable):
            self.note(f"{what}: {error}")
        else:
            self.unreadable_fact(what, error)

    def unreadable_fact(self, what: str, error: OmpdError) -> None:
        """Report a failure once, however many facts of how many rows are lost by it."""
        self.complete = False
        first, others = self._faults.get(str(error), (what, -1))
        self._faults[str(error)] = first, others + 1

    def first(self, texts: Sequence[str]) -> None:
        """Report, before everything else, what affects the whole answer."""
        if texts:
            self.complete = False
            self._warnings = {**dict.fromkeys(texts), **self._warnings}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reports, each once, at most some dozens."""
        texts = list(self._warnings)
        for error, (first, count) in self._faults.items():
            others = f" (and {count} more facts)" if count else ""
            texts.append(f"{first}{others}: {error}")
        if len(texts) > _MAX_WARNINGS:
            texts[_MAX_WARNINGS:] = [f"and {len(texts) - _MAX_WARNINGS} more"]
        return tuple(texts)
