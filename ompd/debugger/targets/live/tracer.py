"""Stopping all running threads of a process at once, and letting them go whatever happens.

Threads that sleep in the kernel stand still by themselves. They are stopped only if the caller needs it. Each is
looked at before and after the reading: one that has run in between makes the stop worthless.

The stop is made by a thread of our own. The kernel lets go of everything that a thread traces when that thread ends, so
the program runs on even if we fail, are interrupted, or are killed; and an interrupt from the keyboard, which Python
raises in its main thread, cannot come between two calls here. To end is also the quickest way to let go.

A stop has a limit in time. Its threads are let go when that is reached, whatever is left to do.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from ompd.binary.core.procfs import parse_stat, parse_status
from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.asleep import Asleep
from ompd.debugger.targets.live.refusals import refusal
from ompd.errors import BadProcess, MalformedFile, OmpdError, TargetGone

# A thread that waits for a device or a file server cannot stop; nor does it run, so that nothing waits for it longer.
# It is given so much time, or that part of the stop's limit, whichever is less.
_PATIENCE_ASLEEP_NS, _PATIENCE_ASLEEP_PART = 20_000_000, 0.4
# What is kept of the limit for letting go: at most so much, or that part of it.
_RESERVE_NS, _RESERVE_PART = 1_000_000, 0.1
_UNDERTAKER_AFTER = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 50e-6, 1e-3
_REFUSALS = 5
_MAX_ROUNDS = 100  # of looking for threads that were made meanwhile

_T = TypeVar("_T")


LONGER_STOPS = "--max-stop MS allows longer stops; --nonblocking reads without stopping"
"""What helps where a stop was too short."""


class NotStopped(BadProcess):
    """The threads of a process did not all stop within the limit of a stop. They run again.

    ``running`` of ``threads`` had not stopped yet; ``tries`` is how often that was tried.
    """

    def __init__(self, process_id: int, running: int, threads: int, limit_ns: int, tries: int = 1) -> None:
        last = f"{running} of {threads} threads were still running" if running else "all threads had just stopped"
        often = f", {tries} times" if tries > 1 else ""
        super().__init__(
            process_id,
            f"was not stopped within {limit_ns / 1e6:g} ms{often}: {last} when it was let go",
            hint=f"the machine may be too busy to run all threads to where they stop; {LONGER_STOPS}",
        )
        self.running, self.threads, self.limit_ns, self.tries = running, threads, limit_ns, tries


Registers = dict[int, "bytes | Asleep | None"]
"""By thread: its general registers if it was stopped, how it sleeps if it was not; None if it cannot stop, because it
waits for a device.
"""


class Stop(Generic[_T]):
    """One stop of a process: the threads that run are stopped, something is read, and they are let go.

    ``woken`` are threads that were not stopped, and ran during the reading.

    :param folder: descriptor of ``/proc/PID``
    :param capture: called while all threads stand still, and with a function that tells whether it has to end
    :param threads: returns the threads of the process
    :param leave: returns how a thread sleeps, None if it has to be stopped
    :param asleep: returns how a thread sleeps, None if it runs
    :param limit_ns: how long the stop may last, in nanoseconds, for a number of threads
    :param clock: the time in nanoseconds
    """

    def __init__(
        self,
        process_id: int,
        folder: int,
        capture: Callable[[Registers, Callable[[], bool]], _T],
        *,
        threads: Callable[[], list[int]],
        leave: Callable[[int], Asleep | None],
        asleep: Callable[[int], Asleep | None],
        limit_ns: Callable[[int], int],
        clock: Callable[[], int],
    ) -> None:
        self.duration_ns = 0
        self._captured: list[_T] = []
        self._process_id = process_id
        self._folder = folder
        self._capture = capture
        self._threads, self._leave, self._asleep = threads, leave, asleep
        self._limit_ns = limit_ns
        self._clock = clock
        self._release = threading.Event()
        self._error: BaseException | None = None
        # Traced threads, and how each is to be let go: with a signal, or None while it has not stopped.
        self._traced: dict[int, int | None] = {}
        self._left: dict[int, Asleep] = {}
        self.woken: set[int] = set()
        self._is_seizing = False
        self._began_ns: int | None = None
        # Not to be waited for at the end of the interpreter: with the process it ends, and lets go, too.
        self._thread = threading.Thread(target=self._run, name="ompd-stop", daemon=True)
        self._tracer_id = 0

    def run(self) -> _T:
        """Stop the process, and return what ``capture`` returned; all threads are let go by then.

        :raises NotStopped: if they do not all stop within the limit
        :raises BadProcess: if they may not be stopped
        :raises TargetGone: if the process has ended
        """
        try:
            self._thread.start()
            self._await_end()
        except BaseException:
            self._release.set()
            if self._thread.ident is not None:
                self._await_end()
            raise
        if self._error is not None:
            error = self._error
            raise stop_error(error, self._process_id) if isinstance(error, OSError) else error
        return self._captured[0]

    def _await_end(self) -> None:
        # If a thread of the process executes another program just now, the kernel ends the other threads and waits
        # until we have taken note of it, and PTRACE_SEIZE waits for the kernel: then it is taken note of here.
        while self._thread.is_alive():
            self._thread.join(_UNDERTAKER_AFTER)
            if self._is_seizing:
                for thread in list(self._traced):
                    if thread != self._process_id:
                        ptrace.bury(thread)
        # To Python a thread has ended a little before it has to the kernel, which lets go then.
        while self._tracer_id and os.access(f"/proc/self/task/{self._tracer_id}", os.F_OK):
            time.sleep(_FIRST_PAUSE)

    # In the thread that traces

    def _run(self) -> None:
        # A signal that is meant for the program that uses us must not wait for this thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._tracer_id = threading.get_native_id()
        try:
            self._stop_all()
            if not self._release.is_set():
                self._captured.append(self._capture(self._registers(), self._is_over))
                self.woken = {thread for thread, asleep in self._left.items() if self._asleep(thread) != asleep}
        except BaseException as error:  # noqa: BLE001  it is raised where the stop was asked for
            self._error = error
        # The kernel lets go of all threads at once when this one ends. One by one they would get the processors that
        # this thread needs to let go of the next: with 64 threads that work that took more than ten times as long.
        if self._began_ns is not None:
            self.duration_ns = self._clock() - self._began_ns

    @property
    def _limit(self) -> int:
        return self._limit_ns(len(self._traced) + len(self._left))

    def _elapsed(self) -> int:
        return self._clock() - self._began_ns if self._began_ns is not None else 0

    def _is_over(self) -> bool:
        # Whether copying has to end.
        limit = self._limit
        return self._release.is_set() or self._elapsed() >= limit - min(_RESERVE_NS, int(limit * _RESERVE_PART))

    def _check(self, running: int) -> None:
        if self._elapsed() >= self._limit:
            raise NotStopped(self._process_id, running, len(self._traced), self._limit)

    def _stop_all(self) -> None:
        # To trace a thread does not stop it, so that is done first and for all. A thread that slept may be woken up by
        # one that has not stopped yet, and one that sleeps by now may have made another thread since the list was read.
        # So the last round finds each thread as the round before did.
        for round_number in range(_MAX_ROUNDS):
            slept = dict(self._left)
            found, refused = self._seize_new()
            if refused:
                # While another program is executed this is so for a moment.
                if round_number >= _REFUSALS:
                    raise refusal(self._process_id)
                time.sleep(_LONGEST_PAUSE)
            elif not found and self._left == slept:
                return
            if self._began_ns is None and found:
                self._began_ns = self._clock()
            # All are told to before any is waited for.
            for thread in found:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)
            self._await_stops()
            if self._release.is_set():
                return
        # It makes threads, or wakes them up, faster than they can be stopped.
        raise NotStopped(self._process_id, len(found), len(self._traced), self._limit)

    def _seize_new(self) -> tuple[list[int], bool]:
        # The threads that are traced from now on, and whether others may not be traced.
        found, refused = [], False
        for thread in self._threads():
            if thread in self._traced:
                continue
            asleep = self._leave(thread)
            if asleep is not None:
                self._left[thread] = asleep
                continue
            self._left.pop(thread, None)
            try:
                self._is_seizing = True
                ptrace.seize(thread)
            except ProcessLookupError:
                continue
            except PermissionError:
                # The first thread may end before the others. A thread that we trace, and that executes another program,
                # gets the number of the first one.
                if self._state(thread) in "ZX":
                    continue
                if self._tracer(thread) != threading.get_native_id():
                    refused = True
                    continue
            finally:
                self._is_seizing = False
            self._traced[thread] = None
            found.append(thread)
        if not self._traced and not self._left and not refused:
            raise TargetGone(f"process {self._process_id} ended before it was stopped")
        return found, refused

    def _await_stops(self) -> None:
        # Every thread is asked in turn and none is waited for: one that ends, or is made to by an execve() of another,
        # may hold up the others until it was asked.
        start = self._clock()
        patience = min(_PATIENCE_ASLEEP_NS, int(self._limit * _PATIENCE_ASLEEP_PART))
        pause = _FIRST_PAUSE
        running = [thread for thread, how in self._traced.items() if how is None]
        while True:
            running = [thread for thread in running if not self._has_stopped(thread)]
            if not running or self._release.is_set():
                return
            if self._clock() - start > patience:
                running = [thread for thread in running if self._state(thread) not in "DZX"]
                if not running:
                    return
            self._check(len(running))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _has_stopped(self, thread: int) -> bool:
        report = ptrace.report(thread)
        if report is None:
            return False
        if report.is_gone:
            del self._traced[thread]
            if thread != self._process_id:  # the first one is its parent's to bury
                ptrace.bury(thread)
        else:
            self._traced[thread] = report.signal
        return True

    def _state(self, thread: int) -> str:
        try:
            return parse_stat(self._read(f"task/{thread}/stat")).state
        except (OSError, MalformedFile):
            return "X"

    def _tracer(self, thread: int) -> int:
        try:
            return int(parse_status(self._read(f"task/{thread}/status")).get("TracerPid", "0"))
        except OSError:
            return 0

    def _read(self, name: str) -> bytes:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            return os.read(descriptor, 1 << 14)
        finally:
            os.close(descriptor)

    def _registers(self) -> Registers:
        registers: Registers = dict(self._left)
        for thread, how in self._traced.items():
            self._check(0)
            try:
                registers[thread] = ptrace.general_registers(thread) if how is not None else None
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
        return registers


def stop_error(error: OSError, process_id: int) -> OmpdError:
    """Return what an error of a system call in a stop means."""
    if error.errno == errno.ESRCH:
        return TargetGone(f"process {process_id} ended while it was read")
    if error.errno == errno.EPERM:
        return refusal(process_id)
    return BadProcess(process_id, f"cannot be read: {os.strerror(error.errno or 0)}")
