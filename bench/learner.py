"""A process that has imported PyTorch, and whichever there are of other wheels that bring an OpenMP runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measure import CHECKOUT
from tests.support import Missing, clean_environment

WHEELS = CHECKOUT / ".cache" / "real"
"""Below which wheels of PyTorch may be unpacked, in whatever folder."""

_OTHERS = ("sklearn", "lightgbm", "faiss", "xgboost")
# It has teams of its own made, says what it has, and waits for the end of its standard input.
_SCRIPT = """
import importlib, sys
import torch
torch.set_num_threads(4)
torch.relu(torch.rand(1 << 21)).sum()
found = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        found.append(name)
    except ImportError:
        pass
print(*found, flush=True)
sys.stdin.read()
"""


@contextmanager
def running() -> Iterator[tuple[int, list[str]]]:
    """Run it; yield its number and the names of what it has imported besides.

    :raises Missing: if there is no PyTorch, or none that this Python can import
    """
    found = next(WHEELS.glob("**/torch/__init__.py"), None) if WHEELS.is_dir() else None
    if found is None:
        raise Missing("torch", f"there are no wheels of it below {WHEELS.relative_to(CHECKOUT)}/")
    environment = {**clean_environment(), "PYTHONPATH": str(found.parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, *_OTHERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise Missing("torch", f"{found.parent} cannot be imported by {sys.executable}")
            yield process.pid, line.split()
        finally:
            process.kill()
