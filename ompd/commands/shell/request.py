"""What all commands have in common in the shell: the target, where its files are, and how to print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import click

from ompd.commands.ending import fail
from ompd.commands.options import FOREIGN, parse_size
from ompd.commands.progress import Progress
from ompd.commands.targets import open_target
from ompd.debugger.files.finder import FileOptions
from ompd.errors import OmpdError
from ompd.records import record
from ompd.session import Session

EXIT_CODES = """\b
Exit codes:
  0    the answer is complete
  1    no answer; standard error says why
  2    wrong usage
  3    parts of the answer were unreadable; standard error lists them
  130  interrupted"""
"""What the help of each command ends with."""

OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.argument("target", metavar="TARGET", type=click.Path(readable=False)),
    click.option(
        "--exe",
        metavar="FILE",
        type=click.Path(readable=False),
        help="The program, if the core does not name it or the file has changed since.",
    ),
    click.option(
        "--sysroot",
        metavar="DIR",
        type=click.Path(readable=False),
        help="Folder that holds the files of the machine on which the program ran.",
    ),
    click.option(
        "--debug-dir",
        metavar="DIR",
        type=click.Path(readable=False),
        multiple=True,
        help="Folder with separate debug files or .build-id folders; may be repeated.",
    ),
    click.option("--debuginfod", is_flag=True, help="Download missing files from the servers in DEBUGINFOD_URLS."),
    click.option(
        "--max-size",
        metavar="SIZE",
        callback=parse_size,
        help="Largest size of a compressed core once it is unpacked, as 500M or 2G; default 32G.",
    ),
    *FOREIGN,
    click.option("--nonblocking", is_flag=True, help="Do not stop a live process; facts may be of different moments."),
    click.option(
        "--max-stop",
        metavar="MS",
        type=click.FloatRange(0, 3_600_000, min_open=True),
        help="Longest stop of a live process, in milliseconds; default 50, plus 0.2 for each thread above 256.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colours in text; default auto. NO_COLOR is respected.",
    ),
    click.option(
        "-v", "--verbose", is_flag=True, help="Show addresses, where each fact came from, and why any is unknown."
    ),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)
"""The target, and the options of all commands."""


@record
class Request:
    """The options of all commands: the target, where its files are, and how to print the answer."""

    target: str
    exe: str | None
    sysroot: str | None
    debug_dir: tuple[str, ...]
    debuginfod: bool
    max_size: int
    plugins: tuple[str, ...]
    ompd_library: str | None
    nonblocking: bool
    max_stop: float | None
    as_json: bool
    color: str
    verbose: bool
    debug: bool

    @contextmanager
    def opened(self) -> Iterator[Session]:
        """Open the target; an error, also of the queries on it, ends the command with a message."""
        progress = Progress()
        try:
            with (
                progress,
                open_target(
                    self.target,
                    FileOptions(
                        self.exe,
                        self.sysroot,
                        self.debug_dir,
                        self.debuginfod,
                        progress if sys.stderr.isatty() else None,
                    ),
                    nonblocking=self.nonblocking,
                    max_stop=self.max_stop,
                    max_size=self.max_size,
                    plugins=self.plugins,
                    ompd_library=self.ompd_library,
                ) as session,
            ):
                yield session
        except OmpdError as error:
            if self.debug:
                raise
            fail(error)


def split_options(options: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
    """Return what :class:`Request` has of *options*, and the rest."""
    known = {field.name for field in fields(Request)}
    return Request(**{k: v for k, v in options.items() if k in known}), {
        k: v for k, v in options.items() if k not in known
    }
