"""``$_ompd_thread_num()``, ``$_ompd_team_size()`` and ``$_ompd_level()``: numbers of the selected thread, for
expressions and for conditions of breakpoints.

When gdb evaluates a condition, only the thread at the breakpoint has stopped. The other threads still run and change
memory, and their registers cannot be read. So these functions use only data of the selected thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import OmpdError
from ompd.gdb.debugger import Gdb, writable
from ompd.questions.numbers import Numbers, numbers_of
from ompd.render.words import clean
from ompd.safety.isolation import Isolation

_TOLD = "of the selected thread in the team of its innermost region"
_FUNCTIONS: Mapping[str, str] = {
    "thread_num": f"The OpenMP number {_TOLD}, or with a level as argument in that of the region at that level;"
    " -1 of a thread that is in no such team.",
    "team_size": "How many threads are in the team of the selected thread; 0 of a thread that is in no team.",
    "level": "The level of the innermost region that the selected thread is in; 0 outside of all.",
}


def add_functions(debugger: Gdb, isolation: Isolation) -> None:
    """Add the functions to gdb."""

    def asked(tell: Callable[[Numbers, int | None], int]) -> Callable[[int | None], int]:
        def ask(level: int | None) -> int:
            try:
                thread = thread_selected()
                if thread is None:
                    return tell(Numbers(), level)
                session = debugger.session_of_thread()
                return tell(numbers_of(session, native_id(thread), with_path=level is not None), level)
            except OmpdError as error:
                raise gdb.GdbError(writable(clean(f"ompd: {error}"))) from None

        return isolation(ask)

    tells: Mapping[str, Callable[[Numbers, int | None], int]] = {
        "thread_num": lambda numbers, level: numbers.at(level),
        "team_size": lambda numbers, _level: numbers.size,
        "level": lambda numbers, _level: numbers.level,
    }
    for name, text in _FUNCTIONS.items():
        _add(f"_ompd_{name}", text, asked(tells[name]), takes_level=name == "thread_num")


def _add(name: str, text: str, ask: Callable[[int | None], int], *, takes_level: bool) -> None:
    class Made(gdb.Function):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.__doc__ = text
            super().__init__(name)

        def invoke(self, *arguments: Any) -> int:
            if len(arguments) > takes_level:
                raise gdb.GdbError(f"${name} takes {'a level at most' if takes_level else 'no arguments'}")
            return ask(int(arguments[0]) if arguments else None)

    Made()
