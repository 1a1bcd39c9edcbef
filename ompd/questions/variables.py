"""``var``: one variable in every thread of the process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import fsum, isfinite
from operator import itemgetter
from typing import TYPE_CHECKING

from ompd.contract.plugin import AddressSpace, ThreadprivateCopies
from ompd.errors import BadInput, NoAnswer, NoCall, NotInitialised, OmpdError, Unavailable
from ompd.model import DistinctValue, VariableAnswer, VariableRecord, VariableStats
from ompd.model.places import FORMATS
from ompd.questions import stacks
from ompd.questions.facts.answers import answer, begin, each, readable_runtimes
from ompd.questions.facts.damage import in_what_is_left, is_damaged, leaves_doubt
from ompd.questions.facts.gathering import Facts, Problems
from ompd.questions.facts.openmp_threads import (
    Ancestry,
    MatchedThread,
    Matching,
    Membership,
    membership_of,
    team_order,
    unknown_membership,
)
from ompd.questions.runtimes import records
from ompd.session import LoadedRuntime, Session

if TYPE_CHECKING:
    from ompd.binary.types.shown import Shown
    from ompd.debugger.variables.choices import StaticVariable
    from ompd.debugger.variables.names import VariableName
    from ompd.debugger.variables.reader import VariableReader

_GLOBAL, _KEY = "global", "key"
_ELEMENTS, _MAX_ELEMENTS = 200, 1 << 14
_WHOLE = re.compile(r"-?\d+", re.ASCII)
# Numbers can be outliers by their distance only if there are at least _MIN_SPREAD of them. Outliers are beyond Tukey's
# outer fences, which are _FENCE interquartile ranges away from the quartiles.
_MIN_SPREAD, _FENCE = 8, 3


def ask(
    session: Session,
    name: str,
    *,
    format: str | None = None,
    stats: bool = False,
    elements: int | None = None,
    thread: int | None = None,
    is_static: bool = False,
) -> VariableAnswer:
    """Return the variable *name* in each thread: OpenMP threads by region and thread number, then idle ones, then
    others.

    If there is no static variable of that name, it is the one of the innermost function on each thread's stack that has
    such a variable. Threads without such a function have no row.

    :param name: its name in the source; ``file.c::x``, ``ns::Class::x``, ``function::x``, ``module::x`` and
        ``/block/member`` qualify it, and ``x.member[2]``, ``*x`` select a part
    :param format: one of gdb's letters, for the text
    :param stats: compute statistics of the values
    :param elements: the most elements of an array, or characters of a string, to show
    :param thread: only in the thread with this native id
    :param is_static: only static variables
    :raises NoAnswer: if there is no such variable, or more than one: the text lists them by names that distinguish them
    :raises BadInput: if it has no such part
    """
    problems = begin(session)
    if format is not None and format not in FORMATS:
        raise BadInput(f"there is no format {format!r}", hint=f"formats are gdb's: {' '.join(FORMATS)}")
    if elements is not None and not 0 < elements <= _MAX_ELEMENTS:
        raise BadInput(f"{elements} elements: between 1 and {_MAX_ELEMENTS} can be shown")
    variable_name = session.process.variable_name(name)
    try:
        variable = session.process.types.named.find(variable_name)
    except (NoAnswer, Unavailable) as error:
        is_missing = isinstance(error, NoAnswer) and not is_static
        local = _of_functions(session, variable_name, stats=stats, thread=thread) if is_missing else None
        if local is None:
            raise in_what_is_left(session, error) from error
        if format is not None or elements is not None:
            fault = f"{variable_name.name} is a variable of a function, which has neither --format nor --elements"
            raise BadInput(fault) from error
        return local
    reader = session.process.variable_reader(variable_name, variable, format or "", elements or _ELEMENTS)
    runtimes = _runtimes(session, problems)
    copies = _Copies(session, reader, runtimes)
    matching = Matching(session, runtimes, problems)
    ancestry = {runtime.id: Ancestry() for runtime in runtimes}

    chosen = session.process.threads.ids() if thread is None else (thread,)

    def record(thread: int) -> VariableRecord:
        return _record(copies, reader, thread, matching, ancestry, variable_name.text, problems)

    rows = _marked(sorted(each(session, chosen, record), key=team_order))
    plain = answer(session, rows, records(session, problems), problems)
    return VariableAnswer(
        plain.target, plain.runtimes, plain.rows, plain.complete, plain.warnings, _stats(rows) if stats else None
    )


def _of_functions(
    session: Session, variable_name: VariableName, *, stats: bool, thread: int | None
) -> VariableAnswer | None:
    # The variable of that name in the innermost of each thread's functions that has one, None if no function has one.
    if (
        variable_name.scopes
        or variable_name.block is not None
        or variable_name.is_global
        or not _is_local(session, variable_name.name)
    ):
        return None
    stacks_answer = stacks.ask(session, locals=True, part=variable_name, thread=thread)
    rows = []
    for row in stacks_answer.rows:
        matches = (
            (f, v) for f in row.frames if f.kind == "user" for v in f.locals or () if v.name == variable_name.name
        )
        frame, variable = next(matches, (None, None))
        if frame is None or frame.module is None or variable is None:
            continue  # a frame with variables has a module: its debug information describes them
        rows.append(
            VariableRecord(
                native_thread_id=row.native_thread_id,
                runtime=row.runtime,
                parallel=row.parallel,
                thread_num=row.thread_num,
                team_size=row.team_size,
                ancestors=row.ancestors[0] if row.ancestors else (),
                name=variable_name.text,
                module=frame.module,
                type=variable.type,
                mechanism="local",
                address=variable.address,
                value=variable.value,
                text=variable.text,
                truncated=variable.truncated,
                function=frame.function,
                sharing=variable.sharing,
                file=frame.file,
                line=variable.line,
                unavailable=variable.unavailable,
            )
        )
    rows = _marked(rows)
    numbers = _stats(rows) if stats else None
    return VariableAnswer(
        stacks_answer.target,
        stacks_answer.runtimes,
        tuple(rows),
        stacks_answer.complete,
        stacks_answer.warnings,
        numbers,
    )


def _is_local(session: Session, name: str) -> bool:
    # Whether a function on a stack has a variable of this name.
    process, examined = session.process, set()
    for thread in process.threads.ids():
        for frame in process.stacks.stack(thread).frames:
            if frame.call_site in examined:
                continue
            examined.add(frame.call_site)
            module = process.symbols.module_at(frame.call_site)
            if module is not None and not module.is_system_library and name in process.locals.names_at(frame):
                return True
    return False


def _runtimes(session: Session, problems: Problems) -> list[LoadedRuntime]:
    # Return the readable runtimes, none if there are none: a program has variables without OpenMP, too.
    if not session.runtimes and not session.stop.lost_runtimes:
        return []
    try:
        return list(readable_runtimes(session, problems, needed=False))
    except NoAnswer as error:
        if not is_damaged(session):  # else what is lost was reported already
            problems.note(str(error))
        return []


class _Copies:
    """How the threads have copies of one variable, and where these are."""

    def __init__(self, session: Session, reader: VariableReader, runtimes: Sequence[LoadedRuntime]) -> None:
        self._reader = reader
        self._keeping: dict[str, AddressSpace] = {}  # the runtimes that keep the copies
        self._early: list[ThreadprivateCopies] = []  # and those that have no handles
        self._doubt: OmpdError | None = None
        variable = reader.variable
        for runtime in runtimes if variable.mechanism == _GLOBAL else ():
            try:
                if runtime.space is not None and _keeps_copies(runtime.space, variable.offset):
                    self._keeping[runtime.id] = runtime.space
            except NotInitialised:
                continue
            except OmpdError as error:
                self._doubt = error
        for runtime in session.runtimes if variable.mechanism == _GLOBAL else ():
            try:
                if runtime.space is not None or runtime.found.plugin is None:
                    continue
                if not isinstance(runtime.fault, (NotInitialised, NoCall)):
                    # A runtime that cannot be read may keep copies.
                    self._doubt = runtime.fault if leaves_doubt(session, runtime.fault) else self._doubt
                    continue
                copies = runtime.found.plugin.early_copies(session.process.contract, runtime.found.module)
                if copies is not None and _has_copies(copies, session.process.threads.ids()[0], variable.offset):
                    self._early.append(copies)
            except OmpdError as error:
                self._doubt = error

    @property
    def mechanism(self) -> str | None:
        """How threads have copies; see :class:`VariableRecord`.

        :raises OmpdError: if the runtime may keep copies, and that is unknown
        """
        if self._doubt is not None and not self._keeping and not self._early:
            raise self._doubt
        if self._early:
            return _KEY
        keeping = next(iter(self._keeping.values()), None)
        return keeping.threadprivate_mechanism if keeping is not None else self._reader.variable.mechanism

    def address(self, thread: int, matched: MatchedThread | None) -> int | None:
        """Return the address of *thread*'s copy, None if it has no storage yet."""
        if not self._keeping and not self._early:
            return self._reader.address(thread)
        offset = self._reader.variable.offset
        if matched is not None and matched[0].id in self._keeping:
            return matched[1].threadprivate_address(offset)
        copies_of_others = [space.threadprivate_of_other(thread, offset) for space in self._keeping.values()]
        copies_of_others += [copies.address(thread, offset) for copies in self._early]
        return next((copy for copy in copies_of_others if copy is not None), None)


