"""What is demanded: commands that run by turns, the limits they must keep, and how time may grow with threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench import commands
from bench.measure import Command, Figures, NotMeasured, Sample, by_turns, drop_from_cache, output_of, run
from tests.support import Running, Stopped, intel_runtime

FEW, SOME, MANY, MOST = 4, 64, 512, 2048
ALIVE = 256  # threads of a process whose stop has a limit
GNUS = 400  # threads of libgomp's, whose layout a table tells
QUEUED, RUNNING = 10_000, 64
HOSTED_MOST = 3.0  # of the time of our own plugin
REPORT_MOST = 2.0  # how much longer a page may take than the stacks that are on it
WHY_MOST = 1.2  # how much longer why may take than the command whose facts it has
GRAPH_THREADS, GRAPH_TASKS, GRAPH_SECONDS = 10_000, 100_000, 2.0

# One more thread of many may cost this factor more than between FEW and SOME, and what the clock cannot
# tell. Work that is quadratic in the number of threads has a factor of 8.
GROWTH_FACTOR = 1.5
GROWTH_NOISE = 0.02e-3


@dataclass(frozen=True)
class Limit:
    """A command's upper limit: how it is told, and what is compared with it, by the command's figures and gdb's."""

    most: float
    text: str
    measured: Callable[[Figures, Figures], float]
    other: str | None = None
    """The label of the command to compare with, None for gdb's."""

    def missed(self, figures: Figures, others: Mapping[str, Figures], gdb: str) -> str | None:
        """Return in words that it is not kept, None if it is.

        :param others: the figures of the same group, by the commands' labels
        :param gdb: the label of gdb's command
        """
        found = self.measured(figures, others[self.other or gdb])
        return None if found <= self.most else f"{found:.3g} where {self} is demanded"

    def __str__(self) -> str:
        return f"≤ {self.text.format(self.most)}"


def times_gdb(most: float) -> Limit:
    """Return the limit of *most* times the processor time of gdb in the same group: the least of each, since what else
    runs on the machine only ever adds to it.
    """
    return Limit(most, "{:.1f} of gdb's time", lambda figures, gdb: figures.processor / gdb.processor)


def times(other: str, most: float) -> Limit:
    """Return the limit of *most* times the processor time of another command of the group, by its label."""
    text = f"{{}} of `{other}`"
    return Limit(most, text, lambda figures, others: figures.processor / others.processor, other)


def seconds(most: float) -> Limit:
    """Return the limit of *most* seconds."""
    return Limit(most, "{} s", lambda figures, _: figures.seconds)


def megabytes(most: float) -> Limit:
    """Return the limit of *most* million bytes of resident memory."""
    return Limit(most, "{} MB", lambda figures, _: figures.peak_bytes / 1e6)


@dataclass(frozen=True)
class Row:
    """A command and its limits; without any it is there for information."""

    command: Command
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True)
class Group:
    """Commands that run by turns. ``cold``: files that are dropped from the page cache before each run.

    ``gdb`` is the label of the command that the others are compared with.
    """

    title: str
    rows: tuple[Row, ...]
    gdb: str
    cold: tuple[Path, ...] = ()

    def measure(self, rounds: int) -> dict[str, Figures]:
        """Return the figures of each command, by label."""

        def once(command: Command) -> Sample:
            drop_from_cache(self.cold)
            return run(command)

        samples = by_turns({row.command.label: partial(once, row.command) for row in self.rows}, rounds)
        return {label: Figures.of(found) for label, found in samples.items()}

    def missed(self, figures: Mapping[str, Figures]) -> list[str]:
        """Return a sentence for each limit that is not kept."""
        faults = (
            (row.command.label, limit.missed(figures[row.command.label], figures, self.gdb))
            for row in self.rows
            for limit in row.limits
        )
        return [f"{self.title}: {label}: {fault}" for label, fault in faults if fault is not None]


