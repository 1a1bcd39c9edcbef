"""What native stacks show whatever the runtime is: whose code is where, and which frames belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ompd.contract.code_owners import USER, owner
from ompd.contract.memory import Memory, read_words
from ompd.contract.plugin import ParallelHandle
from ompd.contract.process import Frame, Module, Process
from ompd.errors import OmpdError, Unavailable

# Teams have many threads that would all show the same; one that shows nothing is seldom alone.
_MAX_THREADS = 8
# The frames of some routines of a runtime take a few hundred bytes.
_MAX_WORDS = 1 << 13


class CodeOwners:
    """Whose code is where in *process*, for the runtime in *module*. Each address is looked up once.

    :param is_whole: whether the module holds nothing else than the runtime, whatever its functions are called
    """

    def __init__(self, process: Process, module: Module, *, is_whole: bool = False) -> None:
        self.process = process
        self.module = module
        self._whole = (module,) if is_whole else ()
        self._known: dict[int, str] = {}

    def at(self, address: int) -> str:
        """Return whose code is at *address*; see :func:`ompd.contract.code_owners.owner`."""
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = owner(self.process, (self.module,), address, self._whole)
        return known

    def of(self, frame: Frame) -> str:
        """Return whose code a frame executes."""
        return self.at(frame.call_site)

    def is_users(self, frame: Frame) -> bool:
        """Return whether a frame executes the user's code."""
        return self.at(frame.call_site) == USER


def words_on(memory: Memory, start: int, end: int | None) -> Sequence[int]:
    """Return the words of the part of a stack from *start* to *end*; none if that is unknown, or too large for the
    frames of some routines.

    :raises MemoryFault: if it cannot be read
    """
    start += -start % memory.pointer_size
    count = (end - start) // memory.pointer_size if end is not None else 0
    return read_words(memory, start, count) if 0 < count <= _MAX_WORDS else ()


def runs(inside: Sequence[bool], is_divided: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each run of frames that are *inside* of something.

    :param is_divided: whether a run ends at an index, although the next frame is inside, too
    """
    first: int | None = None
    for index, is_inside in enumerate(inside):
        if not is_inside:
            continue
        first = index if first is None else first
        if index + 1 == len(inside) or not inside[index + 1] or is_divided(index):
            yield first, index
            first = None


def interrupted_at(frames: Sequence[Frame], begins_code: Callable[[int], bool]) -> Iterator[int]:
    """Yield where what a thread did before a signal came begins on its stack: 0, then the index behind the frames of
    each handler. A handler of a signal is no end to the wait in which the signal came.

    :param begins_code: whether the code of a construct begins at the frame of an index: a handler further outside is no
        matter of what the thread waits for
    """
    yield 0
    for index, frame in enumerate(frames):
        if begins_code(index):
            return
        if frame.is_signal_frame:
            yield index + 1


def region_entry(
    region: ParallelHandle, on_stack: Callable[[int], int | None], passed: Callable[[], int | None]
) -> int:
    """Return the entry of a region's function: from the stacks of some threads of its team, or from the call that began
    the region.

    :param on_stack: returns the entry that the stack of the thread with a number shows, None if it shows none
    :param passed: returns the entry that was passed to the runtime, None if that is unknown
    :raises Unavailable: if it is unknown
    """
    size = min(region.size(), _MAX_THREADS)
    # The primary thread last: its stack holds more regions, and with workers there is no need to tell them apart.
    for number in reversed(range(size)):
        try:
            entry = on_stack(number)
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
        if entry is not None:
            return entry
    try:
        entry = passed()
    except OmpdError:
        entry = None
    if entry is None:
        shown = f"the stacks of {size} of its threads do not show it"
        raise Unavailable(f"the runtime does not keep this region's function, and {shown}")
    return entry
