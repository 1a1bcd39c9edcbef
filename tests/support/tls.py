"""The program of ``tests/tls``, and the thread-local variables and keys of its threads."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.memory import read_signed
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.errors import SymbolNotFound, Unavailable
from tests.support import NotReady
from tests.support.runs import READY_SECONDS, can_be_read, cores_allowed, write_gcore, write_kernel_core

SOURCES = Path(__file__).parents[1] / "tls"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "GIVEN": "at the start",
    "REMOVED": "was there",
    "EMPTY": "",
    "EQUALS": "a=b=c",
    "LONG": "x" * 9000,
    "LAST": "last",
}


# The compiler's options for the opened libraries.
OPENED = {
    "first": ("-DNAME=first_variable", "-DSIZE=300", "-DOWN=first_own"),
    "second": ("-DNAME=second_variable", "-DSIZE=4", "-DOWN=second_own"),
    "static": ("-DNAME=static_variable", "-DSIZE=4", "-DOWN=static_own", "-ftls-model=initial-exec"),
    "other": ("-DNAME=other_variable", "-DSIZE=4", "-DOWN=other_own"),
}


def run(program: Path, folder: Path, kind: str, arguments: Sequence[str]) -> None:
    ready, told = os.pipe()
    try:
        with cores_allowed():
            process = subprocess.Popen(
                [str(program), "truth.json", str(told), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[told],
                env=ENVIRONMENT,
                start_new_session=True,
            )
        os.close(told)
        try:
            if not can_be_read(ready, READY_SECONDS) or not os.read(ready, 1):
                raise NotReady("tls/program.c")
            if kind == "gcore":
                write_gcore(process.pid, folder / "core.gcore")
            else:
                write_kernel_core(process, folder / "core.kernel")
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(ready)


def found(process: StoppedProcess, name: str, thread: int) -> int:
    # Compilers choose the symbol names of static variables in functions.
    names = {"counted": ("counted", "counted.0", "static_local.counted")}.get(name, (name,))
    for spelling in names:
        try:
            return process.symbols.find_symbol(spelling, thread=thread)
        except SymbolNotFound:
            continue
    raise AssertionError(f"{name} is not found")


# The accessor of an opened library returns the address of the variable's third element.
WITHIN = {"second_variable": 16, "static_variable": 16, "other_variable": 16}
ALIASES = {"linked_hidden": "linked_hidden_variable"}


def check_variables(process: StoppedProcess, truth: dict[str, Any], names: set[str]) -> None:
    assert len(truth["threads"]) == 6
    for thread in truth["threads"]:
        assert set(thread["variables"]) == names
        for name, address in thread["variables"].items():
            symbol = ALIASES.get(name, name)
            if address is None:
                with pytest.raises(Unavailable, match=rf"{symbol}: thread {thread['id']} has not used any"):
                    found(process, symbol, thread["id"])
            else:
                assert found(process, symbol, thread["id"]) + WITHIN.get(name, 0) == address, (name, thread)
        variable = found(process, "exe_initialised", thread["id"])
        assert read_signed(process.memory, variable, 4) == thread["number"]


OF_PROGRAM = {"exe_initialised", "exe_aligned", "exe_static", "counted"}
OF_LIBRARIES = {
    "linked_variable",
    "linked_hidden",
    "second_variable",
    "static_variable",
    "static_own",
    "other_variable",
}


def check_keys(process: StoppedProcess, truth: dict[str, Any]) -> None:
    values = set()
    for thread in truth["threads"]:
        for key, value in thread["keys"].items():
            assert process.storage.key_value(thread["id"], int(key)) == value
            values.add((int(key) >= 32, value is None))
    assert values == {(False, False), (False, True), (True, False), (True, True)}


class Without(FileFinder):
    """A file finder that finds no file whose name contains *name*."""

    def __init__(self, name: str) -> None:
        self._missing = name
        super().__init__()

    def resolve(self, name: str) -> str:
        return "/nonexistent" if self._missing in name else super().resolve(name)
