"""Programs started and run from Python: to events, lines, functions and regions, and the ends of a run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import RUNTIMES, clean_environment, intel_runtime
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.lldb import SOURCES, VERSIONS, LldbHost, build_regions
from tests.support.products import each_version

pytestmark = pytest.mark.xdist_group("lldb")


each_host = each_version("host", indirect=True)


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Any:
    made = LldbHost(request.param)
    yield made
    made.close()


def line_with(text: str) -> int:
    source = (SOURCES / "regions.c").read_text()
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def regions() -> str:
    return str(build_regions() / "regions")


@each_host
@pytest.mark.quick()
def test_places_are_reached_and_asked_at(host: LldbHost) -> None:
    told = host.ask("run", program=[regions()], places=["main", "parallel_begin", "together", "regions.c:17"])
    assert [stop["event"] for stop in told["stops"]] == ["main", "parallel_begin", "together", "regions.c:17"]
    at_main, begun, together, line = (stop["threads"] for stop in told["stops"])
    assert [row["runtime"] for row in at_main] == [None]
    assert {(row["thread_num"], row["team_size"], row["level"]) for row in begun} == {(0, 2, 1), (1, 2, 1)}
    assert [row["where"]["function"] for row in together if row["thread_num"] == 0] == ["together"]
    assert [row["where"]["line"] for row in line if row["thread_num"] == 0] == [17]
    assert told["stale"].startswith("StaleHandle: ")
    assert told["alive after closing"] is False


@each_host
def test_all_events_are_seen(host: LldbHost) -> None:
    told = host.ask("events", program=[regions()], names=["parallel_begin", "thread_begin", "thread_end"])
    counts = Counter(event for event, _ in told["events"])
    # Three regions with one inner region each, and the threads that the runtime has made for them.
    assert counts["parallel_begin"] == 6
    assert counts["thread_begin"] == len({thread for event, thread in told["events"] if event == "thread_begin"})
    assert counts["thread_end"] >= 1
    some = host.ask("events", program=[regions()], names=["parallel_begin"], limit=2)
    assert [event for event, _ in some["events"]] == 2 * ["parallel_begin"]
    late = host.ask("events", program=[str(build_regions() / "opener")], names=["parallel_begin"],
                    cwd=str(build_regions()))  # fmt: skip
    assert len(late["events"]) == 2


@each_host
def test_a_region_is_stepped_into(host: LldbHost) -> None:
    told = host.ask("run", program=[regions()], places=["work", "INTO", "INTO"])
    _, outer, _ = told["stops"]
    inside = [row for row in outer["threads"] if row["native_thread_id"] == outer["thread"]]
    assert [(row["thread_num"], row["level"], row["where"]["function"]) for row in inside] == [(0, 1, "work")]


@each_host
def test_what_cannot_be_reached_is_said_at_once(host: LldbHost) -> None:
    said = host.ask("refusals", program=[regions()])
    ended = said.pop("past the end")
    assert ended.startswith("ProgramEnded: process ") and "ended with status 0 before it came to task_begin" in ended
    late = said.pop("too slow")
    assert late.startswith("TimeLimit: process ") and "did not come to task_end in 0.3 seconds" in late
    assert said == {
        "no function": "BadInput: there is no function 'no_such_function'",
        "no line": "BadInput: regions.c:3000 has no code",
        "no event": "BadInput: there is no event 'parallel_middle'; there are parallel_begin, parallel_end,"
        " task_begin, task_end, thread_begin, thread_end",
        "not enabled": "Unavailable: the runtime passes its places for events only if the program was started with"
        " OMP_DEBUG=enabled",
        "after the limit": "no error",
        "no program": "BadInput: /no/such/program cannot be started: '/no/such/program' does not exist",
        "no list": "BadInput: ./a.out cannot be started: launch() takes a list, the program and its arguments;"
        " ompd.launch(['./a.out'])",
        "nothing": 'BadInput: there is no program to start; ompd.launch(["./a.out", "argument"])',
        "no folder": f"BadInput: {regions()}",
    }


@each_version(of=(22, 14))
def test_what_a_program_prints_stays_apart(version: int) -> None:
    shell = "echo out; echo before >&2; echo OMP_OMPD active >&2; printf OMP_OMPD >&2"
    script = f"""import ompd
