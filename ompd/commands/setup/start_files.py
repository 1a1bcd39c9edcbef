"""The lines that load the commands into LLDB and gdb, and these debuggers' start files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ompd.errors import BadFile, BadInput
from ompd.records import record
from ompd.safety.isolation import PACKAGES
from ompd.safety.trust import others_fault
from ompd.safety.writing import Destination


@record
class Debugger:
    """A debugger: its ``name``, its ``command`` that loads a script, and our ``script``.

    ``quotes`` is True if the debugger needs quotes around special paths. At its start it reads the first of ``files``
    that exists; if none exists, the last one is created.
    """

    name: str
    command: str
    script: Path
    quotes: bool
    files: tuple[str, ...]

    @property
    def ours(self) -> re.Pattern[str]:
        """Matches a line that loads our script, from any installation."""
        return re.compile(rf'^\s*{self.command}\s+"?.*/ompd/{re.escape(self.script.name)}"?\s*$')


_PACKAGE = Path(__file__).resolve().parents[2]
DEBUGGERS = {
    "LLDB": Debugger("LLDB", "command script import", _PACKAGE / "lldb_script.py", True, ("~/.lldbinit",)),
    # gdb takes the rest of the line as the file name. (gdb's manual, "Startup")
    "gdb": Debugger("gdb", "source", _PACKAGE / "gdb_script.py", False, ("$XDG_CONFIG_HOME/gdb/gdbinit", "~/.gdbinit")),
}


def change(name: str, *, install: bool, uninstall: bool) -> str:
    """Return the line for the debugger *name*, or install or remove it and return a message.

    :raises BadInput: if both *install* and *uninstall* are set
    :raises BadFile: as :func:`install_line` does
    """
    debugger = DEBUGGERS[name]
    if install and uninstall:
        raise BadInput("--install and --uninstall exclude each other")
    if uninstall:
        return "\n".join(changes(debugger, undo=True)) or f"{debugger.files[-1]}: has no line of ompd's"
    return "\n".join(changes(debugger)) if install else format_line(debugger)


def changes(debugger: Debugger, *, undo: bool = False, dry_run: bool = False) -> list[str]:
    """Write the line into the debugger's file, or remove it, and return a message for each file.

    :param dry_run: change nothing, and return the messages for the changes
    :raises BadFile: as :func:`install_line` does
    """
    would = "would be " if dry_run else ""
    if undo:
        removed = [file for file in files_of(debugger) if file.exists() and _rewrite(debugger, file, None, dry_run)]
        return [f"{file}: {would}removed" for file in removed]
    line = format_line(debugger)
    file, changed = install_line(debugger, line, dry_run=dry_run)
    return [f"{file}: {f'{would}added' if changed else 'has it already'}: {line}"]


def _packages() -> Iterator[str]:
    # Return the files of the packages that the script imports.
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):  # a subpackage of a missing package
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                yield spec.origin


def format_line(debugger: Debugger) -> str:
    """Return the debugger's command that loads the script of this installation.

    :raises BadFile: if this is the archive of ``make pyz``, from which a debugger cannot load scripts
    """
    path = str(debugger.script)
    if not debugger.script.is_file():
        raise BadFile(
            path, f"is inside of an archive, from which {debugger.name} cannot load it", hint="install ompd with pip"
        )
    if debugger.quotes and re.search(r"[\s\"'`\\]", path):
        path = '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{debugger.command} {path}"


def install_line(debugger: Debugger, line: str, *, dry_run: bool = False) -> tuple[Path, bool]:
    """Write *line* into the debugger's file in place of lines for other installations, else at the end.

    The debugger runs the contents of these files, so files that other users can write are refused.

    :param dry_run: do not change the file
    :returns: the file, and whether it was changed, or would be
    :raises BadFile: if the file cannot be read or written, or other users can write to it or to the script
    """
    for path in (str(debugger.script), *_packages()):
        fault = others_fault(path, private_groups=True)
        if fault is not None:
            raise BadFile(
                path,
                f"is not made part of {debugger.name}: {fault}",
                hint="install where only you and root may write",
            )
    files = files_of(debugger)
    file = next((file for file in files if file.exists()), files[-1])
    return file, _rewrite(debugger, file, line, dry_run)


def files_of(debugger: Debugger) -> list[Path]:
    """Return the debugger's start files, whether or not they exist.

    :raises BadFile: if there is no home
    """
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    names = [name.replace("$XDG_CONFIG_HOME", folder) for name in debugger.files]
    return [home() / name.removeprefix("~/") for name in names]


def home() -> Path:
    """Return the user's home.

    :raises BadFile: if there is none
    """
    # Python expands an empty HOME to the root folder.
    name = os.path.expanduser("~") if os.environ.get("HOME") != "" else ""  # noqa: PTH111
    if not name.startswith("/") or not Path(name).is_dir():
        raise BadFile(name or "HOME", "is no folder, and should be your home", hint="set HOME")
    return Path(name)


def _rewrite(debugger: Debugger, file: Path, line: str | None, dry_run: bool) -> bool:
    # Put *line* into the file, or remove our lines if it is None. Return whether the file changes.
    with Destination(file) as place:
        fault = others_fault(str(file if place.replaced is not None else file.parent), private_groups=True)
        if fault is not None:
            hint = f"{debugger.name} runs what stands there; make it your own"
            raise BadFile(str(file), f"is not changed: {fault}", hint=hint)
        before = place.read().decode("utf-8", "surrogateescape") if place.replaced is not None else ""
        lines = before.splitlines()
        after: list[str] = []
        for old in lines:
            if not debugger.ours.match(old):
                after.append(old)
            elif line is not None and line not in after:
                after.append(line)
        if line is not None and line not in after:
            after.append(line)
        if after == lines or dry_run:
            return after != lines
        with place.written() as stream:
            stream.write("".join(f"{text}\n" for text in after).encode("utf-8", "surrogateescape"))
        return True
