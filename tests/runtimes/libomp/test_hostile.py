"""A core whose runtime structures were overwritten: walks end, ompd reports the damage, and the other rows are right.

The tests overlay bytes on a good core in memory, at offsets that the runtime publishes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from ompd.debugger.files.finder import FileFinder
from ompd.errors import OmpdError
from ompd.model import Answer
from ompd.questions import runtimes
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support.hostile import DAMAGES, QUESTIONS, Victim
from tests.support.products import sample

# Damage that looks like a runtime that has shut down.
HEALTHY = {"the threads' array is null"}
# Damage that looks like a healthy state.
PLAUSIBLE = {"td_flags are all set"}


def outcomes(victim: Victim) -> Iterator[tuple[str, Answer[Any] | OmpdError]]:
    for question in QUESTIONS:
        yield question, victim.ask(question)


@pytest.mark.parametrize(("program", "damage"), sample(product(["nested", "serialized_three"], DAMAGES)))
@pytest.mark.quick(
    "nested-t_level is below the parent's",
    "nested-the threads' array leads nowhere",
    "nested-td_parent leads nowhere",
    "serialized_three-t_threads leads nowhere",
    "serialized_three-th_team leads nowhere",
    "serialized_three-the threads' array is null",
)
def test_damage_is_told_and_ends(program: str, damage: str) -> None:
    victim = Victim(program)
    intact = {question: victim.ask(question) for question in QUESTIONS}
    DAMAGES[damage](victim)
    for question, outcome in outcomes(victim):
        before = intact[question]
        assert isinstance(before, Answer) and before.complete
        if isinstance(outcome, OmpdError):
            assert str(outcome)
        elif outcome.rows != before.rows and damage not in PLAUSIBLE:
            said = outcome.warnings and (not outcome.complete or damage in HEALTHY)
            assert said, f"{question} tells something else and does not say why"


@pytest.mark.parametrize(
    "damage",
    [
        "t_parent is itself",
        "t_parent makes a ring",
        "t_nproc is absurd",
        "t_level is absurd",
        "t_threads leads nowhere",
    ],
)
def test_damage_to_one_team_leaves_the_others_rows(damage: str) -> None:
    victim = Victim("two_initial")
    good = [row for row in victim.ask("threads").rows if row.level == 1]  # type: ignore[union-attr]
    DAMAGES[damage](victim)
    answer = victim.ask("threads")
    assert isinstance(answer, Answer) and not answer.complete and answer.warnings
    hurt = f"{victim.team:#x}"
    others = [row for row in good if row.parallel != hurt]
    assert others and all(row in answer.rows for row in others)
    assert len(answer.rows) == len(victim.target.thread_ids())


def test_a_ring_of_displaced_regions_ends() -> None:
    victim = Victim("serialized_three")
    parent = victim.layouts["ompt_lw_taskteam_t"].fields["parent"]
    victim.write(victim.displaced[-1] + parent.offset, victim.displaced[0])
    answer = victim.ask("tasks")
    assert isinstance(answer, Answer) and not answer.complete
    assert any("ompt_lw_taskteam_t" in warning for warning in answer.warnings)


def test_names_of_libraries_that_do_not_end_are_refused() -> None:
    victim = Victim("no_region")
    DAMAGES["ompd_dll_locations does not end"](victim)
    session = Session(victim.target, FileFinder())
    answer = runtimes.ask(session)
    assert not answer.complete
    assert answer.rows[0].dll_locations is None and "dll_locations" in answer.rows[0].unavailable


def test_warnings_do_not_drown_the_answer() -> None:
    victim = Victim("many")
    for thread in victim.threads:
        victim.write(thread + victim.thread_layout.fields["th_team"].offset, 0x1000)
    answer = victim.ask("threads")
    assert isinstance(answer, Answer) and not answer.complete
    assert len(answer.warnings) <= 51 and len(answer.rows) == len(victim.target.thread_ids())


@pytest.mark.parametrize("size", [0, 3, 16, 2000, (1 << 64) - 1])
def test_absurd_published_sizes_are_refused(size: int) -> None:
    victim = Victim("nested")
    with Session.open_core(victim.stopped.core) as session:
        space = session.runtimes[0].space
        assert isinstance(space, Runtime)
        address = space.global_address("ompd_sizeof__kmp_internal_control_t__default_device")
    victim.write(address, size)
    for question, outcome in outcomes(victim):
        if question == "icvs":
            assert isinstance(outcome, OmpdError) or outcome.warnings
