"""``ompd triage``, which takes any number of targets and so is not in the table."""

from __future__ import annotations

import sys
import time
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from ompd.commands.completing import complete_folder, complete_target
from ompd.commands.ending import EXIT_INCOMPLETE, EXIT_INTERRUPTED, end_of_output, fail, say
from ompd.commands.formats import render
from ompd.commands.options import parse_size
from ompd.commands.progress import Progress
from ompd.commands.shell.pages import page_file
from ompd.commands.targets import processes_of
from ompd.errors import OmpdError
from ompd.model.triage import TriageAnswer
from ompd.render.words import basename
from ompd.safety.quoting import quote_file

if TYPE_CHECKING:
    from ompd.triage.engine import Engine

_SECONDS, _MEMORY = 60.0, 2 << 30
_WORDS = 4  # number of the command's paths that the page shows
_EXIT_CODES = """\b
Exit codes:
  0    all targets are in groups
  1    no answer; standard error says why
  2    wrong usage
  3    some targets failed, or were cut off
  130  interrupted; what was inspected until then is shown"""


_FILE = click.Path(readable=False)
_HELP = """Inspects each core or process that PATH… means, and groups them by what is wrong: outliers first, with the
stack that they share, their ranks, and the tree of all stacks. PATH is a core (also compressed, or a snapshot), a
pattern, a folder, a process, coredumpctl:MATCH, or - for a list on standard input. Each is inspected in a process of
its own, which may take --max-time and --max-memory; one that fails is named, and the others go on.

\b
  $ ompd triage cores/ --results night.jsonl
  1000 targets, 2 groups

\b
  1 target   lock_abandoned   [17]   1-5f0c3a917be2d804
    4 threads wait for &progress_lock, and no thread that could release it goes on
      #0 report_progress  hang.c:39
"""


def _run(options: dict[str, Any]) -> tuple[TriageAnswer, bool]:
    """Run the triage, and return the answer and whether it was interrupted.

    :raises OmpdError: if the targets, the baseline or the file of results are not valid
    """
    from ompd.triage.baseline import read_baseline
    from ompd.triage.run import triage
    from ompd.triage.targets import find_targets
    from ompd.triage.work import Limits

    baseline = read_baseline(options["baseline"]) if options["baseline"] is not None else None
    # File names may contain any byte except a newline.
    with open(sys.stdin.fileno(), errors="surrogateescape", newline="\n", closefd=False) as lines:
        targets, left_out = find_targets(options["words"], processes_of, lines)
    limits = Limits(
        options["max_time"],
        options["max_memory"] or _MEMORY,
        options["max_size"],
        options["max_stop"],
        options["exe"],
        options["sysroot"],
        options["debug_dir"],
        options["debuginfod"],
    )
    engine = _engine(options)
    with Progress() as progress:
        shown = progress if sys.stderr.isatty() else lambda _text: None
        return triage(
            targets,
            engine,
            limits,
            results=options["results"],
            baseline=baseline,
            warnings=left_out,
            progress=shown,
        )


def _engine(options: dict[str, Any]) -> Engine:
    if options["engine"] == "local":
        from ompd.triage.engine import local

        return local(options["workers"])
    import ompd.triage.clusters as clusters

    return clusters.dask(options["scheduler"]) if options["engine"] == "dask" else clusters.mpi()


def _inputs(options: dict[str, Any]) -> list[str]:
    # The files that the page must not replace.
    return [path for path in (*options["words"], options["results"], options["baseline"]) if path is not None]


def _page(answer: TriageAnswer, options: dict[str, Any]) -> str:
    from ompd.report.triage.page import make_triage_page

    paths = list(options["words"])
    words = ["ompd", "triage", *(quote_file(basename(path.rstrip("/"))) for path in paths[:_WORDS])]
    words += [f"… {len(paths) - _WORDS} more"] if len(paths) > _WORDS else []
    words += ["--baseline", quote(basename(options["baseline"]))] if options["baseline"] is not None else []
    words += ["-o", quote(basename(options["output"]))]
    return make_triage_page(answer, words, time.strftime("%Y-%m-%d %H:%M:%S %z"))


