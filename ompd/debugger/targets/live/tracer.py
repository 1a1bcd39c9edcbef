"""Stops all running threads of a process at once, and always releases them.

Threads that sleep in the kernel do not move. They are stopped only if the caller needs their registers. Each sleeping
thread is examined before and after the copy. If one of them has run in between, the stop is worthless.

A thread of our own makes the stop. When it ends, the kernel releases every thread that it traces. So the program runs
on even if ompd fails, is interrupted, or is killed. Python raises KeyboardInterrupt in its main thread, so it cannot
come between two calls in the tracing thread. Ending the tracing thread is also the fastest way to release the traced
ones.

A stop has a time limit. When it is reached, the threads are released, even if work is left.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.core.procfs import parse_stat, parse_status
from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.refusals import refusal
from ompd.errors import BadProcess, MalformedFile, OmpdError, TargetGone

if TYPE_CHECKING:
    from ompd.debugger.targets.live.copying import Copy
    from ompd.debugger.targets.live.live import LiveProcess, Sleepers

# How long a stop waits for threads that wait for a device or a file server: this time, or this part of the stop's
# limit, whichever is less. Such a thread cannot stop, but it does not run either.
_PATIENCE_ASLEEP_NS, _PATIENCE_ASLEEP_PART = 20_000_000, 0.4
# The time reserved for the release: this time, or this part of the stop's limit, whichever is less.
_RESERVE_NS, _RESERVE_PART = 1_000_000, 0.1
# How long the stop for a light copy waits for its threads. A thread with a processor stops in much less time.
_HURRY_NS = 1_500_000
_UNDERTAKER_AFTER = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 50e-6, 1e-3
_REFUSALS = 5
_MAX_ROUNDS = 100  # rounds of searching for new threads


LONGER_STOPS = "--max-stop MS allows longer stops; --nonblocking reads without stopping"
"""The hint if a stop was too short."""


class Asleep(NamedTuple):
    """How a thread sleeps in the kernel.

    ``call`` is the contents of its ``/proc/PID/task/TID/syscall``. ``turns`` counts how often it got a processor (the
    third field of ``schedstat``). If both are the same later, the thread has not run in between.
    """

    call: bytes
    turns: int


class NotStopped(BadProcess):
    """Some threads did not stop within the time limit of a stop. All run again.

    ``running`` of ``threads`` had not stopped; ``tries`` is the number of attempts.
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
"""The general registers of each stopped thread, and how each other thread sleeps. None for a thread that cannot stop
because it waits for a device.
"""


