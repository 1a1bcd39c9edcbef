"""``icvs`` as a table, with a line for each value."""

from __future__ import annotations

from ompd.model import Answer, IcvRecord
from ompd.render.words import Line, Table, clean, format_field, format_list


def icvs_table(answer: Answer[IcvRecord], *, unfold: bool = False, display: bool = False) -> Table:
    """Return the table of ``icvs``: a line for each value of each variable, with the handles that have it.

    A variable with two names has lines for both only if *unfold*; display control variables are shown only if
    *display*.
    """
    names = {row.name for row in answer.rows}
    groups: dict[tuple[str, str, str], dict[str | int, tuple[str, list[str]]]] = {}
    for row in answer.rows:
        twice = row.name.startswith("ompd-") and _later_name(row.name) in names
        if (twice and not unfold) or (row.scope == "display" and not display):
            continue
        values = groups.setdefault((row.runtime, row.name, row.scope), {})
        value = format_field(row, "value", _icv_value(row.value)) or '""'
        values.setdefault(len(values) if unfold else value, (value, []))[1].append(row.handle)
    many = len(answer.runtimes) > 1
    lines = []
    for (runtime, name, scope), values in groups.items():
        for value, handles in values.values():
            whose = "" if len(values) == 1 and not unfold else format_list(handles)
            cells = (name, scope.replace("_", " "), value, whose)
            lines.append(Line((clean(runtime), *cells) if many else cells))
    titles = ("ICV", "SCOPE", "VALUE", "OF")
    return Table(("RUNTIME", *titles) if many else titles, tuple(lines))


def _later_name(name: str) -> str:
    # OpenMP 5.1's names of OMPD's variables.
    plain = name.removeprefix("ompd-")
    return {"final-var": "final-task-var", "implicit-var": "implicit-task-var"}.get(plain, plain)


def _icv_value(value: int | bool | str | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
