"""Queries on targets that have lost something, as a truncated core. Only this module reads :class:`Loss`.

An answer names the loss once, as its first warning. The absence of a fact proves nothing then, and errors that would
mean corruption elsewhere are consequences of the loss.
"""

from __future__ import annotations

from ompd.errors import CorruptState, MemoryFault, NoAnswer, NoCall, OmpdError
from ompd.session import Session

NO_RUNTIME = "no OpenMP runtime is found in what is left"
_HINT = "copy the core again, whole, or have it written where the disk and the quota hold it"
_NAME_HINT = "; --exe FILE names the program, --sysroot DIR the folder of its libraries"


def is_damaged(session: Session) -> bool:
    """Return whether the target has lost something."""
    return session.target.loss is not None


def lacks_threads(session: Session) -> bool:
    """Return whether the process may have threads that the target does not name."""
    return session.target.loss is not None and session.target.loss.threads


def is_fork(session: Session) -> bool:
    """Return whether the process has one thread, and so may be a fork, with its parent's list of threads."""
    return session.target.loss is None and len(session.process.threads.ids()) == 1


def leaves_doubt(session: Session, fault: OmpdError | None) -> bool:
    """Return whether any thread may belong to a runtime that cannot be read because of *fault*."""
    return isinstance(fault, (CorruptState, MemoryFault, NoCall) if session.target.loss is None else OmpdError)


def raise_no_runtime(session: Session, name: str, reasons: list[str]) -> None:
    """Raise an error about the missing runtime that names the loss, if there is one.

    :raises NoAnswer: if the target has lost something
    """
    loss = session.target.loss
    if loss is not None:
        hint = _HINT + (_NAME_HINT if loss.files else "")
        raise NoAnswer(f"{name}: {loss.what}: {'; '.join(reasons or [NO_RUNTIME])}", hint=hint)


def in_what_is_left(session: Session, error: OmpdError) -> OmpdError:
    """Return *error* with the target's loss in front, if there is one."""
    loss = session.target.loss
    if loss is None:
        return error
    return NoAnswer(f"{session.target.name}: {loss.what}: {error}", hint=_HINT)


def changes(session: Session) -> list[str]:
    """Return warnings about files that changed while they were read, and may mix two versions."""
    return [f"{name}: the file changed while it was read" for name in session.changed_files]


def losses(session: Session) -> list[str]:
    """Return warnings about the target's loss, and about files that cannot be verified because of it."""
    if session.target.loss is None:
        return []
    files: dict[str, list[str]] = {}
    for name, why in session.process.symbols.unproven.items():
        files.setdefault(why, []).append(name)
    return [session.target.loss.what, *(f"{', '.join(names)}: {why}" for why, names in files.items())]
