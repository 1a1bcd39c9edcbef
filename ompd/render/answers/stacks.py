"""``stack`` as text: a heading for each stack, a line for each frame."""

from __future__ import annotations

from collections.abc import Iterator

from ompd.analysis.folding import folded
from ompd.model import Answer, StackFrame, StackRecord
from ompd.render.words import UNKNOWN, basename, clean, format_count, format_failure, format_numbers, format_threads
from ompd.short_names import LONGEST, short_name

_MAX_FRAMES = 100  # how many frames of a deep stack are shown; a fifth of them are the outermost frames
_MAX_NAME = LONGEST  # the most characters of the names' column; longer names, as with *verbose*, stick out
_MAX_VALUE = 200  # how many characters of a variable's value are shown
_HOW = {
    "frame-pointer": "guessed from the frame pointer",
    "scan": "guessed by scanning the stack",
    "tail-call": "tail call",
}


def stack_lines(
    answer: Answer[StackRecord], *, unfold: bool = False, verbose: bool = False, most: int = _MAX_FRAMES
) -> Iterator[tuple[str, str]]:
    """Yield the lines of ``stack``, each with its style.

    Equal stacks are shown once. With *unfold* or *verbose* each stack is shown, and also if there are frames of the
    runtime, because frames are then shown with their addresses. A stack of more than *most* frames is shown in full
    only if *unfold*.
    """
    raw = any(frame.kind == "runtime" for row in answer.rows for frame in row.frames)
    many = len(answer.runtimes) > 1
    for number, row in enumerate(answer.rows if unfold or verbose or raw else folded(answer.rows)):
        if number:
            yield "", ""
        yield _heading(row, many), "failed" if format_failure(row) else "head"
        yield from _frames(row, most if not unfold else len(row.frames), unfold or verbose, verbose, raw)


def _heading(row: StackRecord, many: bool) -> str:
    natives = format_threads(row.threads)
    count = f" ({format_count(len(row.threads), 'thread')})" if len(row.threads) > 1 else ""
    words = [f"{'threads' if len(row.threads) > 1 else 'thread'} {natives}{count}"]
    if row.runtime is None:
        words.append("not OpenMP" if "runtime" not in row.unavailable else UNKNOWN)
    elif row.idle:
        words.append("idle in the pool")
    else:
        paths = zip(row.ancestors or ((),), row.thread_nums, strict=False)
        numbers = format_numbers(
            ((*(around if around is not None else (None,)), number) for around, number in paths), row.team_size
        )
        words = [
            f"OMP {numbers}" + (f"/{UNKNOWN}" if row.team_size is None else ""),
            f"level {row.level if row.level is not None else UNKNOWN}",
            *words,
        ]
    if many and row.runtime is not None:
        words.append(row.runtime)
    if format_failure(row):
        words.append(format_failure(row))
    return clean("   ".join(words))


def _frames(row: StackRecord, most: int, whole: bool, verbose: bool, raw: bool) -> Iterator[tuple[str, str]]:
    numbered = list(enumerate(row.frames))
    left_out, last = 0, most // 5
    if len(numbered) > most + 1:
        left_out = len(numbered) - most
        numbered = [*numbered[: most - last], *numbered[-last:]]
    names = {number: _name(frame, verbose) for number, frame in numbered}
    width = min(max(map(len, names.values()), default=0), _MAX_NAME)
    digits = len(str(numbered[-1][0])) if numbered else 1
    thread = row.native_thread_id
    stopped = row.stopped
    for position, (number, frame) in enumerate(numbered):
        if left_out and position == most - last:
            yield f"  … {format_count(left_out, 'more frame')}, shown with --all", "dim"
        if frame.thread != thread:
            if stopped is not None:
                yield f"  the stack of thread {thread} could not be followed further: {clean(stopped)}", "dim"
                stopped = None
            thread = frame.thread
            before = "has not begun the region's code" if row.about_to_begin else "is not in the region's code"
            yield f"  {'' if position else f'{before}; '}region started by thread {thread}:", "dim"
        line = f"  #{number:<{digits}} {names[number]:<{width}}  {_where(frame)}"
        notes = _notes(frame, verbose, raw)
        yield (
            (line + "".join(f"   {note}" for note in notes)).rstrip(),
            "" if frame.kind in ("user", "unknown") else "dim",
        )
        yield from _locals(frame, " " * (digits + 6), whole)
    if stopped is not None:
        yield f"  the stack could not be followed further: {clean(stopped)}", "dim"
    elif not row.frames and not row.idle:
        yield "  no user code", "dim"


def _locals(frame: StackFrame, indent: str, whole: bool) -> Iterator[tuple[str, str]]:
    if "locals" in frame.unavailable:
        yield f"{indent}no variables: {clean(frame.unavailable['locals'])}", "dim"
    for variable in frame.locals or ():
        text = clean(variable.text if variable.text is not None else UNKNOWN)
        if len(text) > _MAX_VALUE and not whole:
            text = f"{text[:_MAX_VALUE]}..."
        notes = [variable.sharing] if variable.sharing is not None else []
        if variable.iteration is not None:
            iteration = variable.iteration
            notes.append(f"iteration {iteration.number} of {iteration.first} to {iteration.last}")
        if variable.text is None:
            notes.append(clean(variable.unavailable.get("value", "")))
        note = f"   ({', '.join(notes)})" if notes else ""
        yield f"{indent}{clean(variable.name)} = {text}{note}", "" if variable.text is not None else "dim"


def _name(frame: StackFrame, verbose: bool) -> str:
    if frame.signal:
        return "<signal handler called>"
    if frame.function is None:
        return _address(frame)
    return clean(frame.function if verbose else short_name(frame.function))


def _address(frame: StackFrame) -> str:
    return f"{frame.address:#x}" if frame.address is not None else UNKNOWN


def _where(frame: StackFrame) -> str:
    if frame.file is not None and frame.line is not None:
        return clean(f"{basename(frame.file)}:{frame.line}")
    return clean(f"in {basename(frame.module)}") if frame.module is not None else _address(frame)


def _notes(frame: StackFrame, verbose: bool, raw: bool) -> Iterator[str]:
    construct = frame.construct
    if construct is not None:
        place = f" {basename(construct.file)}:{construct.line}" if construct.file is not None else ""
        yield clean(f"body of {construct.kind or 'construct'}{place}")
    if frame.inlined:
        yield "inlined"
    if frame.unproven is not None:
        yield "(unproven)"
    if frame.how in _HOW:
        yield _HOW[frame.how]
        if "callee" in frame.unavailable:
            yield "what it called is unknown"
    elif frame.guessed:
        yield "if the guess is right"
    if frame.idle_loop:
        yield "idle loop"
    if raw:
        yield frame.kind
    if raw or verbose:
        yield f"pc {_address(frame)}"
        yield f"cfa {frame.cfa:#x}" if frame.cfa is not None else "cfa ?"
        if frame.task is not None:
            yield f"task {frame.task}"
