"""One file with ompd and what it needs of pure Python, for machines without pip: ``python tools/pyz.py FILE``.

The packages are those of the environment that runs this. Compiled ones (zstd, lz4) do not work inside of an archive:
ompd uses them where the Python that runs the file has them. Code is stored compiled, too, which Pythons of other
versions pass over.
"""

from __future__ import annotations

import compileall
import py_compile
import re
import shutil
import sys
import tempfile
import zipapp
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Of rich's parts that print source code and Markdown.
_NOT_NEEDED = {"pygments", "markdown-it-py"}
_COMPILED = (".so", ".pyd")
# Works without its compiled part, only slower.
_HAS_FALLBACK = {"markupsafe"}


def _needed(name: str, found: dict[str, list[str]]) -> Iterator[str]:
    # The distributions that *name* requires, without its extras. Yields those that are left out.
    for text in distribution(name).requires or ():
        required = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
        if re.search(r";.*\bextra\b", text) or required in found or required in _NOT_NEEDED:
            continue
        try:
            files = [str(file) for file in distribution(required).files or ()]
        except PackageNotFoundError:  # of another version of Python
            continue
        if required.lower() in _HAS_FALLBACK:
            files = [file for file in files if not file.endswith(_COMPILED)]
        if any(file.endswith(_COMPILED) for file in files):
            yield required
            continue
        found[required] = files
        yield from _needed(required, found)


def make(output: Path) -> list[str]:
    """Write the archive; returns the names of compiled distributions that are not in it."""
    found: dict[str, list[str]] = {}
    left_out = sorted(_needed("ompd", found))
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder)
        for name, files in found.items():
            for file in files:
                if file.startswith("..") or "__pycache__" in file:  # scripts
                    continue
                (inside / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(distribution(name).locate_file(file)), inside / file)
        shutil.copytree(ROOT / "ompd", inside / "ompd", ignore=shutil.ignore_patterns("__pycache__", "host32"))
        shutil.copyfile(ROOT / "LICENSE", inside / "LICENSE")
        # By no time of a file: the archive stores these less exactly.
        compiled = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(
            inside, quiet=2, legacy=True, invalidation_mode=compiled, stripdir=folder, prependdir=output.name
        )
        output.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(inside, output, "/usr/bin/env python3", "ompd.start:main", compressed=True)
    return left_out


if __name__ == "__main__":
    target = Path(sys.argv[1])
    without = make(target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, without {' and '.join(without) or 'nothing'}")