def warm(
    program: Stopped,
    title: str,
    limits: tuple[Limit, ...],
    peer: Command | str | None,
    why: tuple[Limit, ...] = (),
) -> Group:
    """Return the group of all commands on a core that is in the page cache.

    :param limits: those of ``ompd threads --json``
    :param peer: gdb with LLVM's plugin, or why there is none; None if it was not asked
    :param why: the limits of ``ompd why``
    """
    core, gdb = program.core, commands.gdb(program)
    rows = [
        Row(commands.ompd(core, "threads", "--json"), limits),
        Row(gdb),
        Row(commands.ompd(core, "threads")),
        *(
            Row(commands.ompd(core, question, "--json"))
            for question in ("parallel", "tasks", "icvs", "runtimes", "why")
        ),
        Row(commands.ompd(core, "why"), why),
    ]
    if isinstance(peer, Command):
        rows.append(Row(peer))
    return Group(title, tuple(rows), gdb.label)


def stacks(program: Stopped, title: str, limits: tuple[Limit, ...]) -> Group:
    """Return the group of commands that show the stacks of all threads.

    :param limits: those of ``ompd stack``
    """
    core, gdb = program.core, commands.gdb_stacks(program)
    rows = (
        Row(commands.ompd(core, "stack"), limits),
        Row(gdb),
        *(Row(commands.ompd(core, "stack", option), limits) for option in ("--json", "--fold", "--raw")),
        Row(commands.ompd(core, "report", "-o", "-"), (times("ompd stack", REPORT_MOST),)),
    )
    return Group(title, rows, gdb.label)


def crowd(program: Stopped, title: str) -> Group:
    """Return the group of commands on a core whose threads wait for one that no runtime names."""
    core, gdb = program.core, commands.gdb_stacks(program)
    rows = (
        Row(commands.ompd(core, "why"), (times("ompd stack", WHY_MOST),)),
        Row(gdb),
        Row(commands.ompd(core, "stack")),
        Row(commands.ompd(core, "threads")),
    )
    return Group(title, rows, gdb.label)


def own(program: Stopped, title: str, limits: tuple[Limit, ...]) -> Group:
    """Return the group of commands on a core whose runtime has its own debug information.

    :param limits: those of ``ompd threads --json``
    """
    core, gdb = program.core, commands.gdb(program)
    rows = (
        Row(commands.ompd(core, "threads", "--json"), limits),
        Row(gdb),
        Row(commands.ompd(core, "tasks", "--json")),
        Row(commands.ompd(core, "stack", "--json")),
    )
    return Group(title, rows, gdb.label)


def queued(program: Stopped, title: str, limits: tuple[Limit, ...]) -> Group:
    """Return the group of commands on a core with many tasks.

    :param limits: those of ``ompd tasks --json``
    """
    core, gdb = program.core, commands.gdb(program)
    rows = (
        Row(commands.ompd(core, "tasks", "--json"), limits),
        Row(gdb),
        Row(commands.ompd(core, "tasks")),
        Row(commands.ompd(core, "threads", "--json")),
    )
    return Group(title, rows, gdb.label)


def hosted(program: Stopped, title: str) -> Group:
    """Return the group of commands that an OMPD library answers, which are compared with our own plugin."""
    core = program.core
    ours = commands.ompd(core, "threads", "--json")
    by_library = ("--ompd-library", "named", "--json")
    rows = (
        Row(ours),
        Row(commands.ompd(core, "threads", *by_library), (times(ours.label, HOSTED_MOST),)),
        *(Row(commands.ompd(core, question, *by_library)) for question in ("parallel", "tasks", "icvs", "stack")),
    )
    return Group(title, rows, ours.label)


def cold(program: Stopped, title: str, limits: tuple[Limit, ...]) -> Group:
    """Return the group whose files are read from the disk: the core, the program, the runtime and its debug file."""
    gdb, library = commands.gdb(program), intel_runtime() / "lib"
    rows = (Row(commands.ompd(program.core, "threads", "--json"), limits), Row(gdb))
    files = (program.core, program.executable, library / "libiomp5.so", library / "libiomp5.dbg")
    return Group(title, rows, gdb.label, cold=files)


