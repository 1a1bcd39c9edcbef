"""The variables of a stack's frames, and their sharing by constructs according to debug information.

clang makes a function of a region, and passes the region's variables as parameters of the same names: shared ones by
reference, firstprivate ones by value. It marks variables that it makes for clauses as artificial. The function that
gcc makes has one parameter without a name, through which it reaches the variables, under their own names. A copy in
gcc's function has the name of a variable of the enclosing function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ompd import naming
from ompd.model import LocalRecord, LoopIteration, StackFrame

if TYPE_CHECKING:
    from ompd.contract.dmpl import NamedVariable
    from ompd.debugger.variables.locals import FunctionLocals, LocalValue
    from ompd.questions.stacks.names import RuntimeNames

_TASKS = ("task", "taskloop")
_OTHER_COPY = "the debug information gives the location of a copy that the loop does not use"


def add(
    frame: StackFrame,
    name: str | None,
    variables: FunctionLocals | None,
    names: RuntimeNames,
) -> StackFrame:
    """Return the frame with its variables, or with the reason why they are unknown.

    :param name: the linker's name of the frame's function; for code of a construct it shows the compiler
    :param variables: the variables of that function, None if they were not read
    :param names: knows the original name and sharing of variables that a compiler renamed
    """
    if variables is None:
        return frame
    if variables.fault is not None:
        return replace(frame, unavailable={**frame.unavailable, "locals": variables.fault})
    is_body = frame.construct is not None and name is not None and naming.parse_outlined(name) is not None
    kind = frame.construct.kind if frame.construct is not None else None
    if not is_body or name is None:
        rows = [_record(variable, None) for variable in variables.variables if _is_users(variable)]
    elif naming.is_by_gcc(name):
        rows = _of_gcc(variables.variables, kind)
    else:
        rows = _of_clang(variables.variables, kind)
    return replace(frame, locals=tuple(_as_named(row, names.variable(row.name)) for row in rows))


def _as_named(row: LocalRecord, variable: NamedVariable | None) -> LocalRecord:
    if variable is None:
        return row
    return replace(row, name=variable.name, sharing=variable.sharing.name.lower())


def _is_users(variable: LocalValue) -> bool:
    return bool(variable.name) and not naming.is_own_variable(variable.name)


def _of_gcc(variables: Sequence[LocalValue], kind: str | None) -> list[LocalRecord]:
    # A loop variable occurs twice. The outer one is left out: it has no location, or that of an unused copy.
    rows = []
    for variable in variables:
        is_repeated = not variable.is_copy and any(
            (v.name, v.line) == (variable.name, variable.line) and v.depth > variable.depth for v in variables
        )
        if _is_users(variable) and not is_repeated:
            rows.append(_record(variable, _sharing_by_gcc(variable, kind)))
    return rows


def _sharing_by_gcc(variable: LocalValue, kind: str | None) -> str | None:
    if variable.storage in ("static", "thread"):
        return _declared_inside(variable)
    if variable.derefs is not None:
        if kind == "parallel" or variable.derefs:
            return "shared"
        # The variable is part of the task's copied data. The target of a copied reference is unknown.
        return "firstprivate" if kind in _TASKS and variable.referred is None else None
    if variable.is_artificial or (variable.is_copy and variable.referred is not None):
        return None
    return "copy" if variable.is_copy else _declared_inside(variable)


def _of_clang(variables: Sequence[LocalValue], kind: str | None) -> list[LocalRecord]:
    parameters = {v.name for v in variables if v.is_parameter}
    depth = next((v.depth for v in variables if v.name == naming.ITERATION), None)
    block = {v.name: v for v in variables if v.depth == depth}
    counters = [
        v.name
        for v in block.values()
        if v.is_artificial and not v.is_parameter and _is_users(v) and v.name not in parameters
    ]
    # With several candidates (collapsed loops, private variables) the loop's variable cannot be distinguished.
    counter = counters[0] if len(counters) == 1 else None
    rows = []
    for variable in variables:
        if not _is_users(variable):
            continue
        is_counter = variable.depth == depth and variable.name == counter and not variable.is_parameter
        row = _record(variable, "loop" if is_counter else _sharing_by_clang(variable, kind))
        if (
            variable.depth == depth
            and variable.name in counters
            and variable.address is not None
            and naming.CAPTURED in block
        ):
            # Here the debug information describes a copy of the same name, by which clang tests whether there is any
            # iteration. So the value is left out.
            reasons = dict.fromkeys(("value", "text", "address"), _OTHER_COPY)
            row = replace(row, value=None, text=None, truncated=False, address=None, unavailable=reasons)
        rows.append(replace(row, iteration=_iteration(block)) if is_counter else row)
    return rows


def _sharing_by_clang(variable: LocalValue, kind: str | None) -> str | None:
    if variable.name == "this":
        return None
    if variable.is_parameter:
        if variable.is_artificial:
            return None
        return "shared" if variable.referred is not None else "firstprivate"
    if kind in _TASKS and not variable.is_artificial and variable.depth == 0:
        return None  # captured by an unknown clause
    return "private" if variable.is_artificial else _declared_inside(variable)


def _declared_inside(variable: LocalValue) -> str | None:
    # Return the sharing of a variable that is declared inside of a construct: private, but shared if it is static.
    return {"frame": "private", "static": "shared"}.get(variable.storage)


def _iteration(block: dict[str, LocalValue]) -> LoopIteration | None:
    numbers = []
    for name in (naming.ITERATION, naming.FIRST_ITERATION, naming.LAST_ITERATION):
        variable = block.get(name)
        value = variable.shown.value if variable is not None and variable.shown is not None else None
        if not isinstance(value, int):
            return None
        numbers.append(value)
    number, first, last = numbers
    return LoopIteration(number, first, last) if first <= number <= last else None


def _record(variable: LocalValue, sharing: str | None) -> LocalRecord:
    shown = variable.shown
    unavailable: dict[str, str] = {}
    if shown is None:
        unavailable = dict.fromkeys(("value", "text"), variable.fault or "")
        if variable.address is None:
            unavailable["address"] = variable.fault or ""
    if variable.type is None:
        unavailable["type"] = "no debug information gives it"
    return LocalRecord(
        name=variable.name,
        type=variable.referred if variable.referred is not None and sharing is not None else variable.type,
        value=shown.value if shown is not None else None,
        text=shown.text if shown is not None else None,
        truncated=shown.truncated if shown is not None else False,
        address=variable.address,
        sharing=sharing,
        line=variable.line,
        parameter=variable.is_parameter,
        unavailable=unavailable,
    )
