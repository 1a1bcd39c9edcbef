"""What all text answers share: names, numbers and places as people read them. Sees records only.

Nothing of the target reaches the terminal as it is: names are data, and a control character in one could do anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ompd.model import (
    LayoutRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    SnapshotRecord,
    TargetRecord,
)

# Thread ids of a folded row that are listed before the rest is counted.
LISTED = 4
UNKNOWN = "?"
NONE = "-"


def clean(text: str) -> str:
    """Return *text* with what a terminal might act on written out (``\\x1b``)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an answer: its cells, and the style of the row (``""``, ``dim``, ``wait`` …)."""

    cells: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print: a heading above it, the columns' titles, its lines."""

    titles: tuple[str, ...]
    lines: tuple[Line, ...]


def format_field(record: Any, key: str, shown: Any = None) -> str:
    """Return a field for the screen: what it is, ``-`` where there is none, ``?`` where it could not be told."""
    value = getattr(record, key)
    if value is None:
        return UNKNOWN if key in record.unavailable else NONE
    return clean(str(value if shown is None else shown))


def basename(path: str) -> str:
    """Return a file name without its folders."""
    return path.rpartition("/")[2] or path


def format_stops(target: TargetRecord) -> str | None:
    """Return how often and for how long a live process was stopped, None if it was not."""
    if not target.stops_ns:
        return None
    lengths = ", ".join(f"{length / 1e6:.1f} ms" for length in target.stops_ns)
    times = "once" if len(target.stops_ns) == 1 else f"{len(target.stops_ns)} times"
    return f"the process was stopped {times}, for {lengths}"


def format_target(target: TargetRecord, runtimes: Sequence[RuntimeRecord]) -> str:
    """Return the line above every answer: what was asked, and which runtimes it has."""
    parts = [basename(target.file)] if target.file is not None else []
    if target.executable is not None:
        parts.append(basename(target.executable))
    if target.process_id is not None and target.file != f"process {target.process_id}":
        parts.insert(len(parts) if target.file is not None else 0, f"process {target.process_id}")
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
    """Return a number of things: ``1 thread``, ``2 threads``."""
    return f"{number} {what if number == 1 else plural or what + 's'}"


def format_indices(natives: Iterable[int | None], indices: Mapping[int, int]) -> str:
    """Return the debugger's numbers of threads, from those of the system."""
    return format_ranges(indices[native] for native in natives if native is not None and native in indices) or NONE


def format_place(place: Place | RegionFunction | None, *, verbose: bool = False) -> str:
    """Return where something is: ``file.c:12 function``, as much of it as is known."""
    if place is None:
        return NONE
    words = []
    if place.file is not None:
        words.append(f"{basename(place.file)}:{place.line}")
    if place.function is not None:
        words.append(place.function)
    if verbose or not words:
        words.append(f"{place.address:#x}")
    if place.unproven is not None:
        words.append("(unproven)")
    return clean(" ".join(words))


def format_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as people count them: ``0,2-5``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def format_threads(threads: Sequence[int | None]) -> str:
    """Return some native ids, the first and last of many; ``?`` for one that could not be told."""
    names = [UNKNOWN if thread is None else str(thread) for thread in threads]
    if len(names) <= LISTED:
        return ",".join(names)
    return f"{names[0]} … {names[-1]}"


def format_list(threads: Sequence[str]) -> str:
    """Return names in brackets, some and the last of many."""
    shown = threads if len(threads) <= 2 * LISTED else [*threads[:LISTED], "…", threads[-1]]
    return "[" + " ".join(shown) + "]"


def describe_snapshot(taken: SnapshotRecord) -> str:
    """Return in a line what was written."""
    megabytes = [f"{size / 1e6:.1f} MB" for size in (taken.size, taken.memory_bytes, taken.extract_bytes)]
    threads, modules = format_count(taken.threads, "thread"), format_count(len(taken.modules), "module")
    return clean(
        f"{taken.file}: {megabytes[0]}, {threads}; {megabytes[1]} of memory, {megabytes[2]} of the files of {modules}"
    )


def describe_layout(made: LayoutRecord, structs: int) -> str:
    """Return in lines which table of layouts was written."""
    parts = (made.name, made.runtime, ", ".join(made.releases), ", ".join(made.architectures))
    build_ids = ", ".join(made.build_ids) or NONE
    lines = [
        "   ".join((*parts, format_count(structs, "structure"))),
        f"  file           {made.file}",
        f"  build-id       {build_ids}",
    ]
    return "\n".join(map(clean, lines))
