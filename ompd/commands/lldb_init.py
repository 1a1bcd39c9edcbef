"""The line that loads our commands into LLDB, and the file in which LLDB looks for such lines when it starts."""

from __future__ import annotations

import re
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parents[1] / "lldb_script.py"
_OURS = re.compile(r'^\s*command script import "?.*/ompd/lldb_script\.py"?\s*$')


def format_import() -> str:
    """Return LLDB's command that loads the script of this installation."""
    path = str(_SCRIPT)
    quoted = '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' if re.search(r"[\s\"'`\\]", path) else path
    return f"command script import {quoted}"


def install_import(line: str) -> tuple[Path, bool]:
    """Write *line* into ``~/.lldbinit`` in the place of one for another installation, else at the end.

    :returns: the file, and whether it was changed
    :raises OSError: if the file cannot be read or written
    """
    file = Path("~/.lldbinit").expanduser()
    before = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
    lines = before.splitlines()
    after = [line if _OURS.match(old) else old for old in lines]
    if line not in after:
        after.append(line)
    if after == lines:
        return file, False
    file.write_text("\n".join(after) + "\n", encoding="utf-8", errors="surrogateescape")
    return file, True
