"""Watches a command until it ends, and decides when to ask why it does not go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol

from ompd.records import record
from ompd.run.activity import Activity, descendants
from ompd.run.command import RunningCommand

if TYPE_CHECKING:
    from ompd.run.looking import Seen

Then = Literal["kill", "continue", "core", "wait"]

# At most a two-hundredth of a processor is spent on watching.
_SHARE = 0.005
_SHORTEST, _LONGEST = 0.2, 5.0  # seconds between two looks at /proc
_GRACE = 10.0  # seconds that processes have to end after the first signal
_MOST_DOUBLED = 10


@record
class Plan:
    """When to ask why, and what to do then. Durations are in seconds.

    ``stall`` is how long nothing may move, None for ever. ``timeout`` is how long the command may run, None for ever.
    ``then`` says what happens to the command when it is stuck or its time is over. ``every`` is the time between two
    verdicts that are kept, None to keep none.
    """

    stall: float | None
    timeout: float | None
    then: Then
    every: float | None = None


class Teller(Protocol):
    """Tells the user what was seen."""

    def tell(self, reason: str, seen: Sequence[Seen], *, is_end: bool) -> None:
        """Print and save the verdicts.

        :param reason: why the processes were looked at
        :param is_end: whether the command is stuck or its time is over
        """

    def keep(self, seen: Sequence[Seen]) -> None:
        """Keep the verdicts of a regular look."""

    def say(self, text: str) -> None:
        """Print a line."""


class Patience:
    """Says when it is time to ask why, and becomes twice as long each time the answer was that nothing is stuck.

    :param stall: seconds in which nothing may move
    """

    def __init__(self, stall: float) -> None:
        self._stall = stall
        self._doubled = 0

    def reason(self, activity: Activity) -> str | None:
        """Return why it is time to ask, None if it is not.

        Processes that use processors and do nothing else may compute, or spin. Only a look shows which.
        """
        patience = self._stall * 2**self._doubled
        if activity.unchanged < self._stall:
            self._doubled = 0
        elif activity.still >= patience:
            return f"nothing has moved for {activity.still:.0f} s"
        elif activity.unchanged >= 2 * patience:
            return f"nothing but processors was used for {activity.unchanged:.0f} s"
        return None

    def double(self) -> None:
        """Ask after twice the time from now on, until something moves."""
        self._doubled = min(self._doubled + 1, _MOST_DOUBLED)


def interval(activity: Activity, shortest: float) -> float:
    """Return the seconds to wait before the next look at /proc.

    :param shortest: the shortest time in seconds after which something has to be noticed
    """
    return min(max(shortest / 20, _SHORTEST, activity.cost / _SHARE), _LONGEST)


class Watch:
    """A command under watch."""

    def __init__(self, command: RunningCommand, plan: Plan, teller: Teller) -> None:
        self._command, self._plan, self._teller = command, plan, teller
        self._activity = Activity(command.process_id)
        self._begin = time.monotonic()
        self._patience = Patience(plan.stall) if plan.stall is not None else None
        self._deadline = self._begin + plan.timeout if plan.timeout is not None else None
        self._is_over = False  # whether the watch has ended the command, or watches it no more
        self._next_kept = self._begin + (plan.every or 0)
        self.ended_after: Sequence[Seen] | None = None
        """The look after which the watch ended the command, None if the watch did not end it."""

    def until_end(self) -> None:
        """Watch the command until it has ended."""
        while self._command.wait(self._interval()) is None:
            self._activity.look()
            now, plan = time.monotonic(), self._plan
            if plan.every is not None and now >= self._next_kept:
                self._next_kept = now + plan.every
                self._teller.keep(self._look())
            if self._is_over:
                continue
            if self._deadline is not None and now >= self._deadline:
                self._deadline = None
                self._over(f"it has run for {plan.timeout:g} s", self._look())
            elif self._patience is not None:
                self._check(self._patience)

    def _interval(self) -> float:
        limits = [limit for limit in (self._plan.stall, self._plan.every) if limit is not None]
        seconds = interval(self._activity, min(limits, default=_LONGEST * 20))
        return seconds if self._deadline is None else min(seconds, max(self._deadline - time.monotonic(), 0.01))

    def _check(self, patience: Patience) -> None:
        reason = patience.reason(self._activity)
        if reason is None:
            return
        seen = self._look()
        if any(process.is_stuck for process in seen):
            self._over(reason, seen)
            return
        patience.double()
        if self._activity.still >= self._activity.unchanged / 2:
            self._teller.tell(reason, seen, is_end=False)

    def _look(self) -> list[Seen]:
        from ompd.run.looking import look_at

        return look_at(self._command.process_id)

    def _over(self, reason: str, seen: Sequence[Seen]) -> None:
        then = self._plan.then
        self._teller.tell(reason, seen, is_end=True)
        if then == "continue":
            self._activity.begin_anew()
            if self._patience is not None:
                self._patience.double()
        elif then == "wait":
            self._is_over = True
            self._teller.say(f"the command goes on, as process {self._command.process_id}, and is not watched any more")
        else:
            self._is_over, self.ended_after = True, seen
            self._end_command(signal.SIGABRT if then == "core" else signal.SIGTERM)

    def _end_command(self, number: signal.Signals) -> None:
        # All descendants are listed before the first signal: without their parent they could not be found later. A
        # descriptor never means another process that got the same number.
        opened = []
        for process in descendants(self._command.process_id):
            with suppress(OSError):  # it has ended
                opened.append(os.pidfd_open(process))
        try:
            _send(opened, number)
            _send(opened, signal.SIGCONT)
            deadline = time.monotonic() + _GRACE
            self._command.wait(_GRACE)
            while time.monotonic() < deadline and _send(opened, 0):
                time.sleep(_SHORTEST)
            _send(opened, signal.SIGKILL)
            self._command.wait(_GRACE)
        finally:
            for descriptor in opened:
                os.close(descriptor)


def _send(opened: Sequence[int], number: int) -> int:
    # Send a signal to processes, and return how many of them have not ended.
    sent = 0
    for descriptor in opened:
        with suppress(OSError):
            signal.pidfd_send_signal(descriptor, number)
            sent += 1
    return sent
