"""Collects facts that may fail one by one, and the reasons of failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from ompd.errors import OmpdError, Unavailable, Unsupported

Value = TypeVar("Value")
_P = ParamSpec("_P")

# The most warnings of one answer. A badly damaged core would cause thousands.
_MAX_WARNINGS = 50


class Facts:
    """The facts of one row. A failure leaves None and its reason, and does not affect the other facts."""

    def __init__(self, row: str, problems: Problems) -> None:
        self.unavailable: dict[str, str] = {}
        self.is_whole = True  # no fact was unreadable
        self._row = row
        self._problems = problems

    def get(self, key: str, ask: Callable[_P, Value], *arguments: _P.args, **named: _P.kwargs) -> Value | None:
        """Return the result of *ask* for the arguments. If it fails, note the reason under *key*, and return None."""
        try:
            return ask(*arguments, **named)
        except OmpdError as error:
            self.missing(key, error)
        return None

    def own(self, key: str, ask: Callable[[], Value]) -> Value | None:
        """Return the result of *ask*, as :meth:`get`, for a fact that only some runtimes have.

        If the runtime does not have the fact, the reason is noted, but not reported as a failure.
        """
        try:
            return ask()
        except Unsupported as error:
            self.unavailable[key] = str(error)
        except OmpdError as error:
            self.missing(key, error)
        return None

    def known(self, what: str, ask: Callable[[], Value], otherwise: Value) -> Value:
        """Return what *ask* returns, or *otherwise* if the target or plugin does not have the fact.

        An unreadable fact is reported.
        """
        try:
            return ask()
        except Unavailable:
            return otherwise
        except OmpdError as error:
            self.unreadable(what, error)
        return otherwise

    def missing(self, key: str, error: OmpdError) -> None:
        """Note why a fact is unknown. Report it as unreadable unless the target does not have it."""
        self.unavailable[key] = str(error)
        if not isinstance(error, Unavailable):
            self.unreadable(key, error)

    def unreadable(self, what: str, error: OmpdError) -> None:
        """Report a fact that could not be read, so that the row is incomplete."""
        self.is_whole = False
        self._problems.unreadable(f"{self._row}: {what}", error)


class Problems:
    """The problems of one answer. ``complete`` becomes False if something is unreadable; notes leave it True."""

    def __init__(self) -> None:
        self.complete = True
        self._warnings: dict[str, None] = {}
        self._faults: dict[str, tuple[str, int]] = {}  # by error: the first unreadable fact, and the number of others

    def note(self, text: str) -> None:
        """Report something that does not make the answer incomplete."""
        self._warnings[text] = None

    def incomplete(self, text: str) -> None:
        """Report something that makes the answer incomplete."""
        self.complete = False
        self._warnings[text] = None

    def missing(self, what: str, error: OmpdError) -> None:
        """Report why something is left out: as a note if the target does not have it, else as unreadable."""
        if isinstance(error, Unavailable):
            self.note(f"{what}: {error}")
        else:
            self.unreadable(what, error)

    def unreadable(self, what: str, error: OmpdError) -> None:
        """Report a fact that could not be read. Each error is reported once, with the number of its facts."""
        self.complete = False
        first, others = self._faults.get(str(error), (what, -1))
        self._faults[str(error)] = first, others + 1

    def first(self, texts: Sequence[str]) -> None:
        """Report problems of the whole answer. They come before all other warnings, and make the answer incomplete."""
        if texts:
            self.complete = False
            self._warnings = {**dict.fromkeys(texts), **self._warnings}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reports, each once, at most 51."""
        texts = list(self._warnings)
        for error, (first, count) in self._faults.items():
            repeated = f" (and {count} more facts)" if count else ""
            texts.append(f"{first}{repeated}: {error}")
        if len(texts) > _MAX_WARNINGS:
            texts[_MAX_WARNINGS:] = [f"and {len(texts) - _MAX_WARNINGS} more"]
        return tuple(texts)
