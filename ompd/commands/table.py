"""The table of commands, from which the shell, LLDB and gdb make theirs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ompd.commands.formats import SHARED, TEXT
from ompd.commands.loading import load
from ompd.errors import BadInput
from ompd.model.places import FORMATS as LETTERS
from ompd.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ompd.model import Answer
    from ompd.session import Session

# The first line of each example.
_HEAD = "core.1234   hang   process 1234   SIGABRT   4 threads   libgomp GCC 12\n\n"


@record
class Option:
    """An option of a single command. Functions are named by ``module:name``.

    The query gets the option as a keyword argument: a flag as a bool, another option's value, or None if it is not
    given. ``metavar`` is the value's name in the help, ``choices`` are all possible values. Four kinds of options are
    not passed to the query. A flag with ``select`` selects rows of the answer, in text and in JSON. An option with
    ``is_format`` chooses the format: a flag by its name, another option by its value. ``status`` names a function that
    chooses the exit code. An option with ``is_of_look`` is passed to the command's ``look``. The last two kinds are
    for the shell only.
    """

    name: str
    help: str
    select: str | None = None
    kind: Literal["flag", "text", "number", "seconds"] = "flag"
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    is_format: bool = False
    status: str | None = None
    is_of_look: bool = False

    @property
    def word(self) -> str:
        """The option as it is typed, without its dashes."""
        return self.name.replace("_", "-")

    @property
    def is_passed(self) -> bool:
        """Whether the option is passed to the command's query or, if ``is_of_look``, to its ``look``."""
        return self.select is None and not self.is_format and self.status is None


@record
class Argument:
    """An argument after the target: ``metavar`` is its name in the help, ``example`` a value."""

    name: str
    metavar: str
    help: str
    example: str


@record
class Command:
    """One command. Functions are named by ``module:name``, and imported when the command runs.

    ``ask`` is the query, ``printer`` prints its answer as text on a console. ``example`` is sample output for the
    arguments ``example_words``. ``folds`` is True if the text folds equal rows, so that the command has ``--all``.
    ``alone`` makes the target optional: it answers without a target, or explains why a process cannot be inspected. It
    returns None if the target has to be opened. ``look`` samples an earlier moment of the process; it gets the options
    in place of the query, and the query gets its result. ``compare`` does the same with an earlier moment in a
    separate target. ``status`` returns the exit code if the answer decides it, else None. ``ompd_library`` is the
    default OMPD library, None for none.
    """

    name: str
    summary: str
    help: str
    ask: str
    printer: str
    example: str
    folds: bool = False
    options: tuple[Option, ...] = ()
    argument: Argument | None = None
    example_words: str = ""
    alone: str | None = None
    look: str | None = None
    compare: str | None = None
    status: str | None = None
    ompd_library: str | None = None

    def run(self, session: Session, given: Mapping[str, Any]) -> Answer[Any]:
        """Return the answer at a new moment, after a sample of an earlier one if the command compares moments.

        :param given: as for :meth:`answer`
        """
        earlier = load(self.look)(session, **self._passed(given)) if self.look is not None else None
        may_stop = earlier is None or earlier.may_stop
        return session.ask(partial(self.answer, given=given, earlier=earlier), may_stop=may_stop)

    def run_later(self, earlier: Session, session: Session, given: Mapping[str, Any]) -> Answer[Any]:
        """Return the answer at *session*, compared with *earlier*, an earlier moment of the same process.

        :raises BadInput: if *earlier* is not of the same process, or the command does not compare moments
        """
        if self.compare is None:
            raise BadInput(f"{self.name} takes one target")
        look = load(self.compare)(earlier, session)
        return session.ask(partial(self.answer, given=given, earlier=look))

    def _passed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            option.name: given.get(option.name, False if option.kind == "flag" else None)
            for option in self.options
            if option.is_passed
        }

    def answer(self, session: Session, given: Mapping[str, Any], earlier: Any = None) -> Answer[Any]:
        """Return the answer to the query.

        :param given: the given argument and own options of the command, by name
        :param earlier: the result of the command's ``look`` or ``compare``
        """
        options = self._passed(given) if self.look is None else {"earlier": earlier}
        words = (given[self.argument.name],) if self.argument is not None else ()
        answer = load(self.ask)(session, *words, **options)
        for option in self.options:
            if option.select is not None and given.get(option.name):
                answer = load(option.select)(answer)
        return self._named(answer)

    def answer_alone(self, process_id: int | None, *, nonblocking: bool) -> Answer[Any] | None:
        """Return the answer without a target, or why a process cannot be inspected, None if it has to be opened."""
        answer = load(self.alone)(process_id, nonblocking=nonblocking) if self.alone is not None else None
        return self._named(answer) if answer is not None else None

    def _named(self, answer: Answer[Any]) -> Answer[Any]:
        return replace(answer, query=self.name)

    def format_of(self, given: Mapping[str, Any]) -> str:
        """Return the name of the format that options choose, ``text`` if none does.

        :param given: the command's own options and the shared format options, by name
        :raises BadInput: if two options choose different formats
        """
        shared = next((row.name for row in SHARED if given.get(row.parameter)), None)
        for option in self.options:
            value = given.get(option.name) if option.is_format else None
            if value and shared is not None:
                raise BadInput(f"--{shared} and --{option.word} exclude each other")
            if value:
                return option.name if option.kind == "flag" else str(value)
        return shared or TEXT

    def status_of(self, answer: Answer[Any], given: Mapping[str, Any]) -> int | None:
        """Return the exit code that an option, or the command itself, chooses for *answer*, None if none does."""
        names = [option.status for option in self.options if option.status is not None and given.get(option.name)]
        name = names[0] if names else self.status
        return load(name)(answer) if name is not None else None


