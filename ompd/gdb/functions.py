"""``$_ompd_thread_num()``, ``$_ompd_team_size()`` and ``$_ompd_level()``: numbers of the selected thread, for
expressions and for conditions of breakpoints.

When gdb evaluates a condition, only the thread at the breakpoint has stopped. The other threads still run and change
memory, and their registers cannot be read. So these functions use only data of the selected thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import OmpdError
from ompd.gdb.debugger import Gdb, writable
from ompd.questions.numbers import Numbers, numbers_of
from ompd.render.words import clean
from ompd.safety.isolation import Isolation

_HELP: Mapping[str, str] = {
    "thread_num": "The OpenMP number of the selected thread in the team of its innermost region, or with a level as"
    " argument in that of the region at that level; -1 of a thread that is in no such team.",
    "team_size": "How many threads are in the team of the selected thread; 0 of a thread that is in no team.",
    "level": "The level of the innermost region that the selected thread is in; 0 outside of all.",
}


def add_functions(debugger: Gdb, isolation: Isolation) -> None:
    """Add the functions to gdb."""

    class Function(gdb.Function):  # type: ignore[misc, unused-ignore]
        def __init__(self, number: str) -> None:
            self.__doc__ = _HELP[number]
            self._number = number
            super().__init__(f"_ompd_{number}")

        @isolation
        def invoke(self, *arguments: Any) -> int:
            takes_level = self._number == "thread_num"
            if len(arguments) > takes_level:
                allowed = "a level at most" if takes_level else "no arguments"
                raise gdb.GdbError(f"$_ompd_{self._number} takes {allowed}")
            level = int(arguments[0]) if arguments else None
            numbers = _numbers_of_selected(debugger, with_path=level is not None)
            if takes_level:
                return numbers.at(level)
            return numbers.size if self._number == "team_size" else numbers.level

    for number in _HELP:
        Function(number)


def _numbers_of_selected(debugger: Gdb, *, with_path: bool) -> Numbers:
    thread = thread_selected()
    if thread is None:
        return Numbers()
    try:
        return numbers_of(debugger.session_of_thread(), native_id(thread), with_path=with_path)
    except OmpdError as error:
        raise gdb.GdbError(writable(clean(f"ompd: {error}"))) from None
