"""A campaign of one minute on third-party programs, and the targets of one moment of a program of the project."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ompd.debugger.targets.live import live
from tests.campaign.__main__ import CACHE, own_programs
from tests.campaign.campaign import Campaign
from tests.campaign.finds import Finds
from tests.conftest import USUAL_STOP_NS
from tests.support.cache import CHECKOUT
from tests.support.machine import FULL, require
from tests.support.runs import kernel_core_obstacle

NAMES = "fasttree,cd-hit,clustalo,sumaclust"


@pytest.mark.quick()
def test_a_moment_of_each_kind_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("gdb")
    monkeypatch.setattr(live, "DEFAULT_STOP_NS", USUAL_STOP_NS)
    program = next(own_programs(["libgomp"]))
    moments = ["live", "stopped", *(["abort"] if kernel_core_obstacle() is None else [])]
    campaign = Campaign(Finds(tmp_path / "finds", "7"), tmp_path, random.Random(7), moments)
    campaign.sample(program, 1)
    tally = campaign.tallies["busy", "libgomp"]
    assert set(tally.moments) == set(moments)
    # The process, gdb's core, and snapshots of both.
    assert {"stopped", "gcore", "snapshot", "snapshot of core"} <= set(tally.answers)
    assert not tally.broken, "".join(path.read_text() for path in tmp_path.rglob("how.txt"))
    assert not list(tmp_path.glob("ompd-real-*")), "cores are left"


@pytest.mark.skipif(not FULL, reason="takes a minute and more: make test-full")
@pytest.mark.timeout(1800)
def test_a_short_campaign_finds_nothing() -> None:
    # Small programs of registries, which are cached. If they are not available, the project's own are run.
    seed = os.environ.get("OMPD_REAL_SEED", str(random.SystemRandom().randrange(1 << 32)))
    command = [
        sys.executable,
        "-m",
        "tests.campaign",
        "--names",
        NAMES,
        "--time",
        "60",
        "--samples",
        "1",
        "--seed",
        seed,
    ]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, env=environment, check=False)
    said = "".join(path.read_text() for path in (CACHE / f"finds-{seed}").rglob("how.txt"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{said}"
    rows = json.loads((CACHE / f"seen-{seed}.json").read_text())["rows"]
    assert sum(sum(row["moments"].values()) for row in rows) > 0, done.stdout
