"""Frozen control groups, in folders as the kernel makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ompd.debugger.targets.live.freezer import frozen_group

UNIFIED = "0::/job/step\n"
SEPARATE = "9:name=systemd:/\n6:cpu,freezer:/job/step\n0::/\n"


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "file", "frozen", "thawed"),
    [
        (UNIFIED, "job/step/cgroup.events", "populated 1\nfrozen 1\n", "populated 1\nfrozen 0\n"),
        (UNIFIED, "unified/job/step/cgroup.events", "populated 1\nfrozen 1\n", "populated 1\nfrozen 0\n"),
        (SEPARATE, "freezer/job/step/freezer.state", "FROZEN\n", "THAWED\n"),
    ],
)
def test_a_frozen_group_is_named(groups: str, file: str, frozen: str, thawed: str, tmp_path: Path) -> None:
    assert frozen_group(groups, tmp_path) is None
    put(tmp_path / file, thawed)
    assert frozen_group(groups, tmp_path) is None
    put(tmp_path / file, frozen)
    assert frozen_group(groups, tmp_path) == (tmp_path / file).parent


def test_a_group_of_another_namespace_is_not_looked_for(tmp_path: Path) -> None:
    put(tmp_path / "job/cgroup.events", "frozen 1\n")
    assert frozen_group("0::/../job\n", tmp_path / "container") is None
    assert frozen_group("", tmp_path) is None and frozen_group("damaged", tmp_path) is None
