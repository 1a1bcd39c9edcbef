"""The stub under LLDB: its places for breakpoints, also as bare labels, and its copies of variables."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.stub.programs import built
from tests.support.lldb import LldbHost, target_create
from tests.support.lldb_replies import replies
from tests.support.products import each_version

pytestmark = pytest.mark.xdist_group("lldb")
DEBUG = "settings set target.env-vars OMP_DEBUG=on"


def figure_8(library: str = "libomp_stub.so") -> Path:
    return built("figure8.c", name=f"figure8-{library[:-3]}", flags=("-DBY_KEY",), library=library)


@each_version()
def test_places_for_breakpoints(version: int) -> None:
    host = LldbHost(version)
    names = [f"{what}_{end}" for what in ("parallel", "task", "thread") for end in ("begin", "end")]
    try:
        events = host.ask("events", program=[str(figure_8())], names=names)["events"]
        stops = host.ask("run", program=[str(figure_8())], places=["parallel_begin", "foo", "parallel_end"])["stops"]
    finally:
        host.close()
    assert Counter(event for event, _ in events) == {
        **{"thread_begin": 4, "task_begin": 4, "task_end": 4, "parallel_begin": 1, "parallel_end": 1}
    }
    begun, _, ended = (stop["threads"] for stop in stops)
    # The region is already there at its begin event, and still there at its end event.
    assert [(row["thread_num"], row["team_size"], row["level"]) for row in begun] == [(n, 4, 1) for n in range(4)]
    assert [(row["thread_num"], row["state"]) for row in ended] == [
        (0, "overhead"),
        *((number, "wait_barrier_implicit") for number in (1, 2, 3)),
    ]


@pytest.mark.parametrize("library", ["libomp_stub.so", "libomp_stub_label.so"])
@each_version()
@pytest.mark.quick("22-libomp_stub_label.so")
def test_its_beginning_is_seen_and_its_copies_are_told(version: int, library: str) -> None:
    told = replies(
        version,
        *(target_create(figure_8(library)), DEBUG, "ompd auto on", "breakpoint set -n ompd_bp_parallel_end"),
        *("run", "ompd var a --json", "ompd runtimes", "breakpoint list"),
    )
    assert f"OpenMP: {library} has begun\n" in told["run"]
    assert re.search(r"OpenMP: 4 threads in 1 region", told["run"])
    rows = json.loads(told["ompd var a --json"])["var"]
    assert [(row["thread_num"], row["value"]) for row in rows] == [(0, 3), (1, 3), (2, 2), (3, 2)]
    assert {row["mechanism"] for row in rows} == {"key"}
    assert "ompd-stub  serves: the plugin of ompd-stub 0.1.0 in " in told["ompd runtimes"]
    assert "ompd_dll_locations_valid +" not in told["breakpoint list"]
