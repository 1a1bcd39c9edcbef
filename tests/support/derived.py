"""A cache of the runtimes' layouts and symbols, for all tests of a run with several processes.

Finding a dozen layouts in the debug information of Intel's runtime takes most of a session's time, and thousands of
tests open a session. So ``ompd report`` runs on a few programs with a user's cache, and the tests read this cache.
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

# Together these programs use the runtime's stacks, queues, locks and waits.
PROGRAMS = ("nested", "lock", "task_tree", "task_depend", "taskgroup", "reduction", "ordered", "two_criticals")


def cache_folder() -> Path:
    """Return the cache's folder, filled by the current code.

    :raises Missing: if the runtime or a compiler is missing
    """
    intel_runtime()
    sources = [path.read_text() for path in sorted((CHECKOUT / "ompd").rglob("*.py"))]
    # A cache entry is valid for one status (inode, change time) of a file. Copies of the checkout by hard links change
    # this status.
    status = RUNTIMES[INTEL].file().stat()
    return entry("derived", key_of(sources, status.st_ino, status.st_ctime_ns, PROGRAMS), _fill) / "ompd"


def _fill(folder: Path) -> None:
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(folder), "OMPD_CACHE": "on"}
    for program in PROGRAMS:
        command = [OMPD, "report", stopped(program).core, "-o", "-"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def use() -> None:
    """Make sessions of this process read the cache, unless a test enables the user's cache.

    Sessions write nothing to this cache, because a test may have changed the code that derives its entries.
    """
    cache, of_user = DiskCache(str(cache_folder())), DiskCache.of_user
    cache.write = lambda name, key, payload: None  # type: ignore[method-assign]
    DiskCache.of_user = lambda: cache if os.environ.get("OMPD_CACHE") == "off" else of_user()  # type: ignore[method-assign]
