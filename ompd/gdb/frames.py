"""A frame filter, which hides frames in gdb's own ``bt`` and names the bodies of regions and tasks.

The filter hides three kinds of frames: frames of an OpenMP runtime; frames of the C library that the runtime called, or
that began its thread; and clang's frames around the body of a construct. The owner of a frame follows from the frame's
address, as for ``omp stack --raw``. Frame 0 is always shown, because the thread executes it. Frames keep their numbers.
``bt -no-filters`` shows all frames, and ``disable frame-filter global ompd`` turns the filter off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]
from gdb.FrameDecorator import FrameDecorator  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM
from ompd.debugger.targets.gdb.inferior import thread_selected
from ompd.debugger.targets.gdb.target import native_id
from ompd.frontends.wrappers import is_wrapper
from ompd.gdb.debugger import Gdb
from ompd.model import StackFrame
from ompd.records import record
from ompd.render.words import basename, clean
from ompd.safety.isolation import Isolation

_NAME = "ompd"
_PRIORITY = 90  # filters of users usually have 100, so they run before this one and see all frames


@record
class ThreadFrames:
    """Facts about a thread's frames, by program counter.

    ``hides`` is whether a frame is hidden as the runtime's, ``bodies`` the names of frames with a construct's body.
    """

    hides: Mapping[int, bool]
    bodies: Mapping[int, str]


def thread_frames(frames: Sequence[StackFrame]) -> ThreadFrames:
    """Return the facts from the raw stack of a thread, whose innermost frame is first."""
    kinds = [frame.kind for frame in frames]
    inner, outer = _without_system(kinds), _without_system(kinds[::-1])[::-1]
    hides: dict[int, bool] = {}
    bodies: dict[int, str] = {}
    for number, frame in enumerate(frames):
        if frame.address is None:
            continue
        hides[frame.address] = (outer[number] or inner[number]) == RUNTIME
        construct = frame.construct
        if construct is not None and frame.address not in bodies:
            line = f" {basename(construct.file)}:{construct.line}" if construct.file is not None else ""
            bodies[frame.address] = clean(f"{frame.function or '??'} [body of {construct.kind or 'construct'}{line}]")
    return ThreadFrames(hides, bodies)


def _without_system(kinds: Sequence[str]) -> list[str | None]:
    # Return the kind of each frame. A frame of the C library gets the kind of the nearest frame of another kind before
    # it in the list, None if there is none.
    others: list[str | None] = []
    nearest: str | None = None
    for kind in kinds:
        nearest = kind if kind != SYSTEM else nearest
        others.append(nearest)
    return others


class _Body(FrameDecorator):  # type: ignore[misc, unused-ignore]
    # A frame of a construct's body, which gdb shows by the name of the function around the construct.

    def __init__(self, base: Any, name: str) -> None:
        super().__init__(base)
        self._shown = name

    def function(self) -> str:
        """Return the name for gdb to show."""
        return self._shown


def shown(decorators: Iterable[Any], facts: ThreadFrames) -> Iterator[Any]:
    """Yield the frames to show among *decorators*, gdb's frames from the innermost on."""
    inner = ""
    is_hidden = False
    for decorator in decorators:
        frame = decorator.inferior_frame()
        name, pc = frame.name() or "", frame.pc()
        # gdb adds functions that left the stack by a jump. They are hidden if the function that they called is hidden.
        is_hidden = facts.hides.get(pc, is_hidden)
        calls_only_body = is_wrapper(name, [inner])
        inner = name
        if frame.level() and (is_hidden or calls_only_body):
            continue
        body = facts.bodies.get(pc)
        # Functions that were inlined into the code of a construct have the same pc, and must keep their own names.
        is_outlined = naming.parse_outlined(name) is not None
        yield _Body(decorator, body) if body is not None and is_outlined else decorator


class FrameFilter:
    """The filter for gdb. After an error it shows all frames, because no error of ours may reach gdb."""

    name = _NAME
    enabled = True
    priority = _PRIORITY

    def __init__(self, debugger: Gdb, isolation: Isolation) -> None:
        self._debugger = debugger
        self._isolation = isolation
        self._moment: tuple[object, ...] = ()
        self._facts: dict[int, ThreadFrames] = {}

    def filter(self, decorators: Iterable[Any]) -> Iterable[Any]:
        """Return the frames of the selected thread that gdb shows."""
        with suppress(BaseException), self._isolation:
            thread = thread_selected()
            if thread is not None and _has_runtime():
                return self._isolated(shown(decorators, self._facts_of(native_id(thread))))
        return decorators

    def _isolated(self, frames: Iterator[Any]) -> Iterator[Any]:
        # gdb takes the frames one by one, so each step is isolated.
        while True:
            with self._isolation:
                frame = next(frames, None)
            if frame is None:
                return
            yield frame

    def _facts_of(self, native: int) -> ThreadFrames:
        moment = self._debugger.stops.of(gdb.selected_inferior())
        if moment != self._moment:
            self._moment, self._facts = moment, {}
        if native not in self._facts:
            # For the first thread of a stop, read its stack only. A second thread may be one of hundreds, as in
            # `thread apply all bt`, so read the stacks of all threads at once.
            only_thread = None if self._facts else native
            for row in self._debugger.session().ask_stacks(raw=True, thread=only_thread).rows:
                if row.native_thread_id is not None:
                    self._facts[row.native_thread_id] = thread_frames(row.frames)
            self._facts.setdefault(native, ThreadFrames({}, {}))
        return self._facts[native]


def _has_runtime() -> bool:
    # A quick test, because `bt` is used for all programs: is there a file of a runtime, or an entry point in a static
    # program?
    objfiles = gdb.selected_inferior().progspace.objfiles()
    if any(naming.is_runtime_file(objfile.filename or "") for objfile in objfiles):
        return True
    for entry in naming.FORKS:
        with suppress(gdb.error):
            gdb.parse_and_eval(f"(char *) &{entry}")
            return True
    return False


def add_filter(debugger: Gdb, isolation: Isolation) -> None:
    """Add the filter to gdb's global filters."""
    gdb.frame_filters[_NAME] = FrameFilter(debugger, isolation)
