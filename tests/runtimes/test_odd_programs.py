"""Programs beyond the fixtures: ompd's answers about their cores are compared with what the programs wrote.

Each thread of a program in ``tests/odd`` writes the results of ``omp_get_*``, its regions, and its function and line.
Then it stays there or does what it announced; see ``odd.h``.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd.questions import threads
from ompd.session import Session
from tests.support import FULL, Missing, clean_environment, require
from tests.support.odd import (
    AWAKE,
    COMPILERS,
    MODES,
    PLAIN,
    Core,
    Odd,
    Words,
    build_odd,
    core_of,
)
from tests.support.products import sample
from tests.support.runs import ENVIRONMENT


def stopped_at(odd: Odd, compiler_name: str, breakpoint: str, condition: str, tmp_path: Path) -> Core:
    """Return the core that gdb writes when a thread of the program reaches a routine of the runtime."""
    gdb = require("gdb")
    executable = build_odd(odd, compiler_name)
    command = [str(gdb), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set startup-with-shell off"]
    for line in ("set breakpoint pending on", f"break {breakpoint} if {condition}", "run", "gcore core", "kill"):
        command += ["-ex", line]
    environment = {**ENVIRONMENT, "OMP_MAX_ACTIVE_LEVELS": "20", **odd.environment}
    done = subprocess.run(
        [*command, str(executable)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    if not (tmp_path / "core").exists():
        raise Missing("gdb", f"cannot stop the program: {done.stderr.strip()[-300:]}", forbidden=True)
    words = [json.loads(line) for line in (tmp_path / "words").read_text().splitlines()]
    return Core(tmp_path / "core", executable, words)


# Programs that tell everything

# clang 14 does not name a task's outlined function after the user's function.
UNTOLD = {("waits", "clang")}


def _cases() -> Iterator[Any]:
    for number, odd in enumerate(PLAIN):
        for compiler_name, mode in product(COMPILERS, MODES):
            # The compiled code does not depend on what the runtime keeps.
            if not FULL and mode == "debug" and (compiler_name != "gcc" or number % 3):
                continue
            yield pytest.param(odd, compiler_name, mode, id=f"{odd.name}-{compiler_name}-{mode}")


@pytest.mark.parametrize(("odd", "compiler_name", "mode"), sample(_cases()))
@pytest.mark.quick(
    "after_inner-gcc-neither",
    "executed-gcc-debug",
    "fork_region-clang-neither",
    "fork_serial-gcc-debug",
    "implicit-clang-neither",
    "two_files-clang-neither",
)
def test_words_of_the_program(odd: Odd, compiler_name: str, mode: str) -> None:
    core = core_of(odd, compiler_name, mode)
    Words(core).check(missing=(odd.name, compiler_name) in UNTOLD)


@pytest.mark.parametrize(
    ("name", "compiler_name"), sample(product(["mixed", "dlopened", "loops", "handler"], COMPILERS))
)
@pytest.mark.quick("mixed-gcc", "loops-gcc", "handler-clang")
def test_words_in_a_core_of_gdb(name: str, compiler_name: str) -> None:
    Words(core_of(Odd(name), compiler_name, kind="gcore")).check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.quick("clang")
def test_regions_of_cplusplus(compiler_name: str) -> None:
    Words(core_of(Odd("lambdas"), compiler_name), names=False).check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_names_of_cplusplus_read_like_the_source(compiler_name: str) -> None:
    words = Words(core_of(Odd("lambdas"), compiler_name), names=False)
    assert words.told
    for word in words.told.values():
        where = words.rows[word["tid"]].where
        assert where is not None and word["function"] in str(where.function)


def test_the_signal_and_its_thread() -> None:
    core = core_of(Odd("segv"), "gcc")
    words = Words(core)
    assert words.threads.target.signal_name == "SIGSEGV"
    (crashed,) = (word for word in core.words if word.get("function") == "crash")
    row = words.rows[crashed["tid"]]
    assert row.where is not None and (row.where.function, row.where.line) == ("crash", crashed["line"])
    assert (row.level, row.thread_num) == (2, 1)


# Teams


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_league_of_teams_is_no_parallel_region(compiler_name: str) -> None:
    # With only KMP_TEAMS_THREAD_LIMIT each team would have one thread on a small machine.
    environment = {"KMP_TEAMS_THREAD_LIMIT": "8", "OMP_TEAMS_THREAD_LIMIT": "4"}
    words = Words(core_of(Odd("teams", environment=environment), compiler_name))
    for region in words.known.values():
        construct = region.function.construct if region.function is not None else None
        assert region.level != 0 or construct != "parallel"
    # ompd may list the league as a region of its own kind, but must not count it as a level.
    wrong = [text for text in words.wrong if not text.startswith("regions that no thread is in")]
    # In a league libomp's omp_get_num_threads() counts the threads that are kept ready. The initial thread's team has
    # one thread.
    wrong = [text for text in wrong if not re.search(r"team_size is 1, in truth", text)]
    assert not [text for text in wrong if "number of regions" not in text], "\n".join(wrong)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.quick("gcc-debug", "clang-neither", "clang-debug")
def test_a_team_that_is_still_forming(compiler_name: str, mode: str) -> None:
    # The system refused a thread while the team formed, which ended the process. The team's primary thread is already
    # in the new region.
    core = core_of(Odd("no_more_threads", environment={"OMP_STACKSIZE": "64M"}), compiler_name, mode)
    words = Words(core)
    (forking,) = [word for word in words.told.values() if word["doing"] == "fork"]
    row = words.rows[forking["tid"]]
    assert (row.team_size, row.level, row.active_level, row.thread_num) == (64, 2, 2, 0)
    region = words.known[row.parallel]
    assert (region.team_size, region.level) == (64, 2) and region.threads[0] == forking["tid"]
    assert None in region.threads and len(region.threads) == 64
    others = [word for word in words.told.values() if word is not forking]
    assert others and all(words.rows[word["tid"]].level == 1 for word in others)


# Other ways to build


WAYS = {
    "no-pie": ((), "no-pie"),
    "no-g": (("-g0",), "dynamic"),
    "dwarf-3": (("-gdwarf-3",), "dynamic"),
    "dwarf-4-compressed": (("-gdwarf-4", "-gz"), "dynamic"),
    "no-frame-pointer": (("-fomit-frame-pointer", "-O1", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
    "O2": (("-O2", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
    "O3": (("-O3", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
}


@pytest.mark.parametrize(
    ("flags", "link", "compiler_name"),
    [pytest.param(*WAYS[way], name, id=f"{way}-{name}") for way, name in sample(product(WAYS, COMPILERS))],
)
@pytest.mark.quick("no-pie-gcc", "no-frame-pointer-gcc", "O2-clang")
def test_ways_to_build(compiler_name: str, flags: tuple[str, ...], link: str) -> None:
    for name in ("mixed", "handler"):
        words = Words(core_of(Odd(name, flags=flags, link=link), compiler_name), lines="-g0" not in flags)
        words.check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("name", ["mixed", "pointers", "single", "segv"])
@pytest.mark.quick("mixed-gcc", "pointers-gcc", "pointers-clang", "single-clang", "segv-gcc")
def test_tail_calls_leave_facts_open_but_not_wrong(compiler_name: str, name: str) -> None:
    flags = ("-O2", "-fno-inline")
    words = Words(core_of(Odd(name, flags=flags), compiler_name), lines=False, names=compiler_name == "gcc")
    words.check(missing=True)


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_an_inlined_function_is_not_called_by_the_name_of_another(compiler_name: str) -> None:
    Words(core_of(Odd("single", flags=("-O2",)), compiler_name)).check(missing=True)


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_stripped_program(compiler_name: str) -> None:
    words = Words(core_of(Odd("mixed", strip=True), compiler_name), lines=False, names=False)
    words.check(missing=True)
    for row in words.rows.values():
        assert row.where is None or (row.where.function, row.where.file, row.where.line) == (None, None, None)
    for region in words.known.values():
        found = region.function
        # clang's code notes the place of a construct, and stripping keeps these notes.
        noted = compiler_name == "clang" and found is not None and found.line is not None
        assert found is None or noted or (found.function, found.file, found.line) == (None, None, None)


# The runtime inside of the program


@pytest.mark.parametrize(
    ("link", "compiler_name"), sample(product(["static runtime", "static", "static-pie"], COMPILERS))
)
def test_a_runtime_linked_into_the_program(compiler_name: str, link: str) -> None:
    for odd in (Odd("segv", link=link), Odd("tasks", link=link, environment=AWAKE)):
        words = Words(core_of(odd, compiler_name), names=link == "static runtime", lines=link == "static runtime")
        words.check(missing=link != "static runtime")


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("link", ["dynamic", "static", "static-pie"])
@pytest.mark.quick("dynamic-gcc", "dynamic-clang", "static-clang", "static-pie-gcc", "static-pie-clang")
def test_a_thread_in_code_of_the_kernels_own(compiler_name: str, link: str) -> None:
    odd = Odd("vdso", link=link, flags=("-fomit-frame-pointer",))
    core = core_of(odd, compiler_name)
    Words(core, names=link == "dynamic", lines=link == "dynamic").check(missing=link != "dynamic")
    (asking,) = (word for word in core.words if word.get("function") == "ask")
    with Session.open_core(core.path) as session:
        process = session.process
        stack = process.stacks.stack(asking["tid"])
        first = process.places.locate(stack.frames[0].call_site)
        assert first.module is not None and first.module.name == "[vdso]"
        assert first.symbol in ("__vdso_getcpu", "getcpu")
        names = [process.places.locate(frame.call_site).symbol for frame in stack.frames]
        assert stack.stopped is None and names[1] == "ask" and "__kmp_invoke_microtask" in names
        (row,) = (row for row in threads.ask(session).rows if row.native_thread_id == asking["tid"])
        assert row.where is not None and (row.where.function, row.where.line) == ("ask", asking["line"])


# Between two states


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.quick("gcc")
def test_a_thread_that_leaves_an_inner_region_is_not_idle(tmp_path: Path, compiler_name: str) -> None:
    core = stopped_at(Odd("leaving"), compiler_name, "__kmp_free_team", "$_thread > 1", tmp_path)
    words = Words(core)
    (leaving,) = (word for word in core.words if word.get("doing") == "leaving")
    row = words.rows[leaving["tid"]]
    # The thread is on its way from thread number 0 at level 2 back to number 3 at level 1.
    assert (row.level, row.thread_num, row.team_size) == (1, 3, 4)
    assert row.state != "idle"


# gdb


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("name", ["handler", "pointers", "mixed"])
@pytest.mark.quick("handler-gcc")
def test_gdb_finds_the_same_functions(compiler_name: str, name: str) -> None:
    core = core_of(Odd(name), compiler_name)
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    command += [str(core.executable), str(core.path), "-ex", "thread apply all bt"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    stacks = re.split(r"\nThread \d+ ", done.stdout)[1:]
    assert len(stacks) == len(Words(core).rows)
    for text in stacks:
        native = re.search(r"LWP (\d+)", text)
        assert native is not None
        row = Words(core).rows[int(native[1])]
        ours = row.where
        users = re.findall(r"^#\d+ .* at .*?(\w+\.[ch]):(\d+)$", text, re.MULTILINE)
        users = [(file, int(line)) for file, line in users if file in (f"{name}.c", "odd.h")]
        assert ours is not None and (Path(str(ours.file)).name, ours.line) == users[0], text
