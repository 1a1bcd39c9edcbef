"""Records of locks, of barriers, and of threads that are gone: plain values, without handles.

An owner, a count or a generation comes with the word that was read, as evidence: its address and its value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ompd.errors import OmpdError
from ompd.records import record

# The types of lock variables in omp.h.
LOCK_TYPES = ("omp_lock_t", "omp_nest_lock_t")


@record
class LockState:
    """A lock that a thread waits for.

    ``address`` is the runtime's object. ``kind`` is ``lock``, ``critical``, ``atomic`` or ``ordered``, ``internal`` for
    a lock of the runtime's own, or ``doacross`` for an iteration of such a loop, whose ``owner`` executes it.
    ``owner`` is the native id of the holder, None if the runtime does not record it. ``waiters`` are the native ids of
    all waiting threads, first in line first, empty if the runtime keeps no list. ``variable`` is the address of the
    user's variable, None if it is unknown. ``is_unnamed`` is True for the critical section without a name.

    ``owner_address`` and ``owner_value`` are the word with the owner, None if there is no such word or no owner.
    ``owner_gone`` describes an owner that no thread executes: a thread that has ended, or a task that is over.
    ``owner`` is then the thread that had the task, None if that has ended, too. ``owner_gone`` is None if the owner
    exists or is unknown. ``owner_fault`` says why the word cannot be true; the owner is then unknown. ``name`` is the
    runtime's name of a lock of its own, None without symbols, or the name of the iteration. ``is_searched`` is True if
    the lock is only the one lock among the words of the thread's registers and stack, if the thread may have got it
    just now, or if the iteration may be done. ``loop`` is the address of what the threads of one doacross loop share.
    ``iteration`` is the number of its iteration in sequential order, from 0. Both are None if unknown, and for other
    kinds.
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
    loop: int | None = None
    iteration: int | None = None


@record
class BarrierState:
    """A barrier at which threads of a team wait for the others of the team.

    A runtime may keep several for one team, such as one for the region's end and one for all others: threads at
    different barriers wait for ever. ``present`` are the native ids of the threads that have arrived and were not
    released, ``missing`` are those of the team's other threads, both by thread number. ``doubt`` says why that is
    uncertain, None if it is certain: with a doubt, do not show ``missing``. ``flags`` are bits of the word on which
    threads sleep there; they change without a release.

    ``address`` is that of the runtime's word that counts arrivals at this barrier, and identifies the barrier;
    ``value`` is the value of the word. ``generation`` is the number of times that the team has passed this barrier, or
    any of its barriers if they share a count; it may begin with any number. A barrier with the same address and
    generation at two moments was not passed in between. Each is None if the runtime has no such word, or its place is
    unknown.
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
    """A thread of a runtime that the process does not have: it has ended, or fork() has left it in the parent.

    ``identifier`` is the runtime's ``pthread_t``, None if it is 0 or not kept. ``address`` is the address of the
    runtime's descriptor, or of its entry in the runtime's pool. ``thread_num`` is its number in the pool, None if the
    runtime does not number it there.
    """

    address: int
    identifier: int | None = None
    thread_num: int | None = None
