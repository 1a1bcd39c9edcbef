"""Internal control variables from a library, which returns numbers, texts, or both.

The specification defines the meaning of a number: a truth value, or an index in a list of names. If a library returns
text, the text may contain such a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.contract.helpers.icv_readers import binding
from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription
from ompd.errors import BadInput, Unavailable
from ompd.runtimes.hosted.api import Batch, Icv
from ompd.runtimes.hosted.handles.queries import Handle
from ompd.runtimes.hosted.handles.regions import Region
from ompd.runtimes.hosted.handles.tasks import Task
from ompd.runtimes.hosted.handles.threads import Thread

if TYPE_CHECKING:
    from ompd.runtimes.hosted.handles.space import HostedSpace

_FLAGS = {
    "dyn-var",
    "nest-var",
    "cancel-var",
    "debug-var",
    "display-affinity-var",
    "final-task-var",
    "ompd-final-var",
    "ompd-final-task-var",
    "implicit-task-var",
    "ompd-implicit-var",
    "ompd-implicit-task-var",
    "explicit-task-var",
}
_HANDLES: Mapping[Scope, type] = {
    Scope.THREAD: Thread,
    Scope.IMPLICIT_TASK: Task,
    Scope.TASK: Task,
    Scope.PARALLEL: Region,
    Scope.TEAMS: Region,
    Scope.TARGET: Region,
}
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
# Values of kmp_proc_bind_t in LLVM's runtime that omp_proc_bind_t does not have.
_OWN_BINDINGS: Mapping[str, str] = {"5": "intel", "6": "default"}


def describe(listed: Sequence[Icv]) -> list[IcvDescription]:
    """Return the variables that a library lists and whose scope OpenMP defines, the first one of each name."""
    descriptions: dict[str, IcvDescription] = {}
    for icv in listed:
        if isinstance(icv.scope, Scope):
            descriptions.setdefault(icv.name, IcvDescription(icv.name, icv.scope))
    return list(descriptions.values())


def read(space: HostedSpace, name: str, handle: object) -> int | str:
    """Return the value of a variable for a handle of its scope.

    :raises BadInput: if there is no such variable, or *handle* has another scope
    """
    icv = next((icv for icv in space.icv_list if icv.name == name and isinstance(icv.scope, Scope)), None)
    if icv is None:
        raise BadInput(f"no internal control variable {name!r}")
    scope = Scope(icv.scope)
    if not isinstance(handle, _HANDLES.get(scope, type(space))):
        raise BadInput(f"{name} is a variable of scope {scope.name.lower()}")
    return _value(icv, scope, handle if isinstance(handle, Handle) else space)


def _value(icv: Icv, scope: Scope, handle: Handle) -> int | str:
    first: int | None = None
    refusal: Unavailable | None = None
    try:
        word = handle.fact(Batch.get_icv_from_scope, scope, icv.number)
        if word.is_whole:
            return _meaning(icv.name, word.value)
        first = word.value
    except Unavailable as error:
        refusal = error
    try:
        text = handle.fact(Batch.get_icv_string_from_scope, scope, icv.number)
    except Unavailable as error:
        if first is None:
            raise refusal or error from None
        raise Unavailable(f"{icv.name} is a list that begins with {first}: {error}") from error
    return _from_text(icv.name, text)


def _meaning(name: str, number: int) -> int | str:
    if name in _FLAGS and number in (0, 1):
        return bool(number)
    if name == "bind-var":
        return _binding(str(number))
    return number


def _from_text(name: str, text: str) -> int | str:
    if name == "bind-var":
        return ",".join(map(_binding, text.split(",")))
    if name == "nthreads-var" and _WHOLE.fullmatch(text):
        return int(text)
    # The text of a schedule without a chunk size ends with ",0".
    return text.removesuffix(",0") if name in ("run-sched-var", "def-sched-var") else text


def _binding(word: str) -> str:
    if not _WHOLE.fullmatch(word):
        return word
    try:
        return _OWN_BINDINGS.get(word) or binding(int(word))
    except Unavailable:
        return word