def _keeps_copies(space: AddressSpace, address: int) -> bool:
    # Whether a runtime keeps a copy of the variable at an address for each thread. A thread's handle answers for all.
    handles = space.threads()
    try:
        if handles:
            handles[0].threadprivate_address(address)
    except BadInput:  # by the contract: the runtime keeps none of it
        return False
    return bool(handles)


def _has_copies(copies: ThreadprivateCopies, thread: int, address: int) -> bool:
    # Whether *copies*, which threads have before the runtime is initialised, have one of the variable.
    try:
        copies.address(thread, address)
    except BadInput:
        return False
    return True


def _record(
    copies: _Copies,
    reader: VariableReader,
    thread: int,
    matching: Matching,
    ancestry: Mapping[str, Ancestry],
    name: str,
    problems: Problems,
) -> VariableRecord:
    facts = Facts(f"thread {thread}", problems)
    matched = matching.of(thread)
    variable = reader.variable
    member = Membership()
    if matched is not None:
        member = membership_of(matched[1], ancestry[matched[0].id], facts)
    elif matching.doubt is not None:
        member = unknown_membership(facts, ("runtime", "parallel", "thread_num", "team_size"), str(matching.doubt))
    mechanism = facts.get("mechanism", lambda: copies.mechanism)
    row = VariableRecord(
        native_thread_id=thread,
        runtime=matched[0].id if matched is not None else None,
        parallel=member.region.id if member.region is not None else None,
        thread_num=member.thread_num,
        team_size=member.team_size,
        ancestors=member.ancestors,
        name=_shown_name(variable, name),
        module=variable.module.name,
        mechanism=mechanism,
        file=variable.file,
        line=variable.line,
    )
    if mechanism is None and "mechanism" in facts.unavailable:
        reason = facts.unavailable["mechanism"]
        facts.unavailable.update(address=reason, value=reason, text=reason, type=reason)
        return replace(row, unavailable=facts.unavailable)
    return _with_value(row, copies, reader, thread, matched, facts)


