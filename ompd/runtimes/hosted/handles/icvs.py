"""Internal control variables, as a library has them: as numbers, as texts, or both.

What a number means the specification says: truth, or a place in a list of names. Libraries that have a text for a
variable may have the numbers in it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ompd.contract.helpers.icv_readers import binding
from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription
from ompd.errors import BadInput, Unavailable
from ompd.runtimes.hosted.api import Icv
from ompd.runtimes.hosted.handles.asking import Asked
from ompd.runtimes.hosted.handles.regions import Region
from ompd.runtimes.hosted.handles.tasks import Task
from ompd.runtimes.hosted.handles.threads import Thread, Threads

_FLAGS = {
    *("dyn-var", "nest-var", "cancel-var", "debug-var", "display-affinity-var"),
    *("final-task-var", "ompd-final-var", "ompd-final-task-var"),
    *("implicit-task-var", "ompd-implicit-var", "ompd-implicit-task-var", "explicit-task-var"),
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
# kmp_proc_bind_t of LLVM's runtime goes on where omp_proc_bind_t ends.
_OWN_BINDINGS: Mapping[str, str] = {"5": "intel", "6": "default"}


def describe(listed: Sequence[Icv]) -> list[IcvDescription]:
    """Return the variables that a library lists; of one name the first, and none of a scope that OpenMP does not
    have.
    """
    found: dict[str, IcvDescription] = {}
    for icv in listed:
        if isinstance(icv.scope, Scope):
            found.setdefault(icv.name, IcvDescription(icv.name, icv.scope))
    return list(found.values())


def read(space: Threads, name: str, handle: object) -> int | str:
    """Return the value of a variable; see :meth:`ompd.contract.plugin.AddressSpace.icv`."""
    icv = next((icv for icv in space.icv_list if icv.name == name and isinstance(icv.scope, Scope)), None)
    if icv is None:
        raise BadInput(f"no internal control variable {name!r}")
    scope = Scope(icv.scope)
    if not isinstance(handle, _HANDLES.get(scope, type(space))):
        raise BadInput(f"{name} is a variable of scope {scope.name.lower()}")
    asked = handle if isinstance(handle, Asked) else space.itself
    return _value(space, icv, scope, asked, _like(space, asked))


def _like(space: Threads, handle: Asked) -> Sequence[Asked]:
    # The other handles whose value of this variable will be wanted, too.
    if isinstance(handle, Thread):
        return space.threads()
    if isinstance(handle, Region):
        return space.known_regions
    return space.known_tasks if isinstance(handle, Task) else ()


def _value(space: Threads, icv: Icv, scope: Scope, handle: Asked, others: Sequence[Asked]) -> int | str:
    first: int | None = None
    refusal: Unavailable | None = None
    try:
        word = space.fact(
            handle, others, icv.number, lambda batch, ref: batch.get_icv_from_scope(ref, scope, icv.number)
        )
        if word.is_whole:
            return _meaning(icv.name, word.value)
        first = word.value
    except Unavailable as error:
        refusal = error
    try:
        text = space.fact(
            handle,
            others,
            ("text", icv.number),
            lambda batch, ref: batch.get_icv_string_from_scope(ref, scope, icv.number),
        )
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
    # A schedule without chunks has 0 there.
    return text.removesuffix(",0") if name in ("run-sched-var", "def-sched-var") else text


def _binding(word: str) -> str:
    if not _WHOLE.fullmatch(word):
        return word
    try:
        return _OWN_BINDINGS.get(word) or binding(int(word))
    except Unavailable:
        return word
