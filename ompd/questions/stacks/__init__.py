"""``stack``: each thread's stack in terms of the source, where a worker's continues with that of the primary thread.

:func:`ask` answers the command. ``thread_frames`` reads a thread's own frames, and adds functions that ended by a tail
call. ``source`` replaces compilers' functions by the constructs of the source, ``locals`` adds variables, and ``loops``
finds the loops around them. ``reader`` continues a stack on other threads and makes its row.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from ompd.analysis.folding import folded
from ompd.errors import NoAnswer
from ompd.model import Answer, StackRecord
from ompd.questions.facts.answers import answer, begin, each, note_first_thread, readable_runtimes
from ompd.questions.facts.damage import NO_RUNTIME, is_damaged
from ompd.questions.facts.openmp_threads import team_order
from ompd.questions.runtimes import records
from ompd.questions.stacks.reader import Reader
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.variables.names import VariableName


def ask(
    session: Session,
    *,
    raw: bool = False,
    fold: bool = False,
    thread: int | None = None,
    threads: Container[int] | None = None,
    locals: bool = False,
    part: VariableName | None = None,
) -> Answer[StackRecord]:
    """Return the stack of each thread: OpenMP threads by region and thread number, then idle ones, then others.

    The runtime's frames are left out, and so are the C library's, except the function that user code called.

    :param raw: all frames of the thread's own stack instead, and no others
    :param fold: group threads with equal stacks in one row
    :param thread: only the thread with this native id or, if there is none, threads with this thread number
    :param threads: only the threads with these native ids
    :param locals: add the variables of user frames
    :param part: a variable's name and a selected part: only this part of variables with the name is read
    :raises BadInput: if there is no such thread
    :raises NoAnswer: if the target has no threads
    """
    problems = begin(session)
    doubt: str | None = None
    try:
        runtimes = list(readable_runtimes(session, problems, needed=False))
    except NoAnswer as error:
        # Stacks can be read without a runtime, but their continuations on other threads are missing.
        if not session.process.threads.ids():
            raise
        problems.note(NO_RUNTIME if is_damaged(session) else str(error))
        runtimes, doubt = [], str(error) if is_damaged(session) else None
    if thread is None and threads is None:
        note_first_thread(session, problems)
    reader = Reader(session, runtimes, problems, raw, doubt, locals, part)
    chosen = [native for native in reader.chosen(thread) if threads is None or native in threads]
    rows = sorted(each(session, chosen, reader.record), key=team_order)
    if fold:
        rows = list(folded(rows))
    return answer(session, rows, records(session, problems), problems)
