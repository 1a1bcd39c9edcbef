"""Words for threads in verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.model import ThreadRecord
from ompd.model.stalls import thread_name

_NAMED = 4


def of_thread(row: ThreadRecord) -> str:
    """Return the name of a thread in texts: its number in its team if it has one, and its native id."""
    native = row.native_thread_id
    if native is None:
        return f"the thread whose data are at {row.address or 0:#x}"
    return thread_name(native, row.thread_num, row.ancestors)


def plural(clause: str) -> str:
    """Return the plural of a clause about a thread: ``it is in read`` becomes ``they are in read``."""
    words = clause.split(" ", 2)
    if words[0] != "it" or len(words) < 2:
        return clause
    verb = {"is": "are", "has": "have"}.get(words[1], words[1].removesuffix("s"))
    return " ".join(("they", verb, *words[2:]))


def counted(count: int, what: str) -> str:
    """Return a count with its noun: ``1 thread``, ``2 threads``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def listed(names: Sequence[str], what: str = "thread") -> str:
    """Return the names as a list in words, or the count if there are many: ``a``, ``a and b``, ``62 threads``."""
    if len(names) > _NAMED:
        return counted(len(names), what)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else f"no {what}"
