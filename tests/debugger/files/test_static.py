"""Programs with the runtime, or with everything, linked in: the answers are the same as for other programs."""

from __future__ import annotations

import re
from itertools import product

import pytest

from ompd.questions import stacks, threads
from ompd.session import Session
from tests.support import COMPILERS, FULL, KINDS, Stopped, stopped
from tests.support.facts import expected, facts_told
from tests.support.odd import Odd, core_of
from tests.support.products import sample
from tests.truth import compare

# How a program is linked: the flags, and whether it may be loaded at any address.
LINKS = {
    "runtime": (("-Wl,--as-needed", "-l:libiomp5.a", "-lm"), True),
    "static": (("-static",), False),
    "static-pie": (("-static-pie",), True),
}
PROGRAMS = ("nested", "uneven", "lock", "task_tree", "icvs", "two_criticals", "serialized_three", "extra_pthread")


def linked(program: str, compiler: str, link: str, mode: str = "debug", kind: str = "kernel") -> Stopped:
    flags, pie = LINKS[link]
    return stopped(program, compiler=compiler, mode=mode, kind=kind, flags=flags, pie=pie)


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    ("link", "compiler", "program"),
    sample(
        product(LINKS, COMPILERS, PROGRAMS), lambda link, compiler, program: ((link, compiler), (program, compiler))
    ),
)
@pytest.mark.quick(
    "runtime-gcc-serialized_three", "runtime-clang-nested", "static-clang-extra_pthread", "static-pie-gcc-lock"
)
def test_all_that_is_told_is_what_the_program_wrote(link: str, compiler: str, program: str) -> None:
    # The comparison includes all waits, and the user's functions, files and lines in `where`.
    mode = "neither" if compiler == "clang" else "debug"
    found = compare(linked(program, compiler, link, mode))
    assert found.differences == []
    assert facts_told(found) == expected(program, mode)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_the_runtime_is_found_in_the_program_itself(link: str, kind: str) -> None:
    core = linked("uneven", "gcc", link, kind=kind)
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        module = runtime.found.module
        assert module.is_program and module.path == str(core.executable)
        # No library of a runtime is loaded. A static program has no other modules at all.
        others = {other.name.rpartition("/")[2] for other in session.process.symbols.modules() if other is not module}
        assert not any(name.startswith(("libiomp", "libomp", "libgomp")) for name in others)
        assert bool(others) == (link == "runtime")
        assert bool(module.bias) == (link != "static")
    found = compare(core)
    assert found.differences == []


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    ("flags", "compiler", "program"),
    [
        pytest.param(flags, compiler, program, id=f"{' '.join(flags)}-{compiler}-{program}")
        for number, program in enumerate([*PROGRAMS, "closing_barrier", "barrier"])
        for turn, (flags, compiler) in enumerate(product([("-g0",), ("-g0", "-O2")], COMPILERS))
        if FULL or turn == number % 4
    ],
)
@pytest.mark.quick("-g0-gcc-nested", "-g0 -O2-clang-task_tree", "-g0-gcc-icvs")
def test_whose_code_cannot_be_told_is_not_guessed(flags: tuple[str, ...], compiler: str, program: str) -> None:
    # A static program without debug information: the C library's functions have symbols like the user's own.
    core = stopped(program, compiler=compiler, mode="neither", flags=("-static", *flags), pie=False)
    untold = re.compile(
        r"is None, in truth|wait\.missing is \[\]"
        # Tasks have no lines, and clang's outlined tasks have no functions.
        r"|task\.function is Counter\(\{\((?:'\w+'|None), None, "
    )
    left = [difference for difference in compare(core).differences if not untold.search(difference)]
    # Nested regions share the primary thread's stack, where they look alike.
    lost = [difference for difference in left if "its continuation outside of its region is unknown" in difference]
    assert [difference for difference in left if difference not in lost] == [
        "answer: complete is False, in truth True"
    ] * bool(lost)
    with Session.open_core(core.core) as session:
        for thread in session.process.threads.ids():
            assert session.process.stacks.stack(thread).stopped is None


def test_who_met_a_region_is_known_by_its_call_of_libgomp() -> None:
    core = core_of(Odd("after_inner", ("-g0",), "static libgomp"), "gcc")
    with Session.open_core(core.path) as session:
        answer = stacks.ask(session)
    workers = [row for row in answer.rows if row.thread_num]
    assert answer.complete and workers
    for row in workers:
        assert row.stopped is None
        assert [frame.function for frame in row.frames if frame.function == "main"]
    assert any(frame.thread != row.native_thread_id for row in workers for frame in row.frames)


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("link", ["static", "static-pie"])
def test_what_calls_the_runtime_is_the_users(link: str) -> None:
    flags, pie = LINKS[link]
    core = stopped("hang", mode="neither", flags=(*flags, "-g0"), pie=pie)
    (blocked,) = (thread["native_thread_id"] for thread in core.truth["threads"] if thread["blocked_in"] == "lock")
    with Session.open_core(core.core) as session:
        for row in threads.ask(session).rows:
            if row.thread_num is None:
                # Nothing shows which of its frames belong to the C library.
                assert row.where is None and "static" in row.unavailable["where"]
            elif row.native_thread_id == blocked:
                assert row.where is not None and row.where.function == "report_progress"
            else:
                assert row.where is not None and row.where.function == "simulate"
                assert row.wait is not None and row.wait.missing == (blocked,) and row.wait.arrived == 3
