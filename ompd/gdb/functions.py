"""``$_ompd_thread_num()``, ``$_ompd_team_size()`` and ``$_ompd_level()``: what the selected thread is, for expressions
and for conditions of breakpoints.

While gdb evaluates a condition, only the thread that came to the breakpoint has stopped. Of the others nothing but
memory can be read then, and that changes: what is asked here is the thread's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.targets.gdb.target import native_id
from ompd.errors import NotInitialised, OmpdError
from ompd.gdb.prompts import State, writable
from ompd.inspection import Inspection
from ompd.render.words import clean
from ompd.safety.isolation import Isolation

_NO_THREAD = (-1, 0, 0)  # of a thread that is none of OpenMP's

_TOLD = "of the selected thread in the team of its innermost region"
_FUNCTIONS: Mapping[str, str] = {
    "thread_num": f"The OpenMP number {_TOLD}; -1 of a thread that is in no team.",
    "team_size": "How many threads are in the team of the selected thread; 0 of a thread that is in no team.",
    "level": "The level of the innermost region that the selected thread is in; 0 outside of all.",
}


def _numbers(session: Inspection, thread: int) -> tuple[int, int, int]:
    # The thread's number, the size of its team and the level: of the innermost of several runtimes.
    best = _NO_THREAD
    for runtime in session.runtimes:
        if runtime.space is None:
            if isinstance(runtime.fault, NotInitialised):
                continue
            raise runtime.fault or OmpdError(f"{runtime.id} cannot be read")
        try:
            handle = runtime.space.thread_by_native_id(ThreadIdKind.LWP, thread)
        except NotInitialised:
            continue
        number = handle.thread_num() if handle is not None else None
        if handle is None or number is None:
            continue
        region = handle.current_parallel()
        found = (number, region.size(), region.level()) if region is not None else (number, 1, 0)
        best = max(best, found, key=lambda numbers: numbers[2] if numbers is not _NO_THREAD else -1)
    return best


def add_functions(state: State, isolation: Isolation) -> None:
    """Add the functions to gdb."""

    def asked(which: int) -> Callable[[], int]:
        def ask() -> int:
            try:
                thread = gdb.selected_thread()
                if thread is None:
                    return _NO_THREAD[which]
                return _numbers(state.session_of_thread(), native_id(thread))[which]
            except OmpdError as error:
                raise gdb.GdbError(writable(clean(f"ompd: {error}"))) from None

        return isolation(ask)

    for which, (name, text) in enumerate(_FUNCTIONS.items()):
        _add(f"_ompd_{name}", text, asked(which))


def _add(name: str, text: str, ask: Callable[[], int]) -> None:
    class Made(gdb.Function):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.__doc__ = text
            super().__init__(name)

        def invoke(self, *arguments: Any) -> int:
            if arguments:
                raise gdb.GdbError(f"${name} takes no arguments")
            return ask()

    Made()
