"""Objects that reference counts do not free: the command has no other collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[list[object]]:
    """Yield a list which then has the objects that were made meanwhile and left over in circles."""
    left: list[object] = []
    gc.collect()
    gc.freeze()  # what earlier tests made may become garbage now
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
