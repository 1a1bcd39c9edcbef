"""Asks a library and our plugin all questions of OMPD about a process, and pairs their answers, fact by fact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import state_name
from ompd.contract.process import Module
from ompd.errors import CorruptState, LibraryError, OmpdError, Rc, StaleHandle, TargetGone, TooMuch
from ompd.questions.check.plugin import MAX_CHAIN, Handle, InitialRegion, NativeThread
from ompd.records import record

if TYPE_CHECKING:
    from ompd.debugger.symbols import Symbols
    from ompd.questions.check.ompd_library import LibraryAnswers
    from ompd.questions.check.plugin import PluginAnswers

    Side = LibraryAnswers | PluginAnswers

_T = TypeVar("_T")
_MAX_TEAM = 1 << 16
_MAX_STEPS = 1 << 20
_OUTSIDE = -5
"""A thread number that no thread has."""
# How many threads are announced to a library at once, and how many members of a team, regions or tasks.
_THREADS, _OTHERS = 128, 256

VALUE, NONE, REFUSED = "value", "none", "refused"

# The routine of OMPD that answers a fact, by the fact's name. _FORMS has the beginnings of names that go on with the
# name of a variable, state or setting.
FUNCTIONS: Mapping[str, str] = {
    "omp_version": "ompd_get_omp_version",
    "omp_version_string": "ompd_get_omp_version_string",
    "handle by pthread": "ompd_get_thread_handle",
    "handle by lwp": "ompd_get_thread_handle",
    "id as pthread": "ompd_get_thread_id",
    "id as lwp": "ompd_get_thread_id",
    "state": "ompd_get_state",
    "wait_id": "ompd_get_state",
    "regions": "ompd_get_enclosing_parallel_handle",
    "end of regions": "ompd_get_enclosing_parallel_handle",
    "tasks": "ompd_get_generating_task_handle",
    "end of tasks": "ompd_get_generating_task_handle",
    "thread tool data": "ompd_get_tool_data",
    "region tool data": "ompd_get_tool_data",
    "task tool data": "ompd_get_tool_data",
    "thread in region": "ompd_get_thread_in_parallel",
    "region of a thread in it": "ompd_get_curr_parallel_handle",
    "task in region": "ompd_get_task_in_parallel",
    "number outside of the team": "ompd_get_thread_in_parallel",
    "function": "ompd_get_task_function",
    "exit frame": "ompd_get_task_frame",
    "enter frame": "ompd_get_task_frame",
    "exit frame flag": "ompd_get_task_frame",
    "enter frame flag": "ompd_get_task_frame",
    "region of task": "ompd_get_task_parallel_handle",
    "scheduling task": "ompd_get_scheduling_task_handle",
    "same thread": "ompd_thread_handle_compare",
    "same region": "ompd_parallel_handle_compare",
    "same task": "ompd_task_handle_compare",
    "variable of another scope": "ompd_get_icv_from_scope",
}
_FORMS: Mapping[str, str] = {
    "state ": "ompd_enumerate_states",
    "listed ": "ompd_enumerate_icvs",
    "setting ": "ompd_get_display_control_vars",
    "number of ": "ompd_get_icv_from_scope",
    "text of ": "ompd_get_icv_string_from_scope",
}


@record
class Subject:
    """The subject of a fact: the process, a thread, a region or a task."""

    kind: str
    """``process``, ``thread``, ``region`` or ``task``."""
    id: str
    """The subject's id in our plugin."""
    thread: int | None
    """The native id of the thread at which the subject was met, None for the process."""
    tags: frozenset[str]
    """The subject's properties; :mod:`ompd.questions.check.known` lists them."""


@record
class Outcome:
    """The answer of one side, the library or our plugin, to one question."""

    kind: str
    """``value``, ``none`` (there is no such thing), or ``refused`` (with ``rc`` and ``reason``)."""
    value: Any = None
    text: str = "none"
    """The value as it is shown."""
    rc: int | None = None
    """The return code of a refusal, None for other answers."""
    reason: str = ""
    is_part: bool = False
    """Whether the value is only the first of a list."""


@record
class Fact:
    """One fact about a subject, with the answers of both sides."""

    name: str
    subject: Subject
    theirs: Outcome
    ours: Outcome

    @property
    def is_same(self) -> bool:
        """Whether both answers are the same."""
        return same(self.theirs, self.ours)


