"""Ctrl-C at any moment from the command's first line on ends the command quietly.

The command is imported and run in forks of an interpreter that has loaded nothing of it. SIGINT comes at the Nth call
of any function, in Python or C, so that each moment of a start can be repeated.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import FULL, Stopped, clean_environment, stopped

SEED = 20261122
MOMENTS = 600 if FULL else 20

# Standard input has a line of JSON for each run: the call at which SIGINT comes (0: never), and the arguments. Standard
# output has the result, and the number of calls.
FORKING = """
import json, os, signal, sys
real = os.fdopen(os.dup(1), "w")
def run(at, argv, out, err, report):
    left = at
    count = 0
    def calling(frame, event, argument):
        nonlocal count
        if event == "call" or event == "c_call":
            count += 1
            if count == at:
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGINT)
    os.dup2(out, 1)
    os.dup2(err, 2)
    end = os._exit
    def ending(code):  # as the command ends once it has answered
        sys.setprofile(None)
        os.pwrite(report, b"%d" % count, 0)
        end(code)
    os._exit = ending
    sys.argv = ["ompd", *argv]
    code = None
    try:
        from ompd.start import main
        sys.setprofile(calling)
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 99
    sys.setprofile(None)
    try:
        sys.stdout.flush()
    finally:
        os.pwrite(report, b"%d" % count, 0)
        os._exit(code)
for line in sys.stdin:
    at, argv = json.loads(line)
    out, err, report = (os.memfd_create(name) for name in ("out", "err", "report"))
    child = os.fork()
    if child == 0:
        try:
            run(at, argv, out, err, report)
        finally:
            os._exit(98)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = [os.pread(descriptor, 1 << 20, 0).decode() for descriptor in (out, err, report)]
    for descriptor in (out, err, report):
        os.close(descriptor)
    real.write(json.dumps([code, *texts]) + "\\n")
    real.flush()
"""


@dataclass
class Forking:
    """An interpreter that runs the command in forks of itself."""

    process: subprocess.Popen[str]

    def run(self, at: int, *arguments: Any) -> tuple[int, str, str, int]:
        """Return exit code, output, error output and number of calls of a run, with SIGINT at call *at*."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([at, list(map(str, arguments))]) + "\n")
        self.process.stdin.flush()
        code, out, err, count = json.loads(self.process.stdout.readline())
        return code, out, err, int(count or 0)


@pytest.fixture(scope="module")
def forking() -> Any:
    environment = {**clean_environment(), "OMPD_CACHE": "off"}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Forking(process)


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("nested")


@pytest.mark.timeout(900 if FULL else 120)
@pytest.mark.parametrize("command", ["threads", "stack", "snapshot", "schema"] if FULL else ["threads", "snapshot"])
@pytest.mark.quick("threads")
def test_an_interrupt_at_any_call_is_quiet(command: str, good: Stopped, forking: Forking, tmp_path: Any) -> None:
    written = tmp_path / "small.core"
    arguments: tuple[Any, ...] = {
        "snapshot": ("snapshot", good.core, "-o", written),
        "schema": ("schema", "threads"),
    }.get(command, (command, good.core, "--json"))
    code, whole, _, calls = forking.run(0, *arguments)
    assert (code, calls > 1000) == (0, True)
    chance = random.Random(f"{SEED}{command}")
    moments = {1, 2, 3, 5, 10, 50, 200} | {chance.randrange(1, calls) for _ in range(MOMENTS // 4)}
    for at in sorted(moments):
        written.unlink(missing_ok=True)
        code, out, err, _ = forking.run(at, *arguments)
        assert code in (0, 130) and err.strip() == "", (at, code, err)
        assert code == 130 or command == "snapshot" or out == whole, at
        # The written file is complete or absent, and no other file is left.
        assert set(tmp_path.iterdir()) <= ({written} if code == 0 or written.exists() else set()), (at, code)


IN_A_CALLBACK = """
import os, signal, time, weakref
import ompd.commands.main, ompd.start
class Thing:
    pass
def run():
    thing = Thing()
    kept = weakref.ref(thing, lambda _: [os.kill(os.getpid(), signal.SIGINT) for _ in range(1)])
    del thing
    time.sleep(50)
ompd.commands.main.main = run
ompd.start.main()
"""


def test_an_interrupt_that_no_exception_can_tell_of_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK], capture_output=True, text=True, env=clean_environment(), timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
