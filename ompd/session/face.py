"""What queries use of the debugger's half, besides the members of a session: they import nothing else of it.

What one query alone needs is imported when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.binary.core.notes import AT_RANDOM
from ompd.binary.core.notes import SignalInfo as SignalInfo
from ompd.debugger.environment import LONGEST_STACK_STRINGS, read_current_environment
from ompd.debugger.files.dll_files import NO_FILE as NO_FILE
from ompd.debugger.files.dll_files import unsuitable as unsuitable
from ompd.debugger.signals import RAISES as RAISES
from ompd.debugger.signals import fault_address as fault_address
from ompd.debugger.signals import has_failed as has_failed
from ompd.errors import BadProcess, CorruptState, SymbolNotFound, Unavailable
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.binary.types.parts import Step as Step
    from ompd.binary.types.values.shown import Shown as Shown
    from ompd.contract.plugin import AddressSpace
    from ompd.contract.process import Module
    from ompd.debugger.flow.branches import Branch as Branch
    from ompd.debugger.flow.functions import Begun as Begun
    from ompd.debugger.flow.functions import Functions as Functions
    from ompd.debugger.flow.handlers import Handler as Handler
    from ompd.debugger.snapshot.snapshot import Snapshot as Snapshot
    from ompd.debugger.survey.files import ModuleFiles as ModuleFiles
    from ompd.debugger.survey.needed import Dependencies as Dependencies
    from ompd.debugger.survey.stack_extents import StackExtents as StackExtents
    from ompd.debugger.targets.live.processors import Processors as Processors
    from ompd.debugger.variables.choices import StaticVariable as StaticVariable
    from ompd.debugger.variables.locals import FunctionLocals as FunctionLocals
    from ompd.debugger.variables.locals import LocalValue as LocalValue
    from ompd.debugger.variables.names import VariableName as VariableName
    from ompd.debugger.variables.reader import VariableReader as VariableReader
    from ompd.runtimes.hosted.handles.space import HostedSpace as HostedSpace
    from ompd.session.stop import LoadedRuntime


def processors(session: Session) -> int | None:
    """Return how many processors the process may use now, None for a target that does not say, as a core."""
    process = session.target.process_id
    if session.target.kind not in ("live", "gdb") or process is None:
        return None
    try:
        return len(os.sched_getaffinity(process))
    except OSError:  # it has ended
        return None


def is_same_process(session: Session, other: Session) -> bool | None:
    """Return whether two sessions are on the same process, which executed no other program between; None if their
    targets do not say enough.
    """
    from ompd.debugger.system_waits.facts import is_same_process as is_same

    return is_same(session.process.system.identity(), other.process.system.identity())


def parse_name(text: str) -> VariableName:
    """Return the parts of a variable's name as a user writes it.

    :raises BadInput: if it is no name
    """
    from ompd.debugger.variables.names import parse_name as parse

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
    from ompd.debugger.variables.choices import list_choices
    from ompd.debugger.variables.reader import VariableReader

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
    from ompd.debugger.snapshot.snapshot import take

    return take(
        rehearsal.target,
        rehearsal.process,
        pages,
        data_limit=data_limit,
        keep_environment=keep_environment,
        kept_variables=kept_variables,
        keeps_data=keeps_data,
    )


def dependencies(session: Session) -> Dependencies:
    """Return which module of the process needs which."""
    from ompd.debugger.survey.needed import Dependencies

    loader = session.process.loader
    return Dependencies(session.process.loaded_modules(), lambda: [each.l_ld for each in loader.link_maps])


def files_of(session: Session, module: Module) -> ModuleFiles | None:
    """Return what the files of *module* have for a debugger, None without its own file."""
    from ompd.debugger.survey.files import survey

    loaded = session.process.symbols.loaded(module)
    return survey(loaded) if loaded is not None else None


def data_addresses(session: Session) -> Sequence[int]:
    """Return the addresses of the program's global variables, none without symbols."""
    program = session.process.module_list.program
    if program is None or program.symbols is None:
        return ()
    return sorted({symbol.address + program.bias for symbol in program.symbols.variables()})


def stack_extents(session: Session) -> StackExtents:
    """Return where the stacks of the process are."""
    from ompd.debugger.survey.stack_extents import StackExtents

    return StackExtents(session.process)


def usable_processors(session: Session) -> Processors:
    """Return how many processors the process may use.

    :raises Unavailable: if the target does not say, as a core
    """
    target = session.target
    if target.kind not in ("live", "gdb") or target.process_id is None:
        what = "a core" if target.kind == "core" else "LLDB"
        raise Unavailable(f"{what} does not say which processors the process may use")
    from ompd.debugger.targets.live.processors import usable_processors as usable

    return usable(target.process_id)


def find_refusal(process_id: int, *, nonblocking: bool) -> BadProcess | None:
    """Return why the process with that number cannot be inspected, None if it can be, or if there is none."""
    from ompd.debugger.targets.live.refusals import find_refusal as find

    return find(process_id, nonblocking=nonblocking)


def environment(session: Session) -> tuple[Mapping[str, str], bool]:
    """Return the environment, and whether that is as the program has it now, which ``setenv`` may have changed; else it
    is the one that the program was started with.

    :raises Unavailable: if the target does not hold it
    :raises CorruptState: if it has lost a part of it
    """
    process = session.process
    try:
        start, found = read_current_environment(process.memory, process.find_symbol("environ"))
    except (SymbolNotFound, Unavailable):
        return process.environment(), False
    except CorruptState:
        # A snapshot has overwritten the strings of variables that are none of OpenMP's.
        if any(module.is_extract for module in process.loaded_modules()):
            return process.environment(), False
        raise
    if 0 <= process.auxiliary_vector().get(AT_RANDOM, 0) - start < LONGEST_STACK_STRINGS:
        process.environment()  # which verifies the kernel's pointers
    return found, True


def hosted_space(runtime: LoadedRuntime) -> HostedSpace | None:
    """Return the runtime as the library has it that the user named, None if none serves it."""
    from ompd.runtimes.hosted.handles.space import HostedSpace

    return runtime.space if isinstance(runtime.space, HostedSpace) else None


def own_space(session: Session, runtime: LoadedRuntime) -> AddressSpace | None:
    """Return the runtime as the plugin has it that would serve it without a library, None if there is none.

    :raises OmpdError: if that cannot read it
    """
    module = runtime.found.module
    for found in session.own_runtimes(session.process):
        if found.module is module and found.plugin is not None:
            return found.plugin.process_initialize(session.process, module)
    return None
