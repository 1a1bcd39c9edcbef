"""The line that ``print`` shows at a debugger's prompt."""

from __future__ import annotations

from collections.abc import Iterator

from ompd.questions.printing import Printed
from ompd.render.words import UNKNOWN, basename, clean
from ompd.short_names import short_name

_MAX_VALUE = 4000  # characters of a value
_COPIES = {"global": "one for all threads", "tls": "the thread's own", "cached": "the thread's own"}


def format_printed(found: Printed, thread: int, verbose: bool = False) -> str:
    """Return the line for a variable in *thread*: value, type and origin."""
    row = found.local or found.static
    text = row.text if row is not None else None
    shown = clean(text if text is not None else UNKNOWN)
    if len(shown) > _MAX_VALUE:
        shown = f"{shown[:_MAX_VALUE]}..."
    return clean(f"{found.name} = ") + f"{shown}   ({clean(', '.join(_notes(found, thread, verbose)))})"


def _notes(found: Printed, thread: int, verbose: bool) -> Iterator[str]:
    local, static, frame = found.local, found.static, found.frame
    row = local or static
    if row is None:
        return
    yield row.type if row.type is not None else "of unknown type"
    if local is not None and local.sharing is not None:
        yield local.sharing
    if local is not None and local.iteration is not None:
        yield f"iteration {local.iteration.number} of {local.iteration.first} to {local.iteration.last}"
    if static is not None and static.mechanism is not None:
        yield _COPIES.get(static.mechanism, f"the thread's own ({static.mechanism})")
    if static is not None and static.file is not None:
        yield f"{basename(static.file)}:{static.line}" if static.line is not None else basename(static.file)
    if frame is not None and not found.is_here:
        at = f" {basename(frame.file)}:{frame.line}" if frame.file is not None and frame.line is not None else ""
        yield f"{'of' if found.seen else 'out of sight, of'} #{found.number} {short_name(frame.function or '??')}{at}"
        if frame.thread not in (None, thread):
            yield f"on the stack of thread {frame.thread}"
    if row.text is None:
        missing = static is not None and static.address is None and not static.unavailable
        yield row.unavailable.get("value", "no storage allocated yet" if missing else "unknown")
    if verbose and row.address is not None:
        yield f"at {row.address:#x}"
