"""The commands that are about the user's shell, manual and debuggers: completion files, the manual page, and setting
all of it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, cast

import click

from ompd.commands.table import GROUPS
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.commands.setup.home_files import Texts

Fail = Callable[[OmpdError], NoReturn]


def make(fail: Fail) -> Iterator[click.Command]:
    """Yield the commands.

    :param fail: ends a command with the message of an error
    """
    yield _init("LLDB", "~/.lldbinit", fail)
    yield _init("gdb", "~/.gdbinit", fail)
    yield completion
    yield manual
    yield _setup(fail)


def _init(debugger: str, file: str, fail: Fail) -> click.Command:
    def run(install: bool, uninstall: bool) -> None:
        import ompd.commands.setup.start_files as start_files

        try:
            click.echo(start_files.change(debugger, install=install, uninstall=uninstall))
        except OmpdError as error:
            fail(error)

    run.__doc__ = f"Prints the line that loads these commands into {debugger}. There they work on what it debugs."
    add = click.option("--install", is_flag=True, help=f"Write the line into {file}, once.")
    remove = click.option("--uninstall", is_flag=True, help="Remove it from there.")
    summary = f"Load these commands into {debugger}."
    return click.command(f"{debugger.lower()}-init", short_help=summary)(add(remove(run)))


def texts_of(group: click.Group) -> Texts:
    """Return the completion files, by their shells, and the manual page, of the commands in *group*."""
    from ompd.commands.setup.completion import SHELLS, format_completion
    from ompd.commands.setup.home_files import Texts
    from ompd.commands.setup.manual import format_manual
    from ompd.commands.setup.words import about, leaves, switches

    order = [name for _, names in GROUPS for name in names]
    commands, own = sorted(leaves(group), key=lambda leaf: order.index(leaf.words[0])), switches(group)
    return Texts(
        {shell: format_completion(shell, commands, own) for shell in SHELLS},
        format_manual(about(group), commands, own, str(group.epilog)),
    )


def _group() -> click.Group:
    return cast("click.Group", click.get_current_context().find_root().command)


@click.command(short_help="Print a file by which a shell completes these commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints the file by which SHELL completes commands, options, files and the numbers of processes. The shell reads
    it without starting Python. Wheels have these files where shells look for them, and `ompd setup` writes them into
    your home.

    \b
      $ ompd completion bash > ~/.local/share/bash-completion/completions/ompd
    """
    click.echo(texts_of(_group()).completions[shell], nl=False)


@click.command(short_help="Print the manual page, for man.")
def manual() -> None:
    """Prints the manual page in roff: what --help says of all commands.

    \b
      $ ompd manual | man -l -
    """
    click.echo(texts_of(_group()).manual, nl=False)


def _setup(fail: Fail) -> click.Command:
    @click.command(short_help="Install completion, manual page and debugger lines.")
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
            said, refused = home_files.set_up(texts_of(_group()), dry_run=dry_run, undo=undo)
        except OmpdError as error:
            fail(error)
        for line in said:
            click.echo(line)
        for each in refused[:-1]:
            click.echo(f"ompd: {each}", err=True)
        if refused:
            fail(refused[-1])

    return setup
