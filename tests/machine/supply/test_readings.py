"""Two looks at a process and its machine, as trees of files, and at this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ompd.machine.supply.files import Roots
from ompd.machine.supply.limits import soft_limits, stack_size
from ompd.machine.supply.readings import supply_between, take_reading
from ompd.model.supply import Settings
from tests.support.kernel_files import STATUS, roots_of, stat_of, thread_files, written

LIMITS = """Limit                     Soft Limit           Hard Limit           Units     
Max stack size            8388608              unlimited            bytes     
Max processes             {}              unlimited            processes 
Max address space         {}            unlimited            bytes     
"""  # noqa: W291 - the kernel ends each line with spaces


def machine(folder: Path) -> Roots:
    """Write a machine with process 7, which has two threads, its parent 3, and two other processes."""
    files = {
        "stat": "cpu  0 0 0 0 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n",
        "7/stat": stat_of("slow", parent=3, threads=2),
        "7/status": STATUS,
        "7/cgroup": "0::/\n",
        "7/limits": LIMITS.format("4", "unlimited"),
        "3/stat": stat_of("sh"),
        "3/status": f"{STATUS}Cpus_allowed_list:\t0-1\n",
        "8/stat": stat_of("slow (2)", parent=3, ticks=100),
        "9/stat": stat_of("far", ticks=50),
        **thread_files(7, 7, ran=1000, delayed=500, cpus="0", faults=2),
        **thread_files(7, 12, ran=0, delayed=0, cpus="0-1"),
        **thread_files(8, 8, ran=0, delayed=0, cpus="0"),
        **thread_files(9, 9, ran=0, delayed=0, cpus="1"),
    }
    written(folder / "proc", files)
    (folder / "groups").mkdir()
    return roots_of(folder)


def test_two_looks_tell_what_was_used_in_between(tmp_path: Path) -> None:
    roots = machine(tmp_path)
    earlier = take_reading(7, roots)
    written(
        roots.proc,
        {
            "stat": "cpu0 60 0 0 90 0 0 0 0 0 0\ncpu1 20 0 0 100 0 0 0 30 0 0\n",
            "8/stat": stat_of("slow (2)", parent=3, ticks=130),
            "9/stat": stat_of("far", ticks=70),
            **thread_files(7, 7, ran=4000, delayed=2500, cpus="0", faults=12),
        },
    )
    supply = supply_between(7, earlier, take_reading(7, roots), Settings(), roots)
    first, second = supply.threads
    assert (first.ran_ns, first.delayed_ns, first.major_faults) == (3000, 2000, 10)
    assert (first.processors, second.processors, supply.online) == ({0}, {0, 1}, {0, 1})
    near, far = supply.others
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert (near.process_id, near.program, near.used_ns, near.ready) == (8, "slow (2)", 30 * tick, ({0},))
    assert near.is_related and not far.is_related and far.ready == ({1},)
    assert (supply.use[0].idle_ns, supply.use[1].stolen_ns, supply.use[1].total_ns) == (0, 30 * tick, 50 * tick)
    assert (supply.parent, supply.parent_processors) == ("sh", {0, 1})
    assert supply.unknowns == ()


def test_what_a_process_used_before_the_first_look_does_not_count(tmp_path: Path) -> None:
    roots = machine(tmp_path)
    earlier = take_reading(7, roots)
    written(roots.proc, {"10/stat": stat_of("new", ticks=3, start=9), "11/stat": stat_of("old", ticks=900, start=4)})
    supply = supply_between(7, earlier, take_reading(7, roots), Settings(), roots)
    assert [other.program for other in supply.others] == ["new"]


def test_files_that_are_missing_or_malformed_leave_facts_unknown(tmp_path: Path) -> None:
    roots = machine(tmp_path)
    for name in ("7/cgroup", "7/task/12/schedstat", "3/stat", "stat", "7/limits"):
        (roots.proc / name).unlink()
    written(
        roots.proc, {"8/stat": "nonsense", "9/stat": "9 (x) R 1", "7/task/7/schedstat": "1 x 2", "7/task/7/stat": ""}
    )
    supply = supply_between(7, take_reading(7, roots), take_reading(7, roots), Settings(), roots)
    assert all(thread.delayed_ns is None for thread in supply.threads)
    assert (supply.others, supply.online, supply.quotas, supply.rooms) == ((), frozenset(), (), ())
    text = " ".join(supply.unknowns)
    assert "schedstat" in text and "control group" in text


def test_a_process_that_has_ended_has_no_threads(tmp_path: Path) -> None:
    roots = machine(tmp_path)
    supply = supply_between(99, take_reading(99, roots), take_reading(99, roots), Settings(), roots)
    assert supply.threads == () and supply.parent is None


def test_the_user_s_threads_and_the_address_space_limit_further_threads(tmp_path: Path) -> None:
    roots = machine(tmp_path)
    written(roots.proc, {"7/limits": LIMITS.format("6", str((40 << 20) + (17 << 20)))})
    settings = Settings(variables={"OMP_STACKSIZE": "4M"})
    supply = supply_between(7, take_reading(7, roots), take_reading(7, roots), settings, roots)
    by_name = {room.setting: room for room in supply.rooms}
    # All four processes are of the user who runs this test: five threads.
    assert (by_name["ulimit -u"].used, by_name["ulimit -u"].threads) == (5, 1)
    assert by_name["ulimit -v"].threads == 4
    without = supply_between(7, take_reading(7, roots), take_reading(7, roots), Settings(), roots)
    assert {room.setting: room.threads for room in without.rooms}["ulimit -v"] == 2  # stacks of 8 MB


@pytest.mark.parametrize("line", ["Uid:\t0\t0\t0\t0", "CapEff:\t0000000001000000"])
def test_who_may_exceed_the_number_of_threads_has_no_such_limit(line: str, tmp_path: Path) -> None:
    roots = machine(tmp_path)
    name = line.partition(":")[0]
    lines = [line if old.startswith(f"{name}:") else old for old in STATUS.splitlines()]
    written(roots.proc, {"7/status": "\n".join(lines)})
    supply = supply_between(7, take_reading(7, roots), take_reading(7, roots), Settings(), roots)
    assert [room.setting for room in supply.rooms] == []


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512 << 10), ("2 M", 2 << 20), ("1g", 1 << 30), ("100b", 100), ("x", None), ("-1", None)]
)
def test_sizes_of_stacks_are_in_kilobytes_unless_they_have_a_unit(text: str, size: int | None) -> None:
    assert stack_size({"OMP_STACKSIZE": text}) == size


def test_this_process_can_be_read() -> None:
    earlier = take_reading(os.getpid())
    supply = supply_between(os.getpid(), earlier, take_reading(os.getpid()))
    own = next(thread for thread in supply.threads if thread.native_thread_id == os.getpid())
    assert own.processors == os.sched_getaffinity(0) and own.ran_ns is not None and own.ran_ns >= 0
    assert supply.online >= own.processors
    assert os.getpid() not in [other.process_id for other in supply.others]
    assert soft_limits(Path("/proc/self"))["Max open files"] > 0
