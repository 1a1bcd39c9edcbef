"""The line that ``print`` shows at a debugger's prompt."""

from __future__ import annotations

from collections.abc import Iterator

from ompd.frontends.walking import place_of
from ompd.questions.printing import Printed
from ompd.render.words import UNKNOWN, basename, clean

_MAX_VALUE = 4000  # characters of a value
_COPIES = {"global": "one for all threads", "tls": "the thread's own", "cached": "the thread's own"}


def format_printed(variable: Printed, thread: int, verbose: bool = False) -> str:
    """Return the line for a variable in *thread*: value, type and origin."""
    row = variable.local or variable.static
    text = row.text if row is not None else None
    value = clean(text if text is not None else UNKNOWN)
    if len(value) > _MAX_VALUE:
        value = f"{value[:_MAX_VALUE]}..."
    return clean(f"{variable.name} = ") + f"{value}   ({clean(', '.join(_notes(variable, thread, verbose)))})"


def _notes(variable: Printed, thread: int, verbose: bool) -> Iterator[str]:
    local, static, frame = variable.local, variable.static, variable.frame
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
    if frame is not None and not variable.is_here:
        yield f"{'of' if variable.seen else 'out of sight, of'} #{variable.number} {place_of(frame)}"
        if frame.thread not in (None, thread):
            yield f"on the stack of thread {frame.thread}"
    if row.text is None:
        has_no_storage = static is not None and static.address is None and not static.unavailable
        yield row.unavailable.get("value", "no storage allocated yet" if has_no_storage else "unknown")
    if verbose and row.address is not None:
        yield f"at {row.address:#x}"
