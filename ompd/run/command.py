"""A command that runs with the terminal, process group, signals and exit status of the process that started it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from ompd.errors import OmpdError
from ompd.run.activity import descendants

# Signals that are passed on to the command. The kernel sends those of the terminal to the whole process group, so that
# the command has them already. SIGTSTP, SIGTTIN and SIGTTOU are left alone: they stop this process and the command.
_PASSED = frozenset(
    (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGWINCH,
        signal.SIGCONT,
    )
)
_FROM_KERNEL = 0x80  # si_code SI_KERNEL
_SETTLED = 0.05  # seconds after which a stopped command has received the SIGCONT that continued its process group
_OF_TERMINAL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class NotStarted(OmpdError):
    """The command cannot be started. ``status`` is the exit status that ``env`` and ``timeout`` have for it."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RunningCommand:
    """A command that was started, in the process group and at the terminal of this process.

    Until it has ended, this process handles its own signals in :meth:`wait` only.

    :param words: the program and its arguments; the program is found as by a shell
    :raises NotStarted: if there is no such program, or it cannot be executed
    """

    def __init__(self, words: Sequence[str]) -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED, signal.SIGCHLD})
        is_started = False
        try:
            # posix_spawn() is not used, because it lets the command ignore two signals of the C library.
            self._process = subprocess.Popen(
                words,
                env=_environment(),
                close_fds=False,
                preexec_fn=partial(signal.pthread_sigmask, signal.SIG_SETMASK, mask),
            )
            is_started = True
        except FileNotFoundError as error:
            raise NotStarted(f"{words[0]}: there is no such program", 127) from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise NotStarted(f"{words[0]}: cannot be executed: {reason}", 126) from error
        finally:
            if not is_started:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.process_id = self._process.pid
        self._status: int | None = None

    def wait(self, seconds: float) -> int | None:
        """Wait for the command, and pass signals on to it.

        Return its wait status once it has ended, None if it still runs after *seconds*.
        """
        deadline = time.monotonic() + seconds
        while self._status is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            received = signal.sigtimedwait({*_PASSED, signal.SIGCHLD}, remaining)
            if received is None:
                break
            if received.si_signo == signal.SIGCHLD:
                self._collect()
            elif received.si_code != _FROM_KERNEL and received.si_pid not in descendants(self.process_id):
                self.send(received.si_signo)
        return self._status

    def send(self, signal_number: int) -> None:
        """Send a signal to the command. Nothing happens if it has ended."""
        if self._status is None:
            with suppress(OSError):  # it runs as another user: then it gets signals from that user
                os.kill(self.process_id, signal_number)

    def _collect(self) -> None:
        while self._status is None:
            process_id, status = os.waitpid(self.process_id, os.WNOHANG | os.WUNTRACED)
            if not process_id:
                return
            if not os.WIFSTOPPED(status):
                self._status = status
            elif os.WSTOPSIG(status) in _OF_TERMINAL:
                self._stop_with_it()

    def _stop_with_it(self) -> None:
        # A shell that waits for this process sees only that this process stops, not the command.
        time.sleep(_SETTLED)
        if _is_stopped(self.process_id):
            os.kill(os.getpid(), signal.SIGSTOP)
            self.send(signal.SIGCONT)

    def end_like_it(self) -> NoReturn:
        """End this process with the exit status of the command, or by the signal that ended the command."""
        assert self._status is not None
        if os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has written the core
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(self._status) & 0xFF)


def _environment() -> dict[bytes, bytes]:
    # Python may have changed LC_CTYPE at its start (PEP 538). The kernel still has the first environment.
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environb)
    pairs = (entry.partition(b"=") for entry in block.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs if name}


def _is_stopped(process_id: int) -> bool:
    try:
        text = Path(f"/proc/{process_id}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[:1] == [b"T"]
