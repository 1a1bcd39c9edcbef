"""The answers of Intel's OMPD library about a core."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

from tests.support import Missing, Stopped, intel_runtime, stopped
from tests.support.cache import CHECKOUT


@cache
def told(program: str, compiler: str = "clang", mode: str = "debug") -> tuple[Stopped, dict[str, Any]]:
    """Return a core and the answers of Intel's library about it."""
    library = intel_runtime() / "lib" / "libiomp5_db.so"
    if not library.exists():
        raise Missing("intel-openmp", "the wheel has no OMPD library")
    core = stopped(program, compiler=compiler, mode=mode)
    command = [sys.executable, "-m", "tests.support.vendor_host", str(library), str(core.core)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    if "libstdc++.so.6: cannot open" in done.stderr:
        raise Missing("libstdc++", "Intel's OMPD library is one of C++", forbidden=True)
    assert done.returncode == 0, done.stderr
    return core, json.loads(done.stdout)
