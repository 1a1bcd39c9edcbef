"""Records of ``ompd doctor``: what keeps answers from being better, and what endangers the process itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.openmp import Answer
from ompd.records import record


@record
class LoadChain(Record):
    """Why a module is in the process.

    ``module`` is the target's name of it. ``modules`` are the files from where the chain begins to the module itself,
    each of which needs the next one (``DT_NEEDED``); of several chains a shortest one. ``begins`` is ``program`` if
    that is the program, else how the first one came: ``preload`` before the program's libraries, as LD_PRELOAD has it,
    ``dlopen`` while the program ran. ``needed_by`` are all modules that need the module directly.
    """

    module: str
    begins: str | None
    modules: tuple[str, ...]
    needed_by: tuple[str, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class FindingRecord(Record):
    """One thing that keeps answers from being better, or that endangers the process.

    ``kind`` identifies it for scripts; ``area`` is ``target``, ``files``, ``process``, ``machine`` or ``installation``.
    ``severity`` is ``error`` if something cannot be answered or the process may fail by it, ``warning`` if answers are
    worse or the process is slower for it, else ``note``. ``subject`` is what it is about: a file, a thread, a setting.
    ``finding`` is what was found, ``consequence`` what follows, ``remedy`` the exact command or setting that mends it,
    None if nothing can be done. ``chains`` say for modules why they are there.
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
