"""Finds the branch that kept members of a team from a barrier, and the variables on which the branch depends."""

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
    from ompd.debugger.process import StoppedProcess

_KINDS = frozenset((VerdictKind.BARRIER_ABSENT, VerdictKind.BARRIER_MISMATCH, VerdictKind.ORPHANED_WORKSHARING))
_VERDICTS = 3  # how many of the first verdicts are looked at
_THREADS = 32  # how many threads' variables are read, of those at the barrier and of the absent ones each
_OTHERS = 12  # how many variables are shown besides those that the branch reads
_MAX_FRAMES = 64
_ENDED = "ended"
_ELSEWHERE = "not in {}"
_OF_SOME = "only {} of {} threads were looked at"


_Frames = Mapping[tuple[int | None, int | None, int | None], list[StackFrame]]
"""The source functions of each physical frame, by the frame's thread, pc and CFA."""


_Key = tuple[int, str, "int | None"]
"""A variable in a frame: the index of its source function in the frame (outermost first), its name and its line."""


class _Left(NamedTuple):
    # A frame in place of that of a function that ended by a jump, and so is no longer on the stack.
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
    # The threads at a barrier, or the absent ones. ``frames`` maps native ids to frames inside of the region's code,
    # outermost first; the frames are None for a thread that has ended. ``size`` counts threads left out, too.
    frames: Mapping[int | None, Sequence[Frame] | None]
    size: int


_Read = frozenset[tuple[str, "int | None"]]
"""Variables by name and line."""


class _Candidate(NamedTuple):
    # A branch that may be the one. ``depth`` is the index, from the outermost frame, of the frame with the branch in
    # its function. ``read`` and ``calls`` are the variables and the called functions on which the branch depends.
    branch: Branch
    depth: int
    read: _Read
    calls: tuple[str, ...]


class _Statement:
    """The statement of the branch at *address*: the code of its line.

    :param frame: a frame of the branch's function
    """

    def __init__(self, process: StoppedProcess, frame: Frame, address: int) -> None:
        self._process, self._frame = process, frame
        self._file, self._line = process.places.line_of(address)

    def contains(self, address: int) -> bool:
        return self._line is not None and self._process.places.line_of(address) == (self._file, self._line)

    def follows(self, address: int) -> bool:
        file, line = self._process.places.line_of(address)
        return file == self._file and line is not None and self._line is not None and line < self._line

    def parameters(self, function: int) -> int | None:
        return self._process.parameters(self._frame, function)


