"""Dask's scheduler and workers as processes on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.machine import clean_environment, wheel_folder


def with_wheels(name: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which Python finds the wheels of a row of tools.toml."""
    return {**(environment or clean_environment()), "PYTHONPATH": str(wheel_folder(name))}


@dataclass
class Cluster:
    """A scheduler and its workers by number. The scheduler writes its address to *file*."""

    file: Path
    environment: Mapping[str, str]
    stack: ExitStack
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Start the worker ``nNUMBER``."""
        words = ["distributed.cli.dask_worker", "--no-dashboard", "--nthreads", "1", "--no-nanny"]
        where = ["--local-directory", str(self.file.parent), "--name", f"n{number}"]
        self.workers[number] = self.run(*words, "--scheduler-file", str(self.file), *where)

    def run(self, *words: str) -> subprocess.Popen[bytes]:
        """Run a Python module in a process that is killed at the end."""
        folder = self.file.parent
        with (folder / "said").open("ab") as said:
            command = [sys.executable, "-m", *words]
            process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder, env=self.environment)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process


@contextmanager
def dask(folder: Path, workers: int, environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run a scheduler and workers, and yield the cluster once the scheduler has written its address."""
    with ExitStack() as stack:
        cluster = Cluster(folder / "scheduler.json", with_wheels("dask", environment), stack)
        words = ["--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(cluster.file)]
        scheduler = cluster.run("distributed.cli.dask_scheduler", *words)
        for number in range(1, workers + 1):
            cluster.start(number)
        # Wait for the file: clients that start before it exists fail.
        while not cluster.file.is_file() or not cluster.file.read_bytes():
            assert scheduler.poll() is None, (folder / "said").read_text(errors="replace")
        yield cluster
