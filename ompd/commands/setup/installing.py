"""The commands that print or install completion files, the manual page, and the debuggers' start lines."""

from __future__ import annotations

from functools import partial
from typing import cast

import click

from ompd.commands.ending import fail
from ompd.commands.setup.completion import SHELLS, format_completion
from ompd.errors import OmpdError


def _manual() -> str:
    from ompd.commands.setup.manual import format_manual

    return format_manual(cast("click.Group", click.get_current_context().find_root().command))


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Prints the file by which SHELL completes commands, options, files and the numbers of processes. The shell then
    asks ompd at each TAB. Wheels have these files where shells look for them, and `ompd setup` writes them into your
    home.

    \b
      $ ompd completion bash > ~/.local/share/bash-completion/completions/ompd
    """
    click.echo(format_completion(shell), nl=False)


@click.command()
def manual() -> None:
    """Prints the manual page in roff: what --help says of all commands.

    \b
      $ ompd manual | man -l -
    """
    click.echo(_manual(), nl=False)


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@click.option("--undo", is_flag=True, help="Remove what was written, and nothing else.")
def setup(dry_run: bool, undo: bool) -> None:
    """Makes ompd at home in your account: completion for those of bash, zsh and fish that are installed, the manual
    page, and the line that loads the commands into LLDB and gdb, where these are installed. It prints each file
    that it writes, and leaves files alone that it did not write, and links that lead out of your home.

    \b
      $ ompd setup --dry-run
      /home/u/.local/share/bash-completion/completions/ompd: would be written
      /home/u/.local/share/man/man1/ompd.1: would be written
      /home/u/.gdbinit: would be added: source /usr/lib/python3/dist-packages/ompd/gdb_script.py
    """
    import ompd.commands.setup.home_files as home_files

    try:
        said, refused = home_files.set_up(_manual(), dry_run=dry_run, undo=undo)
    except OmpdError as error:
        fail(error)
    for line in said:
        click.echo(line)
    for refusal in refused[:-1]:
        click.echo(f"ompd: {refusal}", err=True)
    if refused:
        fail(refused[-1])


def _init(debugger: str, file: str) -> click.Command:
    return click.Command(
        f"{debugger.lower()}-init",
        callback=partial(_change_start_file, debugger),
        help=f"Prints the line that loads these commands into {debugger}. There they work on what it debugs.",
        params=[
            click.Option(["--install"], is_flag=True, help=f"Write the line into {file}, once."),
            click.Option(["--uninstall"], is_flag=True, help="Remove it from there."),
        ],
    )


def _change_start_file(debugger: str, *, install: bool, uninstall: bool) -> None:
    import ompd.commands.setup.start_files as start_files

    try:
        click.echo(start_files.change(debugger, install=install, uninstall=uninstall))
    except OmpdError as error:
        fail(error)


lldb_init = _init("LLDB", "~/.lldbinit")
gdb_init = _init("gdb", "~/.gdbinit")