def _with_value(
    row: VariableRecord,
    copies: _Copies,
    reader: VariableReader,
    thread: int,
    matched: MatchedThread | None,
    facts: Facts,
) -> VariableRecord:
    variable = reader.variable
    address: int | None = None
    if variable.mechanism is None:
        facts.unavailable["address"] = f"{variable.name}: {variable.fault}"
        facts.unavailable["mechanism"] = facts.unavailable["address"]
    else:
        address = facts.get("address", lambda: copies.address(thread, matched))
    is_address_known = "address" not in facts.unavailable
    shown = None
    if address is not None or variable.constant is not None:
        shown = _checked(facts, lambda: reader.show(address))
    elif not is_address_known:
        facts.unavailable["value"] = facts.unavailable["address"]
    if "value" in facts.unavailable:
        facts.unavailable["text"] = facts.unavailable["value"]
    initialised = facts.get("initialized", lambda: reader.initialised(thread)) if is_address_known else None
    if shown is None:
        return replace(row, address=address, type=reader.type, initialized=initialised, unavailable=facts.unavailable)
    shown_address, value, type_ = shown
    if type_ is None:
        facts.unavailable["type"] = reader.untyped
    return replace(
        row,
        address=shown_address,
        value=value.value,
        text=value.text,
        truncated=value.truncated,
        digest=reader.digest(shown_address) if value.truncated and shown_address is not None else None,
        type=type_,
        initialized=initialised,
        unavailable=facts.unavailable,
    )