class Branches:
    """Finds the branches in front of barriers that only some of the threads took, at one stop.

    :param rows: the records of all threads at the stop
    """

    def __init__(self, session: Session, rows: Sequence[ThreadRecord]) -> None:
        self._session = session
        self._rows = {row.native_thread_id: row for row in rows if row.native_thread_id is not None}
        self._kept: dict[tuple[tuple[int, ...], tuple[int | None, ...]], Parted | None] = {}

    def of_primary_threads(self) -> dict[int, str]:
        """Return the place of the branch by which only the primary thread of a team came to its barrier.

        Keys are the native ids of these primary threads. Only teams whose threads wait at several barriers are
        examined, and of these only the first few.
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
        """Return the verdicts. The first few about barriers get the branch in front of the barrier, if it is found."""
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
        # Return the native ids of the threads at a barrier inside of the region, and of the threads missing there. None
        # stands for a missing thread that the process does not have.
        for link in verdict.cycle:
            row = self._rows.get(link.thread or 0)
            if row is None or row.wait is None or not is_at_barrier_inside(row):
                continue
            arrived = [native for native in link.threads if native in self._rows]
            if row.wait.missing is not None:
                return arrived, row.wait.missing
            other_links = [other_link for other_link in verdict.cycle if other_link is not link]
            return arrived, [
                native for other_link in other_links for native in other_link.threads or (other_link.thread,)
            ]
        return (), ()


def _is_inside(row: ThreadRecord) -> bool:
    return row.where is not None and row.at_end_of is None


class Parted(NamedTuple):
    """The branch that only some threads of a team took.

    ``branch`` is its place. ``calls`` are the functions whose results it tests. ``variables`` are the variables of its
    function whose values differ between threads, or that it reads. ``is_of_primary`` is whether the branch leads only
    the primary thread to the barrier.
    """

    branch: Place
    calls: tuple[str, ...]
    variables: tuple[DifferingVariable, ...]
    is_of_primary: bool


class Parting:
    """Finds the branch at which the threads at a barrier parted from those that did not come.

    :param arrived: the native ids of the threads at the barrier
    :param absent: the native ids of the threads that did not come, None for a thread that the process does not have
    """

    def __init__(
        self, session: Session, rows: Mapping[int, ThreadRecord], arrived: Sequence[int], absent: Sequence[int | None]
    ) -> None:
        self._session, self._rows = session, rows
        self._functions: Functions = places.followed_functions(session)
        chosen = arrived[:_THREADS], absent[:_THREADS]
        examined = {native for side in chosen for native in side if native is not None and native in rows}
        self._records = self._stacks(examined)
        self._arrived = _Side({native: self._frames(native) for native in chosen[0]}, len(arrived))
        self._absent = _Side({native: self._frames(native) for native in chosen[1]}, len(absent))

    def _frames(self, native: int | None) -> Sequence[Frame] | None:
        # Return a thread's frames from the code of its innermost construct inwards, outermost first. Frames of the
        # runtime and the C library that this code called are left out. Empty if unknown, None if the thread has ended.
        row = self._rows.get(native) if native is not None else None
        if row is None or native is None:
            return None
        if not _is_inside(row):
            return ()
        inner_frames: list[Frame] = []
        try:
            frames = self._session.process.stacks.stack(native).frames
        except OmpdError:
            return ()
        for number, frame in enumerate(frames):
            if number == _MAX_FRAMES:
                return ()  # frames are compared from the outermost one on, and this stack is too deep to have it
            owner = places.code_owner(self._session, frame.call_site)
            if owner == RUNTIME and inner_frames:
                break
            if inner_frames or owner not in (RUNTIME, SYSTEM):
                inner_frames.append(frame)
        return self._with_left(native, inner_frames[::-1])

    def _stacks(self, threads: Container[int]) -> _Frames:
        records: dict[tuple[int | None, int | None, int | None], list[StackFrame]] = {}
        for row in stacks.ask(self._session, threads=threads, locals=True).rows:
            for frame in row.frames:
                records.setdefault((frame.thread, frame.address, frame.cfa), []).append(frame)
        return records

    def _with_left(self, native: int, frames: Sequence[Frame]) -> Sequence[Frame]:
        # Return *frames* with the functions that ended by jumps, each inside of its caller. Functions whose jump is
        # unknown are left out.
        left_inside: dict[tuple[int | None, int | None], list[Frame]] = {}
        jumped: list[Frame] = []
        is_known = True
        for (thread, address, cfa), rows in self._records.items():
            if thread != native or rows[0].kind != USER:
                continue
            if rows[0].how == "tail-call":
                is_known = is_known and address is not None
                jumped.append(_Left(address or 0, address or 0))
                continue
            left_inside[address, cfa] = jumped[::-1] if is_known else []
            jumped, is_known = [], True
        if not frames:
            return jumped[::-1] if is_known and not left_inside else []
        followed = ((frame, left_inside.get((frame.pc, frame.cfa), ())) for frame in frames)
        return [function for frame, left in followed for function in (frame, *left)]

    def parted(self) -> Parted | None:
        """Return the branch with its variables, None if no branch is found."""
        arrived_frames = next((frames for frames in self._arrived.frames.values() if frames), None)
        if arrived_frames is None:
            return None
        best: tuple[_Candidate, tuple[DifferingVariable, ...]] | None = None
        for candidate in self._branches(arrived_frames):
            variables = tuple(self._variables(arrived_frames, candidate))
            if best is None:
                best = candidate, variables
            if not self._is_contradicted(arrived_frames, candidate, variables):
                best = candidate, variables
                break
        if best is None:
            return None
        candidate, variables = best
        is_of_primary = self._is_of_primary(arrived_frames[candidate.depth], candidate.branch)
        return Parted(self._place(candidate), candidate.calls, variables, is_of_primary)

    def _is_of_primary(self, frame: Frame, branch: Branch) -> bool:
        # Return whether the branch compares the thread's number with 0, and only the primary thread is at the barrier.
        numbers, numbers_of_absent = (
            {self._rows[native].thread_num for native in side.frames if native is not None and native in self._rows}
            for side in (self._arrived, self._absent)
        )
        try:
            routine = self._functions.branches.tested(frame, branch)
        except OmpdError:
            return False
        return numbers == {0} and 0 not in numbers_of_absent and routine == "omp_get_thread_num"

    # The branch

    def _branches(self, arrived: Sequence[Frame]) -> Iterator[_Candidate]:
        absent = next(iter(self._absent.frames.values()))
        branches = self._functions.branches
        depth = self._depth(arrived, absent or ())
        met = absent[depth] if absent and depth < len(absent) and self._is_same(arrived, absent, depth) else None
        levels: Sequence[int] = range(len(arrived) - 1, depth - 1, -1)
        if met is not None and depth < len(arrived) and not branches.leads_on(arrived[depth], met):
            levels = (depth,)  # the absent thread never came into the functions that this one called
        for level in levels:
            inner = arrived[level + 1] if level + 1 < len(arrived) else None
            if levels != (depth,) and self._functions.has_jumped(arrived[level], inner):
                return  # the threads may have parted in a function that has left the stack
            try:
                branches_here = branches.parting(
                    arrived[level], met if level == depth else None, has_returned=absent is not None
                )
            except OmpdError:
                return  # the threads may have parted in this function, whose code cannot be followed
            for number, branch in enumerate(branches_here):
                yield _Candidate(branch, level, *self._condition(arrived[level], branch, branches_here[number + 1 :]))

    def _depth(self, first: Sequence[Frame], second: Sequence[Frame]) -> int:
        # Return how many frames, from the outermost inwards, are at the same call sites in both stacks.
        count = 0
        for frame, other_frame in zip(first, second, strict=False):
            if frame.call_site != other_frame.call_site:
                break
            count += 1
        return count

    def _is_same(self, first: Sequence[Frame], second: Sequence[Frame], depth: int) -> bool:
        # Return whether the frames at a depth of both stacks are of the same function, called from the same place.
        if depth >= len(first) or depth >= len(second) or self._depth(first[:depth], second[:depth]) < depth:
            return False
        branches = self._functions.branches
        try:
            return branches.entry(first[depth]) == branches.entry(second[depth])
        except OmpdError:
            return False

    def _condition(self, frame: Frame, branch: Branch, following: Iterable[Branch]) -> tuple[_Read, tuple[str, ...]]:
        # Return the variables and the called functions on which the condition of a branch depends. Other branches in
        # the same line belong to the condition, too: a && b makes two branches.
        process = self._session.process
        statement = _Statement(process, frame, branch.address)
        read: set[tuple[str, int | None]] = set()
        calls: dict[str, None] = {}
        for number, part in enumerate((branch, *following)):
            if number and not statement.contains(part.address):
                continue
            try:
                condition = self._functions.branches.condition(frame, part, statement)
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

    def _place(self, candidate: _Candidate) -> Place:
        process, address = self._session.process, candidate.branch.address
        function = process.places.source_frames(address)[0].function
        if naming.parse_outlined(function or "") is not None:
            # The branch is in a construct's code: use the function that contains the construct, as stacks show it.
            native, frames = next((native, frames) for native, frames in self._arrived.frames.items() if frames)
            frame = frames[candidate.depth]
            records = self._records.get((native, frame.pc, frame.cfa))
            function = records[-1].function if records else None
        file, line = process.places.line_of(address)
        return Place(address, function, file, line, places.unproven_at(self._session, address))

    # Variables

    def _variables(self, arrived: Sequence[Frame], candidate: _Candidate) -> Iterator[DifferingVariable]:
        # Yield the differing variables of the branch's function, those that the branch reads first.
        names: dict[_Key, tuple[LocalRecord, str | None]] = {}
        sides = []
        reasons: list[set[str]] = []
        function = self._place(candidate).function
        for side in (self._arrived, self._absent):
            values: dict[_Key, dict[int | None, LocalRecord]] = {}
            why: set[str] = set()
            for native, frames in side.frames.items():
                records = self._records_at(arrived, native, frames, candidate.depth)
                if records is None:
                    why.add(_ENDED if frames is None else _ELSEWHERE.format(function))
                for number, record in enumerate(reversed(records or ())):
                    for variable in record.locals or ():
                        key = number, variable.name, variable.line
                        names.setdefault(key, (variable, record.function))
                        values.setdefault(key, {}).setdefault(native, variable)
            sides.append(values)
            reasons.append(why)
        differing = []
        for key, (variable, name) in names.items():
            is_read = key[1:] in candidate.read
            if variable.sharing == "shared":
                continue  # the threads share the variable, so its value does not differ
            variable_record = self._differing(variable, name, is_read, [side.get(key, {}) for side in sides], reasons)
            if variable_record is not None:
                differing.append(variable_record)
        differing.sort(key=lambda variable_record: not variable_record.is_read)
        count = sum(variable_record.is_read for variable_record in differing)
        yield from differing[: count + _OTHERS]

    def _records_at(
        self, arrived: Sequence[Frame], native: int | None, frames: Sequence[Frame] | None, depth: int
    ) -> list[StackFrame] | None:
        # Return the records of a thread's frame at a depth, None if the thread is elsewhere: its frame is not of the
        # same function as in *arrived*.
        if not frames or not self._is_same(arrived, frames, depth):
            return None
        return self._records.get((native, frames[depth].pc, frames[depth].cfa))

    def _differing(
        self,
        variable: LocalRecord,
        function: str | None,
        is_read: bool,
        values: Sequence[Mapping[int | None, LocalRecord]],
        reasons: Sequence[Collection[str]],
    ) -> DifferingVariable | None:
        grouped = [tuple(_grouped(values_of_side)) for values_of_side in values]
        texts = {value.text for group in grouped for value in group}
        unknown = list(map(_unknown, values, reasons))
        if len(texts) < 2 and (not is_read or not any(unknown)):
            return None  # no two values are known to differ, and the branch does not read the variable or all are known
        unavailable = {}
        for name, side, reason in zip(("arrived", "absent"), (self._arrived, self._absent), unknown, strict=True):
            of_some = _OF_SOME.format(len(side.frames), side.size) if side.size > len(side.frames) else None
            if reason or of_some:
                unavailable[name] = "; ".join(filter(None, (reason, of_some)))
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
        arrived: Sequence[Frame],
        candidate: _Candidate,
        variables: Sequence[DifferingVariable],
    ) -> bool:
        # Return whether the branch cannot be the one: all variables that it reads have the same values in the threads
        # of both sides.
        if any(variable.is_read for variable in variables) or not candidate.read:
            return False
        native, frames = next(iter(self._absent.frames.items()))
        return self._records_at(arrived, native, frames, candidate.depth) is not None


def _grouped(values: Mapping[int | None, LocalRecord]) -> Iterator[DistinctValue]:
    groups: dict[str, list[int | None]] = {}
    for native, variable in values.items():
        if variable.text is not None:
            groups.setdefault(variable.text, []).append(native)
    for text, natives in groups.items():
        yield DistinctValue(values[natives[0]].value, text, tuple(natives))


def _unknown(values: Mapping[int | None, LocalRecord], reasons: Collection[str]) -> str:
    # Return the reasons why a variable's value is unknown in some threads, empty if it is known in all.
    all_reasons = dict.fromkeys(sorted(reasons))
    all_reasons.update(dict.fromkeys(v.unavailable.get("value", "") for v in values.values() if v.text is None))
    return "; ".join(filter(None, all_reasons))
