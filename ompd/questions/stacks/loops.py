"""Finds the loops around the frames of running threads, because the line of such a thread in its loop is chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ompd.contract.code_owners import USER
from ompd.contract.process import Frame
from ompd.errors import OmpdError
from ompd.model import StackFrame, StackRecord
from ompd.questions import places
from ompd.session import Session

_MAX_FRAMES = 64
_MAX_CODE = 1 << 12  # instructions of a loop whose lines are looked up


class Loops:
    """The loops of the functions of one process, by their first lines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loops: dict[tuple[int, int], tuple[int, int] | None] = {}

    def around(self, row: StackRecord) -> dict[int, int]:
        """Return the first line of the innermost loop around each frame, by the ``id()`` of the frame.

        Frames are examined from the innermost outwards, up to the first that is not user code. So a thread that waits
        in a call has none: its line is meaningful. A loop belongs to a source function if all code of the loop is in
        the function or was inlined into it. It is unknown without debug information, or if its code cannot be followed.
        """
        lines: dict[int, int] = {}
        for frames in self._own(row):
            loop = self._loop(row.native_thread_id, frames)
            if loop is not None:
                inlined, line = loop
                lines[id(frames[inlined])] = line
        return lines

    def _own(self, row: StackRecord) -> Iterator[Sequence[StackFrame]]:
        # Yield the frames of each physical function and of the functions inlined into it, innermost first. Only the
        # innermost physical functions that are user code are yielded.
        frames_of_row = row.frames[:_MAX_FRAMES]
        if not frames_of_row or frames_of_row[0].how != "innermost" or frames_of_row[0].signal:
            return
        for (_, _, kind, thread), group in groupby(
            frames_of_row, lambda frame: (frame.address, frame.cfa, frame.kind, frame.thread)
        ):
            frames = list(group)
            if kind != USER or thread != row.native_thread_id or any(frame.guessed or frame.signal for frame in frames):
                return
            yield frames

    def _loop(self, native: int | None, frames: Sequence[StackFrame]) -> tuple[int, int] | None:
        # Return the index of the frame whose function has the loop, and the loop's first line. None without a loop.
        address, cfa = frames[0].address, frames[0].cfa
        if native is None or address is None or cfa is None:
            return None
        try:
            frame = next(
                (f for f in self._session.process.stacks.stack(native).frames if (f.pc, f.cfa) == (address, cfa)), None
            )
            if frame is None:
                return None
            key = (frame.pc, frame.call_site)
            if key not in self._loops:
                self._loops[key] = self._line(frame)
            loop = self._loops[key]
            # Compare only the inner functions: rows lack compilers' functions around them.
            inner = [chain[1:] for chain in reversed(self._chain(frame.call_site)[-1 - loop[0] :])] if loop else []
            return loop if inner == [(chain.file, chain.line) for chain in frames[: len(inner)]] else None
        except OmpdError:
            return None

    def _line(self, frame: Frame) -> tuple[int, int] | None:
        functions = places.followed_functions(self._session)
        loop = functions.branches.loop(frame)
        if loop is None or len(loop.code) > _MAX_CODE:
            return None
        chains = [self._chain(address) for address in loop.code]
        own_chain = self._chain(frame.call_site)
        level = 0
        while all(len(chain) > level + 1 and chain[: level + 1] == own_chain[: level + 1] for chain in chains):
            level += 1
        function, file, _ = own_chain[level]
        # Take the line from the ends of the loop, because compilers merge equal code of other functions into it.
        ends = [
            chain for chain in map(self._chain, loop.ends) if len(chain) > level and chain[:level] == own_chain[:level]
        ]
        lines = {chain[level][2] or 0 for chain in ends if chain[level][:2] == (function, file)}
        return (len(own_chain) - 1 - level, min(lines - {0})) if lines - {0} else None

    def _chain(self, address: int) -> list[tuple[str | None, str | None, int | None]]:
        # Return the source functions at an address, outermost first, each with its file and the line in it.
        functions = self._session.process.places.source_frames(address)
        return [(function.function, function.file, function.line) for function in reversed(functions)]
