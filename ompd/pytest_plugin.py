"""pytest's option ``--ompd-stall``: a test in which threads are stuck fails, and its report says why.

Without the option this module does nothing, and imports nothing of ompd.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FOLDER = "ompd_stall_folder"
# Signals of the helper process: at the first the C library's handler writes Python's stacks, at the second the test
# fails. Few programs use such signals.
STACKS, FAIL = signal.SIGRTMAX - 3, signal.SIGRTMAX - 4


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("ompd", "OpenMP programs that hang").addoption(
        "--ompd-stall",
        type=float,
        default=None,
        metavar="S",
        help="If nothing in a test moves for S seconds, ask why; fail the test if its threads never go on.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start to watch if the option is given."""
    seconds = config.getoption("--ompd-stall")
    if seconds is not None:
        if not seconds > 0:
            raise pytest.UsageError("--ompd-stall: more than 0 seconds are needed")
        is_controller = not hasattr(config, "workerinput") and getattr(config.option, "dist", "no") != "no"
        folder = Path(getattr(config, "workerinput", {}).get(_FOLDER) or tempfile.mkdtemp(prefix="ompd-stall."))
        config.pluginmanager.register(
            _Controller(folder) if is_controller else _Watched(config, seconds, folder), "ompd-stall"
        )


def report_file(folder: Path, test: str) -> Path:
    """Return the file for the report on a test.

    :param test: the test's node id
    """
    return folder / hashlib.sha256(test.encode("utf-8", "surrogateescape")).hexdigest()


class _Controller:
    # The process that gives tests to the workers of xdist.

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_FOLDER] = str(self._folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        file = report_file(self._folder, crashitem)
        if file.exists():
            report.sections.append(("ompd why", file.read_text(errors="replace")))

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _Watched:
    # A process that runs tests. A helper process watches it.

    def __init__(self, config: pytest.Config, seconds: float, folder: Path) -> None:
        import faulthandler
        import os

        self._folder = folder
        self._is_owner = not hasattr(config, "workerinput")
        self._item: pytest.Item | None = None
        self._stacks = (folder / f"stacks.{os.getpid()}").open("w+")
        faulthandler.register(STACKS, file=self._stacks, all_threads=True)
        signal.signal(FAIL, self._fail)
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=False)
        try:  # messages of the helper go to the terminal
            words = [sys.executable, "-m", "ompd.run.testing", str(os.getpid()), str(seconds), str(folder)]
            self._helper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        finally:
            if capture is not None:
                capture.resume_global_capture()
        _let_trace(self._helper.pid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._item = item
        self._tell(f"begin {item.nodeid}")
        try:
            return (yield)
        finally:
            self._item = None
            self._tell("end")

    def _tell(self, line: str) -> None:
        assert self._helper.stdin is not None
        try:
            self._helper.stdin.write(f"{line.splitlines()[0]}\n".encode("utf-8", "surrogateescape"))
            self._helper.stdin.flush()
        except OSError:  # the helper has ended; tests run on without it
            pass

    def _fail(self, _number: int, _frame: object) -> None:
        item = self._item
        file = report_file(self._folder, item.nodeid) if item is not None else None
        if item is None or file is None or not file.exists():
            return  # the test has ended meanwhile
        reason, _, text = file.read_text(errors="replace").partition("\n")
        file.unlink()
        self._stacks.seek(0)
        stacks = self._stacks.read()
        item.add_report_section("call", "ompd why", text)
        item.add_report_section("call", "Python's stacks", stacks)
        pytest.fail(f"stuck: {reason}", pytrace=True)

    def pytest_unconfigure(self) -> None:
        assert self._helper.stdin is not None
        self._helper.stdin.close()
        self._helper.wait()
        self._stacks.close()
        if self._is_owner:
            shutil.rmtree(self._folder, ignore_errors=True)


def _let_trace(process_id: int) -> None:
    # Where the kernel lets only ancestors trace a process (Yama), a process may name one other that may.
    import ctypes

    pr_set_ptracer = 0x59616D61
    ctypes.CDLL(None).prctl(pr_set_ptracer, ctypes.c_ulong(process_id), 0, 0, 0)