for enabled in (True, False):
    with ompd.launch(["/bin/sh", "-c", {shell!r}], omp_debug=enabled) as session:
        try:
            session.continue_to("parallel_begin")
        except ompd.errors.TargetGone as error:
            print(type(error).__name__)
"""
    host = LldbHost(version)
    host.close()
    done = subprocess.run(
        [sys.executable, "-c", "import ompd.errors\n" + script],
        env={**host.environment, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == 2 * "out\nProgramEnded\n"
    assert done.stderr == "before\nOMP_OMPD" + "before\nOMP_OMPD active\nOMP_OMPD"


@each_host
def test_a_program_is_waited_for(host: LldbHost) -> None:
    told = host.ask("waiting", program=[regions(), *["slowly"] * 5])
    assert told["found"] == ["together"] and told["looks"] >= 2 and told["text"] == told["process"]
    assert {"continue_to", "events", "step_into_region", "wait_until"} <= set(told["listed"])
    assert told["ended"].startswith("ProgramEnded: process ")


# Runtimes that have no places for events, or do not pass them

NO_PLACES = "Unavailable: {} has no places for events (ompd_bp_*), and when its tasks begin and end nothing else says; "


def linked(name: str, *libraries: str, compiler_name: str = "clang", flags: Sequence[str] = ()) -> str:
    """Return a program of ``tests/lldb``, linked with runtimes by their names on the axis."""
    files = [RUNTIMES[library].file() for library in libraries]
    used, source = compiler(compiler_name), SOURCES / f"{name}.c"
    include = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]

    def make(folder: Path) -> None:
        for command in (
            ["-g", *flags, "-fopenmp", "-fPIE", *include, "-c", str(source), "-o", "program.o"],
            ["-pie", "program.o", "-o", name, *map(str, files), *(f"-Wl,-rpath,{file.parent}" for file in files),
             "-lpthread", "-ldl"],
        ):  # fmt: skip
            subprocess.run([str(used.path), *command], cwd=folder, check=True, env=clean_environment())

    key = key_of(name, source.read_text(), used.version, [str(file) for file in files], *flags)
    return str(entry("lldb", key, make) / name)


WITHOUT_PLACES = [("libgomp", "gcc", "libgomp.so.1"), ("libomp-19", "clang", "libomp.so.5")]


@each_host
@pytest.mark.parametrize(("runtime", "compiler_name", "file"), WITHOUT_PLACES)
@pytest.mark.quick()
def test_a_runtime_without_places_for_events_has_those_of_its_calls(
    host: LldbHost, runtime: str, compiler_name: str, file: str
) -> None:
    program = linked("regions", runtime, compiler_name=compiler_name)
    names = ["parallel_begin", "parallel_end", "thread_begin", "thread_end"]
    events = host.ask("events", program=[program], names=names)["events"]
    counts = Counter(name for name, _ in events)
    assert counts["parallel_begin"] == counts["parallel_end"] == 6
    # In a thread the region that began last ends first. A worker begins before it meets a region. Each thread begins
    # once.
    made = [thread for name, thread in events if name == "thread_begin"]
    assert len(set(made)) == len(made) >= 3
    for thread in {thread for _, thread in events}:
        own = [name for name, each in events if each == thread]
        assert own[0] == ("thread_begin" if thread in made else "parallel_begin")
        depth = 0
        for name in own:
            depth += {"parallel_begin": 1, "parallel_end": -1}.get(name, 0)
            assert depth >= 0
        assert depth == 0 and own.count("thread_end") <= 1 and "thread_end" not in own[:-1]
    # libomp ends its threads at the end of the program, libgomp those of an inner team.
    assert counts["thread_end"] >= 1
    told = host.ask("events_with", program=[program], names=["task_begin"], environment={})
    assert told["events"] == [] and told["said"].startswith(NO_PLACES.format(file))


@each_host
@pytest.mark.parametrize(("runtime", "compiler_name", "file"), WITHOUT_PLACES)
@pytest.mark.quick()
def test_the_end_of_a_region_is_seen_whose_begin_was_not(
    host: LldbHost, runtime: str, compiler_name: str, file: str
) -> None:
    program = linked("regions", runtime, compiler_name=compiler_name)
    told = host.ask("events", program=[program], names=["parallel_end"], after="together")
    # Thread 0 is in the first outer region, whose inner region has ended.
    assert [name for name, _ in told["events"]] == 5 * ["parallel_end"]
    threads = [thread for _, thread in told["events"]]
    assert threads.count(threads[0]) == 3 and threads[0] == threads[-1]


@each_host
@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("runtime", "compiler_name"), [("libgomp", "gcc"), ("libomp-19", "clang"), ("libomp-19", "gcc")]
)
@pytest.mark.quick("libomp-19-gcc--O2-22")
def test_regions_are_counted_as_the_program_counts_them(
    host: LldbHost, runtime: str, compiler_name: str, optimised: str, tmp_path: Path
) -> None:
    written = tmp_path / "count"
    program = linked("entries", runtime, compiler_name=compiler_name, flags=(optimised,))
    told = host.ask("events", program=[program, str(written)], names=["parallel_begin", "parallel_end"])
    count = int(written.read_text())
    assert Counter(name for name, _ in told["events"]) == {"parallel_begin": count, "parallel_end": count}
    assert count == 9


@each_host
@pytest.mark.parametrize("value", ["enabled", "on", "ENABLED", "off", None])
@pytest.mark.quick("ENABLED-19")
def test_the_runtime_is_asked_whether_it_passes_events(host: LldbHost, value: str | None) -> None:
    # The runtime decides which values of OMP_DEBUG enable it: the document on OMPD has "on", OpenMP has "enabled".
    told = host.ask("events_with", program=[regions()], names=["parallel_begin"], environment={"OMP_DEBUG": value})
    if value in ("off", None):
        assert told == {
            "events": [],
            "said": "Unavailable: the runtime passes its places for events only if the program was started with"
            " OMP_DEBUG=enabled",
        }
    else:
        assert told == {"events": 6 * ["parallel_begin"], "said": "no error"}


@each_host
@pytest.mark.parametrize("uses", ["neither", "other"])
@pytest.mark.quick("other-14")
def test_a_second_runtime_has_its_own_kind_of_events(host: LldbHost, uses: str) -> None:
    program, environment = [linked("two_runtimes", "intel"), uses], {"OMP_DEBUG": "enabled"}
    told = host.ask("events_with", program=program, names=["parallel_begin"], environment=environment)
    assert told == {"events": ["parallel_begin"] * (1 if uses == "neither" else 2), "said": "no error"}
    told = host.ask("events_with", program=program, names=["parallel_begin", "task_begin"], environment=environment)
    # An event that only the first runtime reports is an error once the second one is used.
    assert (
        told["said"] == "no error" if uses == "neither" else told["said"].startswith(NO_PLACES.format("libgomp.so.1"))
    )


# The examples


def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    version = VERSIONS[0]
    host = LldbHost(version)  # its environment selects that LLDB
    host.close()
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "examples" / name), *arguments],
        env={**host.environment, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.quick()
def test_the_example_that_waits_for_an_odd_team() -> None:
    done = example("odd_team.py", "2", regions())
    assert done.returncode == 1, done.stderr
    first, *threads = done.stdout.splitlines()
    # The example passes over teams of 2 threads, and over their inner teams of 2 threads.
    assert first == "a team of 3 threads at level 1 in work"
    # The program stops when the first thread is in the region. Another thread may not have its place in the team yet.
    numbers = [int(number) for line in threads for number in re.findall(r" (\d+)/3 ", line)]
    assert 0 in numbers and len(numbers) == len(set(numbers)) and max(numbers) <= 2


@pytest.mark.quick()
def test_the_example_sees_teams_of_a_runtime_without_places() -> None:
    done = example("odd_team.py", "2", linked("regions", "libgomp", compiler_name="gcc"))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0] == "a team of 3 threads at level 1 in work"


@pytest.mark.quick()
def test_the_example_that_follows_regions() -> None:
    done = example("follow_regions.py", regions())
    assert done.returncode == 0, done.stderr
    lines = [re.sub(r" \[[\d ]+\]$", "", line) for line in done.stdout.splitlines()]
    outer = [f"regions.c:{line_with('parallel num_threads(threads)')} work: {size} threads" for size in (2, 3, 4)]
    inner = f"   regions.c:{line_with('parallel num_threads(2)')} inner: 2 threads"
    # The last line is the program's. While a step enters a region, other threads may begin regions that are not seen.
    assert [line for line in lines if line != inner] == [*outer, "59"]
    assert 1 <= lines.count(inner) <= 3
