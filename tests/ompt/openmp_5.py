"""Reads ``omp-tools.h`` of OpenMP runtimes: what they declare of OMPT (``openmp_5.json`` is LLVM's, of release 22).

``python -m tests.ompt.openmp_5`` writes that anew, of the unpacked package; other runtimes' are read where they are.
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
    """Return what LLVM's header declares."""
    return from_json(json.loads(DATA.read_text())["header"])


def header_of(runtime: str) -> Path:
    """Return where the header of *runtime* is: ``intel``, or a row of ``tests/tools.toml`` with LLVM's.

    :raises Missing: if it is not there
    """
    if runtime == "intel":
        return intel_runtime() / "opt" / "compiler" / "include" / "omp-tools.h"
    found = sorted(deb_folder(runtime).glob("usr/lib/llvm-*/lib/clang/*/include/omp-tools.h"))
    if not found:
        raise Missing(runtime, "no omp-tools.h in it")
    return found[0]


def parsed(header: Path) -> Declarations:
    """Return what *header* declares of OMPT, and not of OMPD."""
    # Before that are macros for the runtime's own use, and two enumerations that they make; after it is OMPD's list.
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
