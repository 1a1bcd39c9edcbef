"""The connection to a library in a separate process, for any interface: messages, callbacks, warnings, the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import error as struct_error
from typing import NoReturn, TypeVar

from ompd.errors import LibraryError, Rc
from ompd.records import record
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED
from ompd.runtimes.hosted.process import Interface, Limits, Loads, WorkerProcess, interpreters
from ompd.runtimes.hosted.protocol import (
    ABSENT,
    ANSWER,
    CALLBACK,
    READY,
    READY_HEAD,
    UNLOADED,
    VERSION,
    WARNING,
)
from ompd.runtimes.hosted.results import Malformed, RowReader, clean

_MAX_WARNINGS = 40

_T = TypeVar("_T")


@record
class Ready:
    """The library's first message: the version of the interface that it implements, its own version text, cleaned, and
    the C names of the functions that it has.
    """

    api_version: int
    version_string: str
    functions: frozenset[str]


class Connection:
    """The process of a library, from its start to its end.

    :param serve: returns the body of the answer to a callback, given the callback's body
    :param warn: called with each cleaned line that the library prints, and with warnings about its misbehaviour
    :param program: a worker to use instead of the Python worker
    :raises LibraryError: if the process cannot be started
    """

    def __init__(
        self,
        loadable: Loads,
        interface: Interface,
        serve: Callable[[bytes], bytes],
        *,
        limits: Limits,
        warn: Callable[[str], None],
        program: Path | None,
    ) -> None:
        self.name = loadable.name
        self._loadable, self._interface, self._serve = loadable, interface, serve
        self._limits, self._warn, self._program = limits, warn, program
        self._warnings = 0
        self._is_busy = False
        self._ready: Ready | None = None
        self._interpreters = iter(interpreters())
        self._start()

    def _start(self) -> None:
        interpreter = next(self._interpreters, None)
        if interpreter is None:
            raise LibraryError(self.name, None, "no Python interpreter to load it with was found", has_ended=True)
        self._process = WorkerProcess(self._loadable, self._interface, self._limits, interpreter, self._program)
        self._process.allow(self._limits.start_seconds)

    @property
    def error(self) -> LibraryError | None:
        """The reason why the library's process has ended, None while it runs."""
        return self._process.error

    @property
    def process_id(self) -> int:
        """The id of the library's process."""
        return self._process.process_id

    @property
    def calls(self) -> int:
        """The number of calls of the library's functions so far."""
        return self._process.progress.calls

    @property
    def is_ready(self) -> bool:
        """Whether the library's first message has been received."""
        return self._ready is not None

    def check(self) -> None:
        """Check that the process runs and that no call is in progress.

        :raises LibraryError: if the process has ended, or a call is in progress
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self._is_busy:
            raise LibraryError(self.name, None, "a call from within a callback, which is not allowed")

    def wait(self) -> Ready:
        """Wait for the library's first message and return it. The library's descriptors must stay open until then.

        :raises LibraryError: if the library cannot be loaded or initialised
        """
        while self._ready is None:
            self.check()
            try:
                self._ready = self._received_ready()
            except LibraryError:
                # If no function has been called, the Python interpreter itself has failed. Another interpreter may
                # work.
                failed = self._process
                if failed.progress.calls or not self._starts_again():
                    self._process = failed
                    self._report_output()
                    raise
            except BaseException:
                self._process.fail("interrupted")
                raise
        return self._ready

    def _starts_again(self) -> bool:
        try:
            self._start()
        except LibraryError:
            return False
        return True

    def _received_ready(self) -> Ready:
        body = self._received(READY, self._limits.seconds)
        try:
            version, outcome, code, count, api_version = READY_HEAD.unpack_from(body)
            rows = RowReader(body, READY_HEAD.size).read(READY_HEAD.size, count)
        except (struct_error, Malformed) as error:
            raise self._process.fail("its process sent an invalid message") from error
        if version != VERSION or not rows:
            raise self._process.fail(f"its process speaks version {version} of the protocol")
        if outcome or code:
            self._refuse(outcome, code, clean(rows[0].text))
        return Ready(api_version, clean(rows[0].text), frozenset(clean(row.text) for row in rows[1:]))

    def _refuse(self, outcome: int, code: int, text: str) -> NoReturn:
        if outcome == UNLOADED:
            error = LibraryError(self.name, None, f"cannot be loaded: {text}", rc=Rc.INCOMPATIBLE, has_ended=True)
        elif outcome == ABSENT:
            fault = f"not {self._interface.title}: it has no function {text}"
            error = LibraryError(self.name, None, fault, rc=Rc.INCOMPATIBLE, has_ended=True)
        else:
            error = LibraryError(self.name, text, returned(code), rc=rc_of(code), has_ended=True)
        raise self._process.end_for(error)

    def exchange(
        self, kind: int, parts: Sequence[bytes], wanted: int, read: Callable[[bytes], _T], calls: int = 0
    ) -> _T:
        """Send a message, serve callbacks, and return the answer to the message.

        :param wanted: the kind of the answer
        :param read: reads the answer's body
        :param calls: the number of library functions that the process may call for this message, in addition to the
            first one
        :raises LibraryError: if the process has ended, or ends meanwhile
        """
        self.wait()
        self.check()
        self._is_busy = True
        try:
            self._process.allow(self._limits.seconds, calls)
            self._process.send(kind, *parts)
            return self._read(self._received(wanted, self._limits.seconds), read)
        except LibraryError:
            self._report_output()
            raise
        except BaseException:
            # After an interruption, the next message would be taken for the answer to another message.
            self._process.fail("interrupted")
            raise
        finally:
            self._is_busy = False

    def _read(self, body: bytes, read: Callable[[bytes], _T]) -> _T:
        try:
            return read(body)
        except (struct_error, Malformed, IndexError) as error:
            raise self._process.fail("its process sent an invalid answer") from error

    def _received(self, wanted: int, seconds: float) -> bytes:
        # The body of the next message of the *wanted* kind. Callbacks that come before it are served.
        while True:
            kind, body = self._process.receive(seconds)
            if kind == CALLBACK:
                begun = time.monotonic()
                answer = self._read(body, self._serve)
                self._process.excuse(time.monotonic() - begun)
                self._process.send(ANSWER, answer)
            elif kind == WARNING:
                self.report(body)
            elif kind == wanted:
                self._report_output()
                return body
            else:
                raise self._process.fail("its process sent an invalid answer")

    def report(self, text: str | bytes) -> None:
        """Pass on a warning, unless there have been too many."""
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            self._warn(f"{self.name}: {clean(text)}")
        if self._warnings == _MAX_WARNINGS:
            self._warn(f"{self.name}: prints more than {_MAX_WARNINGS} lines, of which the rest is left out")

    def _report_output(self) -> None:
        for line in self._process.output():
            # This is the only line that a worker itself prints, before the library is loaded.
            self.report(line if line == UNCONFINED else f"printed {line}")

    def end(self) -> None:
        """End the process, after giving it some time to end by itself."""
        self._process.end()

    def fail(self, fault: str) -> None:
        """End the process now. Later uses are refused with *fault* as the reason, or with an earlier fault."""
        self._process.end_for(LibraryError(self.name, None, fault, has_ended=True))


def rc_of(code: int) -> Rc:
    """Return the :class:`Rc` for an OMPD return code, ``Rc.ERROR`` for an unknown code."""
    try:
        return Rc(code) or Rc.ERROR
    except ValueError:
        return Rc.ERROR


def returned(code: int) -> str:
    """Return the text for an OMPD return code in messages."""
    try:
        return f"ompd_rc_{Rc(code).name.lower()}"
    except ValueError:
        return f"code {code}, which OMPD does not have,"
