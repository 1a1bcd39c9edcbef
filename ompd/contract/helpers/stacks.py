"""Native stacks under any runtime: the owner of each frame's code, and groups of frames that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ompd.contract.code_owners import USER, owner
from ompd.contract.memory import Memory, read_words
from ompd.contract.plugin import ParallelHandle
from ompd.contract.process import Frame, Module, Process
from ompd.errors import OmpdError, Unavailable

# How many stacks of a team are searched for the entry of the region's function. All show the same entry, and if a few
# show none, the others seldom do.
_MAX_THREADS = 8
# A longer span is not read: the frames of a few runtime routines take only some hundred bytes.
_MAX_WORDS = 1 << 13


class CodeOwners:
    """The owners of the code in *process*, for the runtime in *module*. Each address is looked up once.

    :param is_whole: whether the module holds nothing but the runtime, so that all its functions are the runtime's
    """

    def __init__(self, process: Process, module: Module, *, is_whole: bool = False) -> None:
        self.process = process
        self.module = module
        self._whole = (module,) if is_whole else ()
        self._owners: dict[int, str] = {}

    def at(self, address: int) -> str:
        """Return the owner of the code at *address*, as :func:`ompd.contract.code_owners.owner` does."""
        code_owner = self._owners.get(address)
        if code_owner is None:
            code_owner = self._owners[address] = owner(self.process, (self.module,), address, self._whole)
        return code_owner

    def of(self, frame: Frame) -> str:
        """Return the owner of the code that a frame executes."""
        return self.at(frame.call_site)

    def is_users(self, frame: Frame) -> bool:
        """Return whether a frame executes the user's code."""
        return self.at(frame.call_site) == USER


def words_on(memory: Memory, start: int, end: int | None) -> Sequence[int]:
    """Return the words of a stack from *start* to *end*. Return none if *end* is unknown, or too far from *start* for
    the frames of a few routines.

    :raises MemoryFault: if the stack cannot be read
    """
    start += -start % memory.pointer_size
    count = (end - start) // memory.pointer_size if end is not None else 0
    return read_words(memory, start, count) if 0 < count <= _MAX_WORDS else ()


def runs(inside: Sequence[bool], is_divided: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each run of consecutive frames whose value in *inside* is True.

    :param is_divided: returns whether a run ends at an index even though the next frame is inside, too
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
    """Yield 0, then for each signal handler on the stack the index of the frame that it interrupted.

    A thread that handles a signal still waits. So search the frames from each of these indexes on for its wait.

    :param begins_code: returns whether a construct's code begins at the frame with an index. Signal handlers outside of
        that frame do not concern the wait
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
    """Return the entry of a region's function, from the stacks of its threads or from the call that began the region.

    :param on_stack: returns the entry that the stack of the thread with a number shows, None if it shows none
    :param passed: returns the entry that was passed to the runtime, None if that is unknown
    :raises Unavailable: if the entry is unknown
    """
    size = min(region.size(), _MAX_THREADS)
    # The primary thread's stack is searched last, because it may hold several regions.
    for number in reversed(range(size)):
        try:
            entry = on_stack(number)
        except OmpdError:
            continue  # another stack may show the entry
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
