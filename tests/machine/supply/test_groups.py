"""Control groups of versions 1 and 2, as trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ompd.errors import Unavailable
from ompd.machine.supply import groups
from ompd.machine.supply.files import Roots
from tests.support.kernel_files import roots_of, written

STAT_2 = "usage_usec 900\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\n"
STAT_1 = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n"


def tree(folder: Path, cgroup: str, files: dict[str, str]) -> Roots:
    written(folder / "proc", {"7/cgroup": cgroup})
    written(folder / "groups", files)
    return roots_of(folder)


def test_quotas_of_version_2_are_those_of_the_group_and_its_parents(tmp_path: Path) -> None:
    roots = tree(
        tmp_path,
        "0::/pods/one\n",
        {
            "pods/one/cpu.max": "50000 100000\n",
            "pods/one/cpu.stat": STAT_2.format(10, 9, 800),
            "pods/cpu.max": "max 100000\n",
            "cgroup.controllers": "cpu\n",
        },
    )
    earlier = groups.quotas(7, roots)
    (tmp_path / "groups/pods/one/cpu.stat").write_text(STAT_2.format(15, 13, 1300))
    (quota,) = groups.between(earlier, groups.quotas(7, roots))
    assert quota.file == str(tmp_path / "groups/pods/one/cpu.max") and quota.processors == 0.5
    assert (quota.periods, quota.throttled_periods, quota.throttled_ns) == (5, 4, 500_000)


def test_quotas_of_version_1_are_found_below_the_controller(tmp_path: Path) -> None:
    roots = tree(
        tmp_path,
        "4:cpu,cpuacct:/batch/job\n3:pids:/batch\n0::/\n",
        {
            "cpu,cpuacct/batch/job/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/batch/job/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/batch/cpu.cfs_quota_us": "150000\n",
            "cpu,cpuacct/batch/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/batch/cpu.stat": STAT_1.format(20, 10, 7000),
            "pids/batch/pids.max": "100\n",
            "pids/batch/pids.current": "98\n",
        },
    )
    (quota,) = groups.quotas(7, roots)
    assert (quota.processors, quota.periods, quota.throttled_ns) == (1.5, 20, 7000)
    (room,) = groups.rooms(7, roots)
    assert (room.most, room.used, room.threads) == (100, 98, 2) and room.setting.endswith("pids/batch/pids.max")


def test_in_a_container_the_root_of_the_mount_is_the_group(tmp_path: Path) -> None:
    roots = tree(tmp_path, "0::/docker/abc\n", {"cpu.max": "200000 100000\n", "cpu.stat": "nr_periods 1\n"})
    (quota,) = groups.quotas(7, roots)
    assert (quota.processors, quota.periods, quota.throttled_periods) == (2.0, 1, None)


def test_the_processors_of_the_innermost_group_with_a_cpuset_count(tmp_path: Path) -> None:
    roots = tree(
        tmp_path, "0::/a/b\n", {"a/b/cgroup.procs": "7\n", "a/cpuset.cpus.effective": "0-1\n", "cgroup.procs": ""}
    )
    assert groups.processors(7, roots) == ({0, 1}, str(tmp_path / "groups/a/cpuset.cpus.effective"))


@pytest.mark.parametrize("cgroup", ["0::/../../other\n", None], ids=("outside", "unreadable"))
def test_groups_that_cannot_be_seen_have_a_reason(cgroup: str | None, tmp_path: Path) -> None:
    roots = tree(tmp_path, cgroup or "", {})
    if cgroup is None:
        (tmp_path / "proc/7/cgroup").unlink()
    with pytest.raises(Unavailable):
        groups.quotas(7, roots)


def test_a_limit_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    roots = tree(tmp_path, "0::/\n", {"cpu.max/not_a_file": ""})
    with pytest.raises(Unavailable, match="Is a directory"):
        groups.quotas(7, roots)


@pytest.mark.parametrize("text", ["", "max", "x y\n", "-5 100000\n", "1 0\n", f"{'9' * 400} 1\n", "²  100000\n"])
def test_a_limit_that_is_no_number_is_none(text: str, tmp_path: Path) -> None:
    assert groups.quotas(7, tree(tmp_path, "0::/\nnonsense\n9:x\n", {"cpu.max": text})) == []
