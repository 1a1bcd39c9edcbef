"""Every program, compiler, mode and kind of core: ompd's answers equal what the program wrote.

``tests/facts.json`` holds the number of facts of each kind that must be told and equal, so an answer with fewer facts
fails. ``python -m tests.runtimes.libomp.test_truth`` writes the file anew.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ompd.contract.memory import Field, StructLayout
from ompd.contract.process import Frame, SourceFrame
from ompd.errors import OmpdError
from ompd.model import StackFrame
from ompd.questions.stacks import reader, source, thread_frames
from ompd.runtimes.layout import published
from ompd.runtimes.libomp.handles import Parallel, Thread
from ompd.runtimes.libomp.teams import Team
from tests.support import COMPILERS, FULL, KINDS, MODES, PROGRAMS, STACK_PROGRAMS, TASK_PROGRAMS, stopped
from tests.support.build import RELEASES, releases
from tests.support.facts import FACTS, expected, facts_told
from tests.support.products import sample
from tests.support.programs import ALL_PROGRAMS, LOCK_KINDS, REDUCTIONS, modes_of
from tests.truth import compare, compare_stacks

# gdb's core of 64 stacks of the default size has 1.5 GB and shows nothing that the others do not.
TOO_LARGE = {("many", "gcore")}
# Programs with both kinds of core: all programs of regions, and a few of tasks and waits, which are about the runtime.
GCORES = {*PROGRAMS, "task_tree", "icvs", "nest_lock"}
PRODUCT = [
    pytest.param(program, compiler, mode, kind, id=f"{program}-{compiler}-{mode}-{kind}", marks=marks)
    for program, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    for mode, kind in itertools.product(modes_of(program, compiler), KINDS)
    for marks in [[pytest.mark.xdist_group("busy")] * known.spins]
    if (program, kind) not in TOO_LARGE
    and (kind == "kernel" or (program in GCORES and (FULL or mode == ("neither" if compiler == "clang" else "debug"))))
]
# Each program by each compiler, each program with and without kept states, and each mode with each kind of core.
PARAMETERS = sample(
    PRODUCT, lambda program, compiler, mode, kind: ((program, compiler), (program, mode == "neither"), (mode, kind))
)


@pytest.mark.parametrize(("program", "compiler", "mode", "kind"), PARAMETERS)
@pytest.mark.quick(
    "serialized_middle-gcc-debug-gcore",
    "between-clang-neither-kernel",
    "extra_pthread-gcc-debug-gcore",
    "icvs-clang-neither-gcore",
    "fortran-gfortran-neither-kernel",
    "task_stack-clang-tool-kernel",
    "cplusplus-clang++-tool-kernel",
)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str, mode: str, kind: str) -> None:
    found = compare(stopped(program, compiler=compiler, mode=mode, kind=kind))
    assert found.differences == []
    assert facts_told(found) == expected(program, mode)


# Other releases of the same compilers. Only the generated code differs, for which the mode hardly matters.
CHANGED = {"nested", "serialized_middle", "serialized_initial", "task_if0", "task_stack"}  # clang 17 changed their code
LOOPS = {"taskloop", "single_taskloop"}  # gcc 12 changed their code


def release_cases() -> Iterator[Any]:
    for number, (program, known) in enumerate(ALL_PROGRAMS.items()):
        for name in known.compilers:
            found = releases(name)
            others = found[1:] if name.startswith("clang") else found[:-1]  # releases other than the usual one
            chosen = [others[number // 2 % len(others)]] if number % (2 if name.startswith("clang") else 4) == 0 else []
            chosen += [found[-1]] if program in CHANGED and name.startswith("clang") else []
            chosen += [found[0]] if program in LOOPS and name == "gcc" else []
            for turn, other in enumerate(found if FULL else dict.fromkeys(chosen)):
                marks = [pytest.mark.xdist_group("busy")] * known.spins
                for mode in MODES if FULL else (MODES[(number + turn) % 3],):
                    yield pytest.param(program, other, mode, id=f"{program}-{other}-{mode}", marks=marks)


@pytest.mark.parametrize(("program", "compiler", "mode"), list(release_cases()))
@pytest.mark.quick("task_queued-clang-16-debug", "task_if0-clang-22-neither")
def test_what_each_release_of_a_compiler_makes(program: str, compiler: str, mode: str) -> None:
    found = compare(stopped(program, compiler=compiler, mode=mode))
    assert found.differences == []
    assert facts_told(found) == expected(program, mode)


@pytest.mark.parametrize(
    ("program", "compiler"),
    [
        pytest.param(program, other, id=f"{program}-{other}")
        for number, (program, known) in enumerate(STACK_PROGRAMS.items())
        for name in known.compilers
        for turn, other in enumerate(releases(name))
        if FULL or turn == number % len(releases(name))
    ],
)
@pytest.mark.quick("deep-gcc-11", "single_taskloop-clang-19", "orphaned-gcc-12")
def test_stacks_as_each_release_optimizes(program: str, compiler: str) -> None:
    found = compare_stacks(stopped(program, compiler=compiler, mode="neither", flags=("-O2",)))
    assert found.differences == []


@pytest.mark.parametrize(
    ("program", "compiler", "runtime"),
    [
        pytest.param(program, compiler, runtime, id=f"{program}-{compiler}-{runtime}")
        for runtime, compilers, programs in (
            ("libomp-19", RELEASES["clang"], CHANGED),
            ("libgomp", RELEASES["gcc"], {*LOOPS, "nested", "task_stack"}),
        )
        for number, program in enumerate(sorted(programs))
        for compiler in compilers
        if FULL or compiler == (compilers[0] if runtime == "libgomp" else compilers[-1 - number % 3])
    ],
)
@pytest.mark.quick(
    "nested-clang-22-libomp-19",
    "serialized_initial-clang-19-libomp-19",
    "serialized_middle-clang-16-libomp-19",
    "task_stack-clang-19-libomp-19",
    "single_taskloop-gcc-11-libgomp",
    "taskloop-gcc-11-libgomp",
)
def test_each_release_on_other_runtimes(program: str, compiler: str, runtime: str) -> None:
    assert compare(stopped(program, compiler=compiler, mode="neither", runtime=runtime)).differences == []


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("lock_kind", LOCK_KINDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.quick(
    "debug-tas",
    "debug-futex",
    "debug-ticket",
    "debug-queuing",
    "debug-drdpa",
    "tool-tas",
    "tool-futex",
    "tool-queuing",
    "tool-drdpa",
    "neither-tas",
    "neither-ticket",
    "neither-queuing",
    "neither-drdpa",
)
def test_every_kind_of_lock(lock_kind: str, mode: str) -> None:
    found = compare(stopped("lock_kinds", mode=mode, env={"KMP_LOCK_KIND": lock_kind}))
    assert found.differences == []
    # Locks of these kinds store their holder, and so do all nestable locks.
    assert found.equal["wait.owner"] == (5 if lock_kind in ("tas", "futex") else 1)
    assert found.equal["wait.symbol"] == 5


@pytest.mark.parametrize("method", REDUCTIONS)
def test_every_method_of_reduction(method: str) -> None:
    assert compare(stopped("reduction", compiler="clang", env={"KMP_FORCE_REDUCTION": method})).differences == []


@pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    sample(
        [
            (program, compiler, mode)
            for program, known in STACK_PROGRAMS.items()
            for compiler in known.compilers
            for mode in modes_of(program, compiler)
        ],
        lambda program, compiler, mode: ((program, compiler), mode),
    ),
)
@pytest.mark.quick(
    "task_stack-clang-tool",
    "single_taskloop-gcc-tool",
    "callbacks-gcc-neither",
    "interrupted-clang-debug",
    "inlined-clang-debug",
    "cplusplus-g++-neither",
    "cplusplus-clang++-tool",
    "modules-gfortran-debug",
)
def test_stacks_of_optimized_programs(program: str, compiler: str, mode: str) -> None:
    found = compare_stacks(stopped(program, compiler=compiler, mode=mode, flags=("-O2",)))
    assert found.differences == []
    assert {key: count for key, count in facts_told(found).items() if key.startswith("stack")} == {
        key: count for key, count in expected(program, mode).items() if key.startswith("stack")
    }


@pytest.mark.parametrize(
    ("program", "compiler"),
    [
        pytest.param(program, compiler, marks=[pytest.mark.xdist_group("busy")] * known.spins)
        for number, (program, known) in enumerate({**PROGRAMS, **TASK_PROGRAMS}.items())
        for turn, compiler in enumerate(known.compilers)
        if FULL or (number % 2 == 0 and turn == number // 2 % len(known.compilers))
    ],
)
@pytest.mark.quick(
    "nested-gcc",
    "lock-clang",
    "not_initialised-gcc",
    "extra_pthread-clang",
    "task_queued-clang",
    "two_criticals-gcc",
    "fortran-gfortran",
)
def test_stacks_of_other_optimized_programs(program: str, compiler: str) -> None:
    assert compare_stacks(stopped(program, compiler=compiler, mode="tool", flags=("-O2",))).differences == []


@pytest.mark.parametrize(
    ("program", "compiler", "flags"),
    sample(
        [
            pytest.param(program, compiler, flags, id=f"{program}-{compiler}-{' '.join(flags)}")
            for program in ("nested", "serialized_three", "serialized_middle", "uneven", "closing_barrier")
            for compiler in COMPILERS
            for flags in (("-O2",), ("-O2", "-g0"), ("-gdwarf-4",))
        ],
        lambda program, compiler, flags: (program, (compiler, flags)),
    ),
)
@pytest.mark.quick(
    "nested-gcc--O2",
    "serialized_three-gcc--O2 -g0",
    "serialized_middle-gcc--gdwarf-4",
    "uneven-clang--O2",
    "closing_barrier-clang--O2 -g0",
)
def test_other_flags_make_no_fact_wrong(program: str, compiler: str, flags: tuple[str, ...]) -> None:
    # Optimisers remove functions from the stack, by inlining and by tail calls. ompd reports this and never guesses.
    found = compare(stopped(program, compiler=compiler, mode="neither", flags=flags))
    untold = re.compile(
        r": (where\.|stack\.(construct\.)?)?(function|file|line) is (None|'\.omp_outlined\.\d*')|: address is None"
    )
    assert [difference for difference in found.differences if not untold.search(difference)] == []
    if flags == ("-gdwarf-4",):
        assert found.differences == []


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("program", ["nested", "serialized_three", "closing_barrier"])
@pytest.mark.quick("nested-gcc", "serialized_three-gcc", "closing_barrier-clang")
def test_a_program_at_a_fixed_address_is_read(program: str, compiler: str) -> None:
    assert compare(stopped(program, compiler=compiler, pie=False)).differences == []


# Mutants: each breaks one thing that the comparison above checks, and the comparison must notice it.


def shifted(layout: StructLayout, member: str) -> StructLayout:
    moved = layout.fields[member]
    return replace(layout, fields={**layout.fields, member: Field(moved.offset + 8, moved.size)})


@pytest.mark.parametrize(
    ("struct", "member"),
    [
        ("kmp_base_info_t", "th_team"),
        ("kmp_base_info_t", "ompt_thread_info"),
        ("kmp_desc_base_t", "ds_thread"),
        ("kmp_base_team_t", "t_parent"),
        ("kmp_base_team_t", "t_nproc"),
        ("kmp_base_team_t", "t_threads"),
        ("kmp_base_team_t", "t_level"),
        ("kmp_base_team_t", "t_active_level"),
        ("ompt_thread_info_t", "state"),
        ("ompt_thread_info_t", "wait_id"),
    ],
)
@pytest.mark.quick(
    "kmp_base_info_t-th_team",
    "kmp_desc_base_t-ds_thread",
    "kmp_base_team_t-t_nproc",
    "kmp_base_team_t-t_threads",
    "ompt_thread_info_t-state",
    "ompt_thread_info_t-wait_id",
)
def test_a_field_read_from_a_wrong_place_is_noticed(struct: str, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = published.load

    def load(*arguments: Any) -> dict[str, StructLayout]:
        layouts = honest(*arguments)
        return {**layouts, struct: shifted(layouts[struct], member)}

    monkeypatch.setattr(published, "load", load)
    broken = [name for name in ("nested", "lock") if compare_or_fail(name)]
    assert broken != []


def compare_or_fail(program: str) -> list[str]:
    try:
        return compare(stopped(program)).differences
    except OmpdError as error:
        return [repr(error)]


def test_serialized_regions_taken_for_one_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(team: Team) -> tuple[Parallel, ...]:
        return () if team.t_parent is None else (Parallel(team, 1, 1),)

    monkeypatch.setattr(Team, "regions", property(one))
    assert compare(stopped("serialized_three")).differences != []


def test_teams_that_are_over_taken_for_live_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "is_live", property(lambda team: True))
    assert compare(stopped("between")).differences != []


def without_continuations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader.Reader, "_continuation", lambda reader, handle, region: ((), None))


def with_wrong_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = thread_frames.own_frame

    def frame(frame: Frame, source: SourceFrame, *arguments: Any) -> StackFrame:
        return honest(frame, source._replace(line=1), *arguments)

    monkeypatch.setattr(thread_frames, "own_frame", frame)


def with_what_compilers_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "is_glue", lambda outer, inner: False)


def with_all_code_taken_for_that_of_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Thread.construct_code
    monkeypatch.setattr(
        Thread, "construct_code", lambda thread: [code._replace(kind="parallel") for code in honest(thread)]
    )


@pytest.mark.parametrize(
    "mutant",
    [
        without_continuations,
        with_wrong_lines,
        with_what_compilers_add,
        with_all_code_taken_for_that_of_regions,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_stacks_that_are_read_wrongly_are_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    core = stopped("task_tree", compiler="clang")
    assert compare_stacks(core).differences == []
    mutant(monkeypatch)
    assert compare_stacks(core).differences != []


def write_facts() -> None:
    """Write the number of facts told of each program, from kernel cores and the program's first compiler."""
    facts: dict[str, dict[str, dict[str, int]]] = {}
    for (program, known), mode in itertools.product(ALL_PROGRAMS.items(), MODES):
        found = compare(stopped(program, compiler=known.compilers[0], mode=mode))
        if found.differences:
            sys.exit(f"{program}, {mode}: {found.differences}")
        facts.setdefault(program, {})[mode] = facts_told(found)
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write_facts()
