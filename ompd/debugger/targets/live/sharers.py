"""Other processes with the memory of a process: clone(2) with CLONE_VM and without CLONE_THREAD makes them."""

from __future__ import annotations

from pathlib import Path

from ompd.debugger.targets.live import ptrace


def find_sharers(process_id: int, thread: int) -> list[int] | None:
    """Return the numbers of other processes that have the same memory, None if the kernel does not compare any.

    All processes are compared that this one sees and may look at: each takes some microseconds.

    :param thread: a thread of the process that has not ended, by its native id
    """
    if not ptrace.has_same_memory(thread, thread):
        return None
    others = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return sorted(other for other in others if other != process_id and ptrace.has_same_memory(thread, other))
