"""Records of ``ompd doctor``: obstacles to better answers, and dangers to the process itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.openmp import Answer
from ompd.records import record


@record
class LoadChain(Record):
    """Why a module is in the process.

    ``module`` is the target's name for the module. ``modules`` is a shortest chain of files that ends with the module;
    each file needs the next one (``DT_NEEDED``). ``begins`` is the origin of the first file: ``program`` for the
    program itself, ``preload`` for a file loaded before the program's libraries (LD_PRELOAD), ``dlopen`` for a file
    loaded while the program ran. ``needed_by`` are all modules that need the module directly.
    """

    module: str
    begins: str | None
    modules: tuple[str, ...]
    needed_by: tuple[str, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class FindingRecord(Record):
    """One thing that keeps answers from being better, or that endangers the process.

    ``kind`` identifies the finding for scripts; ``area`` is ``target``, ``files``, ``process``, ``machine`` or
    ``installation``. ``severity`` is ``error`` if a query has no answer or the process may fail, ``warning`` if answers
    are worse or the process is slower, else ``note``. ``subject`` is a file, a thread or a setting. ``finding`` is the
    observation, ``consequence`` its effect, ``remedy`` the exact command or setting that helps, None if there is none.
    ``chains`` explain why the modules that the finding is about are loaded.
    """

    kind: str
    severity: str
    subject: str
    finding: str | None
    consequence: str
    remedy: str | None
    area: str = "target"
    chains: tuple[LoadChain, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class DoctorAnswer(Answer[FindingRecord]):
    """The findings, the worst ones first in each area, and what was examined without a finding (``in_order``).

    Without a target the answer is about this machine: ``target.kind`` is ``machine``.
    """

    in_order: tuple[str, ...] = ()