class Stop:
    """One stop of a process: its running threads are stopped, memory is copied, and they are released.

    ``duration_ns`` is how long it lasted. ``woken`` are threads that were not stopped, and ran during the copy.

    :param copy: does the copying while all threads stand still
    :param sleepers: decides which sleeping threads are stopped
    """

    def __init__(self, process: LiveProcess, copy: Copy, sleepers: Sleepers) -> None:
        self.duration_ns = 0
        self.woken: set[int] = set()
        self._process, self._copy, self._sleepers = process, copy, sleepers
        self._process_id = process.process_id
        self._clock = process.clock
        self._release = threading.Event()
        self._error: BaseException | None = None
        # The traced threads, each with the signal with which to release it, None while it has not stopped.
        self._traced: dict[int, int | None] = {}
        self._left: dict[int, Asleep] = {}
        self._is_seizing = False
        self._began_ns: int | None = None
        # A daemon thread: the interpreter does not wait for its end, and the end of the process releases all threads.
        self._thread = threading.Thread(target=self._run, name="ompd-stop", daemon=True)
        self._tracer_id = 0

    def run(self) -> None:
        """Stop the process and copy. All threads are released when this returns or raises.

        :raises NotStopped: if some do not stop within the limit
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

    def _await_end(self) -> None:
        # If a thread of the process executes another program now, the kernel ends the other threads, and waits until
        # their status is collected. The tracing thread is blocked in PTRACE_SEIZE, which waits for the kernel. So this
        # thread collects the status.
        while self._thread.is_alive():
            self._thread.join(_UNDERTAKER_AFTER)
            if self._is_seizing:
                for thread in list(self._traced):
                    if thread != self._process_id:
                        ptrace.bury(thread)
        # Python sees the end of a thread a little before the kernel, which then releases the traced threads.
        while self._tracer_id and os.access(f"/proc/self/task/{self._tracer_id}", os.F_OK):
            time.sleep(_FIRST_PAUSE)

    # In the thread that traces

    def _run(self) -> None:
        # A signal for the program that uses ompd must not be delivered to this thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._tracer_id = threading.get_native_id()
        try:
            self._stop_all()
            if not self._release.is_set():
                self._copy.run(self._registers(), self)
                self.woken = {thread for thread, asleep in self._left.items() if self._process.asleep(thread) != asleep}
        except BaseException as error:  # noqa: BLE001  run() raises it
            self._error = error
        # When this thread ends, the kernel releases all threads at once. If they were released one by one, the released
        # threads would take the processors that this thread needs for the next ones. For 64 busy threads this took ten
        # times as long.
        if self._began_ns is not None:
            self.duration_ns = self._clock() - self._began_ns

    @property
    def _limit(self) -> int:
        return self._process.limit_ns(len(self._traced) + len(self._left))

    def _elapsed(self) -> int:
        return self._clock() - self._began_ns if self._began_ns is not None else 0

    def is_over(self) -> bool:
        """Return whether copying has to end, so that the threads can be released in time."""
        limit = self._limit
        return self._release.is_set() or self._elapsed() >= limit - min(_RESERVE_NS, int(limit * _RESERVE_PART))

    def _check_limit(self, running: int) -> None:
        if self._elapsed() >= self._limit:
            raise NotStopped(self._process_id, running, len(self._traced), self._limit)

    def _stop_all(self) -> None:
        # Tracing a thread does not stop it, so all threads are traced first. A thread that still runs may wake up a
        # sleeping thread, or may have created another one since the list was read. So repeat until a round changes
        # nothing.
        for round_number in range(_MAX_ROUNDS):
            slept = dict(self._left)
            seized, refused = self._seize_new()
            if refused:
                # This is normal for a moment while another program is executed.
                if round_number >= _REFUSALS:
                    raise refusal(self._process_id)
                time.sleep(_LONGEST_PAUSE)
            elif not seized and self._left == slept:
                return
            if self._began_ns is None and seized:
                self._began_ns = self._clock()
            # Interrupt all threads before waiting for any.
            for thread in seized:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)
            self._await_stops()
            if self._release.is_set():
                return
        # The process creates or wakes up threads faster than they can be stopped.
        raise NotStopped(self._process_id, len(seized), len(self._traced), self._limit)

    def _seize_new(self) -> tuple[list[int], bool]:
        # Return the newly traced threads, and whether tracing another thread was refused.
        seized, refused = [], False
        for thread in self._process.thread_ids():
            if thread in self._traced:
                continue
            asleep = self._sleepers.leave(thread)
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
                # A thread that has ended cannot be traced: the first one may end before the others. A thread may also
                # be traced already: if a traced thread executes another program, it gets the first thread's number.
                if self._state(thread) in "ZX":
                    continue
                if self._tracer(thread) != threading.get_native_id():
                    refused = True
                    continue
            finally:
                self._is_seizing = False
            self._traced[thread] = None
            seized.append(thread)
        if not self._traced and not self._left and not refused:
            raise TargetGone(f"process {self._process_id} ended before it was stopped")
        return seized, refused

    def _await_stops(self) -> None:
        # Wait until the traced threads have stopped. They are polled in turn, without blocking on any: a thread that
        # ends, by itself or by another thread's execve(), may hold up the others until its status is collected.
        start = self._clock()
        patience = min(_PATIENCE_ASLEEP_NS, int(self._limit * _PATIENCE_ASLEEP_PART))
        pause = _FIRST_PAUSE
        running = [thread for thread, resuming_signal in self._traced.items() if resuming_signal is None]
        while True:
            running = [thread for thread in running if not self._has_stopped(thread)]
            if not running or self._release.is_set():
                return
            if self._copy.is_light and self._clock() - start > _HURRY_NS:
                # The others have no processor. They stand still, too: they stop before they execute anything. But their
                # registers are unknown.
                return
            if self._clock() - start > patience:
                running = [thread for thread in running if self._state(thread) not in "DZX"]
                if not running:
                    return
            self._check_limit(len(running))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _has_stopped(self, thread: int) -> bool:
        report = ptrace.report(thread)
        if report is None:
            return False
        if report.is_gone:
            del self._traced[thread]
            if thread != self._process_id:  # the parent of the process collects the status of the first thread
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
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._process.folder)
        try:
            return os.read(descriptor, 1 << 14)
        finally:
            os.close(descriptor)

    def _registers(self) -> Registers:
        registers: Registers = dict(self._left)
        for thread, resuming_signal in self._traced.items():
            self._check_limit(0)
            try:
                registers[thread] = ptrace.general_registers(thread) if resuming_signal is not None else None
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
        return registers


def stop_error(error: OSError, process_id: int) -> OmpdError:
    """Return the exception for a system call that failed during a stop."""
    if error.errno == errno.ESRCH:
        return TargetGone(f"process {process_id} ended while it was read")
    if error.errno == errno.EPERM:
        return refusal(process_id)
    return BadProcess(process_id, f"cannot be read: {os.strerror(error.errno or 0)}")
