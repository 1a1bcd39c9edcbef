"""What is derived of the runtime's and the C library's files, once for all tests of a run with several processes.

To find a dozen layouts in the debug information of Intel's runtime takes most of the time of a session, and thousands
of tests open one. So a process of its own, in which no test has changed anything, asks everything of a few programs
with a cache as a user has it, and the tests read from that what belongs to files that no test makes. Nothing that a
test derives is added. With ``OMPD_FULL=1``, in a run of one process, and in each command that a test starts,
everything is derived anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ompd.debugger.files.cache import DiskCache
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import clean_environment, intel_runtime
from tests.support.runtimes import INTEL, RUNTIMES

# Between them these have the runtime's stacks, queues, locks and waits.
PROGRAMS = ("nested", "lock", "task_tree", "task_depend", "taskgroup", "reduction", "ordered", "two_criticals")
FOLDER = "ompd"  # in which DiskCache keeps its entries


class Derived(DiskCache):
    """What the tests read of it. They write nothing.

    :param folder: where it is
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder

    def write(self, name: str, key: bytes, payload: bytes) -> None:
        pass


def derived() -> Derived:
    """Return what was derived, by the code as it is now.

    :raises Missing: if the runtime or a compiler is missing
    """
    intel_runtime()
    sources = [path.read_text() for path in sorted((CHECKOUT / "ompd").rglob("*.py"))]
    key = key_of(sources, RUNTIMES[INTEL].version(), PROGRAMS)
    return Derived(entry("derived", key, _derive) / FOLDER)


def use(found: Derived) -> None:
    """Have sessions of this process read what was *found*, except where a test turns the user's cache on."""
    of_user = DiskCache.of_user

    def chosen() -> DiskCache:
        return found if os.environ.get("OMPD_CACHE") == "off" else of_user()

    DiskCache.of_user = chosen  # type: ignore[method-assign]


def _derive(folder: Path) -> None:
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(folder), "OMPD_CACHE": "on"}
    command = [sys.executable, "-m", "tests.support.derived", str(folder)]
    subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)


def main(folder: Path) -> None:
    from tests.support.runs import stopped
    from tests.truth import compare

    for program in PROGRAMS:
        core = stopped(program)
        assert compare(core).differences == [], program
        status = core.executable.stat()
        for path in folder.glob(f"{FOLDER}/{status.st_dev:x}-{status.st_ino:x}-*"):
            path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
