"""The branch that kept a member of the team from a barrier, and the variables that it depends on."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.analysis.moment import is_at_barrier_inside
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.contract.process import Frame
from ompd.errors import OmpdError
from ompd.model import DifferingVariable, DistinctValue, LocalRecord, Place, StackFrame, ThreadRecord, VerdictRecord
from ompd.model.kinds import Kind, VerdictKind
from ompd.questions import places, stacks
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.flow.branches import Branch
    from ompd.debugger.flow.functions import Functions

_KINDS = frozenset((VerdictKind.BARRIER_ABSENT, VerdictKind.BARRIER_MISMATCH, VerdictKind.ORPHANED_WORKSHARING))
_VERDICTS = 3  # how many of the first verdicts are looked at
_THREADS = 32  # threads whose variables are read, of each side
_OTHERS = 12  # variables besides those that the branch reads
_MAX_FRAMES = 64
_ENDED = "ended"
_ELSEWHERE = "not in {}"
_OF_SOME = "only {} of {} threads were looked at"


_Frames = Mapping[tuple[int | None, int | None, int | None], list[StackFrame]]
"""Frames as the source has them, by their thread, address and frame address."""


_Key = tuple[int, str, "int | None"]
"""A variable: how many functions that were inlined are around its own, its name and its line."""


class _Left(NamedTuple):
    # The frame of a function that ended by a jump. It is no longer on the stack.
    pc: int
    call_site: int
    sp: int = 0
    cfa: int | None = None
    registers: Mapping[int, int] = {}
    function_start: int | None = None
    is_signal_frame: bool = False
    how: str = "tail-call"
    guessed: bool = False


class _Side(NamedTuple):
    # Threads, with their frames of the region's code, outermost first; None for one that has ended.
    frames: Mapping[int | None, Sequence[Frame] | None]
    size: int


_Read = frozenset[tuple[str, "int | None"]]
"""Variables by name and line."""


class _Candidate(NamedTuple):
    # A branch, the depth of the frame in whose function it is, and the variables and functions on which it depends.
    branch: Branch
    depth: int
    read: _Read
    calls: tuple[str, ...]


class Branches:
    """The branches at which threads parted in front of barriers, at one stop.

    :param rows: the threads of the same stop
    """

    def __init__(self, session: Session, rows: Sequence[ThreadRecord]) -> None:
        self._session = session
        self._rows = {row.native_thread_id: row for row in rows if row.native_thread_id is not None}
        self._kept: dict[tuple[tuple[int, ...], tuple[int | None, ...]], Parted | None] = {}

    def of_primary_threads(self) -> dict[int, str]:
        """Return primary threads that wait at a barrier behind a branch which only they take, with the branch's place.

        The keys are native ids. Only the first few teams are examined whose threads wait at several barriers.
        """
        places_of: dict[int, str] = {}
        barriers: dict[str | None, set[tuple[int, ...] | None]] = {}
        for row in self._rows.values():
            if row.wait is not None and row.wait.kind is Kind.BARRIER:
                barriers.setdefault(row.parallel, set()).add(row.wait.missing)
        primary = [
            (native, row.wait.missing)
            for native, row in self._rows.items()
            if row.thread_num == 0 and row.wait is not None and row.wait.missing and is_at_barrier_inside(row)
            if len(barriers[row.parallel]) > 1
        ]
        for native, missing in primary[:_VERDICTS]:
            parted = self._parted((native,), missing)
            if parted is not None and parted.is_of_primary:
                branch = parted.branch
                places_of[native] = f"{(branch.file or '').rpartition('/')[2]}:{branch.line}"
        return places_of

    def added_to(self, verdicts: Sequence[VerdictRecord]) -> tuple[VerdictRecord, ...]:
        """Return the verdicts, the first ones with the branch in front of their barrier."""
        return tuple(
            self._with_branch(verdict) if number < _VERDICTS and verdict.kind in _KINDS else verdict
            for number, verdict in enumerate(verdicts)
        )

    def _with_branch(self, verdict: VerdictRecord) -> VerdictRecord:
        arrived, absent = self._sides(verdict)
        parted = self._parted(tuple(arrived), tuple(absent)) if arrived and absent else None
        if parted is None:
            return verdict
        return replace(verdict, branch=parted.branch, branch_calls=parted.calls, variables=parted.variables)

    def _parted(self, arrived: tuple[int, ...], absent: tuple[int | None, ...]) -> Parted | None:
        key = arrived, absent
        if key not in self._kept:
            try:
                self._kept[key] = Parting(self._session, self._rows, arrived, absent).parted()
            except OmpdError:
                self._kept[key] = None  # code that cannot be followed shows no branch
        return self._kept[key]

    def _sides(self, verdict: VerdictRecord) -> tuple[Sequence[int], Sequence[int | None]]:
        # The threads at a barrier inside of the region, and those that are missing there. A missing thread is None if
        # the process does not have it.
        for link in verdict.cycle:
            row = self._rows.get(link.thread or 0)
            if row is None or row.wait is None or not is_at_barrier_inside(row):
                continue
            others = [n for other in verdict.cycle if other is not link for n in (other.threads or (other.thread,))]
            missing = row.wait.missing if row.wait.missing is not None else others
            return [native for native in link.threads if native in self._rows], list(missing)
        return (), ()


def _is_inside(row: ThreadRecord) -> bool:
    return row.where is not None and row.at_end_of is None


class Parted(NamedTuple):
    """A branch at which threads parted: its place, the functions that it calls, and the variables of its function.

    ``is_of_primary`` is whether only the primary thread takes the way to the barrier.
    """

    branch: Place
    calls: tuple[str, ...]
    variables: tuple[DifferingVariable, ...]
    is_of_primary: bool


class Parting:
    """Finds the branch at which threads parted.

    :param arrived: native ids of threads at a barrier
    :param absent: native ids of threads that did not come
    """

    def __init__(
        self, session: Session, rows: Mapping[int, ThreadRecord], arrived: Sequence[int], absent: Sequence[int | None]
    ) -> None:
        self._session, self._rows = session, rows
        self._functions: Functions = places.followed_functions(session)
        chosen = arrived[:_THREADS], absent[:_THREADS]
        wanted = {native for side in chosen for native in side if native is not None and native in rows}
        self._records = self._stacks(wanted)
        self._arrived = _Side({native: self._frames(native) for native in chosen[0]}, len(arrived))
        self._absent = _Side({native: self._frames(native) for native in chosen[1]}, len(absent))

    def _frames(self, native: int | None) -> Sequence[Frame] | None:
        # The frames of the innermost construct's code, without those of functions of the runtime and the C library that
        # it called.
        row = self._rows.get(native) if native is not None else None
        if row is None or native is None:
            return None
        if not _is_inside(row):
            return ()
        inside: list[Frame] = []
        try:
            frames = self._session.process.stacks.stack(native).frames
        except OmpdError:
            return ()
        for number, frame in enumerate(frames):
            if number == _MAX_FRAMES:
                return ()  # frames are compared from the outermost one, which is not among these
            owner = places.code_owner(self._session, frame.call_site)
            if owner == RUNTIME and inside:
                break
            if inside or owner not in (RUNTIME, SYSTEM):
                inside.append(frame)
        return self._with_left(native, inside[::-1])

    def _stacks(self, wanted: Container[int]) -> _Frames:
        records: dict[tuple[int | None, int | None, int | None], list[StackFrame]] = {}
        for row in stacks.ask(self._session, threads=wanted, locals=True).rows:
            for frame in row.frames:
                records.setdefault((frame.thread, frame.address, frame.cfa), []).append(frame)
        return records

    def _with_left(self, native: int, frames: Sequence[Frame]) -> Sequence[Frame]:
        # Adds the functions that ended by jumps, each inside of its caller, if the jumps are known.
        left: dict[tuple[int | None, int | None], list[Frame]] = {}
        jumped: list[Frame] = []
        is_known = True
        for (thread, address, cfa), rows in self._records.items():
            if thread != native or rows[0].kind != USER:
                continue
            if rows[0].how == "tail-call":
                is_known = is_known and address is not None
                jumped.append(_Left(address or 0, address or 0))
                continue
            left[address, cfa] = jumped[::-1] if is_known else []
            jumped, is_known = [], True
        if not frames:
            return jumped[::-1] if is_known and not left else []
        return [each for frame in frames for each in (frame, *left.get((frame.pc, frame.cfa), ()))]

    def parted(self) -> Parted | None:
        """Return the branch and its variables, None if there is none or it is unknown."""
        own = next((frames for frames in self._arrived.frames.values() if frames), None)
        if own is None:
            return None
        rows = self._records
        best: tuple[_Candidate, tuple[DifferingVariable, ...]] | None = None
        for candidate in self._branches(own):
            variables = tuple(self._variables(own, candidate, rows))
            if best is None:
                best = candidate, variables
            if not self._is_contradicted(own, candidate, variables, rows):
                best = candidate, variables
                break
        if best is None:
            return None
        candidate, variables = best
        is_of_primary = self._is_of_primary(own[candidate.depth], candidate.branch)
        return Parted(self._place(candidate, rows), candidate.calls, variables, is_of_primary)

    def _is_of_primary(self, frame: Frame, branch: Branch) -> bool:
        # Whether the branch compares the thread's number with 0, and only the primary thread is at the barrier.
        numbers, others = (
            {self._rows[native].thread_num for native in side.frames if native is not None and native in self._rows}
            for side in (self._arrived, self._absent)
        )
        try:
            routine = self._functions.branches.tested(frame, branch)
        except OmpdError:
            return False
        return numbers == {0} and 0 not in others and routine == "omp_get_thread_num"

    # The branch

    def _branches(self, own: Sequence[Frame]) -> Iterator[_Candidate]:
        other = next(iter(self._absent.frames.values()))
        branches = self._functions.branches
        depth = self._depth(own, other or ())
        met = other[depth] if other and depth < len(other) and self._is_same(own, other, depth) else None
        depths: Sequence[int] = range(len(own) - 1, depth - 1, -1)
        if met is not None and depth < len(own) and not branches.leads_on(own[depth], met):
            depths = (depth,)  # it has never come into the functions inside of this one
        for at in depths:
            inner = own[at + 1] if at + 1 < len(own) else None
            if depths != (depth,) and self._functions.has_jumped(own[at], inner):
                return  # they may have parted in a function that has left the stack
            try:
                branches_here = branches.parting(own[at], met if at == depth else None, has_returned=other is not None)
            except OmpdError:
                return  # they may have parted in this function
            for number, branch in enumerate(branches_here):
                yield _Candidate(branch, at, *self._condition(own[at], branch, branches_here[number + 1 :]))

    def _depth(self, one: Sequence[Frame], other: Sequence[Frame]) -> int:
        # The number of outermost frames that are at the same places.
        count = 0
        for mine, yours in zip(one, other, strict=False):
            if mine.call_site != yours.call_site:
                break
            count += 1
        return count

    def _is_same(self, one: Sequence[Frame], other: Sequence[Frame], depth: int) -> bool:
        # Whether the frames at a depth belong to the same function, called from the same place.
        if depth >= len(one) or depth >= len(other) or self._depth(one[:depth], other[:depth]) < depth:
            return False
        branches = self._functions.branches
        try:
            return branches.entry(one[depth]) == branches.entry(other[depth])
        except OmpdError:
            return False

    def _condition(self, frame: Frame, branch: Branch, others: Iterable[Branch]) -> tuple[_Read, tuple[str, ...]]:
        # The variables and the called functions on which the branch depends, or another branch of its line does:
        # a && b makes two branches.
        process = self._session.process
        line = process.places.line_of(branch.address)

        def is_earlier(at: int) -> bool:
            file, number = process.places.line_of(at)
            return file == line[0] and number is not None and line[1] is not None and number < line[1]

        read: set[tuple[str, int | None]] = set()
        calls: dict[str, None] = {}
        for number, each in enumerate((branch, *others)):
            if number and (line[1] is None or process.places.line_of(each.address) != line):
                continue
            try:
                condition = self._functions.branches.read_by(
                    frame,
                    each,
                    lambda at: line[1] is not None and process.places.line_of(at) == line,
                    is_earlier,
                    lambda at: process.parameters(frame, at),
                )
                read.update(process.variables_read(frame, condition.reads))
            except OmpdError:
                continue
            calls.update(dict.fromkeys(self._name(called) for called in condition.calls))
        return frozenset(read), tuple(calls)

    def _name(self, called: int | None) -> str:
        if called is None:
            return "a function by a pointer"
        process = self._session.process
        name = process.places.source_frames(called)[-1].function or process.places.locate(called).symbol
        return name or f"{called:#x}"

    def _place(self, candidate: _Candidate, rows: _Frames) -> Place:
        process, address = self._session.process, candidate.branch.address
        function = process.places.source_frames(address)[0].function
        if naming.parse_outlined(function or "") is not None:
            # The function that contains the construct, as stacks show it.
            own = next((native, frames) for native, frames in self._arrived.frames.items() if frames)
            frame = own[1][candidate.depth]
            known = rows.get((own[0], frame.pc, frame.cfa))
            function = known[-1].function if known else None
        file, line = process.places.line_of(address)
        return Place(address, function, file, line, places.unproven_at(self._session, address))

    # Variables

    def _variables(self, own: Sequence[Frame], candidate: _Candidate, rows: _Frames) -> Iterator[DifferingVariable]:
        names: dict[_Key, tuple[LocalRecord, str | None]] = {}
        sides = []
        reasons: list[set[str]] = []
        function = self._place(candidate, rows).function
        for side in (self._arrived, self._absent):
            values: dict[_Key, dict[int | None, LocalRecord]] = {}
            why: set[str] = set()
            for native, frames in side.frames.items():
                records = self._of_depth(own, frames, candidate.depth, native, rows)
                if records is None:
                    why.add(_ENDED if frames is None else _ELSEWHERE.format(function))
                for number, record in enumerate(reversed(records or ())):
                    for variable in record.locals or ():
                        key = number, variable.name, variable.line
                        names.setdefault(key, (variable, record.function))
                        values.setdefault(key, {}).setdefault(native, variable)
            sides.append(values)
            reasons.append(why)
        made = []
        for key, (variable, name) in names.items():
            is_read = key[1:] in candidate.read
            if variable.sharing == "shared":
                continue  # it is one for all of them
            one = self._made(variable, name, is_read, [side.get(key, {}) for side in sides], reasons)
            if one is not None:
                made.append(one)
        made.sort(key=lambda one: not one.is_read)
        count = sum(one.is_read for one in made)
        yield from made[: count + _OTHERS]

    def _of_depth(
        self,
        own: Sequence[Frame],
        frames: Sequence[Frame] | None,
        depth: int,
        native: int | None,
        rows: _Frames,
    ) -> list[StackFrame] | None:
        if not frames or not self._is_same(own, frames, depth):
            return None
        return rows.get((native, frames[depth].pc, frames[depth].cfa))

    def _made(
        self,
        variable: LocalRecord,
        function: str | None,
        is_read: bool,
        values: Sequence[Mapping[int | None, LocalRecord]],
        reasons: Sequence[Collection[str]],
    ) -> DifferingVariable | None:
        grouped = [tuple(_grouped(each)) for each in values]
        texts = {value.text for group in grouped for value in group}
        unknown = [_unknown(each, why) for each, why in zip(values, reasons, strict=True)]
        if len(texts) < 2 and (not is_read or not any(unknown)):
            return None  # it has the same value in all threads, or is of no interest
        unavailable = {}
        for name, side, reason in zip(("arrived", "absent"), (self._arrived, self._absent), unknown, strict=True):
            some = _OF_SOME.format(len(side.frames), side.size) if side.size > len(side.frames) else None
            if reason or some:
                unavailable[name] = "; ".join(filter(None, (reason, some)))
        return DifferingVariable(
            name=variable.name,
            type=variable.type,
            function=function,
            line=variable.line,
            is_read=is_read,
            arrived=grouped[0],
            absent=grouped[1],
            unavailable=unavailable,
        )

    def _is_contradicted(
        self,
        own: Sequence[Frame],
        candidate: _Candidate,
        variables: Sequence[DifferingVariable],
        rows: _Frames,
    ) -> bool:
        # Whether the threads of both sides have the same values of all variables that the branch reads. It has not
        # parted them then.
        if any(one.is_read for one in variables) or not candidate.read:
            return False
        native, frames = next(iter(self._absent.frames.items()))
        return self._of_depth(own, frames, candidate.depth, native, rows) is not None


def _grouped(values: Mapping[int | None, LocalRecord]) -> Iterator[DistinctValue]:
    groups: dict[str, list[int | None]] = {}
    for native, variable in values.items():
        if variable.text is not None:
            groups.setdefault(variable.text, []).append(native)
    for text, natives in groups.items():
        yield DistinctValue(values[natives[0]].value, text, tuple(natives))


def _unknown(values: Mapping[int | None, LocalRecord], reasons: Collection[str]) -> str:
    # The reasons why values of some threads are unknown.
    all_reasons = dict.fromkeys(sorted(reasons))
    all_reasons.update(dict.fromkeys(v.unavailable.get("value", "") for v in values.values() if v.text is None))
    return "; ".join(filter(None, all_reasons))
