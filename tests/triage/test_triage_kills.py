"""``ompd triage`` while its processes are killed at random: no target is lost or counted twice."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.clusters import Cluster, dask, with_wheels
from tests.support.machine import FULL
from tests.support.triage import SEED, Farm, make_farm

TOTAL = 150 if FULL else 20
pytestmark = [pytest.mark.timeout(3_000)] if FULL else []  # seconds, on a busy machine
CHILDREN, WORKERS, OF_DASK, ENGINES = (100, 20, 5, 10) if FULL else (4, 1, 0, 1)
MOST_MS = 80  # that a process may run before it is killed
KILLED = r"signal 9 ended it, and so it did before|2 workers were lost while they inspected it alone"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return make_farm(tmp_path_factory.mktemp("night") / "farm", TOTAL, varied=False)


@pytest.fixture(scope="module")
def undisturbed(farm: Farm) -> bytes:
    with started(farm, None) as process:
        return process.communicate()[0]


def started(farm: Farm, results: Path | None, *words: str, env: Mapping[str, str] | None = None) -> Any:
    command = [sys.executable, "-m", "ompd", "triage", "--json", "--workers", "2", *farm.words, *words]
    kept = ["--results", str(results)] if results is not None else []
    return subprocess.Popen([*command, *kept], stdout=subprocess.PIPE, env=env or farm.environment)


def children(process_id: int) -> Iterator[int]:
    """Yield the processes that a process has started."""
    with suppress(OSError):  # it may end at any moment
        for thread in os.listdir(f"/proc/{process_id}/task"):  # noqa: PTH208  Path.glob() raises what it likes
            with suppress(OSError):
                yield from map(int, Path(f"/proc/{process_id}/task/{thread}/children").read_text().split())


def strike(process_id: int, parent: int, milliseconds: int) -> bool:
    """Kill a process, unless it has already ended or is not a child of the parent. Return whether it was killed."""
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return False
    try:
        looking = select.poll()
        looking.register(descriptor, select.POLLIN)
        if looking.poll(milliseconds) or process_id not in children(parent):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return bool(looking.poll())
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def in_order(farm: Farm, answer: Mapping[str, Any], results: Path) -> None:
    """Check that each target is once in the answer and once in the file: in its group, or under the failed ones."""
    lines = [json.loads(line)["target"] for line in results.read_bytes().splitlines()[1:]]
    every = {name for some in farm.names.values() for name in some} | farm.failing.keys()
    assert sorted(lines) == sorted(every)
    failed = {row["target"]: row["reason"] for row in answer["failed"]}
    shown = [name for row in answer["triage"] for name in row["targets"]]
    assert sorted([*shown, *failed]) == sorted(every)
    groups = {frozenset(some - failed.keys()) for some in farm.names.values()} - {frozenset()}
    assert {frozenset(row["targets"]) for row in answer["triage"]} == groups
    wrong = {
        name: reason
        for name, reason in failed.items()
        if not re.search(KILLED, reason) and not (name in farm.failing and re.search(farm.failing[name], reason))
    }
    assert wrong == {}


@pytest.mark.parametrize(("what", "kills"), [("child", CHILDREN), ("worker", WORKERS)])
@pytest.mark.quick("worker-1")
def test_a_process_that_inspects_is_killed(farm: Farm, what: str, kills: int, tmp_path: Path) -> None:
    chance, done, runs = Random(SEED), 0, 0
    while done < kills:
        runs += 1
        results = tmp_path / f"{runs}.jsonl"
        with started(farm, results) as process:
            while done < kills and process.poll() is None:
                for worker in list(children(process.pid)):
                    for child in list(children(worker)):
                        milliseconds = chance.randrange(MOST_MS)
                        pair = (child, worker) if what == "child" else (worker, process.pid)
                        done += chance.random() < 0.5 and done < kills and strike(*pair, milliseconds)
            answer = json.loads(process.communicate()[0])
        in_order(farm, answer, results)
        assert process.returncode == 3


@pytest.mark.skipif(not FULL, reason="takes long: each worker of Dask loads all of it")
def test_a_worker_of_dask_is_killed(farm: Farm, tmp_path: Path) -> None:
    chance, done, runs = Random(SEED), 0, 0
    with dask(tmp_path, 2, farm.environment) as cluster:
        engine = ("--engine", "dask", "--scheduler", str(cluster.file))
        while done < OF_DASK:
            runs += 1
            results = tmp_path / f"{runs}.jsonl"
            with started(farm, results, *engine, env=with_wheels("dask", farm.environment)) as process:
                while done < OF_DASK and process.poll() is None:
                    done += _kill_one(cluster, chance)
                answer = json.loads(process.communicate()[0])
            in_order(farm, answer, results)


def _kill_one(cluster: Cluster, chance: Random) -> bool:
    # Kill a worker that is inspecting, and start another one in its place.
    number, worker = chance.choice(sorted(cluster.workers.items()))
    if not any(children(worker.pid)) or not strike(worker.pid, os.getpid(), chance.randrange(MOST_MS)):
        return False
    del cluster.workers[number]
    cluster.start(number + 2)
    return True


def test_the_engine_is_killed_and_the_next_one_goes_on(farm: Farm, undisturbed: bytes, tmp_path: Path) -> None:
    chance, results = Random(SEED), tmp_path / "results.jsonl"
    for _ in range(ENGINES):
        before = results.read_bytes().count(b"\n") if results.exists() else 0
        enough = before + 1 + chance.randrange(TOTAL // (2 * ENGINES))
        with started(farm, results) as process:
            while not results.exists() or results.read_bytes().count(b"\n") < enough:
                assert process.poll() is None
            process.kill()
            process.communicate()  # waits until no worker holds the pipe
        kept = results.read_bytes()
    assert kept.count(b"\n") <= TOTAL
    with started(farm, results) as process:
        assert process.communicate()[0] == undisturbed
    whole = kept[: kept.rindex(b"\n") + 1]
    assert results.read_bytes().startswith(whole)
    in_order(farm, json.loads(undisturbed), results)
