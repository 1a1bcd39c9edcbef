"""``pytest --ompd-stall``: a test that is stuck fails with the reason, and others are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.live import build_live
from tests.support.why import GNU

TESTS = """
import ctypes, threading, time
library = ctypes.CDLL({library!r})

def test_before():
    assert library.team() == 2

def test_waits_in_python():
    thread = threading.Thread(target=library.deadlock, daemon=True)
    thread.start()
    thread.join()

def test_sleeps():
    time.sleep(3)

def test_waits_in_c():
    library.deadlock()

def test_after():
    assert True
"""


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ("-shared", "-fPIC")
    library = build_live("stuck_library", runtime=GNU, folder=Path(__file__).parent, flags=flags)
    file = tmp_path_factory.mktemp("tests") / "test_them.py"
    file.write_text(TESTS.format(library=str(library)))
    return file


def run(tests: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *words, str(tests)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tests.parent, env=environment)


def test_a_test_that_python_can_interrupt_fails_with_the_reason_and_the_others_run(tests: Path) -> None:
    done = run(tests, "--ompd-stall", "1", "-k", "not waits_in_c")
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout
    assert "Failed: stuck: nothing has moved for" in done.stdout
    assert "eadlock: thread 0" in done.stdout and "stuck_library.c:16" in done.stdout
    assert "in test_waits_in_python" in done.stdout.partition("Python's stacks")[2]


def test_a_test_that_does_not_get_back_to_python_is_ended_with_the_reason(tests: Path) -> None:
    done = run(tests, "--ompd-stall", "1", "-k", "waits_in_c")
    assert done.returncode < 0
    assert "test_waits_in_c" in done.stderr and "eadlock: thread 0" in done.stderr


def test_a_worker_of_xdist_is_replaced_and_the_report_has_the_reason(tests: Path) -> None:
    done = run(tests, "--ompd-stall", "1", "-n", "1", "-k", "before or waits_in_c or after")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    assert "eadlock: thread 0" in done.stdout


def test_without_the_option_nothing_of_ompd_is_imported(tests: Path) -> None:
    program = (
        "import sys, pytest\n"
        f"status = pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'before', {str(tests)!r}])\n"
        "print(int(status), sorted(name for name in sys.modules if name.startswith('ompd')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True, cwd=tests.parent
    )
    assert done.stdout.splitlines()[-1] == "0 ['ompd', 'ompd.pytest_plugin']"
