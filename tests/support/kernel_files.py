"""Trees of files as the kernel shows them in ``/proc`` and ``/sys/fs/cgroup``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ompd.machine.supply.files import Roots

STATUS = (
    "Name:\tslow\nState:\tR (running)\nUid:\t1000\t1000\t1000\t1000\nVmSize:\t  40960 kB\nCapEff:\t0000000000000000\n"
)


def stat_of(program: str, *, parent: int = 1, ticks: int = 0, threads: int = 1, faults: int = 0, start: int = 5) -> str:
    """Return the text of ``stat`` of a process or thread."""
    fields = ["R", parent, 0, 0, 0, 0, 0, 0, 0, faults, 0, ticks, 0, 0, 0, 0, 0, threads, 0, start, *[0] * 30]
    return f"7 ({program}) {' '.join(map(str, fields))}\n"


def written(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, and return the folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def thread_files(process_id: int, thread: int, *, ran: int, delayed: int, cpus: str, faults: int = 0) -> dict[str, str]:
    """Return the files of one thread, in ``/proc``."""
    folder = f"{process_id}/task/{thread}"
    return {
        f"{folder}/schedstat": f"{ran} {delayed} 9\n",
        f"{folder}/stat": stat_of("slow", faults=faults),
        f"{folder}/status": f"{STATUS}Cpus_allowed_list:\t{cpus}\n",
    }


def roots_of(folder: Path) -> Roots:
    """Return the two folders of a tree."""
    return Roots(folder / "proc", folder / "groups")
