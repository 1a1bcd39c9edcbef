"""The commands: one table, of which the shell, and later LLDB, make theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ompd.model import Answer
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads, variables
from ompd.session.session import Session

# The line above every answer, as it is of the examples.
_HEAD = "core.1234   hang   process 1234   SIGABRT   4 threads   libgomp GCC 12\n\n"


@dataclass(frozen=True, slots=True)
class Option:
    """An option that one command has besides those of all.

    With ``select`` it is a flag that says which rows of the answer are wanted, so that JSON obeys it too. Others are
    given to the question, by their name: a flag as a truth value, one with a value as that, None if it is not given.
    ``metavar`` is what help calls the value, ``choices`` all that it can be.
    """

    name: str
    help: str
    select: Callable[[Answer[Any]], Answer[Any]] | None = None
    kind: Literal["flag", "text", "number"] = "flag"
    metavar: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """What a command has to be told besides the target: ``metavar`` is what help calls it, ``example`` one of it."""

    name: str
    metavar: str
    help: str
    example: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    ``ask`` is its question. ``printer`` names the function of :mod:`ompd.render.terminal` that prints the answer, which
    is not imported before it is needed. ``example`` is what it prints, with ``example_words`` if it is given some,
    ``folds`` tells whether the text folds equal
    rows, so that ``--all`` makes sense."""

    name: str
    summary: str
    help: str
    ask: Callable[..., Answer[Any]]
    printer: str
    example: str
    folds: bool = False
    options: tuple[Option, ...] = ()
    argument: Argument | None = None
    example_words: str = ""

    def answer(self, session: Session, given: Mapping[str, Any]) -> Answer[Any]:
        """Ask the question.

        :param given: the argument and the options of this command's own, by their names; what is missing is not given
        """
        asked: dict[str, Any] = {}
        for option in self.options:
            if option.select is None:
                asked[option.name] = given.get(option.name, False if option.kind == "flag" else None)
        words = (given[self.argument.name],) if self.argument is not None else ()
        answer = self.ask(session, *words, **asked)
        for option in self.options:
            if option.select is not None and given.get(option.name):
                answer = option.select(answer)
        return answer


COMMANDS = (
    Command(
        "runtimes",
        "Every OpenMP runtime in the process.",
        "Names each OpenMP runtime in the process: its kind, version and file, how the layout of its structures is"
        " known, the libraries it offers to debuggers (ompd_dll_locations), and whether it keeps the states of its"
        " threads.",
        runtimes.ask,
        "print_runtimes",
        "libiomp5 5.0.20260828\n"
        "  file           /opt/lib/libiomp5.so\n"
        "  layout         published\n"
        "  keeps states   no (OMP_DEBUG=enabled or a tool makes it)",
    ),
    Command(
        "threads",
        "What every thread is doing.",
        "Shows each thread of the process: its OpenMP number and team size, the level of its region, its native id, its"
        " state, what it waits for, and where it is in the user's source; of a core, which thread failed. Equal threads"
        " are one row.",
        threads.ask,
        "print_threads",
        f"{_HEAD}"
        "OMP      LEVEL  THREADS         STATE         WAITS FOR                       WHERE\n"
        "0,2-3/4  1      1234,1236,1237  wait_barrier  barrier 3/4 arrived, missing 1  hang.c:59 simulate\n"
        "1/4      1      1235            wait_lock     lock &progress_lock             hang.c:39 report_progress",
        folds=True,
    ),
    Command(
        "parallel",
        "The parallel regions that are being executed, as a tree.",
        "Shows the parallel regions that are being executed, each inside of the one that encloses it: where in the"
        " source, level, team size, and the native ids of its threads in thread-number order. Serialized regions are"
        " regions too.",
        regions.ask,
        "print_parallel",
        f"{_HEAD}"
        "parallel  hang.c:50 simulate   level 1   active level 1   4 threads   [1234 1235 1236 1237]   0x5644ef2763c0",
        folds=True,
    ),
    Command(
        "tasks",
        "The tasks that exist, as a tree.",
        "Shows initial, implicit and explicit tasks, each inside of the one that generated it: the construct it is of,"
        " whether it is executing, suspended, queued or waiting for others, and on which thread. With -v also its"
        " frames and the data of tools.",
        tasks.ask,
        "print_tasks",
        f"{_HEAD}"
        "initial task   suspended   thread 1234   0x7f0a70125730/initial\n"
        "   4 x   implicit task   hang.c:50 simulate   executing   threads 1234,1235,1236,1237",
        folds=True,
    ),
    Command(
        "stack",
        "Each thread's stack as the source reads.",
        "Shows the stack of each thread as the source reads: without the frames of the OpenMP runtime, code of a region"
        " or task with the function that has the construct. Where the stack of a worker ends, that of the task that met"
        " the construct follows, on the thread that runs it, out to main.",
        stacks.ask,
        "print_stacks",
        f"{_HEAD}"
        "OMP 1/4   level 1   thread 1235\n"
        "  #0 report_progress  hang.c:39\n"
        "  #1 simulate         hang.c:57   body of parallel hang.c:50\n"
        "  met by thread 1234:\n"
        "  #2 simulate         hang.c:50\n"
        "  #3 main             hang.c:70",
        folds=True,
        example_words="--thread 1",
        options=(
            Option("raw", "All frames of the thread's own stack, each with whose it is, its task and its CFA."),
            Option("fold", "Threads that have the same stack share it."),
            Option(
                "locals", "The variables of the user's frames, with how constructs share them, as far as that is told."
            ),
            Option(
                "thread",
                "Only the thread with this native id; if there is none, those with this OpenMP number.",
                kind="number",
                metavar="N",
            ),
        ),
    ),
    Command(
        "icvs",
        "The internal control variables.",
        "Shows every internal control variable with its scope and value. Where threads, regions or tasks have different"
        " values, each value has a row that says whose it is.",
        icvs.ask,
        "print_icvs",
        f"{_HEAD}"
        "ICV             SCOPE   VALUE  OF\n"
        "thread-num-var  thread  0      [1234]\n"
        "thread-num-var  thread  1      [1235]\n"
        "thread-num-var  thread  2      [1236]\n"
        "thread-num-var  thread  3      [1237]",
        folds=True,
        example_words="--changed",
        options=(Option("changed", "Only the variables that differ between threads, regions or tasks.", icvs.changed),),
    ),
    Command(
        "var",
        "A variable as every thread has it.",
        "Shows the value and address of a variable in static storage in each thread: of a threadprivate or thread-local"
        " one each thread's own copy, whatever keeps it. NAME may be qualified (file.c::x, ns::Class::x, function::x,"
        " module::x, /block/member) and be a part of a variable (x.member[2], *x). Equal values are one row; those that"
        " stand out are marked.",
        variables.ask,
        "print_variable",
        f"{_HEAD}"
        "counter   int   thread-local (tls)   hang.c:12   in hang\n"
        "   OMP      THREADS         ADDRESS         VALUE\n"
        "   0,2-3/4  1234,1236,1237  3 copies        7\n"
        "*  1/4      1235            0x7f1c8e5ff63c  1003",
        folds=True,
        argument=Argument("name", "NAME", "the variable, as the source names it", "counter"),
        options=(
            Option(
                "format",
                "Write values as gdb's print/LETTER does.",
                kind="text",
                metavar="LETTER",
                choices=variables.FORMATS,
            ),
            Option("stats", "Tell what the values have in common: least, greatest, mean, distinct ones, outliers."),
            Option(
                "elements",
                "How many elements of an array, and characters of a string, are shown; 200 if not given.",
                kind="number",
                metavar="N",
            ),
        ),
    ),
)