def _triage(**options: Any) -> None:
    from ompd.render.answers.triage import describe_triage
    from ompd.render.terminal import make_console, print_wrapped

    try:
        with page_file(options["output"], _inputs(options)) as page:
            answer, is_interrupted = _run(options)
            text = _page(answer, options) if options["output"] is not None else None
            if text is not None and page is not None:
                page.write(text)
    except OmpdError as error:
        if options["debug"]:
            raise
        fail(error)
    try:
        if text is not None and page is None:
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        elif options["as_json"]:
            sys.stdout.write(render("json", "triage", answer))
        else:
            lines = ((line, "") for line in describe_triage(answer, verbose=options["verbose"]))
            print_wrapped(make_console("never"), lines)
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
    if text is not None and page is not None:
        say(f"{options['output']}: {page.size}")
    say(*(f"ompd: warning: {warning}" for warning in answer.warnings))
    if is_interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if not answer.complete:
        sys.exit(EXIT_INCOMPLETE)


triage = click.Command(
    "triage",
    callback=_triage,
    help=_HELP,
    epilog=_EXIT_CODES,
    params=[
        click.Argument(["words"], metavar="PATH…", nargs=-1, required=True, shell_complete=complete_target),
        click.Option(
            ["--workers"], metavar="N", type=click.IntRange(1, 4096), help="Workers; default one a processor."
        ),
        click.Option(
            ["--engine"],
            type=click.Choice(["local", "dask", "mpi"]),
            default="local",
            help="Whose workers inspect: processes of this machine, a Dask cluster's, or the ranks of mpi4py.futures.",
        ),
        click.Option(["--scheduler"], metavar="ADDRESS", help="Dask's scheduler: its address, or its scheduler file."),
        click.Option(
            ["--results"],
            metavar="FILE",
            type=_FILE,
            help="Write each result into FILE as it is ready, and take from there those that it has already.",
        ),
        click.Option(["--baseline"], metavar="FILE", type=_FILE, help="Compare with an earlier triage (--json)."),
        click.Option(
            ["--max-time"],
            metavar="S",
            type=click.FloatRange(0.1, 86_400),
            default=_SECONDS,
            help="Seconds that one target may take; default 60.",
        ),
        click.Option(
            ["--max-memory"],
            metavar="SIZE",
            callback=parse_size,
            help="Memory that the inspection of one target may take, as 500M or 4G; default 2G.",
        ),
        click.Option(["--exe"], metavar="FILE", type=_FILE, help="The program, if cores do not name it."),
        click.Option(
            ["--sysroot"],
            metavar="DIR",
            type=_FILE,
            shell_complete=complete_folder,
            help="Folder with the files of the cores' machine.",
        ),
        click.Option(
            ["--debug-dir"],
            metavar="DIR",
            shell_complete=complete_folder,
            type=_FILE,
            multiple=True,
            help="Folder with separate debug files or .build-id folders; may be repeated.",
        ),
        click.Option(
            ["--debuginfod"], is_flag=True, help="Download missing files from the servers in DEBUGINFOD_URLS."
        ),
        click.Option(
            ["--max-size"],
            metavar="SIZE",
            callback=parse_size,
            help="Largest size of a compressed core once it is unpacked; default 32G.",
        ),
        click.Option(
            ["--max-stop"],
            metavar="MS",
            type=click.FloatRange(0, 3_600_000, min_open=True),
            help="Longest stop of a live process, in milliseconds; default 50.",
        ),
        click.Option(
            ["-o", "--output"],
            metavar="FILE",
            type=_FILE,
            help="Write a page of HTML, too; - prints it in place of text.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Show all targets of each group and all that failed."),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
    ],
)
