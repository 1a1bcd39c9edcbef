"""The command as a process: wrong usage, closed pipes, interrupts, and hostile names in the target."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.commands import main
from ompd.errors import BadFile
from ompd.session import Session
from tests.support import (
    Stopped,
    clean_environment,
    stopped,
)
from tests.support.command import (
    NT_FILE,
    OMPD,
    notes,
    ompd,
    patched,
)


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("uneven")


# Usage, pipes, interrupts


@pytest.mark.parametrize(
    "arguments", [["threads"], ["thread"], ["threads", "core", "--nonsense"], ["threads", "core", "--color", "red"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    ran = ompd(*arguments)
    assert (ran.code, ran.out) == (2, "")


def test_output_to_a_closed_pipe(good: Stopped) -> None:
    for options in (["--json"], ["--all", "-v"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [str(OMPD), "threads", str(good.core), *options],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
            check=False,
        )
        os.close(writer)
        assert done.stderr == "" and done.returncode in (0, 141)


def test_output_that_does_not_fit(good: Stopped) -> None:
    for options in (["--json"], ["--all"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(OMPD), "threads", str(good.core), *options],
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=clean_environment(),
                check=False,
            )
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "No space left" in done.stderr


def in_shell(words: str, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), "OMPD": str(OMPD), **{name: str(value) for name, value in variables.items()}}
    quoted = re.sub(r"\$\w+", r'"\g<0>"', words)  # the path of the checkout may have a space
    return subprocess.run(["bash", "-c", quoted], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    "words",
    [
        *("threads $CORE", "threads --json $CORE", "triage $CORE", "report $CORE -o -", "hook pmi", "layout show"),
        *("--help", "--version", "schema threads", "completion bash", "manual", "lldb-init", "threads --help"),
    ],
)
@pytest.mark.parametrize(
    ("where", "why"), [(">&-", "standard output is closed"), (">/dev/full", "No space left on device")]
)
@pytest.mark.quick(
    ">&--standard output is closed-threads $CORE",
    ">&--standard output is closed-threads --json $CORE",
    ">&--standard output is closed-triage $CORE",
    ">&--standard output is closed-report $CORE -o -",
    ">&--standard output is closed-hook pmi",
    ">&--standard output is closed---help",
    ">&--standard output is closed---version",
    ">&--standard output is closed-layout show",
    ">&--standard output is closed-schema threads",
    ">&--standard output is closed-completion bash",
    ">&--standard output is closed-manual",
    ">&--standard output is closed-lldb-init",
    ">&--standard output is closed-threads --help",
    ">/dev/full-No space left on device-threads $CORE",
    ">/dev/full-No space left on device-threads --json $CORE",
    ">/dev/full-No space left on device-report $CORE -o -",
    ">/dev/full-No space left on device-manual",
)
def test_an_answer_that_cannot_be_written(good: Stopped, words: str, where: str, why: str) -> None:
    done = in_shell(f"$OMPD {words} {where}", CORE=good.core)
    assert (done.returncode, done.stderr) == (1, f"ompd: cannot write the answer: {why}\n")


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "<&- 2>&-"])
@pytest.mark.quick("<&- 2>&-")
def test_messages_that_cannot_be_written_cost_no_answer(good: Stopped, tmp_path: Path, where: str) -> None:
    for words in ("threads $CORE", "why $CORE", "triage $CORE /none", "threads $CORE --ompd-library /none"):
        usual, done = (in_shell(f"$OMPD {words} {end}", CORE=good.core) for end in ("", where))
        assert usual.stdout and (done.returncode, done.stdout) == (usual.returncode, usual.stdout)
    assert in_shell(f"$OMPD threads /none {where}").returncode == 1
    assert in_shell(f"$OMPD threads {where}").returncode == 2
    done = in_shell(f"$OMPD report $CORE -o $PAGE {where}", CORE=good.core, PAGE=tmp_path / "page")
    assert done.returncode in (0, 3) and (tmp_path / "page").stat().st_size


def test_a_closed_standard_input_is_no_list() -> None:
    done = in_shell("$OMPD triage - <&-")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ompd: standard input cannot be read: Bad file descriptor\n"


def test_files_get_no_number_of_a_closed_stream(good: Stopped, tmp_path: Path) -> None:
    # Text for a closed stream must not get into the snapshot.
    done = in_shell("$OMPD snapshot $CORE -o $FILE >&- 2>&- <&-", CORE=good.core, FILE=tmp_path / "small")
    assert done.returncode == 1 and ompd("threads", tmp_path / "small").code == 0


@pytest.mark.parametrize("delay", [0.04, 0.07, 0.1, 0.15])
def test_an_interrupt(good: Stopped, delay: float) -> None:
    process = subprocess.Popen(
        [str(OMPD), "threads", str(good.core)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # 1 and -2: Python was still starting or already ending, and no code of ompd ran.
    assert process.returncode in (0, 1, 130, -signal.SIGINT)
    assert "in _run" not in err and (process.returncode != 130 or "Traceback" not in err)


INTERRUPTED_AT = """
import functools, os, signal, sys
left = int(sys.argv[1])
usual = functools.cached_property.__set_name__
def counting(self, owner, name):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGINT)
    usual(self, owner, name)
