"""Records of locks, barriers, and threads that no longer exist: plain values, without handles.

As evidence, an owner, a count or a generation comes with the address and the value of the word it was read from.
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
    one of the runtime's own locks, or ``doacross`` for an iteration of a doacross loop, whose ``owner`` is the thread
    that executes it. ``owner`` is the native id of the holder, None if the runtime does not record it. ``waiters`` are
    the native ids of all waiting threads, first in line first, empty if the runtime keeps no list. ``variable`` is the
    address of the user's variable, None if it is unknown. ``is_unnamed`` is True for the critical section without a
    name.

    ``owner_address`` and ``owner_value`` are address and value of the word with the owner, None if there is no such
    word or no owner. ``owner_gone`` describes an owner that no longer exists: a thread that has ended, or a task that
    is over. ``owner`` is then the thread that executed the task, None if that has ended, too. ``owner_gone`` is None if
    the owner exists or is unknown. ``owner_fault`` is the reason why the word cannot be true; the owner is then
    unknown. ``name`` is the runtime's name of one of its own locks, None without symbols, or the name of the iteration.
    ``is_searched`` marks a doubtful wait: the lock is merely the only one among the words of the thread's registers and
    stack, the thread may have just acquired it, or the iteration may be done. ``loop`` is the address of the structure
    that the threads of one doacross loop share. ``iteration`` is the number of the loop's iteration in sequential
    order, from 0. Both are None if unknown, and for other kinds.
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
    """A barrier at which threads of a team wait for the team's other threads.

    A runtime may keep several barriers for one team, such as one for the region's end and one for all other barriers.
    Threads at different barriers wait for ever. ``present`` are the native ids of the threads that have arrived and
    were not released, ``missing`` are the native ids of the team's other threads, both by thread number. ``doubt`` is
    the reason why these are uncertain, None if they are certain. With a doubt, do not show ``missing``. ``flags`` are
    those bits of the word on which threads sleep that may change without a release.

    The runtime's word at ``address`` has the ``value`` and counts arrivals at this barrier; the address identifies the
    barrier. ``generation`` is the number of times that the team has passed this barrier, or any of its
    barriers if they share a count; it may begin with any number. If a barrier has the same address and generation at
    two moments, the team has not passed it in between. Each is None if the runtime has no such word, or if the word's
    place is unknown.
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

        :param team: the native ids of all threads of the team, in the order of their numbers
        :param word: ``address``, ``value`` and ``generation``, if they are known
        """
        present_threads = tuple(thread for thread in team if thread in present)
        missing = tuple(thread for thread in team if thread not in present)
        return cls(present_threads, missing, doubt, flags, *(word or (None, None, None)))


@record
class GoneThread:
    """A thread that a runtime lists but the process does not have, because it has ended or because fork() has left it
    in the parent.

    ``identifier`` is the runtime's ``pthread_t``, None if the ``pthread_t`` is 0 or the runtime does not keep it.
    ``address`` is the address of the runtime's descriptor, or of its entry in the runtime's pool. ``thread_num`` is the
    thread's number in the pool, None if the runtime does not number its pool.
    """

    address: int
    identifier: int | None = None
    thread_num: int | None = None
