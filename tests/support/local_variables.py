"""Programs of ``tests/locals``."""

from __future__ import annotations

from pathlib import Path

from tests.support.variables import Recipe

SOURCES = Path(__file__).parents[1] / "locals"


def recipe(compilation: str, what: str = "region", name: str = "c") -> Recipe:
    compiler, *flags = compilation.split()
    return Recipe(name, compiler, tuple(flags), SOURCES, (("WHAT", what),))
