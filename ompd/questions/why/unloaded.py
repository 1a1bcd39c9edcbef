"""Threads that sleep in code which is no longer there: the process crashes when one wakes up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePosixPath

from ompd.analysis.words import counted
from ompd.errors import OmpdError
from ompd.model import Evidence, Place, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.questions import places
from ompd.session import Session

_MAX_THREADS = 64
_UNLOADING = ("dlclose", "__dlclose", "_dl_close")


def unloaded(session: Session) -> VerdictRecord | None:
    """Return the verdict on threads that sleep in a system call whose code is gone, None if there are none."""
    gone = session.process.gone_code()
    if gone is None:
        return None
    pcs, module = gone
    threads = tuple(sorted(pcs))
    sleepers = counted(len(threads), "thread")
    sleep = "sleeps" if len(threads) == 1 else "sleep"
    was = f"where {PurePosixPath(module).name} was before it was unloaded" if module else "in code that is not there"
    evidence = [
        Evidence(f"thread {thread} is in a system call at {pc:#x}, where no code is mapped", "stack")
        for thread, pc in sorted(pcs.items())[:_MAX_THREADS]
    ]
    if module is not None:
        evidence.append(Evidence(f"the code of {module} fits these addresses, and those on the stacks", "derived"))
    place = _unloader(session)
    if place is not None:
        evidence.append(Evidence("this thread is unloading a library", "stack"))
    return VerdictRecord(
        kind=VerdictKind.RUNTIME_UNLOADED,
        stuck=Confidence.LIKELY,
        confidence=Confidence.LIKELY if module is not None else Confidence.POSSIBLE,
        summary=f"{sleepers} {sleep} {was}: the process crashes when one wakes up",
        roots=threads,
        explains=threads,
        evidence=tuple(evidence),
        unknowns=() if module is not None else ("which library was there",),
        what_if="if the library stayed loaded (RTLD_NODELETE, or no dlclose()), its threads would only be idle",
        next_step=f"ompd stack TARGET --thread {threads[0]} --raw",
        place=place,
    )


def _unloader(session: Session) -> Place | None:
    # The line at which a thread has called what unloads a library.
    process = session.process
    for thread in process.threads.ids():
        with suppress(OmpdError):
            frames = process.stacks.stack(thread).frames
            if any(process.places.locate(frame.call_site).symbol in _UNLOADING for frame in frames):
                return places.innermost_user_place(session, thread)
    return None
