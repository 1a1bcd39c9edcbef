"""A core whose runtime structures were overwritten: walks end, what is damaged is said to be, the rest is still right.

Bytes are laid over a good core in memory; where they go is found by the runtime's own published offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import OmpdError
from ompd.model import Answer
from ompd.questions import icvs, regions, runtimes, tasks, threads
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import stopped
from tests.support.products import sample

QUESTIONS = {"threads": threads.ask, "parallel": regions.ask, "tasks": tasks.ask, "icvs": icvs.ask}
MAX_READS = 60_000


class Overlaid(CoreTarget):
    """A core with other bytes in some places, which counts what is read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.overlay: dict[int, bytes] = {}
        self.reads = 0

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        assert self.reads < MAX_READS, "a walk does not end"
        data = super().read(address, size)
        for start, patch in self.overlay.items():
            if start < address + size and address < start + len(patch):
                low, high = max(start, address), min(start + len(patch), address + size)
                data = data[: low - address] + patch[low - start : high - start] + data[high - address :]
        return data


class Victim:
    """One core that is being damaged, and where its structures are."""

    def __init__(self, program: str, mode: str = "debug") -> None:
        self.stopped = stopped(program, mode=mode)
        self.target = Overlaid(str(self.stopped.core))
        with Session.open_core(self.stopped.core) as session:
            space = session.runtimes[0].space
            assert isinstance(space, Runtime)
            self.symbols = {name: space.global_address(name) for name in ("__kmp_threads", "__kmp_threads_capacity")}
            self.symbols["ompd_dll_locations"] = space.global_address("ompd_dll_locations")
            self.layouts = dict(space.layouts)
            self.team_at = {team.address: team for team in space.live_teams()}
            self.threads = [thread.address for thread in space.threads()]
            self.thread_layout = space.thread_layout
            self.team_layout = space.team_layout
            deepest = max(self.team_at.values(), key=lambda team: team.t_level)
            self.team = deepest.address
            self.chain = [team.address for team in deepest.chain]
            self.tasks = list(space.current_tasks)
            self.displaced = [node.address for node in deepest._displaced]

    def write(self, address: int, value: int, size: int = 8) -> None:
        self.target.overlay[address] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def team_field(self, name: str, value: int, team: int | None = None) -> None:
        where = self.team_layout.fields[name]
        self.write((team or self.team) + where.offset, value, where.size)

    def task_field(self, name: str, value: int, task: int) -> None:
        where = self.layouts["kmp_taskdata_t"].fields[name]
        self.write(task + where.offset, value, where.size)

    def locations_without_end(self) -> None:
        self.write(self.symbols["ompd_dll_locations"], self.threads[0])
        for place in range(100):
            self.write(self.threads[0] + 8 * place, self.symbols["ompd_dll_locations"])

    def ask(self, question: str) -> Answer[Any] | OmpdError:
        self.target.reads = 0
        session = Session(self.target, FileFinder())
        try:
            return QUESTIONS[question](session)
        except OmpdError as error:
            return error
        finally:
            session.process.close()  # and not the target, of which more is asked


DAMAGES: dict[str, Callable[[Victim], None]] = {
    "t_parent is itself": lambda v: v.team_field("t_parent", v.team),
    "t_parent makes a ring": lambda v: v.team_field("t_parent", v.team, v.chain[-2]),
    "t_parent leads nowhere": lambda v: v.team_field("t_parent", 0x10),
    "t_nproc is negative": lambda v: v.team_field("t_nproc", -3),
    "t_nproc is absurd": lambda v: v.team_field("t_nproc", 1 << 30),
    "t_nproc is zero": lambda v: v.team_field("t_nproc", 0),
    "t_level is absurd": lambda v: v.team_field("t_level", 1 << 30),
    "t_level is negative": lambda v: v.team_field("t_level", -1),
    "t_level is below the parent's": lambda v: v.team_field("t_level", 0),
    "t_active_level is above t_level": lambda v: v.team_field("t_active_level", 77),
    "t_threads is null": lambda v: v.team_field("t_threads", 0),
    "t_threads leads nowhere": lambda v: v.team_field("t_threads", 0xDEAD0000),
    "t_threads are no threads": lambda v: v.team_field("t_threads", v.team),
    "th_team leads nowhere": lambda v: v.write(v.threads[0] + v.thread_layout.fields["th_team"].offset, 0x1000),
    "th_team is a thread": lambda v: v.write(v.threads[0] + v.thread_layout.fields["th_team"].offset, v.threads[1]),
    "th_current_task is null": lambda v: v.write(v.threads[0] + v.thread_layout.fields["th_current_task"].offset, 0),
    "th_current_task leads nowhere": lambda v: v.write(
        v.threads[0] + v.thread_layout.fields["th_current_task"].offset, 0xFFFF_FFFF_FFFF_FFF0
    ),
    "the threads' array is null": lambda v: v.write(v.symbols["__kmp_threads"], 0),
    "the threads' array leads nowhere": lambda v: v.write(v.symbols["__kmp_threads"], 0xABC000),
    "the capacity is absurd": lambda v: v.write(v.symbols["__kmp_threads_capacity"], 0x7FFFFFFF, 4),
    "the capacity is negative": lambda v: v.write(v.symbols["__kmp_threads_capacity"], -1, 4),
    "ompd_dll_locations leads nowhere": lambda v: v.write(v.symbols["ompd_dll_locations"], 0x30),
    "ompd_dll_locations does not end": lambda v: v.locations_without_end(),
    "td_parent is itself": lambda v: v.task_field("td_parent", v.tasks[0], v.tasks[0]),
    "td_parent leads nowhere": lambda v: v.task_field("td_parent", 8, v.tasks[0]),
    "td_team is null": lambda v: v.task_field("td_team", 0, v.tasks[0]),
    "td_team is a task": lambda v: v.task_field("td_team", v.tasks[0], v.tasks[0]),
    "td_flags are all set": lambda v: v.task_field("td_flags", 0xFFFFFFFF, v.tasks[0]),
}


# What a runtime looks like that has shut down.
HEALTHY = {"the threads' array is null"}
# What cannot be told from a healthy state.
PLAUSIBLE = {"td_flags are all set"}


def outcomes(victim: Victim) -> Iterator[tuple[str, Answer[Any] | OmpdError]]:
    for question in QUESTIONS:
        yield question, victim.ask(question)


@pytest.mark.parametrize(("program", "damage"), sample(product(["nested", "serialized_three"], DAMAGES)))
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
