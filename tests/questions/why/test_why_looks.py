"""Two looks at a live process: a thread that moves in between is not stuck, and a working one uses processor time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ompd
from ompd.errors import BadInput
from tests.support import stopped, stopped_twice
from tests.support.command import Ran
from tests.support.command import ompd as command
from tests.support.live import status_of, stop_all, wait_until
from tests.support.machine import Missing
from tests.support.why import WHYS, hanging

CGROUPS_1 = Path("/sys/fs/cgroup/freezer")


def test_nobody_has_moved_in_a_hang(tmp_path: Path) -> None:
    with (
        hanging(WHYS["lock_cycle-nested"], "gcc", "libgomp", folder=tmp_path) as hung,
        ompd.attach(hung.pid) as session,
    ):
        first = session.ask_why(interval=0.01).rows[0]
    assert (first.kind, first.stuck) == ("lock_cycle", "proven")
    assert any("has moved" in item.text and "none" in item.text for item in first.evidence)


def test_of_a_parent_without_openmp_the_child_is_named(tmp_path: Path) -> None:
    with hanging(WHYS["lock_cycle-nested"], "gcc", "libgomp", folder=tmp_path) as hung:
        done = command("why", str(os.getpid()), "--nonblocking")
    assert done.code == 1 and "no OpenMP runtime" in done.err
    assert f"its child process {hung.pid} uses OpenMP: ompd why {hung.pid}" in done.err


def test_who_works_has_used_processor_time(tmp_path: Path) -> None:
    with hanging(WHYS["laggard-barrier"], "gcc", "libgomp", folder=tmp_path) as hung:
        with ompd.attach(hung.pid) as session:
            first = session.ask_why(samples=3, interval=0.01).rows[0]
            once = session.ask_why(samples=1).rows[0]
        (laggard,) = hung.threads(is_root=True)
    assert (first.kind, first.roots) == (once.kind, once.roots) == ("laggard", (laggard,))
    assert any(f"thread {laggard} used" in item.text for item in first.evidence)
    assert not any("used" in item.text for item in once.evidence)


def test_the_command_looks_as_often_as_it_is_told_to(tmp_path: Path) -> None:
    with hanging(WHYS["lock_cycle-nested"], "gcc", "libgomp", folder=tmp_path) as hung:
        done = command("why", str(hung.pid), "--json", "--samples", "2", "--interval", "0.01")
        wrong = command("why", str(hung.pid), "--interval", "soon")
    assert done.json["target"]["stops_ns"] == []  # all its threads sleep
    evidence = [item["text"] for item in done.json["why"][0]["evidence"]]
    assert any("has moved" in text for text in evidence), evidence
    assert wrong.code == 2 and "soon" in wrong.err


def test_who_has_missed_a_wakeup_is_not_woken_up_by_being_looked_at(tmp_path: Path) -> None:
    with hanging(WHYS["lost_wakeup-lock"], "gcc", "libgomp", folder=tmp_path) as hung:
        asleep = {native for native in hung.threads() if native != hung.pid}
        for _ in range(2):
            done = command("why", str(hung.pid), "--json", "--interval", "0.1")
            first = done.json["why"][0]
            assert (first["kind"], first["stuck"], set(first["roots"])) == ("lost_wakeup", "likely", asleep)
            assert first["place"]["function"] == "want_lock" and not done.json["target"]["stops_ns"]
            assert "so it was not stopped" in done.err
        with pytest.MonkeyPatch.context() as patching, ompd.attach(hung.pid) as session:
            # A stop ends the hang: the threads repeat their calls, and find the lock free.
            stop_all(patching)
            session.ask_threads()
            wait_until(lambda: not any(Path(f"/proc/{hung.pid}/task/{thread}").exists() for thread in asleep))


@pytest.mark.parametrize("how", [(), ("--nonblocking",)], ids=("stopped", "nonblocking"))
def test_nobody_has_missed_a_wakeup_in_a_process_that_does_not_run(how: tuple[str, ...], tmp_path: Path) -> None:
    with hanging(WHYS["lost_wakeup-lock"], "gcc", "libgomp", folder=tmp_path) as hung:
        os.kill(hung.pid, signal.SIGSTOP)
        wait_until(lambda: set(status_of(hung.pid, "State")) == {"T (stopped)"})
        done = command("why", str(hung.pid), "--json", "--interval", "0.1", *how)
        assert set(status_of(hung.pid, "State")) == {"T (stopped)"}
    assert all(row["kind"] != "lost_wakeup" and row["stuck"] != "likely" for row in done.json["why"])
    assert f"process {hung.pid} does not run: a signal has stopped it (kill -CONT {hung.pid}" in done.err


@contextmanager
def control_group(version: int) -> Iterator[Path]:
    """Make a control group, and remove it when its processes have ended."""
    mounted = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if version == 2 else (CGROUPS_1,)
    root = next((folder for folder in mounted if (folder / "cgroup.procs").exists()), None)
    if root is None or not os.access(root / "cgroup.procs", os.W_OK):
        raise Missing(f"control groups, version {version}", "none can be made here", forbidden=True)
    group = root / f"ompd-tests-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@contextmanager
def frozen(process_id: int, group: Path, version: int) -> Iterator[None]:
    (group / "cgroup.procs").write_text(str(process_id))
    file, on, off = {1: ("freezer.state", "FROZEN", "THAWED"), 2: ("cgroup.freeze", "1", "0")}[version]
    shown, word = {1: ("freezer.state", "FROZEN"), 2: ("cgroup.events", "frozen 1")}[version]
    (group / file).write_text(on)
    try:
        wait_until(lambda: word in (group / shown).read_text())
        yield
    finally:
        (group / file).write_text(off)


def evidence(done: Ran) -> list[str]:
    return [each["text"] for each in done.json["why"][0]["evidence"]]


@pytest.mark.parametrize("version", [1, 2])
def test_that_a_frozen_process_does_not_move_is_no_evidence(version: int, tmp_path: Path) -> None:
    with (
        control_group(version) as group,
        hanging(WHYS["external_wait-read"], "gcc", "libgomp", folder=tmp_path) as hung,
    ):
        words = ("why", str(hung.pid), "--json", "--interval", "0.1", "--nonblocking")
        assert any("nor used any processor time" in text for text in evidence(command(*words)))
        with frozen(hung.pid, group, version):
            done = command(*words)
    assert any("which tells nothing" in text for text in evidence(done))
    assert f"process {hung.pid} does not run: the frozen control group {group} holds it" in done.err


@pytest.mark.parametrize(("samples", "interval"), [(0, 0.5), (2, -1.0), (2, float("nan"))])
def test_looks_that_make_no_sense_are_refused(samples: int, interval: float, tmp_path: Path) -> None:
    with (
        hanging(WHYS["laggard-barrier"], "gcc", "libgomp", folder=tmp_path) as hung,
        ompd.attach(hung.pid) as session,
        pytest.raises(BadInput),
    ):
        session.ask_why(samples=samples, interval=interval)


def test_two_cores_of_one_process_are_compared() -> None:
    earlier, later = stopped_twice("deadlock", runtime="libgomp")
    done = command("why", str(earlier.core), str(later.core), "--json")
    assert done.code == 0, done.err
    assert any("has moved" in item["text"] for item in done.json["why"][0]["evidence"])


def test_cores_of_two_processes_are_not_compared() -> None:
    one, other = stopped("deadlock", runtime="libgomp"), stopped("hang", runtime="libgomp")
    done = command("why", str(one.core), str(other.core))
    assert (done.code, done.out) == (1, "") and "not of the same process" in done.err
