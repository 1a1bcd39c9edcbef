"""Objects that reference counting does not free; the command runs without a garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[list[object]]:
    """Yield a list that, after the context, has the objects that were created in it and remain in reference cycles."""
    left: list[object] = []
    gc.collect()
    gc.freeze()  # objects of earlier tests may become garbage now
    gc.disable()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
