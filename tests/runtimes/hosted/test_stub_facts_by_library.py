"""Every fact that tests count for the stub (``tests/facts_stub.json``), read only through its library in C.

The libraries of 64 and 32 bits must tell what the program wrote, as often as ompd's own plugin does. The tables below
list all exceptions: kinds of facts for which OMPD and DMPL have no call, and kinds that a library must refuse unless
the program was started with OMP_DEBUG=enabled.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping

import pytest

from ompd.runtimes.hosted import narrow
from ompd.session import Session
from tests.support import FULL, Stopped
from tests.support.cache import CHECKOUT
from tests.support.products import sample
from tests.support.programs import ALL_PROGRAMS
from tests.support.stub import host32, stub_folder
from tests.support.stub_cores import on_stub
from tests.truth import Comparison, compare_session

FACTS: Mapping[str, Mapping[str, Mapping[str, int]]] = json.loads((CHECKOUT / "tests" / "facts_stub.json").read_text())
LIBRARIES = {64: "libompd_stub.so", 32: "libompd_stub32.so"}

NO_CALL = {
    "structures": "they are the runtime's own, and a library's handles are opaque",
    "layout": "that a library knows it is all that is known",
    "wait.arrived": "no call tells of barriers who has arrived",
    "wait.expected": "nor how many have to",
    "wait.missing": "nor who is missing",
    "wait.owner": "nor who holds a lock",
    "wait.symbol": "nor what a lock or a critical section is called",
}
"""Kinds of facts that the library never tells, with the reason."""
NOT_EXECUTED = ("queued", "waiting", "detached", "complete")
"""Tasks that no thread executes. Handles lead only from threads to their tasks and to the generating tasks."""
OF_TASKS = {
    "task.kind,status,thread": "of the tasks that no thread executes",
    "task.function": "which is one fact of all explicit tasks together",
}
"""Kinds of facts that the library tells only in part, with the missing part."""
NEEDS_DEBUG = {
    "state": "ompd_get_state refuses, and stacks alone do not tell a library's states",
    "state_source": "likewise",
    "waits": "a state says that a thread waits",
    "complete": "the answer about stacks is not, since each one's continuation is unknown",
    **dict.fromkeys(
        (f"stack.{part}" for part in ("stopped", "thread", "file", "function", "line", "inlined", "construct")),
        "ompd_get_task_frame refuses: the stack of a worker ends with its region",
    ),
    "stack.construct.file": "likewise",
    "stack.construct.line": "likewise",
    "task.kind,status,thread": "where a task is suspended follows from frames",
    "task.function": "likewise",
}
"""Kinds of facts that the library tells at most in part without OMP_DEBUG=enabled, with the reason."""
_DIFFERENCE = re.compile(r"(?P<subject>.*?)(?:: (?P<kind>\S+))? is (?P<ours>.*), in truth (?P<true>.*)", re.DOTALL)


SAMPLED = (
    *("nested", "serialized_three", "two_initial", "shrunk_pool", "lock", "critical", "icvs_env", "many", "fortran"),
    *("task_tree", "task_queued", "task_depend", "task_stack", "callbacks", "cplusplus"),
)


def cases() -> list[tuple[str, str, str, str, int]]:
    """Return programs, compilers, modes, runtimes and widths of libraries: all, or a sample of some programs.

    Libraries read programs of their own width, and in one of four cases programs of the other width.
    """
    return sample(
        (program, compiler, mode, runtime, width)
        for number, program in enumerate(FACTS if FULL else SAMPLED)
        for compiler in [next(each for each in ALL_PROGRAMS[program].compilers if not each.startswith("clang"))]
        for turn, mode in enumerate(("debug", "neither"))
        for runtime, width in (("stub", 64), ("stub-32", 32), ("stub", 32), ("stub-32", 64))
        if compiler == "gcc" or runtime == "stub"  # only C programs are built for 32 bits
        if (runtime == "stub") == (width == 64) or (number + turn) % 4 == 0
    )


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "PROGRAM", host32())


def told(core: Stopped, width: int) -> Comparison:
    """Return the comparison of the library's answers about a core with what the program wrote."""
    library = stub_folder() / LIBRARIES[width]
    with Session.open_core(core.core, ompd_library=str(library)) as session:
        found = compare_session(core, session)
        assert not session.hosted_faults
        by = [runtime.found.hosted for runtime in session.runtimes]
        assert all(each is not None and each.file == str(library) for each in by) or not core.truth["regions"]
    return found


