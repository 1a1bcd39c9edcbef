"""Formats that all text answers share: names, numbers and places, from records only.

Names from the target are always escaped before output, because they may have control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ompd.model import (
    Answer,
    Place,
    RegionFunction,
    RuntimeRecord,
    SnapshotRecord,
    StackRecord,
    TargetRecord,
    ThreadRecord,
)
from ompd.model.base import addresses_of
from ompd.records import record
from ompd.short_names import short_name

# Thread ids listed for a folded row; further ones are counted.
LISTED = 4
UNKNOWN = "?"
NONE = "-"


def clean(text: str) -> str:
    """Return *text* with control characters escaped (``\\x1b``)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)


@record
class Line:
    """One line of an answer: its cells, and the style of the row (``""``, ``dim``, ``wait`` …)."""

    cells: tuple[str, ...]
    style: str = ""


@record
class Table:
    """A table to print: the titles of its columns, and its lines.

    If the table is too wide, columns with ``optional`` titles are omitted if all their cells are equal. If it is still
    too wide, columns with ``least`` titles are omitted.
    """

    titles: tuple[str, ...]
    lines: tuple[Line, ...]
    optional: frozenset[str] = frozenset()
    least: frozenset[str] = frozenset()


def format_field(record: Any, key: str, shown: Any = None) -> str:
    """Return a field for the screen, addresses and words in hexadecimal; ``-`` if there is no value, ``?`` if
    the value is unknown.
    """
    value = getattr(record, key)
    if value is None:
        return UNKNOWN if key in record.unavailable else NONE
    if shown is None and key in addresses_of(record.__class__):
        return f"{value:#x}"
    return clean(str(value if shown is None else shown))


def basename(path: str) -> str:
    """Return a file name without its folders."""
    return path.rpartition("/")[2] or path


def format_nothing(answer: Answer[Any], none: str, what: str) -> str:
    """Return the text for an answer without rows: why there are none.

    :param none: the text if the runtime is initialised and could be read
    :param what: the rows, in the plural
    """
    if not answer.complete:
        return f"{what} unknown: the data that they come from could not be read"
    if all(runtime.layout is None for runtime in answer.runtimes):
        return f"no {what} yet: OpenMP has not begun in this process" if answer.runtimes else none
    return none


def format_stops(target: TargetRecord) -> str | None:
    """Return how often and for how long a live process was stopped; None for any other target."""
    if target.kind != "live":
        return None
    if not target.stops_ns:
        return "the process was not stopped"
    lengths = ", ".join(f"{length / 1e6:.1f} ms" for length in target.stops_ns)
    times = "once" if len(target.stops_ns) == 1 else f"{len(target.stops_ns)} times"
    return f"the process was stopped {times}, for {lengths}"


def format_target(target: TargetRecord, runtimes: Sequence[RuntimeRecord]) -> str:
    """Return the line above every answer: the target, and its runtimes."""
    process = [f"process {target.process_id}"] if target.process_id is not None else []
    program = [basename(target.executable)] if target.executable is not None else []
    if target.file is None:
        parts = [*process, *program]
    else:
        # The "file" of a live process may be the text "process N".
        parts = [basename(target.file), *program, *(text for text in process if text != target.file)]
    if target.signal is not None:
        parts.append(target.signal_name or f"signal {target.signal}")
    parts.append(format_count(target.thread_count, "thread") if target.thread_count is not None else "? threads")
    if target.incomplete is not None:
        parts.append("incomplete")
    parts += [format_runtime_name(runtime) for runtime in runtimes]
    return clean("   ".join(parts))


def format_runtime_name(runtime: RuntimeRecord) -> str:
    """Return a runtime's name and version."""
    return runtime.id + (f" {runtime.version}" if runtime.version is not None else "")


