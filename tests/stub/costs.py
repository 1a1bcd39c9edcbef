"""The cost of OMPT on the stub: instructions of an empty parallel region, counted by valgrind.

Unlike a time, a count is the same in each run. It needs no hardware counter.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.stub.tools import compiled
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment, require
from tests.support.stub import run_make, sources_key, stub_folder

FEW, MANY = 100, 300  # numbers of regions; the difference of their counts leaves out the rest of the process
MOST = 1.01
"""The highest cost of a region without a tool, relative to a region on a stub that was built without OMPT."""


def without_ompt() -> Path:
    """Return the folder of the stub that was built without OMPT."""
    gcc = compiler("gcc")

    def make(folder: Path) -> None:
        run_make(folder, f"CC={gcc.path}", "WITHOUT_OMPT=1")

    return entry("stub", key_of(sources_key(), gcc.version, "WITHOUT_OMPT"), make)


def empty_tool() -> Path:
    """Return a library with a tool of OpenMP 5 that registers no callback."""
    return compiled("tool.c", "-DSTART_TOOL=1", '-DNAME="empty"', name="tool.so", links=())


def of_a_region(stub: Path, tool: Path | None = None) -> float:
    """Return the number of instructions of a region with one thread.

    :param stub: the folder of the runtime
    """
    counts = [_instructions(stub, regions, tool) for regions in (FEW, MANY)]
    return (counts[1] - counts[0]) / (MANY - FEW)


def costs() -> tuple[float, float, float]:
    """Return the instructions of a region without OMPT, with OMPT but no tool, and with an empty tool."""
    return of_a_region(without_ompt()), of_a_region(stub_folder()), of_a_region(stub_folder(), empty_tool())


def _instructions(stub: Path, regions: int, tool: Path | None) -> int:
    program = compiled("regions.c", links=(str(stub / "libomp_stub.so"),))
    command = [
        str(require("valgrind")),
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        str(program),
        str(regions),
    ]
    environment = {**clean_environment(), **({"OMP_TOOL_LIBRARIES": str(tool)} if tool else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    if tool and "start_tool begins" not in done.stdout:
        raise AssertionError(f"the runtime has not taken {tool}: {done.stdout}")
    (count,) = re.findall(r"I +refs: +([\d,]+)", done.stderr)
    return int(count.replace(",", ""))