def function_of(fact: str) -> str:
    """Return the routine of OMPD that answers a fact."""
    if fact in FUNCTIONS:
        return FUNCTIONS[fact]
    if fact.startswith("routine "):
        return fact.removeprefix("routine ")
    return next(function for start, function in _FORMS.items() if fact.startswith(start))


def ask(question: Callable[..., Any], *arguments: Any, write: Callable[[Any], str] = str) -> Outcome:
    """Return the outcome of a question. An error becomes a refusal, unless all further questions would fail, too.

    :param write: returns the text of a value
    :raises TargetGone: if no further question can succeed; so do :exc:`StaleHandle`, :exc:`TooMuch`, and
        :exc:`LibraryError` once the library has ended
    """
    try:
        value = question(*arguments)
    except (TargetGone, StaleHandle, TooMuch):
        raise
    except LibraryError as error:
        if error.has_ended:
            raise
        return refused(error)
    except OmpdError as error:
        return refused(error)
    return Outcome(NONE) if value is None else Outcome(VALUE, value, write(value))


def refused(error: OmpdError) -> Outcome:
    """Return the outcome of a question that failed."""
    return Outcome(REFUSED, None, rc_name(int(error.rc)), int(error.rc), str(error))


def rc_name(rc: int) -> str:
    """Return the name of a return code without ``ompd_rc_``."""
    try:
        return Rc(rc).name.lower()
    except ValueError:
        return f"return code {rc}"


def same(library: Outcome, ours: Outcome) -> bool:
    """Return whether both answers are the same. If both refuse, only codes about wrong arguments must be equal."""
    if ours.kind == REFUSED:
        if ours.rc in (Rc.BAD_INPUT, Rc.UNSUPPORTED, Rc.INCOMPATIBLE):
            return library.kind == REFUSED and library.rc == ours.rc
        return library.kind in (REFUSED, NONE)  # the standard has one code for "there is none" and "unknown"
    return (library.kind, library.value, library.is_part) == (ours.kind, ours.value, ours.is_part)


def compare(
    library: Side,
    ours: Side,
    threads: Sequence[NativeThread],
    *,
    keeps_states: bool,
    symbols: Symbols | None = None,
    runtime: Module | None = None,
) -> Iterator[Fact]:
    """Yield every fact, whether the answers of both sides are equal or differ.

    :param threads: all threads of the process
    :param keeps_states: whether the runtime records states, frames and tool data
    :param symbols: the symbols of the process, to recognise code of the runtime
    :param runtime: the runtime's module
    """
    debug = ask(ours.icv_number, "debug-var", Scope.ADDRESS_SPACE, None)
    tags = {"states"} if keeps_states else set()
    if debug.kind == VALUE and debug.value[0]:
        tags.add("debug")
    settings = ask(ours.display_control_vars)
    if settings.kind == VALUE and settings.value.get("OMP_NUM_THREADS") == "undefined":
        tags.add("no_num_threads")
    yield from _Comparison(library, ours, frozenset(tags), symbols, runtime).facts(threads)


