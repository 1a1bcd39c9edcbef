"""A cache of the runtimes' layouts and symbols, for all tests of a run with several processes.

To find a dozen layouts in the debug information of Intel's runtime takes most of a session's time, and thousands of
tests open one. So the command asks everything of a few programs, with a user's cache, and the tests read that cache.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ompd.debugger.files.cache import DiskCache
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.command import OMPD
from tests.support.machine import clean_environment, intel_runtime
from tests.support.runs import stopped
from tests.support.runtimes import INTEL, RUNTIMES

# Between them these have the runtime's stacks, queues, locks and waits.
PROGRAMS = ("nested", "lock", "task_tree", "task_depend", "taskgroup", "reduction", "ordered", "two_criticals")


def cache_folder() -> Path:
    """Return the cache's folder, filled by the code as it is now.

    :raises Missing: if the runtime or a compiler is missing
    """
    intel_runtime()
    sources = [path.read_text() for path in sorted((CHECKOUT / "ompd").rglob("*.py"))]
    # The cache's entries hold for one status of a file, and copies of the checkout by hard links change it.
    status = RUNTIMES[INTEL].file().stat()
    return entry("derived", key_of(sources, status.st_ino, status.st_ctime_ns, PROGRAMS), _fill) / "ompd"


def _fill(folder: Path) -> None:
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(folder), "OMPD_CACHE": "on"}
    for program in PROGRAMS:
        command = [OMPD, "report", stopped(program).core, "-o", "-"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def use() -> None:
    """Have sessions of this process read the cache, unless a test turns the user's own on.

    They write nothing to it, because a test may have changed the code that derives.
    """
    cache, of_user = DiskCache(str(cache_folder())), DiskCache.of_user
    cache.write = lambda name, key, payload: None  # type: ignore[method-assign]
    DiskCache.of_user = lambda: cache if os.environ.get("OMPD_CACHE") == "off" else of_user()  # type: ignore[method-assign]
