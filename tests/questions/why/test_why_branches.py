"""The branch before a barrier that a member of the team missed, and the variables that the branch reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.debugger.flow.branches import ANYWHERE, EXIT, STOP, Ways
from ompd.debugger.flow.function_code import Called
from ompd.errors import OmpdError
from ompd.isa.instructions import Instruction
from ompd.model import VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.questions import threads
from ompd.questions import why as question
from ompd.questions.why import branches
from ompd.session import Session
from tests.support.damage import cut
from tests.support.flow import ListedCode
from tests.support.machine import FULL
from tests.support.products import sample
from tests.support.why import GNU, LLVM, SOURCES, WHYS, Hung, hung, plain

# By the program's name: the text of the branch's line, and the branch's function.
PARTED = {
    "barrier_mismatch-branch": ("if (rank != 0) {", "exchange"),
    "barrier_mismatch-loop": ("if (rank == 0) {", "relax"),
    "barrier_mismatch-once": ("for (int step = 0; step < steps; step++) {", "iterate"),
    "barrier_mismatch-both": ("if (is_ready && rank == 3) {", "meet_if_both"),
    "barrier_absent-exited": ("if (number != 2)", "main"),
    "parted-reference": ("if (rank > limit) {", "exchange"),
    "parted-inlined": ("if (covers(rank)) {", "exchange"),
    "parted-jumped": ("if (rank == 0) {", "meet_others"),
    "parted-twice": ("if (!rank) {", "meet_by_turns"),
    "locks-branch": ("if (rank /= 0) then", "exchange"),
}
# Conditions that take several lines, macros or calls, also with the variables on which they depend and the functions
# that they call.
CONDITIONS = {
    "conditions-lines": ("if (is_ready &&", "over_lines", {"rank"}, ()),
    "conditions-macro": ("if (WANTED(IN_TURN(rank, 1))) {", "by_macro", {"rank"}, ()),
    "conditions-call": ("if (takes_part(rank, first) > 1) {", "by_call", {"rank"}, ("takes_part",)),
    "conditions-address": ("if (by_pointer(&rank)) {", "by_address", {"rank"}, ("by_pointer",)),
    "conditions-state": ("if (state()) {", "by_state", set(), ("state",)),
    "conditions-result": ("if (part) {", "by_result", {"part"}, ()),  # the call is another statement
    "conditions-called": ("if (is_ready &&", "by_lines_and_call", {"rank"}, ("takes_part",)),
    "conditions-fraction": ("if (fraction > 0.5) {", "by_fraction", {"fraction"}, ()),
    "parted-thrown": ("if (limits_of(rank).covers(rank)) {", "exchange_if_covered", {"rank"}, ("covers",)),
}
LEVELS = ("-O0", "-O1", "-O2")
PRODUCT = [
    (name, compiler, runtime, level) for name in PARTED for compiler, runtime in WHYS[name].pairs() for level in LEVELS
]
PRODUCT_OF_CONDITIONS = [
    (name, compiler, runtime, level)
    for name in CONDITIONS
    for compiler, runtime in WHYS[name].pairs()
    for level in LEVELS
]
NUMBERS = frozenset(("rank", "number"))  # variables with a thread's number


def first_of(core: Hung) -> VerdictRecord:
    assert core.core is not None
    with ompd.open_core(core.core) as session:
        return question.ask(session).rows[0]


def lines_of(name: str) -> set[int]:
    """Return the numbers of the program's source lines that have the branch's text."""
    path = next(path for path in SOURCES.glob(f"{WHYS[name].program}.*"))
    text = (PARTED.get(name) or CONDITIONS[name])[0]
    return {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == text}


def wrong(core: Hung, verdict: VerdictRecord) -> Iterator[str]:
    """Yield false statements about variables."""
    numbers = {each["native_thread_id"]: each["thread_num"] for each in core.truth["threads"]}
    for variable in verdict.variables:
        if variable.name not in NUMBERS:
            continue
        for value in (*variable.arrived, *variable.absent):
            for native in value.threads:
                if value.text != str(numbers[native]):
                    yield f"{variable.name} of {native} is said to be {value.text}"


@pytest.mark.parametrize(
    ("name", "compiler", "runtime", "level"),
    sample(PRODUCT, lambda name, compiler, runtime, level: [(name, compiler, level), runtime]),
)
@pytest.mark.quick(
    "barrier_mismatch-loop-clang-intel--O2", "barrier_mismatch-once-gcc-libomp-19--O1", "parted-jumped-g++-libgomp--O0"
)
def test_the_branch_is_that_of_the_source(name: str, compiler: str, runtime: str, level: str) -> None:
    core = hung(WHYS[name], compiler, runtime, level=level)
    verdict = first_of(core)
    assert list(wrong(core, verdict)) == []
    if level != "-O0" and verdict.branch is None:
        return  # the function ended by a jump to the barrier, so no frame shows it
    assert verdict.branch is not None
    if level == "-O0" or name != "parted-inlined":  # optimised, its condition is in another inlined function
        assert plain(verdict.branch.function) == PARTED[name][1]
        assert verdict.branch.line in lines_of(name)
    read = {variable.name: variable for variable in verdict.variables if variable.is_read}
    if level == "-O0":
        wanted = set(core.truth["variables"]) or {"number"}
        assert wanted <= read.keys()
        assert all(read[each].arrived for each in wanted)
    for variable in read.values():
        assert variable.arrived or variable.unavailable["arrived"]
        assert variable.absent or variable.unavailable["absent"]


@pytest.mark.parametrize(
    ("name", "compiler", "runtime", "level"),
    sample(PRODUCT_OF_CONDITIONS, lambda name, compiler, runtime, level: [(name, compiler, level), runtime]),
)
@pytest.mark.quick(
    "conditions-lines-clang-intel--O0",
    "conditions-call-gcc-libomp-19--O1",
    "conditions-called-clang-libomp-14--O2",
    "conditions-fraction-gcc-libgomp--O0",
    "parted-thrown-g++-libomp-19--O1",
)
def test_what_a_condition_depends_on(name: str, compiler: str, runtime: str, level: str) -> None:
    verdict = first_of(hung(WHYS[name], compiler, runtime, level=level))
    _, function, read, calls = CONDITIONS[name]
    assert verdict.branch is not None
    assert (plain(verdict.branch.function), verdict.branch.line in lines_of(name)) == (function, True)
    assert {variable.name for variable in verdict.variables if variable.is_read} == read
    assert tuple(sorted(str(plain(called)) for called in verdict.branch_calls)) == calls


def test_what_a_condition_calls_is_said() -> None:
    core = hung(WHYS["conditions-state"], "gcc", GNU)
    output = CliRunner().invoke(cli, ["why", str(core.core)], catch_exceptions=False).stdout
    (line,) = (line.strip() for line in output.splitlines() if line.strip().startswith("branch "))
    assert line.endswith(" by_state: one side leads to the barrier, the other does not, by what state returns")


def test_what_the_line_does_not_read_comes_last_and_in_detail_alone() -> None:
    core = hung(WHYS["barrier_mismatch-loop"], "gcc", GNU)
    assert [(each.name, each.is_read) for each in first_of(core).variables] == [("rank", True), ("i", False)]
    outputs = [
        CliRunner().invoke(cli, ["why", str(core.core), *more], catch_exceptions=False).stdout for more in ([], ["-v"])
    ]
    plain_lines, detailed = ([line.strip() for line in output.splitlines()] for output in outputs)
    said = "differs    rank = 1-3 in 3 threads at the barrier; unknown elsewhere: not in relax"
    assert said in plain_lines and said in detailed
    place = f"barrier_mismatch.c:{min(lines_of('barrier_mismatch-loop'))} relax"
    assert f"branch     {place}: one side leads to the barrier, the other does not" in plain_lines
    assert not any(line.startswith("differs    i = ") for line in plain_lines)
    assert any(line.startswith("differs    i = ") for line in detailed)


@pytest.mark.parametrize("percent", [20, 60, 95])
def test_of_a_core_that_is_cut_off_nothing_wrong_is_said(percent: int, tmp_path: Path) -> None:
    core = hung(WHYS["barrier_mismatch-branch"], "gcc", GNU)
    assert core.core is not None
    path = cut(core.core, tmp_path / "cut", core.core.stat().st_size * percent // 100)
    try:
        with ompd.open_core(path) as session:
            verdict = question.ask(session).rows[0]
    except OmpdError:
        return
    assert list(wrong(core, verdict)) == []
    assert verdict.branch is None or verdict.branch.line in lines_of("barrier_mismatch-branch")


def parted(arrived: int, absent: int) -> tuple[VerdictRecord, Hung]:
    """Return a verdict with the branch that parts two threads of a team, given by their numbers. One of them is still
    in the region, in a function that the other has not called.
    """
    core = hung(WHYS["barrier_absent-joins"], "gcc", GNU)
    natives = {each["thread_num"]: each["native_thread_id"] for each in core.truth["threads"]}
    assert core.core is not None
    with Session.open_core(core.core) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows if row.native_thread_id is not None}
        parting = branches.Parting(session, rows, [natives[arrived]], [natives[absent]])
        found = parting.parted()
        assert found is not None
        verdict = VerdictRecord(
            kind=VerdictKind.BARRIER_ABSENT,
            stuck=Confidence.PROVEN,
            confidence=Confidence.PROVEN,
            summary="",
            branch=found.branch,
            branch_calls=found.calls,
            variables=found.variables,
        )
        return verdict, core


def test_who_is_elsewhere_in_the_region_has_values() -> None:
    for arrived in (0, 1, 3):
        verdict, core = parted(arrived, 2)
        assert verdict.branch is not None
        (number,) = (each for each in verdict.variables if each.name == "number")
        assert number.is_read and not number.unavailable
        assert [value.text for value in (*number.arrived, *number.absent)] == [str(arrived), "2"]
        assert list(wrong(core, verdict)) == []


def test_of_many_threads_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "_THREADS", 2)
    verdict = first_of(hung(WHYS["barrier_mismatch-branch"], "clang", LLVM))
    (rank,) = verdict.variables
    assert sum(len(value.threads) for value in rank.arrived) == 2
    assert rank.unavailable["arrived"] == "only 2 of 3 threads were looked at"


# Branches, compared with a search by single instructions


def random_code(choose: random.Random, size: int) -> list[Instruction]:
    found = []
    for at in range(size):
        flow = choose.choice(["next"] * 4 + ["branch"] * 3 + ["jump", "call", "call", "return", "computed"])
        target = choose.randrange(-1, size) if flow in ("branch", "jump") else None
        found.append(Instruction(at, 1, flow, target if target != -1 else 1000))
    return [*found[:-1], Instruction(size - 1, 1, "return")]


def called(found: Instruction) -> Called:
    return Called("GOMP_barrier" if found.address % 3 == 0 else "", ends=found.address % 7 == 1)


def following(code: list[Instruction], at: int) -> list[int]:
    """Return the places to which an instruction leads."""
    found, ways = code[at], []
    if found.flow == "computed":
        ways.append(ANYWHERE)
    elif found.flow == "return":
        ways.append(EXIT)
    elif found.target is not None:
        ways.append(found.target if found.target < len(code) else EXIT)
    if found.flow in ("next", "branch", "call"):
        ways.append(STOP if found.flow == "call" and called(found).ends else at + 1)
    return ways


def reached(code: list[Instruction], start: int, goals: tuple[int | None, ...], stop: int) -> set[int]:
    seen, waiting, found = {start}, [start], set()
    while waiting:
        at = waiting.pop()
        if at < 0 or at in goals:
            found.add(at)
        elif at != stop and not (code[at].flow == "call" and called(code[at]).name):
            waiting += [each for each in following(code, at) if each not in seen]
            seen.update(following(code, at))
    return found


@pytest.mark.parametrize("part", range(4))
def test_branches_are_those_that_a_search_finds(part: int) -> None:
    count = 0
    for seed in range(part, 4_000 if FULL else 800, 4):
        choose = random.Random(seed)
        size = choose.randint(4, 24)
        code = random_code(choose, size)
        ways = Ways(ListedCode(0, dict(enumerate(code)), called))
        known = sorted(ways.instructions)
        calls = [at for at in known if code[at].flow == "call"]
        for to, other in product(calls, [*known, EXIT, STOP, None]):
            if to == other:
                continue
            true = set()
            for at in known:
                sides = following(code, at)
                if code[at].flow != "branch" or len(set(sides)) != 2:
                    continue
                ends = [reached(code, side, (to, other), at) for side in sides]
                for one, another in (ends, ends[::-1]):
                    if to in one and not {to, ANYWHERE} & another and (other is None or other in another):
                        true.add(at)
            ours = [branch.address for branch in ways.parting(to, other)]
            assert len(ours) == len(set(ours))
            assert set(ours) == true, (seed, to, other)
            count += len(ours)
    assert count > 100
