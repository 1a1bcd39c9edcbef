"""Work on files of strangers by code of others, which knows no limits: in a child process that has some."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

_MAX_REPLY = 8 << 20
_MAX_WORDS = 200


class GivenUp(Exception):
    """The work was not done; the text says why."""


def run(work: Callable[[], object], *, seconds: int, memory: int) -> object:
    """Return what *work* returns, run in a child process and passed on as JSON.

    :param seconds: processor time that it may take
    :param memory: bytes that it may take besides those that this process has
    :raises GivenUp: if it raised anything, or took more
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _limit(seconds, memory)
            _reply(writing, work)
        finally:
            os._exit(0)  # whatever happened: what the parent would do is not the child's
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            raw = stream.read(_MAX_REPLY)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise GivenUp(f"it takes more than {seconds} s" if number == signal.SIGXCPU else f"signal {number} ended it")
    try:
        done, result = json.loads(raw)
    except ValueError as error:
        raise GivenUp("it said nothing that can be read") from error
    if not done:
        raise GivenUp(str(result))
    return result


def _limit(seconds: int, memory: int) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, pages * resource.getpagesize() + memory),
    ):
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, hard))


def _reply(writing: int, work: Callable[[], object]) -> None:
    try:
        reply = [True, work()]
    except MemoryError:
        reply = [False, "it takes too much memory"]
    except GivenUp as error:
        reply = [False, str(error)]
    except BaseException as error:  # noqa: BLE001  of code of others anything can come
        reply = [False, f"{type(error).__name__}: {error}"[:_MAX_WORDS]]
    with os.fdopen(writing, "wb") as stream:
        stream.write(json.dumps(reply).encode("ascii"))
