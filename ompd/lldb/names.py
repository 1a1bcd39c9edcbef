"""Names of threads in LLDB's list and in editors. LLDB asks for them if the format of threads has
``${script.thread:lldb_script.thread_name}``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ompd.debugger.targets.lldb.target import stop_of
from ompd.frontends.selecting import names_of
from ompd.lldb.debugger import state_of


def thread_name(thread: Any, internal_dict: dict[str, Any]) -> str:
    """Return ``OMP 1/4`` for an ``SBThread``, or the system's name if the thread has no OpenMP number."""
    name = None
    with suppress(BaseException):  # LLDB must show the list even after an error here
        state, process = state_of(internal_dict), thread.GetProcess()
        if state.names is None or state.names[0] != stop_of(process):
            state.names = stop_of(process), names_of(state.session(process))
        name = state.names[1].get(thread.GetThreadID())
    return name or thread.GetName() or f"thread {thread.GetThreadID()}"
