"""The processes that a word names: by number, by the file of their program, and by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.commands.targets import process_id_of, processes_of
from ompd.errors import BadInput
from tests.support.command import run

NAME = f"ompd-sleeper-{os.getpid()}"


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """A program, and two processes that run it."""
    program = tmp_path / NAME
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    processes = [subprocess.Popen([program, "600"]) for _ in range(2)]
    try:
        processes_of.cache_clear()
        yield program, sorted(processes, key=lambda each: each.pid)
    finally:
        for each in processes:
            each.kill()
            each.wait()
        processes_of.cache_clear()


def test_a_program_stands_for_the_processes_that_run_it(sleepers: tuple[Path, list[subprocess.Popen[bytes]]]) -> None:
    program, numbers = sleepers[0], [each.pid for each in sleepers[1]]
    link = program.with_name("link")
    link.symlink_to(program)
    assert list(processes_of(str(program))) == list(processes_of(str(link))) == list(processes_of(NAME)) == numbers
    with pytest.raises(BadInput, match="2 processes run") as error:
        process_id_of(NAME)
    assert all(str(number) in str(error.value) for number in numbers)
    ran = run("threads", NAME)
    assert ran.returncode == 1 and f"2 processes run {NAME}: {numbers[0]}, {numbers[1]}" in ran.stderr
    assert f"ompd triage {NAME}" in ran.stderr


def test_the_one_process_of_a_program_is_asked(sleepers: tuple[Path, list[subprocess.Popen[bytes]]]) -> None:
    program, (first, second) = sleepers
    first.kill()
    first.wait()
    for word in (str(program), NAME):
        ran = run("runtimes", word, "--json")
        assert (ran.returncode, json.loads(ran.stdout)["target"]["process_id"]) == (0, second.pid), ran.stderr
    program.unlink()  # as a new build does
    processes_of.cache_clear()
    assert (list(processes_of(NAME)), list(processes_of(str(program)))) == ([second.pid], [])


def test_a_program_that_nobody_runs_is_no_core(tmp_path: Path) -> None:
    program = tmp_path / "idle"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    ran = run("why", program)
    assert (ran.returncode, "no process runs it" in ran.stderr) == (1, True)


def test_files_come_before_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = str(os.getppid())
    processes_of.cache_clear()
    assert processes_of(own) == processes_of(f"/proc/{own}/") == (int(own),)
    Path(own).write_bytes(b"no program")
    processes_of.cache_clear()
    assert (processes_of(own), processes_of(f"/proc/{own}")) == ((), (int(own),))
    for word in ("", "core.1234", "coredumpctl:sleep", "no/such", "a\0b"):
        assert processes_of(word) == ()
    os.mkfifo("pipe")
    assert processes_of("pipe") == ()
