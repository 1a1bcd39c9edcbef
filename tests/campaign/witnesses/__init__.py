"""Witnesses: independent sources about the same moment of any program: gdb, the kernel, and an OMPT tool within the
program. Each reports where an answer of ``ompd`` contradicts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.campaign.witnesses import gdb, proc

__all__ = ["broken"]


def broken(target: int | Path, executable: Path, answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return where answers contradict gdb or the kernel; nothing for right answers.

    :param target: the id of a process that is stopped by SIGSTOP, or a core
    :param answers: by command, as ``--json`` has them: any of ``threads``, ``parallel``, ``tasks``, ``stack``, and
        ``raw``, which is ``stack --raw``
    :raises Missing: if there is no gdb
    """
    found = proc.broken(target, answers) if isinstance(target, int) else []
    return found + gdb.broken(gdb.stacks(target, executable), executable, answers)