def format_count(number: int, what: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 thread``, ``2 threads``."""
    return f"{number} {what if number == 1 else plural or what + 's'}"


@record
class Indices:
    """The numbers that a ``debugger`` has given to threads, by native id."""

    debugger: str
    numbers: Mapping[int, int]

    @property
    def title(self) -> str:
        """The title of the column."""
        return self.debugger.upper()

    @property
    def key(self) -> str:
        """The key of these numbers in JSON."""
        return f"{self.debugger.lower()}_index"

    def format(self, natives: Iterable[int | None]) -> str:
        """Return the debugger's numbers of threads with the given native ids."""
        numbers = self.numbers
        return format_ranges(numbers[native] for native in natives if native is not None and native in numbers) or NONE


def format_place(place: Place | RegionFunction | None, *, verbose: bool = False) -> str:
    """Return a place as ``file.c:12 function``, without the unknown parts. *verbose* keeps long names of functions."""
    if place is None:
        return NONE
    words = []
    if place.file is not None and place.line is not None:
        words.append(f"{basename(place.file)}:{place.line}")
    if place.function is not None:
        words.append(place.function if verbose else short_name(place.function))
    if verbose or not words:
        words.append(f"{place.address:#x}" if place.address is not None else UNKNOWN)
    if isinstance(place, Place) and place.calling is not None:
        words[-1] += f", in {place.calling}"
    if place.unproven is not None:
        words.append("(unproven)")
    return clean(" ".join(words))


def format_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: ``0,2-5``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def format_some(numbers: Iterable[int]) -> str:
    """Return numbers in words: ``1``, ``1 and 3-5``, or the first and the count of the others: ``7, 9 and 61 more``."""
    ordered = sorted(set(numbers))
    pieces = format_ranges(ordered).split(",")
    if len(pieces) > LISTED:
        pieces = pieces[:2]
        shown = sum(int(last or first) - int(first) + 1 for first, _, last in (p.partition("-") for p in pieces))
        pieces.append(f"{len(ordered) - shown} more")
    return pieces[0] if len(pieces) == 1 else f"{', '.join(pieces[:-1])} and {pieces[-1]}"


def abridge_ranges(numbers: Iterable[int]) -> str:
    """Return :func:`format_ranges` of numbers, shortened to the first two and the last range: ``0,2,…,118``."""
    pieces = format_ranges(set(numbers)).split(",")
    return ",".join(pieces if len(pieces) <= LISTED else [*pieces[:2], "…", pieces[-1]])


Path = tuple["int | None", ...]
"""A thread's numbers in the teams that it is in, outermost first; None is an unknown one."""


def format_numbers(paths: Iterable[Path | None], team_size: int | None) -> str:
    """Return the OpenMP numbers of threads, with the size of their team: ``0-2,4/5``.

    In nested regions the numbers of the threads that began the teams come first: ``1.0/2`` is thread 0 of 2 in the team
    that thread 1 began, ``0-2.0/2`` thread 0 in each of the teams that threads 0 to 2 began.
    """
    known_paths = {path for path in paths if path is not None}
    size = f"/{team_size}" if team_size is not None else ""
    if not known_paths or any(path[-1] is None for path in known_paths):
        return UNKNOWN + size
    depths = {len(path) for path in known_paths}
    if len(depths) == 1:
        parts = [set(part) for part in zip(*known_paths, strict=True)]
        count = 1
        for part in parts:
            count *= len(part)
        if count == len(known_paths):
            return _dotted([_part(part) for part in parts]) + size
    texts = [_dotted([_part({number}) for number in path]) for path in sorted(known_paths, key=_in_order)]
    return ",".join(texts if len(texts) <= LISTED else [*texts[:2], "…", texts[-1]]) + size


def _in_order(path: Path) -> list[int]:
    return [-1 if number is None else number for number in path]


def _part(numbers: set[int | None]) -> str:
    known_numbers = [number for number in numbers if number is not None]
    return abridge_ranges(known_numbers) if len(known_numbers) == len(numbers) else UNKNOWN


def _dotted(parts: Sequence[str]) -> str:
    # Recursive regions are thousands of levels deep.
    return ".".join(parts if len(parts) <= 2 * LISTED else [*parts[:2], "…", *parts[-2:]])


def format_failure(row: StackRecord | ThreadRecord) -> str:
    """Return how a thread failed, ``* SIGSEGV at address 0x0``; empty for a thread that did not fail.

    ``?`` replaces the star if the thread got the signal of a fault, but the sender of the signal is unknown.
    """
    if row.signal is None or row.failed is False or (row.failed is None and "si_addr" not in row.unavailable):
        return ""
    name = row.signal_name or f"signal {row.signal}"
    where = f" at address {row.si_addr:#x}" if row.si_addr is not None else ""
    if "si_addr" in row.unavailable and row.failed:
        where = " at an unknown address"
    return f"{'*' if row.failed else UNKNOWN} {name}{where}"


def format_threads(threads: Sequence[int | None]) -> str:
    """Return native ids, shortened to the first and last of many; ``?`` for an unknown id."""
    names = [UNKNOWN if thread is None else str(thread) for thread in threads]
    if len(names) <= LISTED:
        return ",".join(names)
    return f"{names[0]} … {names[-1]}"


def format_list(threads: Sequence[str]) -> str:
    """Return names in brackets, shortened to some and the last of many."""
    shown = threads if len(threads) <= 2 * LISTED else [*threads[:LISTED], "…", threads[-1]]
    return "[" + " ".join(shown) + "]"


def describe_snapshot(taken: SnapshotRecord) -> str:
    """Return one line about the file that was written."""
    megabytes = [f"{size / 1e6:.1f} MB" for size in (taken.size, taken.memory_bytes, taken.extract_bytes)]
    threads, modules = format_count(taken.threads, "thread"), format_count(len(taken.modules), "module")
    return clean(
        f"{taken.file}: {megabytes[0]}, {threads}; {megabytes[1]} of memory, {megabytes[2]} of the files of {modules}"
    )
