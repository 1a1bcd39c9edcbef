"""A good core with changed words in the runtime's structures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import OmpdError
from ompd.model import Answer
from ompd.questions import icvs, regions, tasks, threads
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import stopped

QUESTIONS = {"threads": threads.ask, "parallel": regions.ask, "tasks": tasks.ask, "icvs": icvs.ask}
MAX_READS = 60_000


class Overlaid(CoreTarget):
    """A core with changed bytes at some addresses; it counts reads."""

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
    """A core to damage, and the addresses of its structures."""

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
            session.process.close()  # the target stays open for the next session


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
