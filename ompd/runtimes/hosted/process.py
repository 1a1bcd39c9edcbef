"""The process of a library: its start, its limits, and its reliable end."""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from struct import error as struct_error
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ompd.errors import LibraryError
from ompd.records import record
from ompd.runtimes.hosted.messages import clean
from ompd.runtimes.hosted.protocol import HEADER, MAX_MESSAGE, OWN_FAULT, PAGE, PROGRESS, message
from ompd.safety.libraries import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, memory_file

if TYPE_CHECKING:
    from ompd.runtimes.hosted.loading.libraries import Opened

_ROOT = str(Path(__file__).parents[3])
_SANDBOX = str(Path(__file__).with_name("loading") / "sandbox.py")
_START = """import sys; sys.path.append(sys.argv[1])
from ompd.runtimes.hosted.worker.main import main
main(sys.argv[2:])"""
_PIECE, _SMALL = 1 << 18, 1 << 13
_MAX_OUTPUT = 1 << 13
# The most additional time for callbacks, in units of the limit for a call. A debugger may fetch a file for a callback.
_MOST_EXCUSED = 30
_CALLS_IN_TIME = 100  # so many further calls extend the time limit by the limit for one call
_START_CALLS = 4  # calls in a library's start: constructors, ompd_initialize, and the two calls for versions
_GRACE = 5.0
_STEP = 0.005
_LOOK = 0.2  # seconds between looks at the running function, because the start of a function sends no message
_SIGNALS = frozenset(signal.Signals)
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}


@record
class Loadable:
    """A library that a worker can load, given by its files. ``name`` is the library's name in messages.

    ``steps`` are the files to load, in order, the library last. Each has a name, an open descriptor (-1 if the process
    must already have the file), and whether its symbols are global. The caller may close the descriptors once the
    library has started.
    """

    name: str
    steps: Sequence[tuple[str, int, bool]]


Loads: TypeAlias = "Loadable | Opened"
"""A library that a worker can load."""


@record
class Limits:
    """The limits of a library.

    ``seconds`` is the limit for one call or for the library's constructors, without the time that the debugger spends
    on callbacks. Only the first ``callbacks`` callbacks of an exchange are free in this way; the time of later
    callbacks counts. ``memory`` is in bytes, for the library only. ``start_seconds`` is the limit for starting the
    process, before any code of the library runs.
    """

    seconds: float = 20.0
    start_seconds: float = 60.0
    memory: int = 1 << 30
    callbacks: int = 100_000


@record
class Interface:
    """An interface of libraries: the worker's argument for it, its name in messages, and the names of its functions by
    number.
    """

    word: str
    title: str
    functions: Mapping[int, str]


class Progress(NamedTuple):
    """The number of functions that the worker has called, and the function that is running, None if none is."""

    calls: int
    function: str | None


