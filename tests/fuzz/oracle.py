"""Rules for answers about a damaged core: equal to those about the sound core, unless a damaged byte was read for them.

The intact core is asked first, and all reads are logged: up to each answer, and, with a session for each row, up to
each fact of the row. Then, for any bytes that a case changes:

- only :class:`OmpdError` is raised, and no question reads endlessly;
- an answer that read none of these bytes is equal in all;
- a fact that read none of them is equal, in a row that may otherwise be damaged;
- if memory is removed and not changed, each fact is equal or given as unknown.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.errors import OmpdError
from ompd.model import Answer
from ompd.questions import icvs, regions, runtimes, tasks, threads
from ompd.questions.facts.answers import begin
from ompd.questions.facts.gathering import Facts
from ompd.questions.threads import rows as thread_rows
from ompd.render import terminal
from ompd.render.json import format_answer
from ompd.runtimes.libomp.handles import Parallel, Task
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import LoadedRuntime, Session
from tests.fuzz.victims import Core, Span, Spans, WatchedTarget

Ask = Callable[[Session], Any]


def ask_below(session: Session) -> dict[str, Any]:
    """Ask questions that no command asks yet: the environment, thread-local variables, thread keys."""
    process = session.process
    found: dict[str, Any] = {"environment": _told(process.environment.at_start)}
    for thread in process.threads.ids():
        found[f"errno {thread}"] = _told(lambda thread=thread: process.symbols.find_symbol("errno", thread=thread))
        found[f"keys {thread}"] = [
            _told(lambda thread=thread, key=key: process.storage.key_value(thread, key)) for key in (0, 1)
        ]
    found["pthreads"] = _told(lambda: process.glibc.pthreads())
    return found


def _told(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except OmpdError as error:
        return f"{type(error).__name__}: {error}"


QUESTIONS: Mapping[str, Ask] = {
    "runtimes": runtimes.ask,
    "threads": threads.ask,
    "parallel": regions.ask,
    "tasks": tasks.ask,
    "icvs": icvs.ask,
    "below": ask_below,
}
ORDERS: Sequence[tuple[str, ...]] = (
    ("runtimes", "threads", "parallel", "tasks", "icvs", "below"),
    ("icvs", "tasks", "parallel", "threads", "below", "runtimes"),
    ("parallel", "below", "icvs", "runtimes", "threads", "tasks"),
    ("tasks", "runtimes", "icvs", "threads", "below", "parallel"),
)
_KEYS = {
    "threads": lambda row: row.native_thread_id,
    "parallel": lambda row: row.id,
    "tasks": lambda row: row.id,
    "icvs": lambda row: (row.runtime, row.name, row.handle),
}
# Facts that fill several fields of a record, by the key under which a row asks for them.
_TOGETHER = {
    "state": ("state", "state_source"),
    "exit_frame": ("exit_frame", "enter_frame"),
    "task": ("wait", "wait_id", "task"),
}
# Names of rows are no facts. Layouts are those that the session has used so far. The innermost frame is given if the
# user's frame is unknown. A task's thread is excluded by `but`: the question knows more of it than the single row.
_NOT_COMPARED = {"id", "runtime", "handle", "name", "scope", "layouts", "innermost"}
MAX_SECONDS = 10.0


class Find(AssertionError):
    """A broken rule."""


@dataclass(frozen=True)
class Told:
    """The result of one question: an answer, or an error."""

    answer: Any
    error: OmpdError | None
    reads: int


@dataclass(frozen=True)
class Known:
    """The results of all questions about an intact core in one order, and the places read up to each."""

    told: Mapping[str, Told]
    spans: Mapping[str, Spans]


FactSpans = Mapping[str, Spans]  # by field of the record


class Victim:
    """One good core: the results from it when it is intact, and the places read for each fact."""

    def __init__(self, name: str, core: Core) -> None:
        self.name = name
        self.core = core
        self.known = [self._known(order) for order in ORDERS]
        self.log = self._open_log()
        first = self.known[0].told
        for question in ORDERS[0]:
            if first[question].error is not None:
                raise AssertionError(f"{name}: {question}: {first[question].error}")
        self.rows: dict[str, dict[Any, FactSpans]] = {question: self._rows(question) for question in _KEYS}
        self._most = max(told.reads for told in first.values())

    def _known(self, order: Sequence[str]) -> Known:
        told: dict[str, Told] = {}
        spans: dict[str, Spans] = {}
        with self.core.opened() as target:
            session = self.core.session(target)
            for question in order:
                told[question] = _ask(session, target, question)
                spans[question] = Spans([*target.log, *_EVERYTHING])
        return Known(told, spans)

    def _open_log(self) -> list[Span]:
        with self.core.opened() as target:
            session = self.core.session(target)
            for question in ORDERS[0]:
                _ask(session, target, question)
            return sorted(set(target.log))

    # Single rows

    def _rows(self, question: str) -> dict[Any, FactSpans]:
        rows = self.known[0].told[question].answer.rows
        return dict(getattr(self, f"_{question}_rows")(rows))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[tuple[Session, LoadedRuntime, Runtime, _Tracked]]:
        with self.core.opened() as target:
            session = self.core.session(target)
            loaded = next((runtime for runtime in session.runtimes if isinstance(runtime.space, Runtime)), None)
            with _Tracked(target) as tracked:
                yield session, loaded, loaded.space if loaded is not None else None, tracked  # type: ignore[misc]

    def _threads_rows(self, rows: Sequence[Any]) -> Iterator[tuple[Any, FactSpans]]:
        each = thread_rows.each
        for row in rows:
            with self._alone() as (session, _, _, tracked):

                def only(session: Session, items: Any, record: Any, wanted: int = row.native_thread_id) -> Any:
                    return each(session, [item for item in items if item == wanted], record)

                thread_rows.each = only
                try:
                    (again,) = threads.ask(session).rows
                finally:
                    thread_rows.each = each
                yield row.native_thread_id, tracked.of(row, again)

    def _parallel_rows(self, rows: Sequence[Any]) -> Iterator[tuple[Any, FactSpans]]:
        for row in rows:
            with self._alone() as (session, loaded, space, tracked):
                region = _region(space, row.id)
                yield row.id, tracked.of(row, regions._record(session, loaded, begin(session), region))

    def _tasks_rows(self, rows: Sequence[Any]) -> Iterator[tuple[Any, FactSpans]]:
        for row in rows[:40]:
            with self._alone() as (session, loaded, space, tracked):
                collector = tasks._Collector(session, loaded, space, begin(session))
                again = collector._record(_task(space, row.id))
                yield row.id, tracked.of(row, again, but=("thread",))

    def _icvs_rows(self, rows: Sequence[Any]) -> Iterator[tuple[Any, FactSpans]]:
        handles = dict.fromkeys((row.scope, row.handle) for row in rows if row.scope != icvs.DISPLAY)
        for scope, handle in list(handles)[:40]:
            with self._alone() as (_, _, space, tracked):
                asked: Any = space
                if scope == "thread":
                    asked = space.thread_by_native_id(ThreadIdKind.LWP, int(handle))
                elif scope == "parallel":
                    asked = _region(space, handle)
                elif scope == "task":
                    asked = _task(space, handle)
                for row in rows:
                    if (row.scope, row.handle) == (scope, handle):
                        value = space.icv(row.name, asked)
                        if value != row.value:
                            raise AssertionError(f"{self.name}: {row} alone is {value!r}")
                        yield (row.runtime, row.name, handle), {"value": tracked.now()}

    # A damaged case

    def check(
        self,
        patches: Sequence[tuple[int, bytes]],
        holes: Sequence[Span] = (),
        *,
        order: int = 0,
        text: bool = False,
        reads: int | None = None,
    ) -> str:
        """Ask all questions about the damaged core, and return the outcome in a word.

        :raises Find: if a rule is broken
        """
        started = time.process_time()
        places = self.core.places_of(patches) + list(holes)
        known = self.known[order]
        outcome = "equal"
        with self.core.damaged(patches):
            try:
                opened = self.core.opened()
                target = opened.__enter__()
            except OmpdError as error:
                if not any(place >= 1 << 70 for place, _ in places):
                    raise Find(f"cannot be opened, for bytes of its memory: {error}") from error
                return "refused"
            target.holes = holes
            session = self.core.session(target)
            if reads is not None and reads < 500:
                list(session.runtimes)  # else opening the session would be given up
            session.process.memory.max_reads = reads if reads is not None else 20 * self._most + 20_000
            changed_only = not holes
            for question in ORDERS[order]:
                told = _ask(session, target, question)
                before = known.told[question]
                touched = any(known.spans[question].touches(*place) for place in places)
                if told.error is None and question != "below":
                    check_rendering(question, told.answer, text=text)
                if told.answer == before.answer:
                    continue
                outcome = "error" if told.error is not None else "other"
                if reads is not None:
                    if (
                        told.error is None
                        and question != "below"
                        and told.answer.complete
                        and not places
                        and _differ(before, told)
                    ):
                        raise Find(f"{question}: differs, and does not say that it was given up")
                    continue
                if not touched:
                    raise Find(f"{question}: differs, and nothing that it read was touched:{_difference(before, told)}")
                if told.error is None and question in self.rows:
                    self._compare(question, before.answer, told.answer, places, changed_only)
            opened.__exit__(None, None, None)
        seconds = time.process_time() - started
        if seconds > MAX_SECONDS:
            raise Find(f"took {seconds:.1f} s")
        return outcome

    def _compare(
        self, question: str, before: Answer[Any], after: Answer[Any], places: Sequence[Span], changed: bool
    ) -> None:
        key = _KEYS[question]
        rows = {key(row): row for row in after.rows}
        for row in before.rows:
            now = rows.get(key(row))
            if now is None:
                if not changed and after.complete and not after.warnings:
                    raise Find(f"{question}: the row of {key(row)} is missing, and nothing is said of it")
                continue
            if now == row:
                continue
            spans = self.rows[question].get(key(row), {})
            for name, was, is_now, why in _differences(row, now):
                if name == "status" and (was, is_now) == ("queued", "executing") and row.thread != now.thread:
                    continue  # the field that gives a thread its task was touched
                if name == "scheduling" and why is not None and was not in rows:
                    continue  # the way to that task was touched, and a row names only listed tasks
                if name in spans and not any(spans[name].touches(*place) for place in places):
                    raise Find(f"{question}: {name} of {key(row)} was {was!r} and is {is_now!r}, untouched ({why})")
                if not changed and why is None and not _is_gap(is_now):
                    raise Find(f"{question}: {name} of {key(row)} was {was!r} and is {is_now!r}, for missing memory")


# The notes and headers of a core, as a whole, count as read by everything.
_EVERYTHING = [(1 << 80, 1 << 90)]


def _ask(session: Session, target: WatchedTarget, question: str) -> Told:
    before = len(target.log)
    try:
        found, error = QUESTIONS[question](session), None
    except OmpdError as failed:
        found, error = None, failed
    except Exception as failed:
        raise Find(f"{question}: {type(failed).__name__}: {failed}") from failed
    return Told(found, error, len(target.log) - before)


def _region(space: Runtime, identifier: str) -> Parallel:
    address, _, place = identifier.partition("/")
    return space.team_at(int(address, 16)).regions[int(place or 1) - 1]


def _task(space: Runtime, identifier: str) -> Task:
    address, _, place = identifier.partition("/")
    task = space.task_at(int(address, 16))
    return Task(space, task.address, int(place or 1), task.count) if place else task


class _Tracked:
    """Records the length of the log when each fact of a row has been asked for."""

    def __init__(self, target: WatchedTarget) -> None:
        self._target = target
        self._after: dict[str, int] = {}

    def __enter__(self) -> _Tracked:
        self._get = Facts.get
        after, log, get = self._after, self._target.log, self._get

        def tracked(self: Facts, key: str, ask: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return get(self, key, ask, *arguments)
            finally:
                after[key] = len(log)

        Facts.get = tracked  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Facts.get = self._get  # type: ignore[method-assign]

    def now(self) -> Spans:
        return Spans([*self._target.log, *_EVERYTHING])

    def of(self, row: Any, again: Any, but: Sequence[str] = ()) -> FactSpans:
        """Return the places that the facts of *row* were read from; *again* is the same row, asked by itself."""
        for name, was, is_now, _ in _differences(row, again):
            if name not in but:
                raise AssertionError(f"{name} of {row} is {is_now!r} alone, not {was!r}")
        found: dict[str, Spans] = {}
        for key, length in self._after.items():
            spans = Spans([*self._target.log[:length], *_EVERYTHING])
            for name in _TOGETHER.get(key, (key,)):
                if name not in but:
                    found[name] = spans
        return found


def _differences(before: Any, after: Any) -> Iterator[tuple[str, Any, Any, str | None]]:
    # Yield field, old value, new value, and the reason why the new value is unknown, if one is given.
    for field in fields(before):
        name = field.name
        if name in _NOT_COMPARED or name == "unavailable":
            continue
        was, is_now = getattr(before, name), getattr(after, name)
        if was != is_now:
            reasons = [
                why for key, why in after.unavailable.items() if key == name or key.startswith((f"{name}.", f"{name}["))
            ]
            yield name, was, is_now, reasons[0] if reasons else None


def _is_gap(value: Any) -> bool:
    return False


def _differ(before: Told, after: Told) -> bool:
    old, new = before.answer.rows, after.answer.rows
    return len(old) != len(new) or any(any(_differences(*pair)) for pair in zip(old, new, strict=True))


def _difference(before: Told, after: Told) -> str:
    if after.error is not None:
        return f" {after.error}"
    old, new = before.answer, after.answer
    if isinstance(old, dict):
        return "".join(
            f"\n  {key}: {old.get(key)!r} -> {new.get(key)!r}" for key in old if old.get(key) != new.get(key)
        )
    found = [f"\n  {a!r}\n  -> {b!r}" for a, b in zip(old.rows, new.rows, strict=False) if a != b][:3]
    return f" {len(old.rows)} rows, now {len(new.rows)}, {new.warnings[:3]}" + "".join(found)


# Rendering


def check_rendering(question: str, answer: Answer[Any], *, text: bool) -> None:
    """Check that an answer renders as JSON, and, with *text*, as text that does not control a terminal."""
    try:
        written = format_answer(question, answer)
        read = json.loads(written)
        json.dumps(read, ensure_ascii=False).encode()
    except Exception as error:
        raise Find(f"{question} as JSON: {type(error).__name__}: {error}") from error
    if len(read[question]) != len(answer.rows):
        raise Find(f"{question} as JSON has other rows")
    if text:
        printed = as_text(question, answer)
        odd = next((c for c in printed if not c.isprintable() and c != "\n"), None)
        if odd is not None:
            raise Find(f"{question} as text has {odd!r}")


def as_text(question: str, answer: Answer[Any], *, verbose: bool = True, unfold: bool = False) -> str:
    """Return the answer as text that the command prints into a pipe."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            getattr(terminal, f"print_{question}")(
                terminal.make_console("never"), answer, unfold=unfold, verbose=verbose
            )
    except Exception as error:
        raise Find(f"{question} as text: {type(error).__name__}: {error}") from error
    return out.getvalue()


def seeded(*parts: object) -> random.Random:
    """Return a generator of random numbers that is the same for the same *parts*."""
    return random.Random("/".join(map(str, parts)))


__all__ = ["ORDERS", "QUESTIONS", "Find", "Scope", "Victim", "as_text", "check_rendering", "seeded"]
