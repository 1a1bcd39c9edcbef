"""The constructs and locks that functions of the user end without having begun them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd import naming
from ompd.binary.elf.elf import PF_X, PT_INTERP, PT_LOAD
from ompd.contract.process import Module
from ompd.debugger.flow.call_targets import UNKNOWN
from ompd.debugger.flow.code import Reference
from ompd.debugger.flow.leaks import Leak
from ompd.debugger.flow.state import Released, Value
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.stacks.calls import Calls
from ompd.errors import OmpdError, Unavailable
from ompd.naming import Routine

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Functions

_MAX_ALL_CODE = 1 << 24  # bytes of all the user's modules
_MAX_FUNCTIONS = 1 << 12
# Kinds whose holder the C library records in the object, so releases by other libraries do not matter.
_KEPT_BY_OTHERS = frozenset(("mutex",))


class Releases:
    """The releases by the *functions* of one process.

    :param is_users: returns whether the code at an address is the user's
    :param runtimes: the modules with OpenMP runtimes, None if they are not known
    """

    def __init__(
        self,
        functions: Functions,
        calls: Calls,
        routines: Mapping[str, Routine],
        is_users: Callable[[int], bool],
        runtimes: Collection[Module] | None,
    ) -> None:
        self._functions, self._code, self._targets = functions, functions.code, functions.targets
        self._calls, self._routines, self._is_users = calls, routines, is_users
        self._runtimes = runtimes
        self._by_target: dict[int, frozenset[Released]] = {}

    @cached_property
    def all(self) -> frozenset[Released] | None:
        """The constructs and locks that some user function ends but does not begin, None if unknown."""
        try:
            released = self._by_libraries
            for start in self._ending:
                released |= self._by_function(start)
        except OmpdError:
            return None
        return released

    def leaks(self, kind: str) -> Iterator[Leak]:
        """Yield the ways on which functions of the user's return with a lock of a *kind* that they set.

        If another function releases the same lock without having set it, or a lock that is not known, the lock may be
        kept on purpose, and is left out. Nothing is yielded if it is unknown which locks functions release.
        """
        if self.all is None or (kind, None) in self.all:
            return
        for start in sorted(self._ending):
            try:
                for leak in self._functions.with_callees(self._code.entry(start)).leaks():
                    if leak.held.routine.kind == kind and (kind, leak.held.value) not in self.all:
                        yield leak
            except OmpdError:
                continue

    def of(self, function: int) -> frozenset[Released] | None:
        """Return the constructs and locks that a function and its callees end without having begun them.

        None if that is unknown.
        """
        if function in self._by_target:
            return self._by_target[function]
        released: frozenset[Released] = frozenset()
        queued, queue = {function}, [function]
        while queue:
            called = queue.pop()
            if called == UNKNOWN:
                if self.all is None:
                    return None
                released |= self.all
                continue
            if not self._is_users(called) or self._targets.is_routine(called):
                continue
            start = self._code.start(called)
            if start is None or len(queued) > _MAX_FUNCTIONS:
                return None
            targets = self._targets.targets_in(start)
            if any(self._targets.is_ending(target) for target in targets):
                released |= self._by_function(start)
            if UNKNOWN in targets:
                targets = targets - {UNKNOWN} | self._called_by_pointer(start)
            queue.extend(targets - queued)
            queued |= targets
        self._by_target[function] = released
        return released

    def _by_function(self, start: int) -> frozenset[Released]:
        # The constructs and locks that the function's own code ends without having begun them. An object that may
        # differ between calls is None.
        try:
            released = self._functions.by_itself(self._code.entry(start)).summary.released
        except OmpdError:
            targets = (target for target in self._targets.targets_in(start) if target != UNKNOWN)
            routines = (self._targets.called_at(target).routine for target in targets)
            return frozenset((routine.kind, None) for routine in routines if routine is not None and not routine.begins)
        return frozenset((kind, value if _is_number(value) else None) for kind, value in released)

    def _called_by_pointer(self, start: int) -> frozenset[int]:
        # The targets of a function's calls by pointers, which may be UNKNOWN.
        try:
            pointers = self._functions.by_itself(self._code.entry(start)).summary.called_by_pointer
            targets = [self._calls.leads_to(pointer, None) if pointer is not None else None for pointer in pointers]
        except OmpdError:
            return frozenset((UNKNOWN,))
        return frozenset(target if target is not None else UNKNOWN for target in targets)

    # The search for functions that end constructs and locks

    @cached_property
    def _by_libraries(self) -> frozenset[Released]:
        # The releases by libraries whose code is not followed.
        return frozenset(
            (kind, None)
            for _, kinds in self._user_modules
            if kinds is not None and kinds <= _KEPT_BY_OTHERS
            for kind in kinds
        )

    @cached_property
    def _ending(self) -> frozenset[int]:
        # The user's functions that call a routine that ends a construct or releases a lock.
        starts: set[int] = set()
        is_ending: dict[Reference, bool] = {}  # by references whose place is 0
        bytes_left = _MAX_ALL_CODE
        for loaded, kinds in self._user_modules:
            if loaded.elf is None or (kinds is not None and kinds <= _KEPT_BY_OTHERS):
                continue
            for reference in self._code.references(loaded.elf, loaded.bias, bytes_left):
                key = reference._replace(place=0)
                if key not in is_ending:
                    is_ending[key] = self._is_of_ending(reference)
                start = self._code.start(reference.place) if is_ending[key] else None
                if start is not None and self._is_users(reference.place):
                    starts.add(start)
            bytes_left -= sum(
                segment.p_filesz
                for segment in loaded.elf.segments
                if segment.p_type == PT_LOAD and segment.p_flags & PF_X
            )
        if len(starts) > _MAX_FUNCTIONS:
            raise Unavailable("there are more functions than are looked at")
        return frozenset(starts)

    @cached_property
    def _user_modules(self) -> Sequence[tuple[LoadedModule, set[str] | None]]:
        # The user's modules, each with the kinds of constructs and locks that it may end.
        return [
            (loaded, self._kinds_ended_by(loaded))
            for loaded in self._functions.modules
            if loaded.elf is not None
            and not loaded.record.is_system_library
            and not naming.is_runtime_file(loaded.name)
        ]

    def _kinds_ended_by(self, loaded: LoadedModule) -> set[str] | None:
        # The kinds of constructs and locks that a module may end, by the routines that its symbols mention. So its code
        # need not be followed: in interpreters it is large, and seldom uses OpenMP. None if its code may call routines
        # that no symbol names, which may be inside of it.
        is_linked = loaded.elf is not None and any(segment.p_type == PT_INTERP for segment in loaded.elf.segments)
        has_runtime = self._runtimes is None or loaded.record in self._runtimes
        if loaded.symbols is None or (loaded.record.is_program and (has_runtime or not is_linked)):
            return None
        ending = [name for name, routine in self._routines.items() if not routine.begins]
        return {self._routines[name].kind for name in loaded.symbols.mentions(ending)}

    def _is_of_ending(self, reference: Reference) -> bool:
        # Whether a call, jump or load is of a routine that ends a construct or releases a lock.
        try:
            if reference.is_load:
                target = self._code.constant(reference.address)
            elif reference.is_through:
                target = self._calls.leads_to(None, reference.address)
            else:
                target = self._calls.leads_to(reference.address, None)
        except OmpdError:
            return False  # not really a call
        return target is not None and self._targets.is_ending(target)


def _is_number(value: Value | None) -> bool:
    return value is not None and value.kind == "number"
