"""Programs on libgomp, and their cores."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import Missing, Stopped, clean_environment, stopped
from tests.support.build import WITH_HEADERS, compiler
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.truth import Comparison

FACTS = Path(__file__).parents[1] / "facts_libgomp.json"


# libgomp executes new tasks at once when too many are queued, so the program makes fewer there.
SPECIAL: Mapping[str, Mapping[str, str]] = {"task_queued": {"TASKS": "200"}}


def on_libgomp(program: str, compiler: str = "gcc", **options: Any) -> Stopped:
    env = {**SPECIAL.get(program, {}), **options.pop("env", {})}
    options = {"runtime": "libgomp", **options}
    return stopped(program, compiler=compiler, mode="neither", env=env, **options)


def facts_told(found: Comparison) -> dict[str, int]:
    return dict(sorted(found.equal.items()))


def run_source(
    folder: Path, text: str, environment: Mapping[str, str] | None = None, flags: Sequence[str] = ("-O1",)
) -> Path:
    """Return the core of a program that aborts."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    (folder / "program.c").write_text(text)
    command = [str(compiler("gcc").path), "-g", *flags, "-fopenmp", *WITH_HEADERS, "program.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, env=clean_environment())
    where = folder / "run"
    where.mkdir()
    variables = {**clean_environment(), **ENVIRONMENT, **(environment or {})}
    with cores_allowed():
        subprocess.run([folder / "program"], cwd=where, env=variables, check=False)
    return next(where.glob("core*"))