class _Comparison:
    # One comparison of the library with our plugin. It keeps the handles that it has met on both sides.

    def __init__(
        self, library: Side, ours: Side, tags: frozenset[str], symbols: Symbols | None, runtime: Module | None
    ) -> None:
        self._library = library
        self._ours = ours
        self._tags = tags
        self._symbols = symbols
        self._runtime = runtime
        # The partner of each handle, that is, the other side's handle with which it was first met. Keys are the scope,
        # the side and the handle's key. Both sides must distinguish the same entities.
        self._partners: dict[tuple[Scope, str, Hashable], Hashable] = {}
        self._compared: set[tuple[Scope, Hashable, Hashable]] = set()
        self._icvs: dict[Scope, list[str]] = {}
        # How many more handles of regions and tasks are accepted from the library.
        self._steps = _MAX_STEPS

    def facts(self, threads: Sequence[NativeThread]) -> Iterator[Fact]:
        process = Subject("process", "process", None, self._tags)
        yield from self._process(process)
        for chunk in _chunks(threads, _THREADS):
            ask(self._library.expect_threads, chunk)
            for thread in chunk:
                yield from self._thread(thread)

    # The process

    def _process(self, subject: Subject) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        yield from _listed("routine ", subject, ask(library.routines), ask(ours.routines))
        yield Fact("omp_version", subject, ask(library.omp_version), ask(ours.omp_version))
        # A library may choose the text of its version, so only the existence of a text is compared.
        texts = ask(library.omp_version_string), ask(ours.omp_version_string)
        yield Fact("omp_version_string", subject, *(_there(text, "a text") for text in texts))
        yield from _listed("state ", subject, ask(library.states), ask(ours.states))
        listed = ask(library.icvs), ask(ours.icvs)
        yield from _listed("listed ", subject, *listed)
        settings = ask(library.display_control_vars), ask(ours.display_control_vars)
        yield from _listed("setting ", subject, *settings)
        theirs, own = (outcome.value if outcome.kind == VALUE else {} for outcome in listed)
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
        handles: dict[ThreadIdKind, tuple[Outcome, Outcome]] = {}
        for kind, identifier in native.identifiers():
            handles[kind] = ask(library.thread, kind, identifier), ask(ours.thread, kind, identifier)
        theirs, own = (
            next((pair[side].value for pair in handles.values() if pair[side].kind == VALUE), None) for side in (0, 1)
        )
        tags = set(self._tags)
        if own is not None:
            tags |= {"openmp", "in_team" if ask(ours.current_task, own).kind == VALUE else "idle"}
        subject = Subject("thread", str(native.native_thread_id), native.native_thread_id, frozenset(tags))
        for kind, pair in handles.items():
            answers = (_there(outcome, "a thread of OpenMP") for outcome in pair)
            yield Fact(f"handle by {kind.name.lower()}", subject, *answers)
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
        # Yield the facts about the regions and tasks around a thread. They are paired from the outermost inwards,
        # because both sides have the outermost ones even if one side lacks inner ones.
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
            pairs = list(zip(reversed(other.handles), reversed(mine.handles), strict=False))
            for chunk in _chunks(pairs, _OTHERS):
                ask(self._library.expect, scope, [their_handle for their_handle, _ in chunk])
                for their_handle, our_handle in chunk:
                    yield from compared(thread, their_handle, our_handle, folded)

    def _chains(self, scope: Scope, theirs: Handle, own: Handle) -> tuple[_Chain, _Chain]:
        library = _chain(self._library, scope, theirs, min(MAX_CHAIN, self._steps))
        self._steps -= len(library.handles)
        return library, _chain(self._ours, scope, own, MAX_CHAIN)

    def _folded(self, regions: Sequence[Handle]) -> frozenset[Hashable]:
        # Return the keys of serialized regions that are directly inside of one another. The runtime keeps one team for
        # them.
        folded: set[Hashable] = set()
        run: list[Hashable] = []
        for region in [*regions, None]:
            if region is not None and not isinstance(region, InitialRegion) and self._size(region) == 1:
                run.append(self._ours.key(Scope.PARALLEL, region))
                continue
            folded.update(run if len(run) > 1 else ())
            run = []
        return frozenset(folded)

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
        for chunk in _chunks(range(size), _OTHERS):
            ask(library.expect_members, theirs, [*chunk, *outside])
            for number in chunk:
                yield from self._member(subject, theirs, own, number)
        for number in outside:
            answers = ask(library.thread_in, theirs, number), ask(ours.thread_in, own, number)
            yield Fact("number outside of the team", subject, *(_there(outcome, "a thread") for outcome in answers))

    def _member(self, subject: Subject, theirs: Handle, own: Handle, number: int) -> Iterator[Fact]:
        library, ours = self._library, self._ours
        threads = ask(library.thread_in, theirs, number), ask(ours.thread_in, own, number)
        both = list(zip((library, ours), threads, strict=True))
        identifiers = (
            ask(side.thread_id, thread.value, ThreadIdKind.PTHREAD, write=_hex) if thread.kind == VALUE else thread
            for side, thread in both
        )
        yield Fact("thread in region", subject, *identifiers)
        if all(thread.kind == VALUE for thread in threads):
            around = (_there(ask(side.current_parallel, thread.value), "a region") for side, thread in both)
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
            addresses = [_member_of(pair, end) for pair in frames]
            yield Fact(f"{end} frame", subject, *addresses)
            if all(address.value for address in addresses):
                yield Fact(f"{end} frame flag", subject, *(_member_of(pair, f"{end}_flag") for pair in frames))
        yield self._tool_data("task tool data", Scope.TASK, subject, theirs, own)
        yield from self._variables(subject, Scope.TASK, theirs, own)
        yield self._twins("region of task", Scope.PARALLEL, subject, (ask(library.parallel, theirs), region))
        scheduling = ask(library.scheduling, theirs), ask(ours.scheduling, own)
        yield self._twins("scheduling task", Scope.TASK, subject, scheduling)

    def _code(self, address: int) -> str:
        is_runtime = self._symbols is not None and self._symbols.module_at(address) is self._runtime
        return f"{address:#x}" + (", in the runtime" if is_runtime else "")

    # Facts of several kinds of subjects

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
        if all(outcome.kind == VALUE for outcome in pair):
            return self._twin(name, scope, subject, pair[0].value, pair[1].value)
        return Fact(name, subject, *(_there(outcome, "there is one") for outcome in pair))

    def _twin(self, name: str, scope: Scope, subject: Subject, theirs: Handle, own: Handle) -> Fact:
        # Return the fact that a pair of handles is consistent: either both are new, or they are partners already.
        mine, other = self._ours.key(scope, own), self._library.key(scope, theirs)
        our_partner = self._partners.setdefault((scope, "library", other), mine)
        their_partner = self._partners.setdefault((scope, "ours", mine), other)
        library = ours = Outcome(VALUE, mine, _shown(mine))
        if our_partner != mine:
            library = Outcome(VALUE, (our_partner, other), f"that of {_shown(our_partner)}")
        elif their_partner != other:
            library = Outcome(VALUE, (our_partner, other), "another one than before")
        return Fact(name, subject, library, ours)

    def _is_new(self, scope: Scope, theirs: Handle, own: Handle) -> bool:
        key = scope, self._library.key(scope, theirs), self._ours.key(scope, own)
        if key in self._compared:
            return False
        self._compared.add(key)
        return True


