"""One variable as the code sees it where a thread is: ``print`` at a debugger's prompt.

The compiler puts code of a construct into a function of its own, but that code also sees the variables of the function
around it. So a variable is searched in the frame of the code, then in the frame of the function that contains the
construct, then among static variables, of which a thread may have its own copy. Last come the functions that have
called this one. Values are those of ``stack --locals`` and ``var``. Nothing is called in the target, so cores are the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ompd.errors import BadInput, NoAnswer, OmpdError
from ompd.model import LocalRecord, StackFrame, StackRecord, VariableRecord
from ompd.questions import stacks, variables
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.variables.names import VariableName


class At(NamedTuple):
    """The frame that is selected in a debugger: its stack pointer and its function. Unknown ones are None."""

    sp: int | None
    function: str | None = None


class Printed(NamedTuple):
    """A variable of a ``frame``, or a static one.

    ``number`` is the frame's number in the thread's stack, as in ``ompd stack``. ``seen`` is False for a variable of a
    function that called the code, which the code itself does not see.
    """

    name: str
    local: LocalRecord | None = None
    static: VariableRecord | None = None
    frame: StackFrame | None = None
    number: int = 0
    is_here: bool = True
    seen: bool = True


def ask(session: Session, name: str, thread: int, selected: At | None = None, number: int | None = None) -> Printed:
    """Return the variable *name* as the code of *thread* sees it.

    :param name: as for ``var``: a part is selected as in ``x.member[2]`` and ``*p``
    :param thread: the thread's native id
    :param selected: the selected frame, the innermost user frame if None
    :param number: the frame's number in the thread's stack, in place of *selected*
    :raises NoAnswer: if there is no such variable, or more than one
    :raises BadInput: if the variable has no such part, or the stack has no such frame
    """
    variable_name = session.process.variable_name(name)
    (row,) = stacks.ask(session, thread=thread, locals=True, part=variable_name).rows
    start = _start(row, selected, number)
    is_local = not variable_name.scopes and variable_name.block is None and not variable_name.is_global
    frames = row.frames
    if is_local and start is not None:
        for place in _in_sight(frames, start):
            if (variable := _named(frames[place], variable_name)) is not None:
                return Printed(name, local=variable, frame=frames[place], number=place, is_here=place == start)
    try:
        return Printed(name, static=_static(session, name, thread, frames[start] if start is not None else None))
    except NoAnswer as error:
        for place in range(start + 1, len(frames)) if is_local and start is not None else ():
            if (variable := _named(frames[place], variable_name)) is not None:
                return Printed(name, local=variable, frame=frames[place], number=place, is_here=False, seen=False)
        if start is None or not is_local:
            raise
        raise _not_found(name, frames[start], error) from error


def _start(row: StackRecord, selected: At | None, number: int | None) -> int | None:
    # The index of the frame where the search begins, None if the thread has no user frame.
    frames = row.frames
    if number is not None:
        if number >= len(frames):
            raise BadInput(f"the stack has no frame {number}", hint="ompd stack numbers them")
        return number
    own_frames = [n for n, f in enumerate(frames) if f.thread == row.native_thread_id and f.kind == "user"]
    if selected is not None and selected.sp is not None:
        reached = [n for n in own_frames if (frames[n].cfa or 0) > selected.sp]
        # Functions that were inlined into one another have the same CFA: take the one with the selected frame's name.
        equal = [
            n for n in reached if frames[n].cfa == frames[reached[0]].cfa and frames[n].function == selected.function
        ]
        own_frames = equal or reached
    return next(iter(own_frames), next((n for n, f in enumerate(frames) if f.kind == "user"), None))


def _in_sight(frames: Sequence[StackFrame], start: int) -> Iterator[int]:
    # Yield the indexes of the frames whose variables the code at *start* sees: its own and, if it is a region's code,
    # the frame of the function around the region. The function around a task may be on another stack, or have ended.
    place: int | None = start
    while place is not None:
        yield place
        frame = frames[place]
        if frame.construct is None or frame.construct.kind != "parallel":
            return
        following = (n for n in range(place + 1, len(frames)) if frames[n].kind == "user")
        place = next(following, None)
        if place is not None and (frames[place].function, frames[place].file) != (frame.function, frame.file):
            return


def _named(frame: StackFrame, variable_name: VariableName) -> LocalRecord | None:
    # Variables of inner blocks come first.
    variable = next((variable for variable in frame.locals or () if variable.name == variable_name.name), None)
    if variable is not None and variable.text is None and variable_name.steps:
        raise NoAnswer(f"{variable_name.text}: {variable.unavailable.get('value', 'unknown')}")
    return variable


def _static(session: Session, name: str, thread: int, frame: StackFrame | None) -> VariableRecord:
    # Return the static variable: that of the frame's own file, otherwise one of the same name in another file.
    of_file = f"{frame.file.rpartition('/')[2]}::{name.lstrip('* ')}" if frame is not None and frame.file else None
    stars = name[: len(name) - len(name.lstrip("* "))]
    if of_file is not None and "::" not in name and not name.strip().startswith("/"):
        try:
            row = variables.ask(session, stars + of_file, thread=thread, is_static=True).rows[0]
            if row.mechanism is not None or row.text is not None:
                return row  # otherwise the file only declares it
        except BadInput:
            raise
        except OmpdError:
            pass  # the file has no variable of that name
    return variables.ask(session, name, thread=thread, is_static=True).rows[0]


def _not_found(name: str, frame: StackFrame, error: NoAnswer) -> NoAnswer:
    if frame.locals is None:
        reason = frame.unavailable.get("locals", "its variables are unknown")
        return NoAnswer(f"{name}: {reason}", hint=error.hint)
    return NoAnswer(
        f"no variable {name} in {frame.function or 'this function'}, in the functions that called it, or among static"
        " variables",
        hint=error.hint if error.hint and "ompd stack" not in error.hint else "ompd stack --locals lists them",
    )
