"""The engines of Dask and of ``mpi4py.futures``. Each package is imported only if the user chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ompd.errors import BadInput, Unsupported
from ompd.safety.isolation import AwayFromHere
from ompd.triage.engine import Engine
from ompd.triage.targets import Wanted

_SECONDS = 30


def dask(scheduler: str | None) -> Engine:
    """Return the engine of a Dask cluster, whose workers have ompd installed.

    :param scheduler: the scheduler's address, or its file with the address (``dask scheduler --scheduler-file``)
    :raises Unsupported: if Dask is not installed
    :raises BadInput: if no scheduler answers, or it has no worker
    """
    if scheduler is None:
        raise BadInput("--engine dask needs --scheduler ADDRESS", hint="`dask scheduler` prints it when it starts")
    try:
        with AwayFromHere():
            from distributed import Client
    except ImportError as error:
        raise Unsupported("Dask is not installed", hint="pip install 'ompd[triage-dask]'") from error
    named = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        client = Client(**named, timeout=_SECONDS)
        client.wait_for_workers(1, timeout=_SECONDS)
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except (OSError, ValueError, TimeoutError) as error:
        raise BadInput(f"no Dask worker answers at {scheduler}: {error}") from error
    hosts: dict[str, list[str]] = {}
    for address, worker in workers.items():
        for name in {worker.get("host"), str(worker.get("name")).partition(":")[0]}:
            if name:
                hosts.setdefault(name, []).append(address)

    def make() -> Executor:
        executor: Executor = client.get_executor(pure=False)
        return executor

    def end(executor: Executor) -> None:
        executor.shutdown(wait=False)
        client.close()

    def place(wanted: Wanted) -> tuple[Wanted, Mapping[str, Any]]:
        # Return the target as a worker opens it, and the workers that may do so. Only workers on HOST can open PATH,
        # so a target HOST:PATH goes to these.
        host, colon, path = wanted.name.partition(":")
        if not colon or host not in hosts:
            return wanted, {}
        number = int(path) if path.isascii() and path.isdigit() and len(path) < len(str(1 << 31)) else None
        return Wanted(path, number), {"workers": hosts[host], "allow_other_workers": False}

    return Engine(make, end, sum(worker["nthreads"] for worker in workers.values()), place)


def mpi() -> Engine:
    """Return the engine of the other ranks of ``mpiexec -n N python -m mpi4py.futures -m ompd triage``.

    :raises Unsupported: if mpi4py or MPI is not installed
    """
    try:
        with AwayFromHere():
            from mpi4py.futures import MPIPoolExecutor

        executor = MPIPoolExecutor()
        executor.bootup()
        workers = executor.num_workers
    except (ImportError, RuntimeError) as error:
        raise Unsupported(
            f"mpi4py cannot be used: {error}", hint="pip install 'ompd[triage-mpi]', and an MPI"
        ) from error

    def end(executor: Executor) -> None:
        executor.shutdown(wait=False, cancel_futures=True)

    return Engine(lambda: executor, end, max(workers, 1))
