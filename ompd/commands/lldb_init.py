"""The line that loads the commands into LLDB, and ``~/.lldbinit``, which LLDB reads at its start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ompd.errors import BadFile
from ompd.safety.isolation import PACKAGES
from ompd.safety.trust import others_fault
from ompd.safety.writing import Place

_SCRIPT = Path(__file__).resolve().parents[1] / "lldb_script.py"
_OURS = re.compile(r'^\s*command script import "?.*/ompd/lldb_script\.py"?\s*$')


def _packages() -> Iterator[str]:
    # The files of what the script imports.
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):  # of a package in a package
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                yield spec.origin


def format_import() -> str:
    """Return LLDB's command that loads the script of this installation.

    :raises BadFile: if this is the single file that ``make pyz`` makes, of which LLDB loads nothing
    """
    path = str(_SCRIPT)
    if not _SCRIPT.is_file():
        raise BadFile(path, "is inside of an archive, from which LLDB cannot load it", hint="install ompd with pip")
    quoted = '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' if re.search(r"[\s\"'`\\]", path) else path
    return f"command script import {quoted}"


def install_import(line: str) -> tuple[Path, bool]:
    """Write *line* into ``~/.lldbinit`` in place of one for another installation, else at the end.

    LLDB runs what these files contain, so files that somebody else could have written are refused.

    :returns: the file, and whether it was changed
    :raises BadFile: if it cannot be read or written, or others could change it or the script
    """
    for path in (str(_SCRIPT), *_packages()):
        fault = others_fault(path, private_groups=True)
        if fault is not None:
            raise BadFile(path, f"is not made part of LLDB: {fault}", hint="install where only you and root may write")
    file = Path("~/.lldbinit").expanduser()
    with Place(file) as place:
        fault = others_fault(str(file if place.replaced is not None else file.parent), private_groups=True)
        if fault is not None:
            raise BadFile(str(file), f"is not changed: {fault}", hint="LLDB runs what stands there; make it your own")
        before = place.read().decode("utf-8", "surrogateescape") if place.replaced is not None else ""
        lines = before.splitlines()
        after = [line if _OURS.match(old) else old for old in lines]
        if line not in after:
            after.append(line)
        if after == lines:
            return file, False
        with place.written() as stream:
            stream.write(("\n".join(after) + "\n").encode("utf-8", "surrogateescape"))
        return file, True