def _checked(
    facts: Facts, ask: Callable[[], tuple[int | None, Shown, str | None]]
) -> tuple[int | None, Shown, str | None] | None:
    # Return the result of *ask*, None after noting the reason of a failure. BadInput is raised: if the variable has no
    # such part, that is the user's mistake and not a fact about a thread.
    try:
        return ask()
    except BadInput:
        raise
    except OmpdError as error:
        facts.missing("value", error)
    return None


def _shown_name(variable: StaticVariable, text: str) -> str:
    # Return the variable's name in the source, with the stars and the part of the request *text*.
    request = text.strip()
    stars = request[: len(request) - len(request.lstrip("* "))].replace(" ", "")
    place = request.rfind(variable.short_name) if variable.short_name else -1
    return stars + variable.name + (request[place + len(variable.short_name) :] if place >= 0 else "").lstrip("/")


# What values have in common


def _number(row: VariableRecord) -> int | float | None:
    # Return the row's value as a number, None if it is no number.
    value = row.value
    if isinstance(value, bool) or (isinstance(value, float) and not isfinite(value)):
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value) and not (row.text or "").startswith(("'", '"', "{", "(")):
        return int(value)
    return None


def _marked(rows: Sequence[VariableRecord]) -> list[VariableRecord]:
    # Return the rows with outliers marked. If most threads have the same value, all other values are outliers. If not,
    # numbers are outliers that are far from the middle half of the numbers.
    copies = [row for row in rows if row.text is not None and row.mechanism not in (None, _GLOBAL)]
    texts = Counter((row.text, row.digest) for row in copies)
    common, count = texts.most_common(1)[0] if texts else (None, 0)
    shared = 2 * count > len(copies)
    outliers = {id(row) for row in copies if (row.text, row.digest) != common} if shared else _far(copies)
    return [replace(row, outlier=True) if id(row) in outliers else row for row in rows]


def _far(rows: Sequence[VariableRecord]) -> set[int]:
    numbers = [(number, id(row)) for row in rows if (number := _number(row)) is not None]
    if len(numbers) < _MIN_SPREAD or len(numbers) < len(rows):
        return set()
    ordered = sorted(number for number, _ in numbers)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    reach = _FENCE * (high - low)
    return {row for number, row in numbers if not low - reach <= number <= high + reach}


def _stats(rows: Sequence[VariableRecord]) -> VariableStats:
    with_values = [row for row in rows if row.text is not None]
    groups: dict[tuple[str, str | None], list[VariableRecord]] = {}
    for row in with_values:
        groups.setdefault((row.text or "", row.digest), []).append(row)
    distinct = sorted(groups.values(), key=lambda group: -len(group))
    numbers = [(number, row.value) for row in with_values if (number := _number(row)) is not None]
    least = greatest = mean = None
    if numbers and len(numbers) == len(with_values):
        least, greatest = min(numbers, key=itemgetter(0))[1], max(numbers, key=itemgetter(0))[1]
        with suppress(OverflowError):
            plain = [number for number, _ in numbers]
            whole = all(isinstance(number, int) for number in plain)
            mean = (sum(plain) if whole else fsum(plain)) / len(plain)
    return VariableStats(
        count=len(with_values),
        distinct=tuple(
            DistinctValue(group[0].value, group[0].text or "", tuple(row.native_thread_id for row in group))
            for group in distinct
        ),
        minimum=least,
        maximum=greatest,
        mean=mean,
        outliers=tuple(row.native_thread_id for row in rows if row.outlier),
    )
