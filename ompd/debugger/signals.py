"""What a signal says of the thread that took it: whether it failed, and where (Linux ``asm-generic/siginfo.h``)."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection

from ompd.binary.core.notes import SignalInfo
from ompd.errors import Unavailable

SI_KERNEL = 128
"""``si_code`` of a signal that the kernel sends without a reason of its own, and without an address."""
SI_TKILL = -6
"""``si_code`` of a signal that was sent to one thread: what ``abort()`` and ``raise()`` do."""

_WITH_ADDRESS = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP))
_FAULTS = _WITH_ADDRESS | {signal.SIGSYS}

RAISES = re.compile(r"_*(?:GI_+)?(?:raise|gsignal|abort|pthread_kill\w*|tg?kill|syscall)(?:@.*)?")
"""What the C library calls its functions that send a signal to a thread."""


def is_fault(info: SignalInfo) -> bool:
    """Return whether the kernel sent the signal for what the thread itself did, and noted an address."""
    return info.code is not None and 0 < info.code != SI_KERNEL and info.number in _WITH_ADDRESS


def has_failed(info: SignalInfo, own: Collection[int], has_raised: Callable[[], bool]) -> bool:
    """Return whether the thread that took the signal failed: it did what the kernel forbids, or it sent the signal to
    itself, as ``abort()`` does. A signal from elsewhere says nothing of the thread that took it.

    :param own: the process's id, and those of its threads
    :param has_raised: returns whether the thread's own code raised the signal, and not a handler that received it
    :raises Unavailable: if the target does not say where the signal came from
    """
    if info.code is None:
        raise Unavailable("the target does not say where the signal came from (si_code)")
    if info.code == SI_TKILL:
        # A fault that a handler raises again is where the thread was interrupted: the thread has failed there.
        return info.sender in own and (info.number in _FAULTS or has_raised())
    return info.code > 0 and info.number in _FAULTS


def fault_address(info: SignalInfo) -> int | None:
    """Return the address of a fault, ``si_addr``: what was accessed, of SIGILL, SIGFPE and SIGTRAP
    the instruction. None for signals that have none.

    :raises Unavailable: if it exists, and neither kernel nor target says it
    """
    if info.number not in _WITH_ADDRESS:
        return None
    if info.code is None:
        raise Unavailable("the target does not have the signal's address (si_addr)")
    if info.code == SI_KERNEL and info.number != signal.SIGTRAP:
        # x86: an address that is not canonical, among others. What stands in si_addr is 0, and not the address.
        raise Unavailable("the kernel does not give the address of this fault (SI_KERNEL)")
    return info.address if is_fault(info) else None
