"""What a plugin says of locks and barriers, and of threads that are gone: plain values, without handles.

Where an owner, a count or a generation was read, the word that was read is beside it, as evidence: its address, and its
value as the runtime has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ompd.errors import OmpdError
from ompd.records import record

# What omp.h calls the types of lock variables.
LOCK_TYPES = ("omp_lock_t", "omp_nest_lock_t")


@record
class LockState:
    """A lock that a thread waits for.

    ``address`` is the runtime's object, ``kind`` is ``lock``, ``critical``, ``atomic`` or ``ordered``, or ``internal``
    for one of the runtime's own; or ``doacross`` for an iteration of such a loop, whose ``owner`` is to execute it.
    ``owner`` is the native id of the thread that holds it, None if the runtime does not record it; ``waiters`` are
    those of all waiting threads, first in line first, empty if it keeps no list. ``variable`` is the address of the
    user's variable, None if it was not found. ``is_unnamed`` is True for the critical section without a name.

    ``owner_address`` and ``owner_value`` are the word that says who the owner is; both are None if there is none, or if
    it says that nobody is. ``owner_gone`` says what that word names where no thread executes it: a thread that has
    ended, a task that is over. ``owner`` is then the thread that had that task, None if that has ended, too. None where
    the owner is there, or is unknown. ``owner_fault`` says why that word cannot be true; then the owner is unknown.
    ``name`` is the runtime's own name of one of its own locks, None without symbols; or that of the iteration.
    ``is_searched`` is True if the lock is merely the only one among the words of the thread's registers and stack, or
    if the thread may have got it just now, or the iteration may be done.
    """

    address: int
    kind: str
    owner: int | None
    waiters: tuple[int, ...]
    variable: int | None = None
    is_unnamed: bool = False
    owner_address: int | None = None
    owner_value: int | None = None
    owner_gone: str | None = None
    owner_fault: OmpdError | None = None
    name: str | None = None
    is_searched: bool = False


@record
class BarrierState:
    """A barrier at which threads of a team wait for the others of the team.

    A runtime may keep several for one team, as one for the region's end and one for everything else: threads at
    different ones wait for ever. ``present`` are the native ids of the threads that have arrived and were not released,
    ``missing`` those of the team's other threads, both in the order of their numbers. So each thread of the team is in
    one of the two. ``doubt`` says why that is not certain, None if it is: with a doubt, do not show ``missing``.
    ``flags`` are the bits of the word on which threads sleep there that change without releasing anybody.

    ``address`` is that of the runtime's word that counts arrivals at this barrier, which names it, and ``value`` is
    what it holds. ``generation`` is how often the team has passed it, or, where its barriers share that count, any of
    them; it may begin anywhere. A barrier that two looks find with the same address and generation was not passed in
    between. Each is None if the runtime has no such word, or its place is unknown.
    """

    present: tuple[int, ...]
    missing: tuple[int, ...]
    doubt: str | None = None
    flags: int = 0
    address: int | None = None
    value: int | None = None
    generation: int | None = None

    @classmethod
    def gathering(
        cls,
        team: Sequence[int],
        present: Collection[int],
        doubt: str | None = None,
        flags: int = 0,
        word: tuple[int, int, int] | None = None,
    ) -> BarrierState:
        """Return the barrier at which the threads *present* of a *team* wait.

        :param team: the native ids of all its threads, in the order of their numbers
        :param word: address, value and generation, if they are known
        """
        here = tuple(thread for thread in team if thread in present)
        missing = tuple(thread for thread in team if thread not in present)
        return cls(here, missing, doubt, flags, *(word or (None, None, None)))


@record
class GoneThread:
    """A thread that a runtime counts among its own and that the process does not have: it has ended, or fork() has left
    it behind in the parent.

    ``identifier`` is what the runtime has recorded of it, as ``pthread_t``, None if it is 0 or not kept. ``address`` is
    that of the runtime's descriptor, or of the place in its pool that names it. ``thread_num`` is its number in the
    pool, None if the runtime does not number it there.
    """

    address: int
    identifier: int | None = None
    thread_num: int | None = None
