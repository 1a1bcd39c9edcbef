"""Options that all shell commands share: the target, the places of its files, and the output format."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.completing import complete_folder, complete_target
from ompd.commands.ending import end_of_output, fail
from ompd.commands.formats import SHARED, TEXT, render
from ompd.commands.loading import load
from ompd.commands.options import FOREIGN, parse_size
from ompd.commands.progress import Progress
from ompd.commands.targets import process_id_of
from ompd.errors import OmpdError
from ompd.records import record

if TYPE_CHECKING:
    from ompd.session import Session

TARGET = click.Argument(["target"], metavar="TARGET", type=click.Path(readable=False), shell_complete=complete_target)

OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(
        ["--exe"],
        metavar="FILE",
        type=click.Path(readable=False),
        help="The program, if the core does not name it or the file has changed since.",
    ),
    click.Option(
        ["--sysroot"],
        metavar="DIR",
        shell_complete=complete_folder,
        type=click.Path(readable=False),
        help="Folder that holds the files of the machine on which the program ran.",
    ),
    click.Option(
        ["--debug-dir"],
        metavar="DIR",
        shell_complete=complete_folder,
        type=click.Path(readable=False),
        multiple=True,
        help="Folder with separate debug files or .build-id folders; may be repeated.",
    ),
    click.Option(
        ["--source-dir"],
        metavar="DIR",
        shell_complete=complete_folder,
        type=click.Path(readable=False),
        multiple=True,
        help="Folder with source files, if they are not where they were compiled; may be repeated.",
    ),
    click.Option(["--debuginfod"], is_flag=True, help="Download missing files from the servers in DEBUGINFOD_URLS."),
    click.Option(
        ["--max-size"],
        metavar="SIZE",
        callback=parse_size,
        help="Largest size of a compressed core once it is unpacked, as 500M or 2G; default 32G.",
    ),
    *FOREIGN,
    click.Option(
        ["--nonblocking"], is_flag=True, help="Do not stop a live process; facts may be of different moments."
    ),
    click.Option(
        ["--max-stop"],
        metavar="MS",
        type=click.FloatRange(0, 3_600_000, min_open=True),
        help="Longest stop of a live process, in milliseconds; default 50, plus 0.2 for each thread above 256.",
    ),
    *(click.Option([f"--{row.name}", row.parameter], is_flag=True, help=row.help) for row in SHARED),
    click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colours in text; default auto. NO_COLOR is respected.",
    ),
    click.Option(
        ["-v", "--verbose"], is_flag=True, help="Show addresses, where each fact came from, and why any is unknown."
    ),
    click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
)
"""The options of all commands that have a target."""


@record
class Request:
    """The options of all commands: the target, the places of its files, and the output format.

    ``format`` is ``text`` or the name of a format that all commands have.
    """

    target: str
    exe: str | None
    sysroot: str | None
    debug_dir: tuple[str, ...]
    source_dir: tuple[str, ...]
    debuginfod: bool
    max_size: int
    plugins: tuple[str, ...]
    ompd_library: str | None
    nonblocking: bool
    max_stop: float | None
    format: str
    color: str
    verbose: bool
    debug: bool

    @contextmanager
    def opened(self) -> Iterator[Session]:
        """Open the target. An error, there or in the context's body, ends the command with a message."""
        progress = Progress()
        try:
            with progress, self._open(progress if sys.stderr.isatty() else None) as session:
                yield session
        except OmpdError as error:
            if self.debug:
                raise
            fail(error)

    def _open(self, progress: Progress | None) -> Session:
        from ompd.debugger.files.finder import FileOptions
        from ompd.session import Session

        files = FileOptions(self.exe, self.sysroot, self.debug_dir, self.debuginfod, progress, self.source_dir)
        process_id = process_id_of(self.target)
        if process_id is None:
            return Session.open_core(
                self.target,
                files,
                max_size=self.max_size,
                plugins=self.plugins,
                ompd_library=self.ompd_library,
            )
        return Session.attach(
            process_id,
            files,
            nonblocking=self.nonblocking,
            max_stop=self.max_stop,
            plugins=self.plugins,
            ompd_library=self.ompd_library,
        )


def split_options(options: Mapping[str, Any]) -> tuple[Request, dict[str, Any]]:
    """Return the :class:`Request` of the shared options, and the command's own options by name."""
    names = {field.name for field in fields(Request)}
    chosen = next((row.name for row in SHARED if options[row.parameter]), TEXT)
    of_all = {name: value for name, value in options.items() if name in names}
    formats = {row.parameter for row in SHARED}
    own = {name: value for name, value in options.items() if name not in names | formats}
    return Request(**of_all, format=chosen), own


def print_answer(request: Request, answer: Any, printer: str, *, format: str, unfold: bool) -> None:
    """Print the answer to a command on standard output.

    :param printer: names the function that prints it as text, by ``module:name``
    :param format: the name of the format
    """
    try:
        if format == TEXT:
            from ompd.render.terminal import make_console

            load(printer)(make_console(request.color), answer, unfold=unfold, verbose=request.verbose)
        else:
            sys.stdout.write(render(format, answer.query, answer))
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
