"""Runs work in a child process with limits: third-party code that parses untrusted files has none of its own."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_MAX_REPLY = 8 << 20
_MAX_WORDS = 200


class GivenUp(Exception):
    """The work was not done; the text says why."""


class Killed(GivenUp):
    """The child was killed, usually by the kernel for lack of memory. Another attempt may succeed."""


def run(work: Callable[[], object], *, seconds: int, memory: int, within: float | None = None) -> object:
    """Return what *work* returns, run in a child process and passed on as JSON.

    :param seconds: limit of processor time
    :param memory: bytes that the child may allocate beyond this process's own
    :param within: limit of elapsed seconds, None for none. If it is given, the processes that the child started end
        with the child, and the child ends with this process
    :raises GivenUp: if *work* raised an exception or exceeded a limit
    """
    reading, writing = os.pipe()
    alive, living = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        for pipe in (reading, writing, alive, living):
            os.close(pipe)
        raise GivenUp(f"no process can be started for it: {error.strerror}") from error
    if child == 0:
        try:
            os.close(reading)
            os.close(living)
            _limit(seconds, memory)
            if within is not None:
                os.setpgid(0, 0)  # one group with its own children, so that they can be ended together
                end_with(alive, -os.getpid())
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, within)
            _reply(writing, work)
        finally:
            os._exit(0)  # never run the parent's handlers and finalizers
    os.close(writing)
    os.close(alive)
    try:
        with os.fdopen(reading, "rb") as stream:
            raw = stream.read(_MAX_REPLY)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        if within is not None:
            with suppress(OSError):
                # The child's number cannot be reused until its status is collected.
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
                os.killpg(child, signal.SIGKILL)
        os.close(living)
        status = 0
        with suppress(ChildProcessError):  # if SIGCHLD is ignored, the kernel drops the status
            _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            raise GivenUp(f"it takes more than {seconds} s")
        if number == signal.SIGALRM and within is not None:
            raise GivenUp(f"it takes more than {within:g} s")
        raise (Killed if number == signal.SIGKILL else GivenUp)(f"signal {number} ended it")
    try:
        done, result = json.loads(raw)
    except ValueError as error:
        raise GivenUp("it said nothing that can be read") from error
    if not done:
        raise GivenUp(str(result))
    return result


def end_with(pipe: int, process: int) -> None:
    """Have the kernel end a process when the other end of *pipe* is closed, which happens when its holder exits.

    :param process: a process id, or a process group as a negative number
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, process)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    looking = select.poll()
    looking.register(pipe, 0)
    if looking.poll(0):  # the other end is closed already, so the kernel sends no signal
        os.kill(process, signal.SIGIO)


def _limit(seconds: int, memory: int) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, pages * resource.getpagesize() + memory),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, hard))


def _reply(writing: int, work: Callable[[], object]) -> None:
    try:
        reply = [True, work()]
    except MemoryError:
        reply = [False, "it takes too much memory"]
    except GivenUp as error:
        reply = [False, str(error)]
    except BaseException as error:  # noqa: BLE001  third-party code may raise anything
        reply = [False, f"{type(error).__name__}: {error}"[:_MAX_WORDS]]
    with os.fdopen(writing, "wb") as stream:
        stream.write(json.dumps(reply).encode("ascii"))
