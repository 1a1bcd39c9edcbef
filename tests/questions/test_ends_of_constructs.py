"""Barriers at the ends of constructs are named after the construct, where the compiler's code shows which one it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import RUNTIMES, clean_environment
from tests.support.build import compiler as compiler_of
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.command import ompd
from tests.support.products import sample
from tests.support.proof import await_rest

SOURCE = CHECKOUT / "tests" / "waits" / "ends.c"
LLVM = ("clang", "libomp-19")
GNU = ("gcc", "libgomp")
# By construct: its name in JSON, and in the sentence of `why`. gcc's code calls one routine for all barriers but those
# of sections and of loops with a dynamic schedule; clang's code marks those of loops like those of other constructs.
SHOWN = {
    (GNU, "loop"): ("loop", "at the end of a worksharing loop, "),
    (GNU, "sections"): ("sections", "at the end of sections, "),
    (GNU, "single"): (None, "at a barrier, "),
    (GNU, "barrier"): (None, "at a barrier, "),
    (GNU, "parallel"): (None, "at the end of parallel "),
    (LLVM, "loop"): (None, "at the end of a worksharing construct, "),
    (LLVM, "sections"): ("sections", "at the end of sections, "),
    (LLVM, "single"): ("single", "at the end of single, "),
    (LLVM, "barrier"): (None, "at a barrier, "),
    (LLVM, "parallel"): (None, "at the end of parallel "),
}
WHERE = {"a worksharing loop": "loop", "a worksharing construct": "worksharing"}  # in the table of `threads`


def built(compiler: str, runtime: str, level: str) -> Path:
    used, openmp = compiler_of(compiler), RUNTIMES[runtime]
    library = openmp.file().parent
    compiling = [str(used.path), "-g", level, "-fopenmp", "-c", str(SOURCE), "-o", "ends.o"]
    linking = [str(used.path), "ends.o", "-o", "ends", f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options]

    def make(folder: Path) -> None:
        for command in (compiling, [*linking, "-lpthread"]):
            subprocess.run(command, cwd=folder, check=True, env=clean_environment())

    key = key_of("ends", SOURCE.read_text(), used.version, compiling, linking, openmp.version())
    return entry("programs", key, make) / "ends"


@pytest.mark.parametrize(
    ("built_with", "construct", "level"),
    sample(
        [(key[0], key[1], level) for key in SHOWN for level in ("-O0", "-O2")],
        lambda built_with, construct, level: ((built_with, construct), level),
    ),
)
def test_the_end_of_a_construct_is_named(built_with: tuple[str, str], construct: str, level: str) -> None:
    in_json, sentence = SHOWN[built_with, construct]
    with subprocess.Popen([str(built(*built_with, level)), construct], env=clean_environment()) as process:
        try:
            await_rest(process.pid)
            why = ompd("why", process.pid).out
            table = ompd("threads", process.pid).out
            rows = ompd("threads", process.pid, "--json").json["threads"]
        finally:
            process.kill()
    waits = [row["wait"]["construct"] for row in rows if row["wait"] and row["wait"]["kind"] == "barrier"]
    assert waits == [in_json] * 3
    assert re.search(rf"^3 more threads wait for this one {sentence}ends\.c:\d+\.$", why, re.M), why
    end = re.search("the end of ([a-z ]+[a-z])", sentence)
    shown = re.search(r"end of (\w+) ends\.c:\d+", table)
    assert (end and WHERE.get(end[1], end[1])) == (shown and shown[1]), table
