"""The connection to a library in a separate process, for any interface: calls, callbacks, warnings, the end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ompd.errors import LibraryError, Rc
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED
from ompd.runtimes.hosted.messages import (
    Call,
    Callback,
    Malformed,
    Reply,
    clean,
    packed_calls,
    read_callback,
    read_replies,
)
from ompd.runtimes.hosted.process import Interface, Limits, Loads, WorkerProcess, interpreters
from ompd.runtimes.hosted.protocol import ABSENT, ANSWER, BATCH, CALLBACK, RESULTS, UNLOADED, VERSION, WARNING, signed

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_WARNINGS = 40


class Connection(ABC):
    """A library in a separate process, from its start to its end.

    :param warnings: gets each cleaned line that the library prints, and warnings about its misbehaviour
    :param program: a worker to use instead of the Python worker, for a library of another architecture
        (``runtime_stub/host/``)
    :raises LibraryError: if the process cannot be started
    """

    def __init__(
        self,
        loadable: Loads,
        interface: Interface,
        *,
        limits: Limits,
        warnings: list[str] | None = None,
        program: Path | None = None,
    ) -> None:
        self.name = loadable.name
        """The library's name in messages."""
        self.api_version = 0
        """The version of the interface that the library implements; 0 until the library is ready."""
        self.version_text = ""
        """The library's own version text, cleaned; empty until the library is ready."""
        self.functions: frozenset[str] = frozenset()
        """The C names of the interface's functions that the library has; empty until the library is ready."""
        self.is_ready = False
        """Whether the library has started."""
        self.allocated = 0
        """The number of memory blocks that the library had not freed after the last exchange."""
        self._loadable, self._interface, self._program, self._limits = loadable, interface, program, limits
        self._warnings = warnings if warnings is not None else []
        self._warning_count = 0
        self._is_busy = False
        self._interpreters = iter(interpreters())
        self._start()

    @abstractmethod
    def answer(self, callback: Callback) -> bytes:
        """Return the body of the answer to a callback.

        :raises Malformed: if the interface has no such callback
        """

    @abstractmethod
    def close(self) -> None:
        """End the library's process, whatever its state."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

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

    def check(self) -> None:
        """Check that the process runs and that no call is in progress.

        :raises LibraryError: if the process has ended, or a call is in progress
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self._is_busy:
            raise LibraryError(self.name, None, "a call from within a callback, which is not allowed")

    def wait(self) -> None:
        """Wait until the library is ready. Its descriptors must stay open until then.

        :raises LibraryError: if the library cannot be loaded or initialised
        """
        while not self.is_ready:
            self.check()
            try:
                self._receive_start()
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

    def _starts_again(self) -> bool:
        try:
            self._start()
        except LibraryError:
            return False
        return True

    def _receive_start(self) -> None:
        (reply,) = self._received(1)
        if not reply.rows or reply.words[1] != VERSION:
            raise self._process.fail(f"its process speaks version {reply.words[1]} of the protocol")
        text = clean(reply.rows[0].raw)
        if reply.outcome or reply.code:
            raise self._process.end_for(self._refusal(reply, text))
        self.api_version, self.version_text = signed(reply.words[2]), text
        self.functions = frozenset(clean(row.raw) for row in reply.rows[1:])
        self.is_ready = True

    def _refusal(self, reply: Reply, text: str) -> LibraryError:
        if reply.outcome == UNLOADED:
            return LibraryError(self.name, None, f"cannot be loaded: {text}", rc=Rc.INCOMPATIBLE, has_ended=True)
        if reply.outcome == ABSENT:
            fault = f"not {self._interface.title}: it has no function {text}"
            return LibraryError(self.name, None, fault, rc=Rc.INCOMPATIBLE, has_ended=True)
        return LibraryError(self.name, text, returned(reply.code), rc=rc_of(reply.code), has_ended=True)

    def make(self, calls: Sequence[Call], further: int = 0) -> list[Reply]:
        """Make calls, answer the library's callbacks meanwhile, and return the reply to each call.

        :param further: the number of library functions that the process may call in addition to one for each call
        :raises LibraryError: if the process has ended, or ends meanwhile
        """
        self.wait()
        self.check()
        self._is_busy = True
        try:
            self._process.allow(self._limits.seconds, len(calls) - 1 + further)
            self._process.send(BATCH, *packed_calls(calls))
            return self._received(len(calls))
        except LibraryError:
            self._report_output()
            raise
        except BaseException:
            # After an interruption, the next message would be taken for the answer to another message.
            self._process.fail("interrupted")
            raise
        finally:
            self._is_busy = False

    def _received(self, expected: int) -> list[Reply]:
        # The replies to the expected number of calls. Callbacks that come before them are answered.
        try:
            while True:
                kind, body = self._process.receive(self._limits.seconds)
                if kind == CALLBACK:
                    start_time = time.monotonic()
                    answer = self.answer(read_callback(body))
                    self._process.excuse(time.monotonic() - start_time)
                    self._process.send(ANSWER, answer)
                elif kind == WARNING:
                    self.report(body)
                elif kind == RESULTS:
                    replies, self.allocated = read_replies(body, expected)
                    self._report_output()
                    return replies
                else:
                    raise self.invalid()
        except Malformed as error:
            raise self.invalid() from error

    def invalid(self) -> LibraryError:
        """End the process because it has sent an invalid answer, and return the error for it."""
        return self._process.fail("its process sent an invalid answer")

    def report(self, text: str | bytes) -> None:
        """Pass on a warning, unless there have been too many."""
        self._warning_count += 1
        if self._warning_count <= _MAX_WARNINGS:
            self._warnings.append(f"{self.name}: {clean(text)}")
        if self._warning_count == _MAX_WARNINGS:
            self._warnings.append(f"{self.name}: prints more than {_MAX_WARNINGS} lines, of which the rest is left out")

    def _report_output(self) -> None:
        for line in self._process.output():
            # This is the only line that a worker itself prints, before the library is loaded.
            self.report(line if line == UNCONFINED else f"printed {line}")

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
