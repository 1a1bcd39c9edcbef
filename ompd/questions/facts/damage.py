"""What queries do where the target has lost something: the one place that looks at :class:`Loss`.

What is missing there is said once, at the head of the answer, and what would be a mistake elsewhere is a consequence.
What a whole target would rule out is possible: nothing is concluded from what is not there.
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
    """Return whether the process has one thread: then fork() may have made it, with a copy of what the runtime knows of
    all threads of another process.
    """
    return session.target.loss is None and len(session.process.threads.ids()) == 1


def leaves_doubt(session: Session, fault: OmpdError | None) -> bool:
    """Return whether a runtime that cannot be read because of *fault* may know any thread of the process."""
    return isinstance(fault, (CorruptState, MemoryFault, NoCall) if session.target.loss is None else OmpdError)


def raise_no_runtime(session: Session, name: str, reasons: list[str]) -> None:
    """Raise that the target has no runtime that can be read, if it has lost something.

    :raises NoAnswer: if so
    """
    loss = session.target.loss
    if loss is not None:
        hint = _HINT + (_NAME_HINT if loss.files else "")
        raise NoAnswer(f"{name}: {loss.what}: {'; '.join(reasons or [NO_RUNTIME])}", hint=hint)


def in_what_is_left(session: Session, error: OmpdError) -> OmpdError:
    """Return *error* with what the target has lost, if it has lost something."""
    loss = session.target.loss
    if loss is None:
        return error
    return NoAnswer(f"{session.target.name}: {loss.what}: {error}", hint=_HINT)


def changes(session: Session) -> list[str]:
    """Return the files that changed while they were read: parts of them may be from different moments."""
    return [f"{name}: the file changed while it was read" for name in session.changed_files]


def losses(session: Session) -> list[str]:
    """Return what the target has lost, and which files cannot be verified for it."""
    if session.target.loss is None:
        return []
    files: dict[str, list[str]] = {}
    for name, why in session.process.symbols.unproven.items():
        files.setdefault(why, []).append(name)
    return [session.target.loss.what, *(f"{', '.join(names)}: {why}" for why, names in files.items())]
