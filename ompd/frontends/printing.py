"""``print`` at a debugger's prompt: its arguments, and the line that it prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.errors import BadInput
from ompd.frontends.selecting import split_options
from ompd.questions.printing import Printed
from ompd.records import record
from ompd.render.words import UNKNOWN, basename, clean
from ompd.short_names import short_name

_MAX_VALUE = 4000  # characters of a value
_COPIES = {"global": "one for all threads", "tls": "the thread's own", "cached": "the thread's own"}

SUMMARY = "Print a variable as the code of the selected thread sees it."
OPTIONS = (
    ("thread", "N", "In the thread with this native id or, if there is none, with this OpenMP number in the team."),
    ("frame", "N", "In the frame with this number of ompd stack, in place of the selected one."),
)
"""The options: name, name of the value, help."""


@record
class Request:
    """A request for a variable by ``name``, in a ``thread`` and ``frame``, each None for the selected one."""

    name: str
    thread: int | None
    frame: int | None
    verbose: bool


def parse_request(words: Sequence[str]) -> Request:
    """Return the request in the words after ``print``.

    :raises BadInput: if the words are not valid
    """
    rest, given = split_options("print", words, numbers=("thread", "frame"), flags=("verbose",), short={"v": "verbose"})
    if not rest:
        raise BadInput("print needs NAME: the variable's name in the source", hint="ompd print counter")
    # The words are joined, because a debugger splits `* p` and `x [2]` at spaces.
    return Request(" ".join(rest), given.get("thread"), given.get("frame"), "verbose" in given)


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


def format_help(prompt: str) -> str:
    """Return the help of the command."""
    width = max(len(f"--{name} {value}") for name, value, _ in OPTIONS)
    options = "\n".join(f"      {f'--{name} {value}':<{width}}   {text}" for name, value, text in OPTIONS)
    return (
        "Prints a variable that the code of the selected frame sees, in the selected thread: one of its function, of"
        " the function around its region's code, on whichever thread's stack that is, or a static one, of which a"
        " thread may have its own copy. NAME may select a part (x.member[2], *p). Nothing is called in the program.\n\n"
        f"  {prompt}ompd print total\n  total = 12   (int, shared)\n  {prompt}ompd print --thread 1 grid.cells[2]\n\n"
        f"Options:\n  -v, {'--verbose':<{width}}   Print its address, too.\n{options}\n"
    )