def live(program: Running, title: str, limits: tuple[Limit, ...]) -> Group:
    """Return the group of commands on a process that runs.

    :param limits: those of ``ompd threads --json``
    """
    gdb = commands.gdb_live(program)
    rows = (
        Row(commands.ompd(program.pid, "threads", "--json"), limits),
        Row(gdb),
        Row(commands.ompd(program.pid, "threads")),
        Row(commands.ompd(program.pid, "threads", "--json", "--nonblocking")),
        *(Row(commands.ompd(program.pid, question, "--json")) for question in ("parallel", "tasks")),
    )
    return Group(title, rows, gdb.label)


def learning(process_id: int, title: str) -> Group:
    """Return the group of commands on a process of PyTorch's, which has hundreds of modules: for information."""
    gdb = commands.gdb_attached(process_id)
    rows = (Row(commands.ompd(process_id, "threads", "--json")), Row(gdb))
    return Group(title, rows, gdb.label)


@dataclass(frozen=True)
class Stops:
    """For how long ``ompd threads`` stops a process of so many threads, all its stops together, in seconds."""

    threads: int
    lengths: tuple[float, ...]
    most: float | None = None

    @property
    def middle(self) -> float:
        """The middle one of all runs."""
        return median(self.lengths)

    def missed(self) -> list[str]:
        """Return a sentence if it is longer than it may be."""
        if self.most is None or self.middle <= self.most:
            return []
        return [
            f"a stop of {self.threads} threads lasts {self.middle * 1e3:.1f} ms, {self.most * 1e3:.0f} are demanded"
        ]


def measure_stops(program: Running, threads: int, rounds: int, most: float | None) -> Stops:
    """Return for how long a process is stopped, in *rounds* runs."""
    return Stops(threads, tuple(sum(commands.stops(program)) for _ in range(rounds)), most)


@dataclass(frozen=True)
class Growth:
    """Seconds of processor time of one analysis, start of Python left out, by number of threads."""

    seconds: Mapping[int, float]

    def for_one_more(self, fewer: int, more: int) -> float:
        """Return the seconds that one more thread costs between *fewer* and *more* of them."""
        return (self.seconds[more] - self.seconds[fewer]) / (more - fewer)

    @property
    def most(self) -> float:
        """What one more thread of many may cost."""
        return GROWTH_FACTOR * max(self.for_one_more(FEW, SOME), 0.0) + GROWTH_NOISE

    def missed(self) -> list[str]:
        """Return a sentence for each step in which one more thread costs more than it may."""
        found = (self.for_one_more(fewer, more) for fewer, more in ((SOME, MANY), (MANY, MOST)))
        return [
            f"growth: {each * 1e3:.3f} ms for one more thread where ≤ {self.most * 1e3:.3f} ms is demanded"
            for each in found
            if each > self.most
        ]


@dataclass(frozen=True)
class Conclusion:
    """Seconds of processor time that verdicts on many threads and tasks take."""

    least: float
    most: float

    def missed(self) -> list[str]:
        """Return a sentence if it takes longer than it may."""
        if self.least <= GRAPH_SECONDS:
            return []
        return [f"verdicts on {GRAPH_THREADS:,} threads take {self.least:.2f} s, {GRAPH_SECONDS} are demanded"]


def measure_conclusion(rounds: int) -> Conclusion:
    """Return how long verdicts take, over some rounds."""
    command = commands.graph(GRAPH_THREADS, GRAPH_TASKS)
    printed = [output_of(command) for _ in range(rounds)]
    if not all(printed):
        raise NotMeasured(f"{' '.join(command.words)} failed")
    found = [float(text) for text in printed]
    return Conclusion(min(found), max(found))


def measure_growth(programs: Mapping[int, Stopped], rounds: int) -> Growth:
    """Return how the time of an analysis grows over *programs*, by their number of threads."""

    def once(program: Stopped) -> float:
        printed = output_of(commands.analysis(program.core))
        if not printed:
            raise NotMeasured(f"python -m bench.once.analysis {program.core} failed")
        return float(printed)

    sizes = {str(size): partial(once, program) for size, program in programs.items()}
    # What else runs on the machine only ever adds to processor time, and a difference of medians would keep it.
    return Growth({int(size): min(found) for size, found in by_turns(sizes, rounds).items()})