functools.cached_property.__set_name__ = counting
sys.argv = ["ompd", "threads", sys.argv[2]]
from ompd.start import main
main()
"""


@pytest.mark.parametrize("at", [1, 20, 60, 100])
def test_an_interrupt_where_python_makes_another_exception_of_it(good: Stopped, at: int) -> None:
    # The interrupt comes while a class is created, in a module imported first or in one imported for an answer.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, str(at), str(good.core)], capture_output=True, text=True, check=False
    )
    # Python 3.12 and later keep the KeyboardInterrupt, and click ends the terminal's line.
    assert (done.returncode, done.stdout, done.stderr.strip("\n")) == (130, "", "")


# Lists the modules that are searched for before the command handles SIGINT. Python has loaded its own modules earlier.
FIRST_IMPORTS = """
import _signal, sys
class Noting:
    def find_spec(self, name, path=None, target=None):
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            sys.stderr.write(name + "\\n")
sys.meta_path.insert(0, Noting())
from ompd.start import main
"""

INTERRUPTED_LATE = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["ompd", "threads", sys.argv[1], "--json"]
from ompd.start import main
main()
"""


def test_an_interrupt_during_the_first_imports_and_at_the_end(good: Stopped) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_IMPORTS], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= {"ompd", "__future__", "ompd.start", "_signal"}
    for ignored in ("", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"):
        late = subprocess.run(
            [sys.executable, "-c", ignored + INTERRUPTED_LATE, str(good.core)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (late.returncode, late.stderr) == (0, "") and json.loads(late.stdout)["threads"]


def test_an_interrupt_during_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], good: Stopped
) -> None:
    def interrupted(self: Session) -> Iterator[None]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "runtimes", property(interrupted))
    monkeypatch.setattr(sys, "argv", ["ompd", "threads", str(good.core)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err


# Names in a core are data


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path: Path, good: Stopped) -> None:
    def patch(data: bytearray) -> None:
        at = data.find(b"libiomp5.so\0", notes(data, NT_FILE)[0])
        while at >= 0:
            data[at : at + 4] = b"\x1b[2J"
            at = data.find(b"libiomp5.so\0", at)

    core = patched(good.core, tmp_path / "core", patch)
    for command in ("runtimes", "threads"):
        ran = ompd(command, core)
        assert "\x1b" not in ran.out + ran.err
        assert ran.code in (1, 3) or command == "runtimes"


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    core = Path(os.fsdecode(os.fsencode(tmp_path / "core.") + b"\xff\x1b[31m"))
    core.write_bytes(b"text\n")
    ran = ompd("threads", core)
    assert ran.code == 1 and "is not an ELF file" in ran.err and "\x1b" not in ran.err
    with pytest.raises(BadFile):
        Session.open_core(core)
