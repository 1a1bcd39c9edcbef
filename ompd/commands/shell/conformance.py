"""``ompd conformance``: its options, output and exit codes."""

from __future__ import annotations

import sys

import click

from ompd.commands.completing import complete_folder
from ompd.commands.ending import end_of_output, fail, say
from ompd.commands.formats import render
from ompd.errors import NoAnswer, OmpdError

_FOUND = 10
_EXIT_CODES = """\b
Exit codes:
  0   the library conforms: there are no findings but known ones
  1   it could not be tested; standard error says why
  2   wrong usage
  10  there are findings"""


@click.command("conformance", epilog=_EXIT_CODES)
@click.argument("library", metavar="LIBRARY", type=click.Path(readable=False))
@click.argument("programs", metavar="[CORE]...", nargs=-1, type=click.Path(readable=False))
@click.option(
    "--plugins",
    metavar="DIR",
    shell_complete=complete_folder,
    type=click.Path(readable=False),
    multiple=True,
    help="Folder with plugins for other OpenMP runtimes; may be repeated.",
)
@click.option("--expect", metavar="FILE", type=click.Path(readable=False), help="Keys of known findings, one a line.")
@click.option("--first", is_flag=True, help="Stop trying a program at its first finding.")
@click.option(
    "--reproducer",
    metavar="DIR",
    shell_complete=complete_folder,
    type=click.Path(),
    help="Write a program in C for each finding into DIR.",
)
@click.option("--junit", metavar="FILE", type=click.Path(), help="Write the findings into FILE as JUnit's XML.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def conformance(
    library: str,
    programs: tuple[str, ...],
    plugins: tuple[str, ...],
    expect: str | None,
    first: bool,
    reproducer: str | None,
    junit: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Calls every function of LIBRARY, an OMPD library, with right arguments and with wrong ones, with callbacks that
    fail, with memory that runs out, before it is initialised and after its end, and compares what comes back with
    OpenMP 5.2. A crash is a finding, not an end: the library runs in confined processes of its own. CORE is a core of
    a program whose runtime the library is for, with a parallel region of two threads or more; without one, only what
    needs no handles is tried. The functions of a DMPL library are compared with the white paper of 2004.

    \b
      $ ompd conformance /usr/lib/llvm-19/lib/libompd.so core.1234
      ...
      ompd_finalize: before initialisation
        seen       returned ompd_rc_ok
        standard   OpenMP 5.2, 20.5.1.4 demands: ompd_rc_unsupported
        rule       to finalise a library that is not initialised is unsupported
        key        ompd_finalize/first
          ompd_finalize()
    """
    import ompd.conformance.asking as asking
    from ompd.model.conformance import news
    from ompd.render.conformance import lines
    from ompd.render.terminal import make_console, print_wrapped

    try:
        tried = asking.ask(library, programs, plugins=plugins, expect=expect, first=first)
        if reproducer is not None:
            asking.write_reproducers(tried, reproducer)
        if junit is not None:
            asking.write_file(junit, render("junit", "conformance", tried.answer))
    except OmpdError as error:
        if debug:
            raise
        fail(error)
    try:
        if as_json:
            sys.stdout.write(render("json", "conformance", tried.answer))
        else:
            print_wrapped(make_console("never"), ((line, "") for line in lines(tried.answer)))
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    say(*(f"ompd: note: {warning}" for warning in tried.answer.warnings))
    if news(tried.answer):
        sys.exit(_FOUND)
    if tried.answer.untried and not tried.answer.rows:
        fail(NoAnswer(f"{library}: nothing is wrong with what was tried, but not all of it could be"))
