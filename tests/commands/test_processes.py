"""``ompd`` without arguments lists the OpenMP processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.commands.shell import processes
from ompd.machine.processes import OpenMpProcess, find_processes
from tests.support.command import run
from tests.support.why import GNU, WHYS, hanging

STAT = "{0} (a) b) {1} 1 1 1 0 -1 0 0 0 0 0 {2} {3} 0 0 20 0 3 0 100"
LIBRARY = "7f0000000000-7f0000001000 r-xp 00000000 08:01 1234   /opt/{0}\n"


def shown(folder: Path, number: int, library: str, states: str) -> Path:
    """Make a folder of /proc for a process with threads in these states."""
    process = folder / str(number)
    for thread, state in enumerate(states, number):
        (process / "task" / str(thread)).mkdir(parents=True)
        (process / "task" / str(thread) / "stat").write_text(STAT.format(thread, state, 5, 6))
    (process / "stat").write_text(STAT.format(number, states[0], 5, 6))
    (process / "maps").write_text(LIBRARY.format("lib.so.6") + LIBRARY.format(library))
    (process / "exe").symlink_to(f"/home/me/program{number} (deleted)")
    return process


@pytest.mark.parametrize(
    ("library", "runtime"),
    [
        ("libgomp.so.1.0.0", "libgomp.so.1.0.0"),
        ("libgomp-a34b3233.so.1.0.0", "libgomp-a34b3233.so.1.0.0"),
        ("libomp.so.5 (deleted)", "libomp.so.5"),
        ("libiomp5.so", "libiomp5.so"),
        ("libomp-14.so.5", "libomp-14.so.5"),
        *((other, None) for other in ("libompd.so", "libomptarget.so.14", "libgomp-plugin-nvptx.so.1", "libgompx.so")),
    ],
)
def test_a_runtime_is_known_by_the_name_of_its_file(library: str, runtime: str | None, tmp_path: Path) -> None:
    shown(tmp_path, 7, library, "SRS")
    expected = (OpenMpProcess(7, "program7", (runtime,), 3, 2, 0.0),) if runtime is not None else ()
    assert find_processes(tmp_path, 0) == expected


def test_what_has_ended_or_is_of_somebody_else_is_left_out(tmp_path: Path) -> None:
    (shown(tmp_path, 7, "libomp.so", "S") / "exe").unlink()
    (shown(tmp_path, 8, "libomp.so", "S") / "maps").unlink()
    (shown(tmp_path, 9, "libomp.so", "S") / "stat").write_text("no numbers")
    shown(tmp_path, os.getpid(), "libomp.so", "S")
    shown(tmp_path, 10**7, "libomp.so", "R")
    assert [row.process_id for row in find_processes(tmp_path, 0)] == [10**7]


def test_the_command_alone_lists_them(tmp_path: Path) -> None:
    with hanging(WHYS["self_lock-lock"], "gcc", GNU, folder=tmp_path) as hung:
        ran = run()
    assert (ran.returncode, ran.stderr) == (0, "")
    title, *lines, empty, following = ran.stdout.splitlines()
    assert title.split() == ["PID", "PROGRAM", "THREADS", "ASLEEP", "PROCESSORS", "RUNTIME"] and not empty
    (line,) = (each.split() for each in lines if each.split()[1] == hung.executable.name)
    number, _, threads, asleep, processors, runtime = line
    assert (threads, asleep, processors, runtime.partition(".")[0]) == (threads, threads, "0.0", "libgomp")
    assert int(threads) > 1 and following.removeprefix("next: ompd why ") in (
        f"{number}, or ompd --help",
        "PID, or ompd --help",
    )


def test_without_any_the_help_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find_processes", lambda: ())
    ran = CliRunner().invoke(cli, [])
    assert ran.exit_code == 0 and ran.output.startswith(
        "no process that you may look at has loaded an OpenMP runtime\n"
    )
    assert "Usage: " in ran.output and "  why  " in ran.output
