"""The choice of libgomp's tables of layouts: by the architecture of the process, without a read of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from ompd.errors import LayoutUnavailable, Unavailable
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import proof


class Process:
    """A process of a known architecture, whose threads' registers cannot be read."""

    architecture_name = "i386"

    def threads(self) -> list[int]:
        return [1]

    def registers(self, thread: int) -> NoReturn:
        raise Unavailable("no registers")

    def struct_layout(self, *_: object) -> NoReturn:
        raise LayoutUnavailable("no debug information")


def test_tables_are_those_of_the_processs_architecture_whatever_its_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def tables(runtime: str, architecture: str) -> Iterator[Any]:
        asked.append((runtime, architecture))
        return iter(())

    monkeypatch.setattr(table, "tables", tables)
    module = SimpleNamespace(name="libgomp.so.1", build_id="00")
    with pytest.raises(LayoutUnavailable, match="no layouts of libgomp for i386"):
        proof.proven(cast("Any", Process()), cast("Any", module))
    assert asked == [("libgomp", "i386")] * 2
