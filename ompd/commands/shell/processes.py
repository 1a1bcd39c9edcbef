"""``ompd`` alone: the OpenMP processes on this machine, and what to type next."""

from __future__ import annotations

from ompd.machine.processes import OpenMpProcess, find_processes
from ompd.render.columns import table_lines
from ompd.render.terminal import make_console, print_wrapped
from ompd.render.words import Line, Table, clean

_TITLES = ("PID", "PROGRAM", "THREADS", "ASLEEP", "PROCESSORS", "RUNTIME")


def list_processes(otherwise: str) -> None:
    """Print the OpenMP processes that this user may look at; if there are none, say so and print *otherwise*."""
    rows = find_processes()
    console = make_console("auto")
    if not rows:
        nothing = ["no process that you may look at has loaded an OpenMP runtime", ""]
        print_wrapped(console, ((line, "") for line in (*nothing, *otherwise.splitlines())))
        return
    table = Table(_TITLES, tuple(map(_line, rows)))
    target = str(rows[0].process_id) if len(rows) == 1 else "PID"
    console.write_lines([*table_lines(table, console.width), ("", "")])
    print_wrapped(console, [(f"next: ompd why {target}, or ompd --help", "")])


def _line(row: OpenMpProcess) -> Line:
    runtimes = ", ".join(row.runtimes)
    numbers = str(row.threads), str(row.asleep), f"{row.processors:.1f}"
    return Line(tuple(map(clean, (str(row.process_id), row.program, *numbers, runtimes))))
