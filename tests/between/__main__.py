"""``python -m tests.between CORE`` prints a thread and the layout of fields, as JSON for :mod:`tests.between.stops`."""

from __future__ import annotations

import json
import sys

from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session

TEAM = ("t_parent", "t_level", "t_nproc", "t_threads", "t_implicit_task_taskdata")


def main(core: str) -> None:
    with Session.open_core(core) as session:
        space = session.runtimes[0].space
        assert isinstance(space, Runtime)
        (thread,) = (each for each in space.threads() if each.thread_type() == "initial")
        layouts = {
            "kmp_base_info_t": ("th_team", "th_current_task"),
            "kmp_base_team_t": TEAM,
            "kmp_taskdata_t": ("td_team",),
        }
        fields = {name: space.layouts[struct].field(name) for struct, names in layouts.items() for name in names}
        told = {name: (field.offset, field.size) for name, field in fields.items()}
        print(json.dumps({"thread": thread.address, "size of a task": space.task_layout.size, **told}))


main(sys.argv[1])
