"""``ompd report``, which writes an HTML page."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.ending import EXIT_CODES, EXIT_INCOMPLETE, end_of_output, say
from ompd.commands.shell.pages import page_file
from ompd.commands.shell.request import OPTIONS, TARGET, split_options
from ompd.commands.targets import process_id_of
from ompd.render.words import basename
from ompd.safety.quoting import quote_file

if TYPE_CHECKING:
    from ompd.session import Session

_HELP = """Writes a page about TARGET, one HTML file that needs neither a network nor scripts: the verdicts of
`ompd why` first, with who waits for whom, then teams, threads, stacks, regions and tasks, settings that differ, and
what is unknown. Some lines of source are in it unless --no-source is given; the environment and values of variables
are only on request.

\b
  $ ompd report core.1234 -o hang.html
  hang.html: 24 KB, 4 threads
"""


def _report(**options: Any) -> None:
    request, own = split_options(options)
    with request.opened() as session, page_file(own["output"], [request.target]) as page:
        text, complete, threads = _page(session, request.target, own)
        if page is not None:
            page.write(text)
            say(f"{own['output']}: {page.size}, {threads} thread{'' if threads == 1 else 's'}")
        else:
            try:
                sys.stdout.buffer.write(text.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
            except OSError as error:
                end_of_output(error)
    if not complete:
        say("ompd: warning: parts could not be read; the page says which")
        sys.exit(EXIT_INCOMPLETE)


def _page(session: Session, target: str, own: dict[str, Any]) -> tuple[str, bool, int]:
    import ompd.questions.why.looks as looks
    from ompd.report.gather import gather
    from ompd.report.page import make_page

    earlier = looks.look_before(session)
    content = gather(session, own["var"], has_environment=own["env"], earlier=earlier)
    if own["no_source"] and content.why is not None:
        rows = tuple(replace(verdict, sources=()) for verdict in content.why.rows)
        content = replace(content, why=replace(content.why, rows=rows))
    named = target if process_id_of(target) is not None else basename(target)
    words = ["ompd", "report", quote_file(named), "-o", quote(basename(own["output"]))]
    words += [word for name in own["var"] for word in ("--var", quote(name))]
    words += ["--no-source"] * own["no_source"] + ["--env"] * own["env"]
    when = own["date"] or time.strftime("%Y-%m-%d %H:%M:%S %z")
    count = len(content.threads.rows) if content.threads is not None else content.runtimes.target.thread_count or 0
    return make_page(content, words, when), content.complete, count


report = click.Command(
    "report",
    callback=_report,
    help=_HELP,
    epilog=EXIT_CODES,
    params=[
        TARGET,
        click.Option(
            ["-o", "--output"],
            metavar="FILE",
            required=True,
            type=click.Path(),
            help="The file to write; - for stdout.",
        ),
        click.Option(
            ["--var"], metavar="NAME", multiple=True, help="A variable to show in each thread; may be repeated."
        ),
        click.Option(["--no-source"], is_flag=True, help="Leave lines of source out of the page."),
        click.Option(["--env"], is_flag=True, help="Put the environment of the process into the page, too."),
        click.Option(["--date"], metavar="TEXT", help="The date on the page, in place of the present time."),
        *OPTIONS,
    ],
)