COMMANDS = (
    Command(
        "runtimes",
        "The OpenMP runtimes in the process, and how ompd reads them.",
        "Lists each OpenMP runtime in the process: kind, version and file, where the layout of its structures comes"
        " from, the debugger libraries that it names (ompd_dll_locations), and whether it keeps the states of its"
        " threads.",
        "ompd.questions.runtimes:ask",
        "ompd.render.terminal:print_runtimes",
        "libiomp5 5.0.20260828\n"
        "  file           /opt/lib/libiomp5.so\n"
        "  layout         published\n"
        "  keeps states   no (OMP_DEBUG=enabled or a tool makes it)",
    ),
    Command(
        "threads",
        "What every thread is doing, and what it waits for.",
        "Shows each thread of the process: OpenMP number and team size, level of its region, native id, state, what it"
        " waits for, and where it is in your source; in a core, also which thread failed. Threads that differ only in"
        " number share a row.",
        "ompd.questions.threads:ask",
        "ompd.render.terminal:print_threads",
        f"{_HEAD}"
        "OMP      LEVEL  THREADS         STATE         WAITS FOR                       WHERE\n"
        "0,2-3/4  1      1234,1236,1237  wait_barrier  barrier 3/4 arrived, missing 1  hang.c:59 simulate\n"
        "1/4      1      1235            wait_lock     lock &progress_lock             hang.c:39 report_progress",
        folds=True,
        options=(
            Option("csv", "Print comma-separated values, each thread in a line.", is_format=True),
            Option("fold", "Group equal threads in JSON, too. Text groups them unless --all is given."),
        ),
    ),
    Command(
        "why",
        "Why it hangs: who waits for whom, and what would set them free.",
        "Says what is wrong in one or two sentences, shows the lines of the source where threads wait and where they"
        " set their locks, and says what to do. Below that it says how this is known, and how sure it is: certain,"
        " likely or possible (JSON says proven for certain). For that it follows each waiting thread to the cycle,"
        " thread or object on which it depends in the end. The first verdict is the one to read first."
        " With --exit-code the first verdict decides the exit code: 10 if the threads are proven to be stuck; 11 if"
        " they likely or possibly are; 12 if nothing hangs (nobody waits, or all wait for threads that work); 13 if it"
        " is undecided.",
        "ompd.questions.why:ask",
        "ompd.render.terminal:print_why",
        f"{_HEAD}"
        "Hang: thread 1 (1235) waits for &progress_lock, which no thread will ever release.\n"
        "3 more threads wait for this one at a barrier, hang.c:59.\n"
        "Certain: these threads never go on.\n"
        "\n"
        "    --> hang.c:39\n"
        "  37 | {\n"
        "  38 |     TRUTH_FRAME(); TRUTH_BLOCKS(TRUTH_LOCK, &progress_lock);\n"
        "  39 |     omp_set_lock(&progress_lock);\n"
        "     |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ thread 1 (1235) waits for &progress_lock\n"
        "  40 |     TRUTH_PASSED();\n"
        "  41 |     if (change < 0.5)\n"
        "  42 |         return; /* not worth a report; but the lock stays set, and the next thread"
        " waits for ever */\n"
        "     |         ^^^^^^^ leaves here without releasing &progress_lock\n"
        "  43 |     last_change = change;\n"
        "\n"
        "    --> hang.c:59\n"
        "  57 |                 TRUTH_CALL(report_progress(change));\n"
        "  58 |             TRUTH_BLOCKS(TRUTH_BARRIER, 0);\n"
        "  59 |             #pragma omp barrier\n"
        "     |             ^^^^^^^^^^^^^^^^^^^ 3 threads wait at a barrier\n"
        "  60 |         }\n"
        "\n"
        "  do this    Release &progress_lock on every way out of report_progress, also before line 42.\n"
        "  next       ompd stack core.1234 --thread 1235 --locals\n"
        "\n"
        "  ──────── how this is known\n"
        "  stuck      certain: nothing that could not be read can change this\n"
        "  cause      likely: inferred from the code and the stacks\n"
        "  free       if &progress_lock were released, 4 of 4 waiting threads would go on\n"
        "\n"
        "  3 threads (1234,1236,1237)  wait at a barrier         hang.c:59 simulate         thread"
        " 1 (1235) has not arrived\n"
        "  thread 1 (1235)             waits for &progress_lock  hang.c:39 report_progress  its"
        " holder is not known\n"
        "\n"
        "  OMP 1/4   level 1   thread 1235\n"
        "    #0 report_progress  hang.c:39\n"
        "    #1 simulate         hang.c:57   body of parallel hang.c:50\n"
        "    region started by thread 1234:\n"
        "    #2 simulate         hang.c:50\n"
        "    #3 main             hang.c:70\n"
        "\n"
        "  OMP 0/4   level 1   thread 1234\n"
        "    #0 simulate  hang.c:59   body of parallel hang.c:50\n"
        "    #1 simulate  hang.c:50\n"
        "    #2 main      hang.c:70",
        folds=True,
        look="ompd.questions.why.looks:look_before",
        compare="ompd.questions.why.looks:look_at_earlier",
        options=(
            Option(
                "samples",
                "How often to look at a live process, 2 unless given.",
                kind="number",
                metavar="N",
                is_of_look=True,
            ),
            Option(
                "interval", "Seconds between two looks, 0.5 unless given.", kind="seconds", metavar="S", is_of_look=True
            ),
            Option("dot", "Print the wait-for graph for graphviz (dot -Tsvg) instead of text.", is_format=True),
            Option(
                "exit_code",
                "Exit with 10, 11, 12 or 13, as said above, also if parts were unreadable.",
                status="ompd.commands.ending:status_of_why",
            ),
        ),
    ),
    Command(
        "parallel",
        "The parallel regions, as a tree.",
        "Shows the parallel regions that are being executed, each under the one that encloses it: place in the source,"
        " level, team size, and the native ids of its threads in the order of their thread numbers. Serialized regions"
        " are included.",
        "ompd.questions.regions:ask",
        "ompd.render.terminal:print_parallel",
        f"{_HEAD}"
        "parallel  hang.c:50 simulate   level 1   active level 1   4 threads   [1234 1235 1236 1237]   0x5644ef2763c0",
        folds=True,
    ),
    Command(
        "tasks",
        "The tasks, as a tree.",
        "Shows initial, implicit and explicit tasks, each under the task that generated it: its construct, its thread,"
        " and whether it is executing, suspended, queued or waiting for other tasks. With -v also its frames and the"
        " data of OMPT tools.",
        "ompd.questions.tasks:ask",
        "ompd.render.terminal:print_tasks",
        f"{_HEAD}"
        "initial task   suspended   thread 1234   0x7f0a70125730/initial\n"
        "└─ 4 x   implicit task   hang.c:50 simulate   executing   threads 1234,1235,1236,1237",
        folds=True,
    ),
    Command(
        "stack",
        "Each thread's stack, as your source reads.",
        "Shows the stack of each thread as your source reads: without the OpenMP runtime's frames, and with the code of"
        " a region or task under the name of the function that contains the construct. A worker's stack continues with"
        " that of the thread that started its region, out to main.",
        "ompd.questions.stacks:ask",
        "ompd.render.terminal:print_stacks",
        f"{_HEAD}"
        "OMP 1/4   level 1   thread 1235\n"
        "  #0 report_progress  hang.c:39\n"
        "  #1 simulate         hang.c:57   body of parallel hang.c:50\n"
        "  region started by thread 1234:\n"
        "  #2 simulate         hang.c:50\n"
        "  #3 main             hang.c:70",
        folds=True,
        example_words="--thread 1",
        options=(
            Option("raw", "All frames of the thread's own stack, each with its owner, task and frame address (CFA)."),
            Option("fold", "Group threads with equal stacks in JSON, too. Text groups them unless --all is given."),
            Option(
                "format",
                "Print the stacks for flame graphs: folded, a line for each distinct stack, or speedscope's JSON.",
                kind="text",
                metavar="NAME",
                choices=("folded", "speedscope"),
                is_format=True,
            ),
            Option("locals", "Local variables of your frames, with how constructs share them, if that is known."),
            Option(
                "thread",
                "Only the thread with this native id or, if there is none, threads with this OpenMP number.",
                kind="number",
                metavar="N",
            ),
        ),
    ),
    Command(
        "icvs",
        "The runtime's settings (internal control variables).",
        "Shows every internal control variable with its scope and value. If threads, regions or tasks have different"
        " values, each value has its own row, with those that have it.",
        "ompd.questions.icvs:ask",
        "ompd.render.terminal:print_icvs",
        f"{_HEAD}"
        "ICV             SCOPE   VALUE  OF\n"
        "thread-num-var  thread  0      [1234]\n"
        "thread-num-var  thread  1      [1235]\n"
        "thread-num-var  thread  2      [1236]\n"
        "thread-num-var  thread  3      [1237]",
        folds=True,
        example_words="--changed",
        options=(
            Option(
                "changed",
                "Only variables that differ between threads, regions or tasks.",
                "ompd.questions.icvs:changed",
            ),
        ),
    ),
    Command(
        "var",
        "One variable, in every thread.",
        "Shows value and address of a static, threadprivate or thread-local variable in each thread, or of a variable"
        " of the functions on the threads' stacks, with how constructs share it. NAME may be qualified (file.c::x,"
        " ns::Class::x, function::x, module::x, /block/member) and select a part (x.member[2], *x). Equal values share"
        " a row; outliers are marked.",
        "ompd.questions.variables:ask",
        "ompd.render.terminal:print_variable",
        f"{_HEAD}"
        "counter   int   thread-local (tls)   hang.c:12   in hang\n"
        "   OMP      THREADS         ADDRESS         VALUE\n"
        "   0,2-3/4  1234,1236,1237  3 copies        7\n"
        "*  1/4      1235            0x7f1c8e5ff63c  1003",
        folds=True,
        argument=Argument("name", "NAME", "the variable's name in the source", "counter"),
        options=(
            Option(
                "format",
                "Print values as gdb's print/LETTER does.",
                kind="text",
                metavar="LETTER",
                choices=LETTERS,
            ),
            Option("stats", "Add statistics: minimum, maximum, mean, distinct values, outliers."),
            Option(
                "elements",
                "Print at most N elements of an array or characters of a string; default 200.",
                kind="number",
                metavar="N",
            ),
        ),
    ),
    Command(
        "doctor",
        "What keeps answers from being better, and what mends it.",
        "Lists what keeps answers about TARGET from being better (lost parts, files that are not found, missing debug"
        " information, runtimes that cannot be read) and what endangers the process itself (two OpenMP runtimes, more"
        " threads than processors, a quota that is used up, limits, small stacks), each with what follows and the"
        " command or setting that mends it."
        " Without TARGET it examines this machine and the installation.",
        "ompd.questions.doctor:ask",
        "ompd.render.terminal:print_findings",
        f"{_HEAD}"
        "PROCESS\n"
        "  note: not known: a core does not say which processors the process may use, and no runtime in it has counted"
        " them\n"
        "    means:  whether more threads work than there are processors is unknown\n"
        "    remedy: none\n"
        "  note: 3 workers have a stack of 256 KB (OMP_STACKSIZE=256k)\n"
        "    means:  larger private arrays and deep recursion overflow it\n"
        "    remedy: OMP_STACKSIZE=16M\n"
        "\n"
        "2 notes; 4 things are in order",
        alone="ompd.questions.doctor:ask_alone",
        look="ompd.questions.doctor.supply:look_before",
    ),
    Command(
        "check",
        "An OMPD library compared with ompd itself, fact by fact.",
        "Puts every question of OMPD to a library for debuggers and to ompd's own plugin, and shows where the answers"
        " differ, and which known difference (docs/check.md) explains it. The library is the one that the runtime"
        " names, or that of --ompd-library. The exit code is 10 if no known difference explains one of them, or if one"
        " is not seen where the library's release should have it.",
        "ompd.questions.check.answering:ask",
        "ompd.render.terminal:print_check",
        "libiomp5: libiomp5_db.so (Intel(R) OMP OMPD plugin compatible with OpenMP 5.0 (201811))\n"
        "  library    /opt/lib/libiomp5_db.so\n"
        "  known as   libiomp5_db.so of the wheel intel-openmp 2026.2.0\n"
        "  compared   394 facts: 297 the same, 97 differ as known, 0 unexplained\n"
        "\n"
        "NO.  SEEN  KNOWN DIFFERENCE\n"
        "4    4     The flags of frames are never written\n"
        "6    4     A single value of nthreads-var or bind-var is called the first of a list",
        folds=True,
        status="ompd.commands.ending:status_of_check",
        ompd_library="named",
    ),
)


