"""What the processes of a command do, by /proc. No process is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_MOST_PROCESSES = 1024
_STILL = 0.01  # the share of a processor that a heartbeat may use while nothing else goes on


def descendants(process_id: int, folder: Path = _PROC) -> tuple[int, ...]:
    """Return a process and the processes that it has started, and these have started, at most 1,024.

    :param folder: where the kernel shows processes
    """
    numbers = [process_id]
    for number in numbers:
        if len(numbers) >= _MOST_PROCESSES:
            break
        with suppress(OSError):  # the process has ended
            for thread in (folder / str(number) / "task").iterdir():
                with suppress(OSError):  # the thread has ended
                    numbers += map(int, (thread / "children").read_bytes().split())
    return tuple(dict.fromkeys(numbers[:_MOST_PROCESSES]))


class _Sample(NamedTuple):
    # *processor_ns*: what each thread has used, by its number. *transferred*: bytes read and written by each process.
    when: float
    processor_ns: dict[int, int]
    transferred: dict[int, int]
    is_stopped: bool


class Activity:
    """What a command and its descendants have done since the last call of :meth:`look`.

    ``still`` is the number of seconds since they used more than a hundredth of a processor, or anything of
    ``unchanged``. ``unchanged`` is the number of seconds since a thread or process began or ended, or one of them read
    or wrote anything. Both begin anew after :meth:`begin_anew`, and while a process is stopped by a signal.

    :param process_id: the command's process
    :param without: a descendant that does not count
    :param folder: where the kernel shows processes
    """

    def __init__(self, process_id: int, *, without: int | None = None, folder: Path = _PROC) -> None:
        self._process_id = process_id
        self._without = without
        self._folder = folder
        self._last = self._sample()
        self.cost = 0.0
        """The processor time of the last look, in seconds."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Let both durations begin now."""
        self._last_use = self._last_change = self._last.when

    @property
    def still(self) -> float:
        """Seconds without use of processors, and without change."""
        return self._last.when - max(self._last_use, self._last_change)

    @property
    def unchanged(self) -> float:
        """Seconds in which no thread began or ended, and nothing was read or written."""
        return self._last.when - self._last_change

    def look(self) -> None:
        """Look at the processes, and count the time since the last look for or against them."""
        begin = time.thread_time()
        before, now = self._last, self._sample()
        self._last = now
        is_changed = (
            now.processor_ns.keys() != before.processor_ns.keys()
            or now.transferred.keys() != before.transferred.keys()
            or any(count != before.transferred[process] for process, count in now.transferred.items())
        )
        used = sum(used - before.processor_ns.get(thread, used) for thread, used in now.processor_ns.items())
        if is_changed or now.is_stopped:
            self._last_change = now.when
        if used > _STILL * 1e9 * (now.when - before.when):
            self._last_use = now.when
        self.cost = time.thread_time() - begin

    def _sample(self) -> _Sample:
        processes = [process for process in descendants(self._process_id, self._folder) if process != self._without]
        threads: dict[int, int] = {}
        transferred: dict[int, int] = {}
        are_stopped = []
        for process in processes:
            place = self._folder / str(process)
            threads.update(_processor_ns(place))
            with suppress(OSError, ValueError, IndexError):  # it has ended, or belongs to another user
                lines = (place / "io").read_bytes().split(b"\n")
                transferred[process] = sum(int(line.split()[1]) for line in lines[:2])
            with suppress(OSError, IndexError):
                state = (place / "stat").read_bytes().rpartition(b")")[2].split()[0]
                are_stopped.append(state in (b"T", b"t"))
        return _Sample(time.monotonic(), threads, transferred, any(are_stopped))


def _processor_ns(place: Path) -> Iterator[tuple[int, int]]:
    # Yield the number of each thread of a process, and the processor time that it has used, in nanoseconds.
    with suppress(OSError):  # the process has ended
        for thread in (place / "task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                yield int(thread.name), int((thread / "schedstat").read_bytes().split()[0])
