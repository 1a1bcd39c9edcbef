"""The stub's DMPL library with only the functions of the white paper: without OMPD's functions and the extension."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.cache import entry, key_of
from tests.support.machine import require
from tests.support.stub import SOURCES, sources_key

_FLAGS = ("-std=c11", "-g", "-O1", "-ffreestanding", "-fno-stack-protector", "-fPIC", "-fvisibility=hidden", "-w")


def dmpl_library(file: str = "", old: str = "", new: str = "") -> Path:
    """Return the library, or its mutant.

    :param file: a file of ``runtime_stub/dmpl``, in which *new* replaces *old*
    :raises AssertionError: if *old* does not occur exactly once
    """
    compiler = require("gcc")
    text = (SOURCES / "dmpl" / file).read_text() if file else ""
    if file:
        assert text.count(old) == 1, f"{file} has {text.count(old)} places with {old!r}"
        text = text.replace(old, new)

    def make(folder: Path) -> None:
        for name in ("dmpl", "include"):
            shutil.copytree(SOURCES / name, folder / "source" / name)
        if file:
            (folder / "source" / "dmpl" / file).write_text(text)
        out = ["-shared", "-nostdlib", "-Wl,-z,defs", "-o", str(folder / "libdmpl_stub.so")]
        sources = [str(path) for path in sorted((folder / "source" / "dmpl").glob("*.c"))]
        options = [*_FLAGS, "-DDMPL_extend=no_extension", f"-I{folder / 'source' / 'include'}"]
        subprocess.run([str(compiler), *options, *out, *sources], check=True)

    return entry("stub-dmpl", key_of(sources_key(), file, text, _FLAGS), make) / "libdmpl_stub.so"
