"""Stopping all threads of a process at once, and letting them go whatever happens.

The stop is held by a thread of our own. The kernel lets go of everything that a thread traces when that thread ends, so
the program runs on even if we fail, are interrupted, or are killed; and an interrupt from the keyboard, which Python
raises in its main thread, cannot come between two calls here.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from ompd.debugger.formats.procfs import parse_stat, parse_status
from ompd.debugger.targets import ptrace
from ompd.debugger.targets.refusals import refusal
from ompd.errors import BadProcess, MalformedFile, OmpdError, TargetGone

if TYPE_CHECKING:
    from typing_extensions import Self

# A thread that waits for a device or a file server cannot stop; nor does it run, so that nothing waits for it longer.
_PATIENCE_ASLEEP = 0.02
# Others stop as soon as they get a processor.
_PATIENCE = 10.0
_UNDERTAKER_AFTER = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 50e-6, 1e-3
_REFUSALS = 5
_MAX_ROUNDS = 100  # of looking for threads that were made meanwhile

_T = TypeVar("_T")


class Stop(Generic[_T]):
    """A process whose threads all stand still from entering to leaving the ``with`` statement.

    :param folder: descriptor of ``/proc/PID``
    :param capture: called on entering, with the general registers of each thread, None for one that sleeps in the
        kernel and cannot stop; what it returns is ``captured``
    :param held: whether the threads stand still until leaving; else they are let go once ``capture`` has returned
    """

    def __init__(
        self,
        process_id: int,
        folder: int,
        capture: Callable[[dict[int, bytes | None]], _T],
        *,
        held: bool = False,
    ) -> None:
        self.captured: _T
        self.duration_ns = 0
        self._process_id = process_id
        self._folder = folder
        self._capture = capture
        self._held = held
        self._ready = threading.Event()
        self._release = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        # Traced threads, and how each is to be let go: with a signal, or None while it has not stopped.
        self._traced: dict[int, int | None] = {}
        self._began_ns = 0
        # Not to be waited for at the end of the interpreter: with the process it ends, and lets go, too.
        self._thread = threading.Thread(target=self._run, name="ompd-stop", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._thread.start()
            self._await(self._ready)
            if not self._held:
                self._thread.join()
        except BaseException:
            self._leave()
            raise
        error = self._error
        if error is not None:
            self._leave()
            raise stop_error(error, self._process_id) if isinstance(error, OSError) else error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._release.set()
        if self._thread.ident is not None:
            self._await(self._ended)
            self._thread.join()

    def _await(self, event: threading.Event) -> None:
        # If a thread of the process executes another program just now, the kernel ends the other threads and waits
        # until we have taken note of it, and PTRACE_SEIZE waits for the kernel: then it is taken note of here.
        while not event.wait(_UNDERTAKER_AFTER):
            for thread in list(self._traced):
                if thread != self._process_id:
                    ptrace.bury(thread)

    # In the thread that traces

    def _run(self) -> None:
        # A signal that is meant for the program that uses us must not wait for this thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._stop_all()
            if not self._release.is_set():
                self.captured = self._capture(self._registers())
                if self._held:
                    self._ready.set()
                    self._release.wait()
        except BaseException as error:  # noqa: BLE001  it is raised where the stop was asked for
            self._error = error
        finally:
            self._let_go()
            self._ready.set()
            self._ended.set()

    def _stop_all(self) -> None:
        # To trace a thread does not stop it, so that is done first and for all.
        for round_number in range(_MAX_ROUNDS):
            found, refused = self._seize_new()
            if refused:
                # While another program is executed this is so for a moment.
                if round_number >= _REFUSALS:
                    raise refusal(self._process_id)
                time.sleep(_LONGEST_PAUSE)
            elif not found and self._began_ns:
                return
            self._began_ns = self._began_ns or time.perf_counter_ns()
            for thread in found:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)
            self._await_stops()
            if self._release.is_set():
                return
        raise BadProcess(self._process_id, "makes threads faster than they can be stopped", hint="try again")

    def _seize_new(self) -> tuple[list[int], bool]:
        # The threads that are traced from now on, and whether others may not be traced.
        found, refused = [], False
        for thread in self._thread_ids():
            if thread in self._traced:
                continue
            try:
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
            self._traced[thread] = None
            found.append(thread)
        if not self._traced and not refused:
            raise TargetGone(f"process {self._process_id} ended before it was stopped")
        return found, refused

    def _thread_ids(self) -> list[int]:
        try:
            folder = os.open("task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError as error:
            raise TargetGone(f"process {self._process_id} ended before it was stopped") from error
        try:
            return [int(name) for name in os.listdir(folder)]  # noqa: PTH208  Path has no descriptors
        except OSError as error:
            raise TargetGone(f"process {self._process_id} ended before it was stopped") from error
        finally:
            os.close(folder)

    def _await_stops(self) -> None:
        # Every thread is asked in turn and none is waited for: one that ends, or is made to by an execve() of another,
        # may hold up the others until it was asked.
        start = time.monotonic()
        pause = _FIRST_PAUSE
        running = [thread for thread, how in self._traced.items() if how is None]
        while True:
            running = [thread for thread in running if not self._has_stopped(thread)]
            waited = time.monotonic() - start
            if not running or self._release.is_set():
                return
            if waited > _PATIENCE_ASLEEP:
                running = [thread for thread in running if self._state(thread) not in "DZX"]
                if not running:
                    return
            if waited > _PATIENCE:
                raise BadProcess(
                    self._process_id,
                    f"thread {running[0]} did not stop within {_PATIENCE:.0f} s",
                    hint="the machine is very busy, or the thread hangs in the kernel; --nonblocking reads without"
                    " stopping",
                )
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

    def _registers(self) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        for thread, how in self._traced.items():
            try:
                found[thread] = ptrace.general_registers(thread) if how is not None else None
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
        return found

    def _let_go(self) -> None:
        for thread, how in self._traced.items():
            # What is not stopped, or is gone, cannot be detached; it is let go with the end of this thread.
            with suppress(OSError):
                ptrace.detach(thread, how or 0)
        if self._began_ns:
            self.duration_ns = time.perf_counter_ns() - self._began_ns


def stop_error(error: OSError, process_id: int) -> OmpdError:
    """Return what an error of a system call in a stop means."""
    if error.errno == errno.ESRCH:
        return TargetGone(f"process {process_id} ended while it was read")
    if error.errno == errno.EPERM:
        return refusal(process_id)
    return BadProcess(process_id, f"cannot be read: {os.strerror(error.errno or 0)}")
