"""An address space that gives another one's answers, with one wrong fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ompd.contract.plugin import FrameAddress, ThreadState


@dataclass(frozen=True)
class Lie:
    """One wrong answer, of a *method* of the ``space``, a ``thread``, a ``region`` or a ``task`` (*kind*).

    *change* gets the handle, the right answer and the arguments. If *about* is given, only calls with it as first
    argument are answered wrongly.
    """

    kind: str
    method: str
    change: Callable[..., Any]
    about: object = None

    @property
    def name(self) -> str:
        """The test id of the lie."""
        return f"{self.kind}.{self.method}" + (f"({self.about})" if self.about is not None else "")


def _other_frames(handle: Any, found: Any, flags: int, address: int) -> Any:
    return tuple(
        FrameAddress(frame.address + address, frame.flags ^ flags) if frame is not None else None for frame in found
    )


def _other_state(handle: Any, found: ThreadState) -> ThreadState:
    return replace(found, state=0x44 if found.state != 0x44 else 0x43)


LIES = (
    Lie("space", "omp_version", lambda space, found: found + 1),
    Lie("space", "states", lambda space, found: {**found, 0x1: "work_at_home"}),
    Lie("space", "icvs", lambda space, found: found[1:]),
    Lie("space", "thread_by_native_id", lambda space, found, *of: None),
    Lie("space", "display_control_vars", lambda space, found: {**found, "OMP_DYNAMIC": "'MAYBE'"}),
    Lie("thread", "native_id", lambda thread, found, kind: found + 8),
    Lie("thread", "state", _other_state),
    Lie("thread", "state", lambda thread, found: replace(found, wait_id=0x77)),
    Lie("thread", "current_parallel", lambda thread, found: found and found.enclosing()),
    Lie("thread", "current_task", lambda thread, found: found and found.generating()),
    Lie("thread", "tool_data", lambda thread, found: found + 1),
    Lie("region", "enclosing", lambda region, found: None),
    Lie("region", "thread", lambda region, found, number: region.thread(0)),
    Lie("region", "implicit_task", lambda region, found, number: region.implicit_task(0)),
    Lie("region", "tool_data", lambda region, found: found + 1),
    Lie("task", "generating", lambda task, found: None),
    Lie("task", "scheduling", lambda task, found: None),
    Lie("task", "parallel", lambda task, found: found and found.enclosing()),
    Lie("task", "function", lambda task, found: None if found is None else found + 16),
    Lie("task", "frames", lambda task, found: _other_frames(task, found, 0x11, 0)),
    Lie("task", "frames", lambda task, found: _other_frames(task, found, 0, 16)),
    Lie("task", "tool_data", lambda task, found: found + 1),
)
"""A lie about each fact other than the values of internal control variables."""


def lie_of_variable(name: str) -> Lie:
    """Return the lie about an internal control variable."""

    def change(space: Any, found: Any, variable: str, handle: Any) -> Any:
        if isinstance(found, bool):
            return not found
        return found + 1 if isinstance(found, int) else f"{found}x"

    return Lie("space", "icv", change, name)


class Lying:
    """Stands for an address space or one of its handles. Each answer is right except for *lie*."""

    def __init__(self, target: Any, lie: Lie | None) -> None:
        self._target, self._lie = target, lie
        self._kind = _kind(target)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            plain = [argument._target if isinstance(argument, Lying) else argument for argument in arguments]
            answer = found(*plain)
            lie = self._lie
            if (
                lie is not None
                and (lie.kind, lie.method) == (self._kind, name)
                and lie.about in (None, plain[:1] and plain[0])
            ):
                answer = lie.change(self._target, answer, *plain)
            return self._wrapped(answer)

        return call

    def _wrapped(self, answer: Any) -> Any:
        if _kind(answer) is not None:
            return Lying(answer, self._lie)
        if isinstance(answer, Sequence) and not isinstance(answer, (str, tuple)):
            return [self._wrapped(each) for each in answer]
        return dict(answer) if isinstance(answer, Mapping) else answer


def _kind(target: Any) -> str | None:
    for kind, method in (("space", "icvs"), ("thread", "native_id"), ("region", "implicit_task"), ("task", "frames")):
        if hasattr(target, method):
            return kind
    return None
