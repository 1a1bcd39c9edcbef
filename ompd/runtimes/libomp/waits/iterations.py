"""The iteration of a doacross loop that a thread waits for (``__kmpc_doacross_wait``, kmp_csupport.cpp).

``th_doacross_flags`` has one bit for each iteration, which is set when the iteration is posted. The runtime numbers the
iterations of nested loops as if they were one loop. ``th_doacross_info`` begins with the number of loops and the
address of a counter. For each loop, the lower bound, the upper bound and the step follow. From the second loop on, the
loop's number of iterations precedes its lower bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.memory import read_signed, read_unsigned
from ompd.contract.waits import LockState
from ompd.errors import CorruptState, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.handles import Thread

ROUTINE = "__kmpc_doacross_wait"
"""The routine that waits for an iteration. The routines for gcc's code call this routine or jump to it."""
_VECTOR = 2  # index of the argument that points to the iteration's numbers, one for each loop
_FLAGS = 32  # bits in a word of flags
_MAX_LOOPS = 64
_MAX_ITERATIONS = 1 << 48  # more flags than memory has
_UNKNOWN = "for which iteration of the loop it waits is not known"


def awaited_iteration(thread: Thread, caller: Frame) -> LockState:
    """Return the iteration for which *thread* waits in :data:`ROUTINE`. The frame *caller* has called this routine.

    :raises Unavailable: if the code before the call does not show the iteration, or if the iteration has been posted
    :raises LayoutUnavailable: if the place of the loop's description is unknown
    """
    runtime = thread.runtime
    dispatch = runtime.details.view("kmp_base_info_t.th_dispatch", thread.address).pointer("th_dispatch")
    view = runtime.details.view("kmp_disp", dispatch) if dispatch is not None else None
    flags = view.pointer("th_doacross_flags") if view is not None else None
    info = view.pointer("th_doacross_info") if view is not None else None
    if flags is None or info is None:
        raise Unavailable("the thread is in no loop that the runtime knows")
    loops = _loops(thread, info)
    passed = runtime.process.arguments_passed(caller)
    vector = passed[_VECTOR] if len(passed) > _VECTOR else None
    if vector is None:
        raise Unavailable(_UNKNOWN)
    numbers = [read_signed(runtime.process, vector + 8 * loop, 8) for loop in range(len(loops))]
    number = 0
    for iteration, (lower, upper, step, count) in zip(numbers, loops, strict=True):
        if not min(lower, upper) <= iteration <= max(lower, upper) or not step:
            raise Unavailable(_UNKNOWN)  # no thread waits for an iteration out of bounds
        number = number * count + (iteration - lower) // step
    if not 0 <= number < _MAX_ITERATIONS:
        raise CorruptState(info, "a doacross loop is said to have impossible numbers of iterations")
    word = flags + number // _FLAGS * 4
    if read_unsigned(runtime.process, word, 4) >> number % _FLAGS & 1:
        raise Unavailable("the iteration for which it waits is done")
    name = f"iteration {numbers[0]}" if len(numbers) == 1 else f"iteration ({', '.join(map(str, numbers))})"
    return LockState(word, "doacross", None, (), name=name, loop=flags, iteration=number)


def _loops(thread: Thread, info: int) -> list[tuple[int, int, int, int]]:
    # Lower bound, upper bound, step and number of iterations of each nested loop, outermost first. The number is 0 for
    # the outermost loop, where it is not needed.
    memory = thread.runtime.process
    count = read_unsigned(memory, info, 8)
    if not 0 < count <= _MAX_LOOPS:
        raise CorruptState(info, f"a doacross loop is said to consist of {count} loops")
    words = [read_signed(memory, info + 8 * index, 8) for index in range(1, 4 * count + 1)]
    words[0] = 0  # the address of a counter
    return [(lower, upper, step, number) for number, lower, upper, step in zip(*[iter(words)] * 4, strict=True)]
