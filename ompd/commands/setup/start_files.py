"""The lines that load the commands into LLDB and gdb, and the files that these debuggers read at their start."""

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
    """A debugger: its ``name``, its ``command`` that loads a script, and ours, ``script``. ``ours`` is how a line with
    that begins and ends, whoever installed it; ``files`` are those that it reads at its start, of which it takes the
    first that is there, and the last one is made if none is.
    """

    name: str
    command: str
    script: Path
    quotes: bool
    files: tuple[str, ...]

    @property
    def ours(self) -> re.Pattern[str]:
        """What a line that loads a script of ours looks like, whichever installation it is of."""
        return re.compile(rf'^\s*{self.command}\s+"?.*/ompd/{re.escape(self.script.name)}"?\s*$')


_PACKAGE = Path(__file__).resolve().parents[2]
DEBUGGERS = {
    "LLDB": Debugger("LLDB", "command script import", _PACKAGE / "lldb_script.py", True, ("~/.lldbinit",)),
    # gdb takes all behind the word for the name of the file. (gdb's manual, "Startup")
    "gdb": Debugger("gdb", "source", _PACKAGE / "gdb_script.py", False, ("$XDG_CONFIG_HOME/gdb/gdbinit", "~/.gdbinit")),
}


def change(name: str, *, install: bool, uninstall: bool) -> str:
    """Return the line for the debugger of that name, or what was done with it.

    :raises BadInput: if both are wanted
    :raises BadFile: as :func:`install_line` does
    """
    debugger = DEBUGGERS[name]
    if install and uninstall:
        raise BadInput("--install and --uninstall exclude each other")
    if uninstall:
        return "\n".join(changes(debugger, undo=True)) or f"{debugger.files[-1]}: has no line of ompd's"
    return "\n".join(changes(debugger)) if install else format_line(debugger)


def changes(debugger: Debugger, *, undo: bool = False, dry_run: bool = False) -> list[str]:
    """Write the line into the debugger's file, or remove it, and return what was done with which file.

    :param dry_run: change nothing, and return what would be done
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
    # The files of what the script imports.
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):  # of a package in a package
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                yield spec.origin


def format_line(debugger: Debugger) -> str:
    """Return the debugger's command that loads the script of this installation.

    :raises BadFile: if this is the single file that ``make pyz`` makes, of which a debugger loads nothing
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
    """Write *line* into the debugger's file in place of those for other installations, else at the end.

    The debugger runs what these files contain, so files that somebody else could have written are refused.

    :param dry_run: do not change it
    :returns: the file, and whether it was changed, or would be
    :raises BadFile: if it cannot be read or written, or others could change it or the script
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
    """Return the files that the debugger reads at its start, whether or not they are there.

    :raises BadFile: if there is no home
    """
    known = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    names = [name.replace("$XDG_CONFIG_HOME", known) for name in debugger.files]
    return [home() / name.removeprefix("~/") for name in names]


def home() -> Path:
    """Return the user's home.

    :raises BadFile: if there is none
    """
    # Python takes the root folder for an empty HOME.
    name = os.path.expanduser("~") if os.environ.get("HOME") != "" else ""  # noqa: PTH111
    if not name.startswith("/") or not Path(name).is_dir():
        raise BadFile(name or "HOME", "is no folder, and should be your home", hint="set HOME")
    return Path(name)


def _rewrite(debugger: Debugger, file: Path, line: str | None, dry_run: bool) -> bool:
    # Puts the line into the file, None for no line of ours at all; whether that changes it.
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
