"""Records of ``ompd triage``: groups of targets with the same thing wrong, and the tree of their stacks."""

from __future__ import annotations

from ompd.records import record


@record
class RankSet:
    """Ranks of one job of MPI, in order. ``job`` is the job's name, None if the environment does not name it."""

    job: str | None
    ranks: tuple[int, ...]


@record
class TriageFrame:
    """A user function that threads of a group are in. Its fields are those of the target that represents the group.

    ``loop`` is the first line of the innermost loop around ``line`` if the group ignores the exact line in that loop.
    ``depth`` is the number of repetitions of the frame, or of a sequence of frames with it; 1 if it does not repeat.
    ``construct`` is the kind of the OpenMP construct with this code (``parallel``, ``task`` …), None for code of the
    function itself.
    """

    function: str | None
    file: str | None
    line: int | None
    loop: int | None = None
    depth: int = 1
    construct: str | None = None


@record
class TriageRecord:
    """Targets with the same thing wrong.

    ``id`` is computed from ``verdict`` and the normalised frames only, so it identifies the group in every triage. Its
    first part is the version of the computation. ``verdict`` is a verdict of ``ompd why``, ``crash`` (a thread failed),
    or ``no_openmp`` (no OpenMP runtime, no failure). ``summary`` is a sentence about the target that represents the
    group, the first one by name; ``stack`` are that target's frames, innermost first. ``joined`` describes the
    differences of targets that are in one group although their stacks differ slightly. ``baseline`` is ``new``,
    ``grown``, ``fewer`` or ``same`` compared to an earlier triage, None without one. ``before`` is the number of
    targets that the group had in that triage.
    """

    id: str
    verdict: str
    summary: str
    targets: tuple[str, ...]
    ranks: tuple[RankSet, ...]
    stack: tuple[TriageFrame, ...]
    joined: tuple[str, ...] = ()
    baseline: str | None = None
    before: int | None = None


@record
class FailedTarget:
    """A target without an answer, and the reason why it has none."""

    target: str
    reason: str


@record
class GoneGroup:
    """A group of the earlier triage that this triage does not have. ``before`` is the number of targets that it had."""

    id: str
    verdict: str
    summary: str
    before: int


@record
class TreeNode:
    """A function on stacks of threads, with all targets and ranks whose threads have the same callers.

    ``id`` is the number of the node, ``parent`` the number of its caller's node, None for an outermost function.
    ``targets`` counts targets, ``threads`` counts threads by their role: ``initial`` (outside of any region),
    ``primary``, ``worker``, ``idle`` (a worker without work) or ``other`` (no thread of OpenMP). ``ends`` counts the
    threads whose stack ends here, also by role.
    """

    id: int
    parent: int | None
    function: str | None
    file: str | None
    line: int | None
    construct: str | None
    targets: int
    ranks: tuple[RankSet, ...]
    threads: dict[str, int]
    ends: dict[str, int]


@record
class RankWait:
    """Ranks that are in one call of MPI, and the ranks that the call waits for (``missing``). Those are all other ranks
    of the call's communicator, or the one rank that the call names. ``unknown`` is the reason why the missing ranks are
    not known, None if they are.
    """

    call: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    unknown: str | None = None


@record
class RankEnd:
    """Ranks on which others of their job depend in the end.

    ``kind`` is ``rank`` for a rank that waits for no other rank. Several such ranks are one end if they have the same
    problem and the same ranks wait for them. ``cycle`` is for ranks that wait for each other in their calls of MPI,
    ``not_inspected`` for ranks without a result. ``waiting`` are the ranks that depend on ``ranks``. ``verdict`` and
    ``summary`` are set for ``rank``, None for other kinds.
    """

    ranks: tuple[int, ...]
    kind: str
    waiting: tuple[int, ...]
    verdict: str | None = None
    summary: str | None = None


@record
class JobRecord:
    """The ranks of one job of MPI. ``waits`` says which of them wait for which, ``ends`` are the ranks where these
    dependences end, those on which most ranks depend first.

    ``size`` is the number of ranks in the job, None if no environment has it. ``ranks`` are the inspected ranks.
    ``more_ends`` is the number of ends beyond ``ends``.
    """

    job: str | None
    size: int | None
    ranks: tuple[int, ...]
    waits: tuple[RankWait, ...]
    ends: tuple[RankEnd, ...]
    more_ends: int = 0


@record
class TriageAnswer:
    """The groups of targets, outliers first.

    ``failed`` are the targets without an answer, ``gone`` the groups that only the earlier triage has. ``tree`` is the
    tree of all stacks; a caller's node comes before the nodes of the functions that it calls. ``jobs`` are jobs of MPI
    whose ranks wait for each other. ``inspected`` is the number of targets with an answer. ``key`` is the version of
    the computation of the groups' ids.
    """

    rows: tuple[TriageRecord, ...]
    failed: tuple[FailedTarget, ...]
    gone: tuple[GoneGroup, ...]
    tree: tuple[TreeNode, ...]
    jobs: tuple[JobRecord, ...]
    inspected: int
    key: int
    complete: bool
    warnings: tuple[str, ...]