def unexplained(core: Stopped, found: Comparison) -> Iterator[str]:
    """Yield the differences that the tables do not explain, and values that are wrong and not only missing."""
    kinds = {**NO_CALL, **OF_TASKS, **({} if core.mode == "debug" else NEEDS_DEBUG)}
    for text in found.differences:
        match = _DIFFERENCE.fullmatch(text)
        if match is None:
            # A note about an incomplete answer, or the number of further notes.
            if core.mode == "debug" or not ("OMP_DEBUG=enabled" in text or re.fullmatch(r"and \d+ more", text)):
                yield text
            continue
        kind, ours, true = match["kind"], match["ours"], match["true"]
        if kind is None and text.startswith("stack of thread") and core.mode != "debug":
            # The stack ends early. Its frames are right, but the construct of a frame may be unknown.
            stack, whole = ast.literal_eval(ours), ast.literal_eval(true)
            for one, stated in zip(stack, whole, strict=False):
                if one not in (stated, re.sub(r"\[\w+ ", "[None ", stated)):
                    yield text
            if len(stack) >= len(whole):
                yield text
        elif kind not in kinds or (kind in ("state", "wait.owner", "wait.symbol", "wait.arrived") and ours != "None"):
            yield text


def unlike(core: Stopped, found: Comparison, wanted: Mapping[str, int]) -> Iterator[str]:
    """Yield the kinds of facts that the library does not tell as often as it must."""
    truth = [task for task in core.truth["tasks"] if task["status"] in NOT_EXECUTED]
    untold = {
        "task.kind,status,thread": len({(task["kind"], task["status"], task["thread"]) for task in truth}),
        "task.function": int(any(task["kind"] == "explicit" for task in truth)),
    }
    for kind, count in {**found.equal, **wanted}.items():
        expected = 0 if kind in NO_CALL else count - untold.get(kind, 0)
        is_part = core.mode != "debug" and kind in NEEDS_DEBUG
        if (found.equal[kind] > expected) if is_part else (found.equal[kind] != expected):
            yield f"{kind}: {found.equal[kind]} where {expected} are expected"


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(("program", "compiler", "mode", "runtime", "width"), cases())
@pytest.mark.quick(
    "serialized_three-gcc-neither-stub-32-32",
    "two_initial-gcc-debug-stub-32-32",
    "icvs_env-gcc-debug-stub-64",
    "fortran-gfortran-debug-stub-64",
    "cplusplus-g++-neither-stub-64",
)
def test_what_the_library_tells_is_what_the_program_wrote(
    program: str, compiler: str, mode: str, runtime: str, width: int
) -> None:
    core = on_stub(program, compiler, mode, runtime=runtime)
    found = told(core, width)
    assert list(unexplained(core, found)) == []
    assert list(unlike(core, found, FACTS[program][mode])) == []


def test_nothing_stands_in_a_table_without_need() -> None:
    missing = {"debug": set[str](), "neither": set[str]()}
    for program in ("nested", "lock", "task_tree"):
        for mode, kinds in missing.items():
            found, wanted = told(on_stub(program, mode=mode), 64), FACTS[program][mode]
            kinds |= {kind for kind, count in wanted.items() if found.equal[kind] < count}
    assert missing["debug"] == {*NO_CALL, *OF_TASKS}
    assert missing["neither"] == {*NO_CALL, *NEEDS_DEBUG}
