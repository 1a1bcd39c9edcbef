"""``ompd snapshot``, which writes a small core."""

from __future__ import annotations

import sys
from typing import Any

import click

from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, end_of_output, say
from ompd.commands.formats import TEXT, render
from ompd.commands.options import parse_size
from ompd.commands.shell.request import OPTIONS, TARGET, split_options
from ompd.render.terminal import make_console, print_wrapped
from ompd.render.words import describe_snapshot

_HELP = """Writes a small ELF core with the memory that ompd needs of TARGET, and what it needs of the program's files.
Every command works on it as on TARGET, on any machine, without those files. gdb and lldb read it, too.

It leaves out source code, environment variables other than OpenMP's and the rank of MPI, and the folders in
arguments. With --with-source, `ompd why` shows lines of source on machines without the source files, too. Memory
is kept in whole pages, which may hold other data of the program: look at it before you publish it.

\b
  $ ompd snapshot core.1234 -o small.core
  small.core: 5.5 MB, 13 threads; 1.8 MB of memory, 3.6 MB of the files of 3 modules
"""


def _snapshot(**options: Any) -> None:
    import ompd.questions.snapshot as snapshots

    request, own = split_options(options)
    if own["data"] is None:
        own["data"] = snapshots.DATA_LIMIT
    with request.opened() as session:
        snapshot = snapshots.take_snapshot(
            session,
            own["output"],
            data_limit=own["data"],
            keep_environment=own["keep_env"],
            keep_source=own["with_source"],
        )
    try:
        if request.format == TEXT:
            print_wrapped(make_console("never"), [(describe_snapshot(snapshot), "")])
        else:
            sys.stdout.write(render(request.format, "snapshot", snapshot))
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    for problem in snapshot.problems:
        say(f"ompd: warning: {problem}")
    if snapshot.problems:
        sys.exit(EXIT_INCOMPLETE)


snapshot = click.Command(
    "snapshot",
    callback=_snapshot,
    help=_HELP,
    epilog=EXIT_CODES,
    params=[
        TARGET,
        *OPTIONS,
        click.Option(["-o", "--output"], metavar="FILE", required=True, type=click.Path(), help="The file to write."),
        click.Option(
            ["--data"],
            metavar="SIZE",
            callback=parse_size,
            help="How much writable data to keep of each of your modules: 500K, 2G, 0 for none; default 1M.",
        ),
        click.Option(["--keep-env"], is_flag=True, help="Keep the whole environment and the folders in arguments."),
        click.Option(
            ["--with-source"],
            is_flag=True,
            help="Keep a few lines of source around the places of threads.",
        ),
    ],
)