class WorkerProcess:
    """A process that loads a library.

    :param program: a worker to use instead of the Python worker
    :raises LibraryError: if the process cannot be started
    """

    def __init__(
        self, loadable: Loads, interface: Interface, limits: Limits, interpreter: str, program: Path | None = None
    ) -> None:
        self._lifeline = -1
        self._name, self._functions, self._limits = loadable.name, interface.functions, limits
        self._owner = os.getpid()
        self._printed = b""
        self._unread = bytearray()
        self._final: Progress | None = None
        self.error: LibraryError | None = None
        """The reason why the process has ended, None while it runs."""
        try:
            both_ends = _Ends()
        except OSError as error:
            raise LibraryError(self._name, None, f"no process for it: {error}", has_ended=True) from error
        with both_ends as ends:
            command = worker_command(interpreter, limits.memory, program)
            command += [interface.word, *map(str, ends.passed), str(limits.memory)]
            for name, descriptor, is_global in loadable.steps:
                command += [name, str(descriptor), str(int(is_global))]
            own = [descriptor for _, descriptor, _ in loadable.steps if descriptor >= 0]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=ends.output,
                    stderr=ends.output,
                    pass_fds=[*ends.passed, *own],
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise LibraryError(self._name, None, f"no process for it: {error}", has_ended=True) from error
            self._socket, self._output, self._lifeline, self._page = ends.keep()
        self._poll = select.poll()
        for descriptor in (self._socket.fileno(), self._output):
            self._poll.register(descriptor, select.POLLIN)
        self._pidfd = _pidfd(self._process.pid)
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)
        self._seen = -1
        self._deadline = self._last = 0.0
        self._callbacks, self._excused = 0, 0.0

    @property
    def progress(self) -> Progress:
        """The calls of the worker, from the page that the worker writes."""
        if self._final is not None:
            return self._final
        count, number = PROGRESS.unpack_from(self._page)
        return Progress(count, self._functions.get(number))

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def _now(self) -> float:
        return time.monotonic()

    def allow(self, seconds: float, calls: int = 0) -> None:
        """Begin a time limit. Each call may take *seconds*, but each of *calls* further calls extends the total limit
        only by a fraction of *seconds*.
        """
        now = self._now()
        self._seen = PROGRESS.unpack_from(self._page)[0]
        self._deadline = now + seconds
        self._last = now + seconds * (1 + calls / _CALLS_IN_TIME)
        self._callbacks, self._excused = 0, 0.0

    def send(self, kind: int, *parts: bytes) -> None:
        """Send a message.

        :raises LibraryError: if the process has ended
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        try:
            self._socket.settimeout(self._limits.seconds)
            self._socket.sendall(message(kind, *parts))
        except TimeoutError as error:
            raise self.fail("its process does not read its messages") from error
        except OSError as error:
            raise self._ended() from error

    def excuse(self, seconds: float) -> None:
        """Extend the time limit by the *seconds* that this side has spent on a callback, up to a bound."""
        self._callbacks += 1
        self._excused += seconds
        if self._callbacks <= self._limits.callbacks and self._excused <= _MOST_EXCUSED * self._limits.seconds:
            self._deadline += seconds
            self._last += seconds

    def receive(self, seconds: float) -> tuple[int, bytes]:
        """Return kind and body of the next message.

        :param seconds: the time limit for each function of the library
        :raises LibraryError: if the process has ended, or a function has exceeded the limit
        """
        try:
            size, kind = HEADER.unpack(self._exactly(HEADER.size, seconds))
        except struct_error as error:
            raise self._ended() from error
        if size > MAX_MESSAGE:
            raise self.fail("its process sent an invalid message")
        return kind, self._exactly(size, seconds)

    def _exactly(self, size: int, seconds: float) -> bytes:
        # A header is mostly received together with its body.
        while len(self._unread) < size:
            self._wait(seconds)
            try:
                piece = self._socket.recv(min(max(size - len(self._unread), _SMALL), _PIECE))
            except OSError as error:
                raise self._ended() from error
            if not piece:
                raise self._ended()
            self._unread += piece
        received = bytes(self._unread[:size])
        del self._unread[:size]
        return received

    def _wait(self, seconds: float) -> None:
        # Wait until there is data to receive.
        while True:
            count = PROGRESS.unpack_from(self._page)[0]
            now = self._now()
            if count != self._seen:
                if self._seen == 0:  # the process has started, and from now on the time counts for the library
                    self._last = now + seconds * (1 + _START_CALLS / _CALLS_IN_TIME)
                self._seen, self._deadline = count, min(now + seconds, self._last)
            if now >= self._deadline:
                raise self.fail(f"took more than {seconds:g} s" if count else "its process takes too long to start")
            ready = {descriptor for descriptor, _ in self._poll.poll(min(_LOOK, self._deadline - now) * 1000 + 1)}
            if self._output in ready:
                self._drain()
            if self._socket.fileno() in ready:
                return
            if self._pidfd in ready:
                raise self._ended()

    def _drain(self) -> None:
        try:
            piece = os.read(self._output, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._poll.unregister(self._output)
        self._printed += piece[: _MAX_OUTPUT - len(self._printed)]

    def output(self) -> Iterator[str]:
        """Yield the lines that the library has printed to its own output since the last call, cleaned."""
        lines, self._printed = self._printed, b""
        for line in lines.splitlines():
            if line.strip():
                yield clean(line)

    def fail(self, fault: str) -> LibraryError:
        """End the process because of a fault, and return the error for it. If the process has an earlier error, return
        that.
        """
        return self.end_for(LibraryError(self._name, self.progress.function, fault, has_ended=True))

    def end_for(self, error: LibraryError) -> LibraryError:
        """End the process because of an error, and return it. If the process has an earlier error, return that."""
        self.error = self.error or error
        self.end()
        return self.error

    def _ended(self) -> LibraryError:
        # End a process that no longer answers, and return the error with the reason.
        if self.error is None:
            running = self.progress.function
            status = self.end()
            self.error = LibraryError(self._name, running, self._why(status), has_ended=True)
        return self.error

    def _why(self, status: int | None) -> str:
        if status is None:
            return "its process closed its connection"
        if status < 0:
            number = -status
            name = signal.Signals(number).name if number in _SIGNALS else f"signal {number}"
            return f"crashed ({name})" if number in _CRASHES else f"its process was ended by {name}"
        if status == OWN_FAULT:
            lines = list(self.output())
            return "its process failed" + (f" ({lines[-1]})" if lines else "")
        return f"its process exited with status {status}"

    def end(self) -> int | None:
        """End the process and its children. Return the exit status, None if the process did not end by itself."""
        if self._lifeline < 0 or os.getpid() != self._owner:
            return None
        # A worker ends by itself when the host sends nothing more, or when it has closed its own end of the socket. The
        # id of the process group stays reserved until the process has been waited for.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        has_ended = self._ends_within(0.0 if self.error is not None else _GRACE)
        with suppress(ProcessLookupError, PermissionError):
            if self._is_child():
                os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self._close()
        return status if has_ended else None

    def _is_child(self) -> bool:
        # Whether the process id still belongs to this child, because its exit status is uncollected. A debugger that
        # runs this Python may collect the status, which frees the process id.
        try:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _ends_within(self, seconds: float) -> bool:
        if self._pidfd >= 0:
            waiting = select.poll()
            waiting.register(self._pidfd, select.POLLIN)
            return bool(waiting.poll(seconds * 1000))
        until = time.monotonic() + seconds
        while True:
            try:
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    return True
            except ChildProcessError:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_STEP)

    def _close(self) -> None:
        while len(self._printed) < _MAX_OUTPUT:
            try:
                piece = os.read(self._output, _PIECE)
            except OSError:
                break
            if not piece:
                break
            self._printed += piece
        self._final = self.progress
        self._page.close()  # the page has a descriptor, too
        self._socket.close()
        for descriptor in (self._output, self._lifeline, self._pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        self._lifeline = -1

    def __del__(self) -> None:
        if self._lifeline >= 0:
            self.fail("unused")


class _Ends:
    # Both ends of the socket, the pipes and the page. The worker's ends are closed on this side once the worker has
    # them. If the worker does not start, all ends are closed.
    def __init__(self) -> None:
        with ExitStack() as own, ExitStack() as theirs:
            self._socket, their_socket = socket.socketpair()
            own.callback(self._socket.close)
            theirs.callback(their_socket.close)
            self._output, self.output = self._pipe(own, theirs)
            os.set_blocking(self._output, False)
            self._lifeline, lifeline = self._pipe(own, theirs, is_written=True)
            page = memory_file("ompd")
            theirs.callback(os.close, page)
            os.ftruncate(page, PAGE)
            # The page stays readable even if the worker misuses its descriptor.
            fcntl.fcntl(page, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            self._page = mmap.mmap(page, PAGE)
            own.callback(self._page.close)
            self.passed = [their_socket.fileno(), page, lifeline]
            self._own, self._theirs = own.pop_all(), theirs.pop_all()

    @staticmethod
    def _pipe(own: ExitStack, theirs: ExitStack, *, is_written: bool = False) -> tuple[int, int]:
        # This side's end, then the worker's.
        reading, writing = os.pipe()
        own_end, their_end = (writing, reading) if is_written else (reading, writing)
        own.callback(os.close, own_end)
        theirs.callback(os.close, their_end)
        return own_end, their_end

    def keep(self) -> tuple[socket.socket, int, int, mmap.mmap]:
        """Return the ends that stay open on this side: the socket, the output, the lifeline, and the page."""
        self._own.pop_all()
        return self._socket, self._output, self._lifeline, self._page

    def __enter__(self) -> _Ends:
        return self

    def __exit__(self, *_: object) -> None:
        with self._own, self._theirs:
            pass


def _pidfd(process: int) -> int:
    try:
        return os.pidfd_open(process)
    except (OSError, AttributeError):  # the kernel or C library is from before 2019, or a sandbox refuses the call
        return -1


def worker_command(interpreter: str, memory: int, program: Path | None) -> list[str]:
    """Return the first words of a worker's command line.

    :param memory: the memory limit for *program*, which must be confined before it starts. The Python worker confines
        itself
    """
    if program is not None:
        return [interpreter, "-I", "-S", _SANDBOX, "--exec", str(memory), str(program)]
    return [interpreter, "-I", "-S", "-c", _START, _ROOT]


def interpreters() -> Sequence[str]:
    """Return the paths of Python interpreters that may be able to run the worker, the most likely first.

    Inside a debugger ``sys.executable`` may be any program. The interpreter that fits the debugger's Python library is
    beside that library.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    beside = [f"{prefix}/bin/{name}" for prefix in (sys.prefix, sys.base_prefix) for name in (version, "python3")]
    paths: list[str] = []
    for path in (sys.executable or "", *beside, f"/usr/bin/{version}", "/usr/bin/python3"):
        name = path.rpartition("/")[2]
        if name.startswith("python") and path.startswith("/") and path not in paths and os.access(path, os.X_OK):
            paths.append(path)
    return paths
