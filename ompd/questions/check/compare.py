"""Asks two sides everything that OMPD can be asked about a process, and pairs what they answer, fact by fact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import state_name
from ompd.errors import CorruptState
from ompd.questions.check.facts import NONE, REFUSED, VALUE, Outcome, ask, refused, same
from ompd.questions.check.interface import MAX_CHAIN, Handle, InitialRegion, Interface, NativeThread
from ompd.records import record

_T = TypeVar("_T")
_MAX_TEAM = 1 << 16
_MAX_STEPS = 1 << 20
_OUTSIDE = -5
"""No thread has this number."""
# Of so many threads, and of so many members, regions or tasks, a library is asked together.
_THREADS, _OTHERS = 128, 256


@record
class Subject:
    """What a fact is about: the ``process``, a ``thread``, a ``region`` or a ``task``, by our own ``id`` of it, and the
    native identifier of the ``thread`` where it was seen first. ``tags`` are what is so about it
    (:mod:`ompd.questions.check.known` has their meaning).
    """

    kind: str
    id: str
    thread: int | None
    tags: frozenset[str]


@record
class Fact:
    """One fact about a subject, as both sides have it."""

    name: str
    subject: Subject
    theirs: Outcome
    ours: Outcome

    @property
    def is_same(self) -> bool:
        """Whether both say the same."""
        return same(self.theirs, self.ours)


def compare(
    library: Interface,
    ours: Interface,
    threads: Sequence[NativeThread],
    *,
    keeps_states: bool,
    is_runtime: Callable[[int], bool] = lambda address: False,
) -> Iterator[Fact]:
    """Yield every fact, those in which both agree among them.

    :param threads: all of the process
    :param keeps_states: whether the runtime records states, frames and tool data
    :param is_runtime: returns whether an address is in the runtime's module
    """
    debug = ask(ours.icv_number, "debug-var", Scope.ADDRESS_SPACE, None)
    tags = {"states"} if keeps_states else set()
    if debug.kind == VALUE and debug.value[0]:
        tags.add("debug")
    settings = ask(ours.display_control_vars)
    if settings.kind == VALUE and settings.value.get("OMP_NUM_THREADS") == "undefined":
        tags.add("no_num_threads")
    yield from _Walk(library, ours, frozenset(tags), is_runtime).facts(threads)


class _Walk:
    def __init__(
        self, library: Interface, ours: Interface, tags: frozenset[str], is_runtime: Callable[[int], bool]
    ) -> None:
        self._library, self._ours, self._tags, self._is_runtime = library, ours, tags, is_runtime
        # Handles by the other side's, to see that two are the same for one side if and only if they are for the other.
        self._known: dict[tuple[Scope, str, Hashable], Hashable] = {}
        self._seen: set[tuple[Scope, Hashable, Hashable]] = set()
        self._icvs: dict[Scope, list[str]] = {}
        # So many handles of regions and tasks a library may lead to in all.
        self._steps = _MAX_STEPS

    def facts(self, threads: Sequence[NativeThread]) -> Iterator[Fact]:
        process = Subject("process", "process", None, self._tags)
        yield from self._process(process)
        for some in _parts(threads, _THREADS):
            ask(self._library.expect_threads, some)
            for thread in some:
                yield from self._thread(thread)

    # The process

    def _process(self, subject: Subject) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        yield from _listed("routine ", subject, ask(library.routines), ask(ours.routines), str)
        yield Fact("omp_version", subject, ask(library.omp_version), ask(ours.omp_version))
        # What the text is, is each library's own matter.
        texts = ask(library.omp_version_string), ask(ours.omp_version_string)
        yield Fact("omp_version_string", subject, *(_there(each, "a text") for each in texts))
        yield from _listed("state ", subject, ask(library.states), ask(ours.states), "{:#x}".format)
        listed = ask(library.icvs), ask(ours.icvs)
        yield from _listed("listed ", subject, *listed, str)
        settings = ask(library.display_control_vars), ask(ours.display_control_vars)
        yield from _listed("setting ", subject, *settings, str)
        theirs, own = (each.value if each.kind == VALUE else {} for each in listed)
        for name, scope in own.items():
            if name in theirs:
                self._icvs.setdefault(scope, []).append(name)
        yield from self._variables(subject, Scope.ADDRESS_SPACE, None, None)
        for name in self._icvs.get(Scope.PARALLEL, ())[:1]:
            wrong = name, Scope.ADDRESS_SPACE, None
            answers = ask(library.icv_number, *wrong), ask(ours.icv_number, *wrong)
            yield Fact("variable of another scope", subject, *answers)

    # Threads

    def _thread(self, native: NativeThread) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        found: dict[ThreadIdKind, tuple[Outcome, Outcome]] = {}
        for kind, identifier in native.identifiers():
            found[kind] = ask(library.thread, kind, identifier), ask(ours.thread, kind, identifier)
        theirs, own = (
            next((pair[side].value for pair in found.values() if pair[side].kind == VALUE), None) for side in (0, 1)
        )
        tags = set(self._tags)
        if own is not None:
            tags |= {"openmp", "in_team" if ask(ours.current_task, own).kind == VALUE else "idle"}
        subject = Subject("thread", str(native.native_thread_id), native.native_thread_id, frozenset(tags))
        for kind, pair in found.items():
            there = (Outcome(VALUE, True, "a thread of OpenMP") if one.kind == VALUE else one for one in pair)
            yield Fact(f"handle by {kind.name.lower()}", subject, *there)
        if own is not None and theirs is not None:
            yield from self._facts_of_thread(subject, theirs, own)
            yield from self._around(subject, theirs, own)

    def _facts_of_thread(self, subject: Subject, theirs: Handle, own: Handle) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        yield self._twin("same thread", Scope.THREAD, subject, theirs, own)
        for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
            identifiers = ask(library.thread_id, theirs, kind, write=_hex), ask(ours.thread_id, own, kind, write=_hex)
            yield Fact(f"id as {kind.name.lower()}", subject, *identifiers)
        states = ask(library.state, theirs), ask(ours.state, own)
        yield Fact("state", subject, *(_part(state, 0, state_name) for state in states))
        if all(state.kind == VALUE for state in states):
            yield Fact("wait_id", subject, *(_part(state, 1, _hex) for state in states))
        yield self._tool_data("thread tool data", Scope.THREAD, subject, theirs, own)
        yield from self._variables(subject, Scope.THREAD, theirs, own)

    def _around(self, thread: Subject, theirs: Handle, own: Handle) -> Iterator[Fact]:
        # The regions and the tasks around a thread. The outermost ones are compared first: both sides have these.
        regions = self._chains(Scope.PARALLEL, theirs, own)
        tasks = self._chains(Scope.TASK, theirs, own)
        folded = self._folded(regions[1].handles)
        if folded:
            thread = Subject(thread.kind, thread.id, thread.thread, thread.tags | {"folded"})
        for what, (other, mine) in (("regions", regions), ("tasks", tasks)):
            yield Fact(what, thread, _count(other), _count(mine))
            if other.handles and mine.handles:
                yield Fact(f"end of {what}", thread, other.end, mine.end)
            scope, compared = (Scope.PARALLEL, self._region) if what == "regions" else (Scope.TASK, self._task)
            for some in _parts(list(zip(reversed(other.handles), reversed(mine.handles), strict=False)), _OTHERS):
                ask(self._library.expect, scope, [their_one for their_one, _ in some])
                for their_one, one in some:
                    yield from compared(thread, their_one, one, folded)

    def _chains(self, scope: Scope, theirs: Handle, own: Handle) -> tuple[_Chain, _Chain]:
        library = _chain(self._library, scope, theirs, min(MAX_CHAIN, self._steps))
        self._steps -= len(library.handles)
        return library, _chain(self._ours, scope, own, MAX_CHAIN)

    def _folded(self, regions: Sequence[Handle]) -> frozenset[Hashable]:
        # Serialized regions of one thread directly in one another: their runtime keeps one team for all of them.
        found: set[Hashable] = set()
        run: list[Hashable] = []
        for region in [*regions, None]:
            if region is not None and not isinstance(region, InitialRegion) and self._size(region) == 1:
                run.append(self._ours.key(Scope.PARALLEL, region))
                continue
            found.update(run if len(run) > 1 else ())
            run = []
        return frozenset(found)

    def _size(self, region: Handle) -> int:
        size = ask(self._ours.icv_number, "team-size-var", Scope.PARALLEL, region)
        return size.value[0] if size.kind == VALUE else 0

    # Regions

    def _region(self, thread: Subject, theirs: Handle, own: Handle, folded: frozenset[Hashable]) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        subject = Subject("region", str(own.id), thread.thread, self._tags | self._tags_of_region(own, folded))
        yield self._twin("same region", Scope.PARALLEL, subject, theirs, own)
        if not self._is_new(Scope.PARALLEL, theirs, own):
            return
        yield from self._variables(subject, Scope.PARALLEL, theirs, own)
        if not isinstance(own, InitialRegion):
            yield self._tool_data("region tool data", Scope.PARALLEL, subject, theirs, own)
        size = min(self._size(own), _MAX_TEAM)
        outside = (_OUTSIDE, size, size + 199)
        for some in _parts(range(size), _OTHERS):
            ask(library.expect_members, theirs, [*some, *outside])
            for number in some:
                yield from self._member(subject, theirs, own, number)
        for number in outside:
            answers = ask(library.thread_in, theirs, number), ask(ours.thread_in, own, number)
            yield Fact("number outside of the team", subject, *(_there(each, "a thread") for each in answers))

    def _member(self, subject: Subject, theirs: Handle, own: Handle, number: int) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        threads = ask(library.thread_in, theirs, number), ask(ours.thread_in, own, number)
        both = list(zip((library, ours), threads, strict=True))
        identifiers = (
            ask(side.thread_id, found.value, ThreadIdKind.PTHREAD, write=_hex) if found.kind == VALUE else found
            for side, found in both
        )
        yield Fact("thread in region", subject, *identifiers)
        if all(found.kind == VALUE for found in threads):
            around = (_there(ask(side.current_parallel, found.value), "a region") for side, found in both)
            yield Fact("region of a thread in it", subject, *around)
        tasks = ask(library.task_in, theirs, number), ask(ours.task_in, own, number)
        yield self._twins("task in region", Scope.TASK, subject, tasks)

    def _tags_of_region(self, own: Handle, folded: frozenset[Hashable]) -> frozenset[str]:
        if isinstance(own, InitialRegion):
            return frozenset(("initial",))
        tags = {"serialized"} if self._size(own) == 1 else {"of_several"}
        return frozenset(tags | {"folded"} if self._ours.key(Scope.PARALLEL, own) in folded else tags)

    # Tasks

    def _task(self, thread: Subject, theirs: Handle, own: Handle, folded: frozenset[Hashable]) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        region = ask(ours.parallel, own)
        tags = self._tags | (self._tags_of_region(region.value, folded) if region.kind == VALUE else frozenset())
        implicit = ask(ours.icv_number, "implicit-task-var", Scope.TASK, own)
        if implicit.kind == VALUE:
            tags |= {"implicit" if implicit.value[0] else "explicit"}
        subject = Subject("task", str(own.id), thread.thread, tags)
        yield self._twin("same task", Scope.TASK, subject, theirs, own)
        if not self._is_new(Scope.TASK, theirs, own):
            return
        functions = ask(library.function, theirs, write=self._code), ask(ours.function, own, write=self._code)
        yield Fact("function", subject, *functions)
        frames = ask(library.frames, theirs), ask(ours.frames, own)
        for end in ("exit", "enter"):
            addresses = [_member_of(found, end) for found in frames]
            yield Fact(f"{end} frame", subject, *addresses)
            if all(found.value for found in addresses):
                yield Fact(f"{end} frame flag", subject, *(_member_of(found, f"{end}_flag") for found in frames))
        yield self._tool_data("task tool data", Scope.TASK, subject, theirs, own)
        yield from self._variables(subject, Scope.TASK, theirs, own)
        yield self._twins("region of task", Scope.PARALLEL, subject, (ask(library.parallel, theirs), region))
        scheduling = ask(library.scheduling, theirs), ask(ours.scheduling, own)
        yield self._twins("scheduling task", Scope.TASK, subject, scheduling)

    def _code(self, address: int) -> str:
        return f"{address:#x}" + (", in the runtime" if self._is_runtime(address) else "")

    # What they have in common

    def _variables(self, subject: Subject, scope: Scope, theirs: Handle, own: Handle) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        for name in self._icvs.get(scope, ()):
            numbers = ask(library.icv_number, name, scope, theirs), ask(ours.icv_number, name, scope, own)
            yield Fact(f"number of {name}", subject, *map(_number, numbers))
            texts = ask(library.icv_text, name, scope, theirs), ask(ours.icv_text, name, scope, own)
            yield Fact(f"text of {name}", subject, *texts)

    def _tool_data(self, name: str, scope: Scope, subject: Subject, theirs: Handle, own: Handle) -> Fact:
        library = ask(self._library.tool_data, scope, theirs, write=_hex)
        return Fact(name, subject, library, ask(self._ours.tool_data, scope, own, write=_hex))

    def _twins(self, name: str, scope: Scope, subject: Subject, pair: tuple[Outcome, Outcome]) -> Fact:
        if all(found.kind == VALUE for found in pair):
            return self._twin(name, scope, subject, pair[0].value, pair[1].value)
        return Fact(name, subject, *(_there(found, "there is one") for found in pair))

    def _twin(self, name: str, scope: Scope, subject: Subject, theirs: Handle, own: Handle) -> Fact:
        # Whether a handle of theirs stands for the same one of ours as before, and the other way round.
        mine, other = self._ours.key(scope, own), self._library.key(scope, theirs)
        meant = self._known.setdefault((scope, "library", other), mine)
        known = self._known.setdefault((scope, "ours", mine), other)
        library = ours = Outcome(VALUE, mine, _shown(mine))
        if meant != mine:
            library = Outcome(VALUE, (meant, other), f"that of {_shown(meant)}")
        elif known != other:
            library = Outcome(VALUE, (meant, other), "another one than before")
        return Fact(name, subject, library, ours)

    def _is_new(self, scope: Scope, theirs: Handle, own: Handle) -> bool:
        key = scope, self._library.key(scope, theirs), self._ours.key(scope, own)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


class _Chain(NamedTuple):
    # Handles from the current one outwards, and how that ended.
    handles: Sequence[Handle]
    end: Outcome


def _parts(rows: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _chain(side: Interface, scope: Scope, thread: Handle, limit: int) -> _Chain:
    found: dict[Hashable, Handle] = {}
    is_region = scope == Scope.PARALLEL
    step = ask(side.current_parallel if is_region else side.current_task, thread)
    while step.kind == VALUE:
        key = side.key(scope, step.value)
        if key in found or len(found) >= limit:
            return _Chain(list(found.values()), refused(CorruptState(0, "the chain does not end")))
        found[key] = step.value
        step = ask(side.enclosing if is_region else side.generating, step.value)
    return _Chain(list(found.values()), step)


def _count(chain: _Chain) -> Outcome:
    if not chain.handles and chain.end.kind == REFUSED:
        return chain.end
    return Outcome(VALUE, len(chain.handles), str(len(chain.handles)))


def _listed(
    start: str, subject: Subject, library: Outcome, ours: Outcome, name: Callable[[Any], str]
) -> Iterator[Fact]:
    # A fact for each entry that one of them has.
    if VALUE not in (library.kind, ours.kind) or library.kind != ours.kind:
        yield Fact(f"{start}list", subject, library, ours)
        return
    for key in {**ours.value, **library.value}:
        yield Fact(f"{start}{name(key)}", subject, *(_entry(side.value.get(key)) for side in (library, ours)))


def _there(found: Outcome, text: str) -> Outcome:
    return Outcome(VALUE, True, text) if found.kind == VALUE else found


def _entry(value: Any) -> Outcome:
    if value is None:
        return Outcome(NONE)
    return Outcome(VALUE, value, value.name.lower() if isinstance(value, Scope) else str(value))


def _part(found: Outcome, number: int, write: Callable[[Any], str]) -> Outcome:
    if found.kind != VALUE:
        return found
    value = found.value[number]
    return Outcome(NONE) if value is None else Outcome(VALUE, value, write(value))


def _member_of(found: Outcome, name: str) -> Outcome:
    if found.kind != VALUE:
        return found
    value = getattr(found.value, name)
    return Outcome(NONE, text="not written") if value is None else Outcome(VALUE, value, _hex(value))


def _number(found: Outcome) -> Outcome:
    if found.kind != VALUE:
        return found
    value, is_whole = found.value
    text = str(value) if is_whole else f"{value}, the first of a list"
    return Outcome(VALUE, value, text, is_part=not is_whole)


def _shown(key: Hashable) -> str:
    return f"{key:#x}" if isinstance(key, int) else str(key)


def _hex(value: int) -> str:
    return f"{value:#x}"
