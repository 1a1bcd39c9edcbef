"""What a look at a running process sees: plain values, as few as a look can read in a millisecond or two.

Names, files and lines are found once, after the last look (:class:`Named`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ompd.model import Place, RegionFunction
from ompd.records import record

Code = tuple[int, ...]
"""The call sites of a stack's frames, innermost first."""


@record
class SeenLock:
    """A lock for which a thread waits. ``kind`` is as in a thread's wait, ``owner`` the native id of the holder, None
    if it is unknown. ``variable`` is the address of the user's variable, None if it is unknown.
    """

    kind: str
    address: int
    owner: int | None = None
    variable: int | None = None
    is_unnamed: bool = False


@record(kw_only=True)
class SeenThread:
    """An OpenMP thread at one moment.

    ``region`` is the index of its innermost region with more than one thread in the moment's ``regions``, None outside
    of such regions. ``thread_num`` is its number there. ``state`` is OMPT's name of its state, None if it is unknown.
    ``call`` is the number of the system call in which it sleeps, None if it does not sleep. ``code`` is empty if its
    stack is unknown. ``lacks_processor`` is True if it did not stop, because it has no processor. ``in_task`` is True
    if it executes an explicit task.
    """

    native_thread_id: int
    thread_num: int | None = None
    region: int | None = None
    state: str | None = None
    call: int | None = None
    code: Code = ()
    lock: SeenLock | None = None
    lacks_processor: bool = False
    in_task: bool = False


@record
class SeenRegion:
    """A parallel region at one moment.

    ``entry`` is the address of its code, None if no thread was in it. ``begun_at`` are the call sites of the primary
    thread's frames outside of the region, innermost first, empty if they are unknown. ``size`` is its number of
    threads. ``barrier`` identifies the word that counts its barriers and is the number of barriers that were passed,
    None if it is unknown. ``team`` identifies its team, which may execute another region later; empty if unknown.
    """

    entry: int | None
    begun_at: Code
    size: int
    barrier: tuple[int, int] | None = None
    team: str = ""


@record
class SeenMoment:
    """One moment: its time in ``seconds`` since the beginning, its OpenMP threads and their regions."""

    seconds: float
    threads: tuple[SeenThread, ...]
    regions: tuple[SeenRegion, ...]


@record
class Named:
    """The names of what was seen.

    ``frames`` are the user's frames of each stack, innermost first. ``constructs`` are the constructs by the address of
    their code. ``calls`` are the kernel's names of system calls by number. ``locks`` are the names of locks by address.
    """

    frames: Mapping[Code, tuple[Place, ...]]
    constructs: Mapping[int, RegionFunction]
    calls: Mapping[int, str]
    locks: Mapping[int, str]
