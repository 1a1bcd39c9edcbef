"""Read the OMPT declarations in ``omp-tools.h`` of OpenMP runtimes (``openmp_5.json`` has those of LLVM 22).

``python -m tests.ompt.openmp_5`` writes this file anew from the unpacked package. Other runtimes' headers are read in
place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ompt.declarations import Declarations, declared, from_json
from tests.support.debs import deb_folder
from tests.support.machine import Missing, intel_runtime

DATA = Path(__file__).with_name("openmp_5.json")
RELEASE = "libompd-22"


def load() -> Declarations:
    """Return the declarations of LLVM's header."""
    return from_json(json.loads(DATA.read_text())["header"])


def header_of(runtime: str) -> Path:
    """Return the header of *runtime*, which is ``intel`` or the name of an LLVM row in ``tests/tools.toml``.

    :raises Missing: if the header is missing
    """
    if runtime == "intel":
        return intel_runtime() / "opt" / "compiler" / "include" / "omp-tools.h"
    found = sorted(deb_folder(runtime).glob("usr/lib/llvm-*/lib/clang/*/include/omp-tools.h"))
    if not found:
        raise Missing(runtime, "no omp-tools.h in it")
    return found[0]


def parsed(header: Path) -> Declarations:
    """Return the OMPT declarations of *header*, without those of OMPD."""
    # Skip the macros for the runtime's own use and the two enumerations made by them, and later OMPD's list.
    text = header.read_text()
    start = text.index("typedef enum ompt_callbacks_t")
    found = declared(re.sub(r"#define FOREACH(?:.*\\\n)*.*|extern .*ompd_dll_locations;", "", text[start:]))

    def of_ompt(names: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in names.items() if not re.match(r"_?ompd_", name)}

    return Declarations(
        of_ompt(found.enumerations),
        of_ompt(found.structures),
        of_ompt(found.unions),
        of_ompt(found.aliases),
        of_ompt(found.functions),
        of_ompt(found.constants),
    )


def _written() -> Iterator[tuple[str, object]]:
    header = header_of(RELEASE)
    yield "document", "omp-tools.h of LLVM's OpenMP runtime, package libomp-22-dev"
    yield "sha256", hashlib.sha256(header.read_bytes()).hexdigest()
    yield "made_by", "python -m tests.ompt.openmp_5"
    yield "header", parsed(header).as_json()


if __name__ == "__main__":
    DATA.write_text(json.dumps(dict(_written()), indent=1) + "\n")
