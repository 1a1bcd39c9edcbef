"""Trials of libraries on programs with known truth, once for all tests of a process, and reproducers in C."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from ompd.conformance.asking import ask
from ompd.conformance.kit import Tried
from ompd.conformance.reproducer import program
from ompd.conformance.trying import Script
from tests.support import stopped
from tests.support.machine import require
from tests.support.ompd_libraries import ompd_library
from tests.support.stub import plugin_folder, stub_folder
from tests.support.stub_cores import on_stub


@cache
def tried(name: str) -> Tried:
    """Return the trial of a vendor's library on Intel's runtime, in a region of four threads that wait for a lock."""
    return ask(str(ompd_library(name)), [str(stopped("lock", compiler="clang", mode="debug").core)])


def tried_stub(library: str | None = None) -> Tried:
    """Return the trial of the stub's library or of its mutant *library*."""
    path = library or str(stub_folder() / "libompd_stub.so")
    return ask(path, [str(on_stub("lock").core)], plugins=[str(plugin_folder())])


def run_reproducer(found: Tried, key: str, library: str, folder: Path) -> tuple[list[str], int]:
    """Compile the reproducer of a finding with all warnings, run it, and return its output lines and exit status."""
    (row,) = (row for row in found.answer.rows if row.key == key)
    source, built = folder / "reproducer.c", folder / "reproducer"
    source.write_text(program(row, found.scripts[key], found.answers[key]))
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type"]
    subprocess.run([require("gcc"), *options, str(source), "-o", str(built), "-ldl"], check=True)
    done = subprocess.run(
        [str(built), library], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.stderr
    return done.stdout.splitlines(), done.returncode


def called(lines: list[str]) -> list[str]:
    """Return the lines that report calls."""
    return [line for line in lines if re.fullmatch(r"ompd_\w+ (returned -?\d+)?", line)]


def expected_calls(script: Script) -> list[str]:
    """Return the lines that a reproducer must print: each call with its code; a last call that did not return has no
    code.
    """
    return [
        f"{step['function']} " + (f"returned {reply.code}" if not reply.ended else "")
        for step, reply in zip(script.steps, script.replies, strict=False)
        if step["do"] == "call" and not reply.is_skipped
    ]
