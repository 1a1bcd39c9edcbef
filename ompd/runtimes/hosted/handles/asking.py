"""Queries to a library: one fact of many handles in one exchange, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from ompd.contract.ompd import Scope
from ompd.contract.process import Module, Process
from ompd.errors import LibraryError, NoCall, OmpdError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Icv, Pending, Ref, SpaceRef
from ompd.runtimes.hosted.client import HostedLibrary

_T = TypeVar("_T")
_Ref = TypeVar("_Ref", bound=Ref)
_Entity = TypeVar("_Entity")

# A library returns these where there is none: the first one by the specification, LLVM's the other one where a
# pointer of the runtime is null.
_NONE = (Rc.UNAVAILABLE, Rc.UNSUPPORTED)
# A fact is unknown with these; with any other code the call failed.
_UNKNOWN = (*_NONE, Rc.BAD_INPUT, Rc.INCOMPATIBLE, Rc.NEEDS_STATE_TRACKING)
_TRACKING = "the runtime keeps this only in programs that were started with OMP_DEBUG=enabled"


class Asked:
    """A handle, and the facts that were queried of it."""

    __slots__ = ("pending", "ref")

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self.pending: dict[object, Pending[Any]] = {}


class Asking:
    """A library and one address space.

    :param ref: the address space
    """

    def __init__(self, process: Process, module: Module, library: HostedLibrary, ref: SpaceRef) -> None:
        self.process = process
        self.module = module
        self.client = library
        self.space_ref = ref
        self.itself = Asked(ref)

    def batch(self) -> Batch:
        """Return a new batch of calls.

        :raises StaleHandle: if the process has run since: the library's process keeps what it has read
        """
        self.process.check_current()
        return self.client.batch()

    def fact(self, one: Asked, others: Iterable[Asked], key: object, record: Callable[[Batch, Any], Pending[_T]]) -> _T:
        """Return a fact of *one* handle; the same exchange queries it of *others*.

        :param key: names the fact
        :param record: puts the call into a batch for a handle
        :raises Unavailable: if the library cannot tell
        :raises LibraryError: if it failed
        """
        return self.value(self.pending(one, others, key, record))

    def pending(
        self, one: Asked, others: Iterable[Asked], key: object, record: Callable[[Batch, Any], Pending[_T]]
    ) -> Pending[_T]:
        """Return a fact as the library answered it.

        :raises StaleHandle: if the process has run since
        """
        self.process.check_current()
        if key not in one.pending:
            batch = self.batch()
            one.pending[key] = record(batch, one.ref)
            for other in others:
                if key not in other.pending:
                    other.pending[key] = record(batch, other.ref)
            batch.run()
        return one.pending[key]

    # What refusals mean

    def value(self, pending: Pending[_T]) -> _T:
        """Return what the library answered.

        :raises Unavailable: if it cannot tell
        :raises LibraryError: if it failed
        """
        error = pending.error()
        if error is not None:
            self.refuse(error)
        return pending.value()

    def value_or_none(self, pending: Pending[_T]) -> _T | None:
        """Return what the library answered, None if it says that there is none. Raises as :meth:`value`."""
        error = pending.error()
        if error is not None and error.rc in _NONE and not error.has_ended and not self.lacks(error.call):
            return None
        return self.value(pending)

    def refuse(self, error: LibraryError) -> NoReturn:
        """Raise what a refusal means.

        :raises Unavailable: if the library cannot tell
        :raises LibraryError: if it failed
        """
        if error.has_ended or error.rc not in _UNKNOWN:
            raise error
        if self.lacks(error.call):
            raise Unavailable(f"{error.name} has no {error.call}") from error
        if error.rc == Rc.NEEDS_STATE_TRACKING:
            raise Unavailable(f"{error.name}: {_TRACKING} ({error.call})", hint=error.hint) from error
        raise Unavailable(str(error), hint=error.hint) from error

    def lacks(self, function: str | None) -> bool:
        """Return whether the library has no such function."""
        return function is not None and function not in self.client.functions

    def no_call(self, what: str) -> NoReturn:
        """Refuse a fact for which the interface has no call.

        :raises NoCall: always
        """
        raise NoCall(f"OMPD has no call that returns {what}")

    def placed(
        self, pending: Sequence[Pending[_Ref]], place: Callable[[Sequence[_Ref]], Sequence[_Entity]]
    ) -> list[_Entity | OmpdError | None]:
        """Return the thing that each handle stands for, None where the library says that there is none, or the error.

        :param place: returns the things that handles stand for
        """
        found: list[_Entity | OmpdError | None] = []
        refs: dict[int, _Ref] = {}
        for index, one in enumerate(pending):
            try:
                ref = self.value_or_none(one)
            except OmpdError as error:
                found.append(error)
                continue
            found.append(None)
            if ref is not None:
                refs[index] = ref
        try:
            for index, entity in zip(refs, place(list(refs.values())), strict=True):
                found[index] = entity
        except OmpdError as error:
            for index in refs:
                found[index] = error
        return found

    # Variables, which also hold sizes, levels and numbers

    @cached_property
    def icv_list(self) -> Sequence[Icv]:
        """The variables that the library has, in its order.

        :raises OmpdError: if it does not list them
        """
        return self.value(self.batch().enumerate_icvs(self.space_ref))

    def icv_of(self, names: Sequence[str], scope: Scope) -> Icv:
        """Return the first variable of these names that handles of *scope* have.

        :raises Unavailable: if the library has none
        """
        for icv in self.icv_list:
            if icv.name in names and icv.scope == scope:
                return icv
        raise Unavailable(f"{self.client.name} has no {names[0]} of scope {scope.name.lower()}")

    def number_of(self, one: Asked, others: Iterable[Asked], names: Sequence[str], scope: Scope) -> int:
        """Return a variable's value as a number; see :meth:`fact`.

        :param names: those that releases of OpenMP have for it
        """
        icv = self.icv_of(names, scope)
        return self.fact(
            one, others, icv.number, lambda batch, ref: batch.get_icv_from_scope(ref, scope, icv.number)
        ).value

    def tool_data_of(self, one: Asked, others: Iterable[Asked], scope: Scope) -> int:
        """Return the word that a tool keeps with a thread, region or task."""
        found = self.fact(one, others, "tool data", lambda batch, ref: batch.get_tool_data(ref, scope))
        return found.value & _WORD


_WORD = (1 << 64) - 1


def known(ask: Callable[[], _T], otherwise: _T) -> _T:
    """Return what *ask* returns, *otherwise* if that is unknown."""
    try:
        return ask()
    except OmpdError:
        return otherwise


def given(found: _T | OmpdError) -> _T:
    """Return what was found.

    :raises OmpdError: if that is an error
    """
    if isinstance(found, OmpdError):
        raise found
    return found
