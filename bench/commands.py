"""The commands that are compared, and whether the comparison is fair."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, NotMeasured, output_of
from tests.support import Running, Stopped, intel_runtime, require
from tests.support.live import STOPS_ALL

_OMPD = Path(sys.executable).with_name("ompd")
_PLUGIN_FOLDERS = ("/usr/lib/llvm-*/share", "/usr/local/share", "/usr/share")
_PLUGIN_PLACE = "gdb/python/ompd/__init__.py"
_REFUSED = "names threads by their kernel id, which the OMPD library of this runtime (Intel's) refuses"
# "From To Syms Read Shared Object Library"; (*) marks a library without debug information
_RUNTIME_WITH_DEBUG_FILE = re.compile(r"^0x\S+\s+0x\S+\s+Yes\s+\S*libiomp5\.so$", re.MULTILINE)


def ompd(target: Path | int, question: str, *options: str) -> Command:
    """Return the command that a user types, as it is installed beside this interpreter.

    :param target: a core, or the number of a process
    """
    return Command(" ".join(("ompd", question, *options)), (str(_OMPD), question, str(target), *options))


def analysis(core: Path) -> Command:
    """Return the command that prints the time of an analysis alone."""
    return Command("analysis", (sys.executable, "-m", "bench.once.analysis", str(core)))


def graph(threads: int, tasks: int) -> Command:
    """Return the command that prints the time of verdicts on so many threads and tasks."""
    return Command("graph", (sys.executable, "-m", "bench.once.graph", str(threads), str(tasks)))


def gdb(program: Stopped, *after: str) -> Command:
    """Return gdb on a core: it reads symbols, finds the threads and says where the program stopped.

    :param after: commands of gdb to run then
    """
    words = (str(require("gdb")), "-nx", "-batch", str(program.executable), str(program.core))
    return Command("gdb -nx -batch EXE CORE", (*words, *(word for each in after for word in ("-ex", each))))


def gdb_stacks(program: Stopped) -> Command:
    """Return gdb printing the stacks of all threads."""
    return Command("gdb … -ex 'thread apply all bt'", gdb(program, "thread apply all bt").words)


def gdb_live(program: Running) -> Command:
    """Return gdb on a process: it stops it, reads symbols, finds the threads, says where it is and lets it go."""
    return gdb_attached(program.pid)


def gdb_attached(process_id: int) -> Command:
    """Return the same for the process with that number."""
    return Command("gdb -nx -batch -p PID", (str(require("gdb")), "-nx", "-batch", "-p", str(process_id)))


def stops(program: Running) -> list[float]:
    """Return the lengths, in seconds, of the stops that ``ompd threads`` needs if all threads run.

    The threads of the program sleep; here they are stopped as if they ran.

    :raises NotMeasured: if it does not answer
    """
    code = f"{STOPS_ALL}\nfrom ompd.start import main\nmain()"
    words = (sys.executable, "-c", code, "threads", str(program.pid), "--json")
    answer = json.loads(output_of(Command("ompd threads --json", words)) or "{}")
    if not answer.get("complete"):
        raise NotMeasured(f"ompd threads of process {program.pid} is not complete")
    return [length / 1e9 for length in answer["target"]["stops_ns"]]


def check_answer(program: Stopped | Running) -> None:
    """Make sure that ``ompd threads`` knows every thread: how fast a wrong answer comes is of no interest.

    :raises NotMeasured: if it does not
    """
    target = program.pid if isinstance(program, Running) else program.core
    answer = json.loads(output_of(ompd(target, "threads", "--json")) or "{}")
    told, true = (
        {(row["native_thread_id"], row["thread_num"], row["state"]) for row in rows}
        for rows in (answer.get("threads", ()), program.truth["threads"])
    )
    if told != true:
        raise NotMeasured(f"ompd threads differs from the program's truth in {len(told ^ true)} rows of {len(true)}")


def reads_debug_file(program: Stopped) -> bool:
    """Return whether gdb finds the runtime's debug file; without it gdb has less to do, and less to tell."""
    return _RUNTIME_WITH_DEBUG_FILE.search(output_of(gdb(program, "info sharedlibrary"))) is not None


def _plugins(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
    for pattern in _PLUGIN_FOLDERS:
        yield from sorted(Path("/").glob(f"{pattern.lstrip('/')}/{_PLUGIN_PLACE}"), reverse=True)


def plugin(program: Stopped, given: Path | None) -> Command | str:
    """Return gdb with LLVM's OMPD plugin doing what ``ompd threads`` does, or why that cannot be.

    :param given: the plugin's ``__init__.py``, None to look where LLVM installs it
    """
    found = next((path for path in _plugins(given) if path.is_file()), None)
    if found is None:
        return f"it is not installed here (share/{_PLUGIN_PLACE}); it also {_REFUSED}"
    # On a core it knows a thread only after one of its commands ran there.
    base = gdb(program, "ompd init", "thread apply all -s -q ompd icvs", "ompd threads")
    at = base.words.index("-ex")
    words = (*base.words[:at], "-x", str(found), *base.words[at:])
    command = Command("gdb with LLVM's OMPD plugin", words, {"LD_LIBRARY_PATH": str(intel_runtime() / "lib")})
    team = sum(thread["openmp"] for thread in program.truth["threads"])
    if output_of(command).count(" is an OpenMP thread; state: ") < team:
        return f"it lists no OpenMP thread of this core, because it {_REFUSED}"
    return command
