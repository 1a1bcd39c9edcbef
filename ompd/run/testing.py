"""The helper process of ``pytest --ompd-stall``: watches the process that runs the tests."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from ompd.pytest_plugin import FAIL, STACKS, report_file
from ompd.run.activity import Activity
from ompd.run.watching import Patience, interval

if TYPE_CHECKING:
    from ompd.run.looking import Seen

_WRITTEN = 0.3  # seconds in which Python's stacks are written
_GRACE = 15.0  # seconds in which a test that is told to fail has to end


class _Tests:
    # What the process that runs the tests says on standard input: "begin" and the test's node id, or "end".

    def __init__(self) -> None:
        self.current: str | None = None
        self.is_over = False
        self._rest = b""

    def is_news(self, seconds: float) -> bool:
        """Wait for a line, and return whether a test began or ended."""
        if not select.select([0], [], [], seconds)[0]:
            return False
        data = os.read(0, 1 << 16)
        self.is_over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, test = line.decode("utf-8", "surrogateescape").partition(" ")
            self.current = test if word == "begin" else None
        return True


def main() -> None:
    """Watch the process until it ends."""
    process_id, stall, folder = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    activity = Activity(process_id, without=os.getpid())
    tests, patience = _Tests(), Patience(stall)
    reported: frozenset[int] = frozenset()
    while not tests.is_over:
        if tests.is_news(interval(activity, stall)):
            activity.look()
            activity.begin_anew()
            patience = Patience(stall)
            continue
        activity.look()
        reason = patience.reason(activity) if tests.current is not None else None
        if reason is None or tests.current is None:
            continue
        # Threads that an earlier test has left stuck are not the fault of this one.
        stuck = [process for process in _look(process_id) if process.is_stuck and not _threads(process) <= reported]
        reported = reported.union(*map(_threads, stuck))
        if stuck:
            _fail(process_id, folder, tests, f"{reason}: {_first_sentence(stuck[0])}", _text(stuck))
        patience.double()


def _look(process_id: int) -> Sequence[Seen]:
    from ompd.run.looking import look_at

    return look_at(process_id)


def _threads(seen: Seen) -> frozenset[int]:
    # The native ids of the threads that are stuck.
    return frozenset(seen.answer.rows[0].explains) if seen.answer is not None else frozenset()


def _first_sentence(seen: Seen) -> str:
    return seen.answer.rows[0].summary if seen.answer is not None else ""


def _text(stuck: Sequence[Seen]) -> str:
    from ompd.render.terminal import make_console, print_why

    stream = StringIO()
    for process in stuck:
        stream.write(f"{process.name}\n")
        if process.answer is not None:
            print_why(make_console("never", file=stream), process.answer, unfold=False, verbose=False)
    return stream.getvalue()


def _fail(process_id: int, folder: Path, tests: _Tests, reason: str, text: str) -> None:
    # Let the test fail. If it does not end, because it does not get back to Python, end the whole process.
    test = tests.current
    assert test is not None
    with suppress(OSError):  # the process has ended
        report_file(folder, test).write_text(f"{reason}\n{text}", errors="replace")
        os.kill(process_id, STACKS)
        if tests.is_news(_WRITTEN):
            return
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            # Sent again, because Python does not see a signal that comes while it writes the stacks.
            os.kill(process_id, FAIL)
            if tests.is_news(1.0):
                return
        stacks = (folder / f"stacks.{process_id}").read_text(errors="replace")
        sys.stderr.write(f"\nompd: {test}\nompd: stuck: {reason}\n\n{text}\n{stacks}\nompd: the test is ended\n")
        sys.stderr.flush()
        with report_file(folder, test).open("a", errors="replace") as file:
            file.write(f"\n{stacks}")
        os.kill(process_id, signal.SIGKILL)


if __name__ == "__main__":
    main()
