"""The tested builds of the programs with known truth, and the truth by thread."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import (
    ALL_PROGRAMS,
)

PARAMETERS = [
    pytest.param(
        name,
        compiler,
        id=f"{name}-{compiler}",
        marks=[pytest.mark.xdist_group("busy")] if program.spins or name == "many" else [],
    )
    for name, program in ALL_PROGRAMS.items()
    for compiler in program.compilers
]
every_build = pytest.mark.parametrize(("program", "compiler"), PARAMETERS)


def by_native_id(truth: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {thread["native_thread_id"]: thread for thread in truth["threads"]}
