"""What queries use of the debugger's half, besides the members of a session: they import nothing else of it.

What one query alone needs is imported when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ompd.binary.core.notes import SignalInfo as SignalInfo
from ompd.debugger.files.dll_files import unsuitable as unsuitable
from ompd.debugger.signals import fault_address as fault_address
from ompd.debugger.signals import has_failed as has_failed
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.binary.types.values.shown import Shown as Shown
    from ompd.debugger.snapshot.snapshot import Snapshot as Snapshot
    from ompd.debugger.variables.choices import StaticVariable as StaticVariable
    from ompd.debugger.variables.locals import FunctionLocals as FunctionLocals
    from ompd.debugger.variables.locals import LocalValue as LocalValue
    from ompd.debugger.variables.names import VariableName as VariableName
    from ompd.debugger.variables.reader import VariableReader as VariableReader


def processors(session: Session) -> int | None:
    """Return how many processors the process may use now, None for a target that does not say: any but a live one."""
    process = session.target.process_id
    if session.target.kind != "live" or process is None:
        return None
    try:
        return len(os.sched_getaffinity(process))
    except OSError:  # it has ended
        return None


def parse_name(text: str) -> VariableName:
    """Return the parts of a variable's name as a user writes it.

    :raises BadInput: if it is no name
    """
    from ompd.debugger.variables.names import parse_name as parse  # noqa: PLC0415

    return parse(text)


def variable_reader(
    session: Session, wanted: VariableName, found: Sequence[StaticVariable], letter: str, elements: int
) -> VariableReader:
    """Return what reads the static variable *wanted* in each thread.

    :param found: the variables of that name
    :param letter: one of gdb's formats, or ``""``
    :param elements: the most elements of an array, or characters of a string, to show
    :raises NoAnswer: if there is more than one: the text lists them by names that distinguish them
    """
    from ompd.debugger.variables.choices import list_choices  # noqa: PLC0415
    from ompd.debugger.variables.reader import VariableReader  # noqa: PLC0415

    if len(found) > 1:
        raise list_choices(wanted, found)
    x87 = session.target.architecture.x87
    return VariableReader(session.process, found[0], wanted.steps, letter=letter, elements=elements, x87=x87)


def take_snapshot(
    rehearsal: Session,
    pages: set[int],
    *,
    data_limit: int,
    keep_environment: bool,
    kept_variables: tuple[str, ...],
    keeps_data: Callable[[str], bool],
) -> Snapshot:
    """Return a snapshot of the target of *rehearsal*, which has read the *pages* and notes there what it reads yet.

    :param data_limit: bytes of writable data that are kept of each of the user's modules
    :param keep_environment: keep the whole environment and the folders in arguments
    :param kept_variables: how the names of variables of the environment begin that are kept in any case
    :param keeps_data: says whether the data of the module with a name is kept beyond *data_limit*
    """
    from ompd.debugger.snapshot.snapshot import take  # noqa: PLC0415

    return take(
        rehearsal.target,
        rehearsal.process,
        pages,
        data_limit=data_limit,
        keep_environment=keep_environment,
        kept_variables=kept_variables,
        keeps_data=keeps_data,
    )
