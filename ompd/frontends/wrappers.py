"""Tells the functions that clang puts around the code of constructs, for the stacks that debuggers show."""

from __future__ import annotations

from collections.abc import Iterable

from ompd import naming


def is_wrapper(function: str, inner: Iterable[str]) -> bool:
    """Return whether *function* only calls the code of a construct, which is the next frame inwards.

    These are clang's entries of tasks, and its outlined functions around a body.

    :param inner: the names of the next inner frame, which has several if a function is inlined there
    """
    bodies = [naming.is_body(name) for name in inner if _is_outlined_by_clang(name)]
    if naming.is_task_entry(function):
        return False in bodies
    return True in bodies and _is_outlined_by_clang(function) and not naming.is_body(function)


def _is_outlined_by_clang(function: str) -> bool:
    outlined = naming.parse_outlined(function)
    return outlined is not None and outlined.construct != "task" and not naming.is_by_gcc(function)