@record
class OtherCommand:
    """A command with no target or several; ``place`` names click's declaration by ``module:name``."""

    name: str
    place: str
    summary: str


OTHERS = (
    OtherCommand(
        "completion",
        "ompd.commands.setup.installing:completion",
        "Print a file by which a shell completes these commands.",
    ),
    OtherCommand(
        "conformance",
        "ompd.commands.shell.conformance:conformance",
        "Put an OMPD or DMPL library to the test against its standard.",
    ),
    OtherCommand(
        "diff", "ompd.commands.shell.diff:diff", "What has changed between two moments: who moved, who is stuck."
    ),
    OtherCommand("gdb-init", "ompd.commands.setup.installing:gdb_init", "Load these commands into gdb."),
    OtherCommand("hook", "ompd.commands.shell.hook:hook", "Print a script that triages a job before it is ended."),
    OtherCommand("layout", "ompd.commands.shell.layout:layout", "List or add structure layouts of stripped runtimes."),
    OtherCommand("lldb-init", "ompd.commands.setup.installing:lldb_init", "Load these commands into LLDB."),
    OtherCommand("mcp", "ompd.commands.shell.mcp:mcp", "Serve agents: the questions as tools of MCP."),
    OtherCommand("manual", "ompd.commands.setup.installing:manual", "Print the manual page, for man."),
    OtherCommand(
        "profile", "ompd.commands.shell.profile:profile", "Where the time of a running program's threads goes."
    ),
    OtherCommand(
        "report", "ompd.commands.shell.report:report", "Write one HTML page with pictures, for a ticket or a mail."
    ),
    OtherCommand("run", "ompd.commands.shell.run:run", "Run a command, and say why if it hangs."),
    OtherCommand("schema", "ompd.commands.shell.schema:schema", "Print the JSON Schema of a command's output."),
    OtherCommand(
        "setup", "ompd.commands.setup.installing:setup", "Install completion, manual page and debugger lines."
    ),
    OtherCommand("snapshot", "ompd.commands.shell.snapshot:snapshot", "Write a small core to send to somebody else."),
    OtherCommand(
        "triage", "ompd.commands.shell.triage:triage", "Group any number of cores and processes by what is wrong."
    ),
)

DEFAULT = "threads"
"""The command that ``ompd TARGET`` runs."""

GROUPS = (
    ("Look at a program", ("why", "profile", "threads", "stack", "var", "parallel", "tasks", "icvs", "diff", "doctor")),
    ("Many programs, and reports", ("run", "triage", "report", "snapshot", "hook", "mcp")),
    (
        "Set up, runtimes and libraries",
        (
            *("setup", "gdb-init", "lldb-init", "runtimes", "layout", "check", "conformance"),
            *("schema", "completion", "manual"),
        ),
    ),
)
"""The groups of all commands in ``ompd --help``: a title, and its commands in order."""
