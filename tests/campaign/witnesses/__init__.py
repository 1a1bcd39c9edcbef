"""Witnesses: others that can tell something of the same moment, whatever the program is: gdb, the kernel, and a tool of
OMPT within the program. Each says where an answer of ``ompd`` contradicts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.campaign.witnesses import gdb, proc

__all__ = ["broken"]


def broken(target: int | Path, executable: Path, answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return where answers contradict gdb or the kernel, nothing for right ones.

    :param target: the id of a process that is stopped by SIGSTOP, or a core
    :param answers: by command, as ``--json`` has them: ``threads``, ``parallel``, ``tasks``, ``stack``, or some of
        them, and ``raw``, which is ``stack --raw``
    :raises Missing: if there is no gdb
    """
    found = proc.broken(target, answers) if isinstance(target, int) else []
    return found + gdb.broken(gdb.stacks(target, executable), executable, answers)
