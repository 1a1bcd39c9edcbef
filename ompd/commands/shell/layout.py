"""``ompd layout``: tables of structure layouts for stripped runtimes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, end_of_output, fail, format_warnings, say
from ompd.commands.formats import render
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.model.layouts import LayoutAnswer


@click.group(epilog=EXIT_CODES)
def layout() -> None:
    """Tables of offsets and sizes of the runtimes' structures. ompd needs one where a runtime is stripped, and uses it
    only after verifying that it fits that runtime. These commands take no TARGET.
    """


_DEBUG = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@layout.command("show", short_help="List the tables, or print one.", epilog=EXIT_CODES)
@click.argument("name", metavar="[NAME]", required=False)
@_JSON
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours in text; NO_COLOR is respected.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show build-ids with what each is, and the files.")
@_DEBUG
def layout_show(name: str | None, as_json: bool, color: str, verbose: bool, debug: bool) -> None:
    """Lists the tables of layouts: runtime, releases, architectures, for how many build-ids each is known to be right,
    how it was made, and whether it came with ompd or is your own. With NAME, prints that table's structures: offset,
    size and name of each member, in bytes; 204:3 is bit 3 of byte 204.

    \b
      $ ompd layout show
      NAME        RUNTIME  RELEASES                ARCHITECTURES    BUILD-IDS  FROM
      libgomp-11  libgomp  GCC 11.3.0, GCC 11.5.0  aarch64, x86_64  0          shipped
      libgomp-12  libgomp  GCC 12.2.0, GCC 12.5.0  aarch64, x86_64  1          shipped
    """
    import ompd.questions.layouts as layouts

    _tell_layouts(lambda: layouts.known(name), as_json=as_json, color=color, verbose=verbose, debug=debug)


@layout.command("add", short_help="Make a table from a runtime's debug information.", epilog=EXIT_CODES)
@click.argument("file", metavar="FILE", type=click.Path(readable=False))
@click.option("--name", metavar="NAME", help="Name of the runtime's release and of the table; default: read from FILE.")
@click.option(
    "--runtime",
    type=click.Choice(["libgomp", "libomp"]),
    help="The runtime in FILE, if it has the types of several.",
)
@_JSON
@_DEBUG
def layout_add(file: str, name: str | None, runtime: str | None, as_json: bool, debug: bool) -> None:
    """Makes a table from the debug information of FILE, a runtime's own file or its separate debug file (.debug, .dbg),
    and writes it into your folder, $XDG_DATA_HOME/ompd/layouts, by default ~/.local/share/ompd/layouts. From then on
    every command can read a stripped file with the same build-id.

    \b
      $ ompd layout add libiomp5.dbg
      libomp-libiomp5.dbg   libomp   Intel 5.0.20260828   x86_64   44 structures
        file           /home/u/.local/share/ompd/layouts/libomp-libiomp5.dbg.json
        build-id       -
    """
    import ompd.questions.layouts as layouts
    from ompd.render.answers.libraries.layouts import describe_layout

    def describe(answer: LayoutAnswer) -> str:
        return describe_layout(answer.rows[0], len(answer.structs or ()))

    _tell_layouts(lambda: layouts.add(file, name, runtime), as_json=as_json, debug=debug, describe=describe)


def _tell_layouts(
    ask: Callable[[], LayoutAnswer],
    *,
    as_json: bool,
    debug: bool,
    color: str = "auto",
    verbose: bool = False,
    describe: Callable[[LayoutAnswer], str] | None = None,
) -> None:
    try:
        answer = ask()
    except OmpdError as error:
        if debug:
            raise
        fail(error)
    try:
        if as_json:
            sys.stdout.write(render("json", "layout", answer))
        elif describe is not None:
            sys.stdout.write(describe(answer) + "\n")
        else:
            from ompd.render.terminal import make_console, print_layouts

            print_layouts(make_console(color), answer, verbose=verbose)
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    say(*format_warnings(answer))
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)