class _Chain(NamedTuple):
    # The regions or tasks around a thread, from the current one outwards, and the outcome of the step after the last.
    handles: Sequence[Handle]
    end: Outcome


def _chunks(rows: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _chain(side: Side, scope: Scope, thread: Handle, limit: int) -> _Chain:
    handles: dict[Hashable, Handle] = {}
    is_region = scope == Scope.PARALLEL
    step = ask(side.current_parallel if is_region else side.current_task, thread)
    while step.kind == VALUE:
        key = side.key(scope, step.value)
        if key in handles or len(handles) >= limit:
            return _Chain(list(handles.values()), refused(CorruptState(0, "the chain does not end")))
        handles[key] = step.value
        step = ask(side.enclosing if is_region else side.generating, step.value)
    return _Chain(list(handles.values()), step)


def _count(chain: _Chain) -> Outcome:
    if not chain.handles and chain.end.kind == REFUSED:
        return chain.end
    return Outcome(VALUE, len(chain.handles), str(len(chain.handles)))


def _listed(start: str, subject: Subject, library: Outcome, ours: Outcome) -> Iterator[Fact]:
    # Yield a fact for each entry of the two lists, or one fact for the lists if one side has none.
    if VALUE not in (library.kind, ours.kind) or library.kind != ours.kind:
        yield Fact(f"{start}list", subject, library, ours)
        return
    for key in {**ours.value, **library.value}:
        yield Fact(f"{start}{_shown(key)}", subject, *(_entry(side.value.get(key)) for side in (library, ours)))


def _there(outcome: Outcome, text: str) -> Outcome:
    # Return *outcome*, but any value replaced by True with *text*, so that only the existence of a value is compared.
    return Outcome(VALUE, True, text) if outcome.kind == VALUE else outcome


def _entry(value: Any) -> Outcome:
    if value is None:
        return Outcome(NONE)
    return Outcome(VALUE, value, value.name.lower() if isinstance(value, Scope) else str(value))


def _part(outcome: Outcome, number: int, write: Callable[[Any], str]) -> Outcome:
    if outcome.kind != VALUE:
        return outcome
    value = outcome.value[number]
    return Outcome(NONE) if value is None else Outcome(VALUE, value, write(value))


def _member_of(outcome: Outcome, name: str) -> Outcome:
    if outcome.kind != VALUE:
        return outcome
    value = getattr(outcome.value, name)
    return Outcome(NONE, text="not written") if value is None else Outcome(VALUE, value, _hex(value))


def _number(outcome: Outcome) -> Outcome:
    if outcome.kind != VALUE:
        return outcome
    value, is_whole = outcome.value
    text = str(value) if is_whole else f"{value}, the first of a list"
    return Outcome(VALUE, value, text, is_part=not is_whole)


def _shown(key: Hashable) -> str:
    return f"{key:#x}" if isinstance(key, int) else str(key)


def _hex(value: int) -> str:
    return f"{value:#x}"
