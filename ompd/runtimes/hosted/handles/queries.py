"""Queries to a library: one fact of many handles in one exchange, and the meaning of the library's refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from ompd.contract.ompd import Scope
from ompd.errors import LibraryError, NoCall, OmpdError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Pending, Ref

if TYPE_CHECKING:
    from ompd.runtimes.hosted.client import HostedLibrary
    from ompd.runtimes.hosted.handles.identities import Identities
    from ompd.runtimes.hosted.handles.space import HostedSpace

_T = TypeVar("_T")
_Ref = TypeVar("_Ref", bound=Ref)
_Entity = TypeVar("_Entity", bound="Handle")
_Arguments = ParamSpec("_Arguments")

# Codes that mean "there is no such object". The specification's code is UNAVAILABLE. LLVM's library returns UNSUPPORTED
# if a pointer in the runtime is null.
_NONE = (Rc.UNAVAILABLE, Rc.UNSUPPORTED)
# Codes that mean that the fact is unknown. Any other error code means that the call failed.
_UNKNOWN = (*_NONE, Rc.BAD_INPUT, Rc.INCOMPATIBLE, Rc.NEEDS_STATE_TRACKING)
_TRACKING = "the runtime keeps this only in programs that were started with OMP_DEBUG=enabled"
_WORD = (1 << 64) - 1


class Handle:
    """A handle of the library, and its facts that have been queried.

    :param space: the runtime to which the handle belongs
    """

    def __init__(self, space: HostedSpace, ref: Ref) -> None:
        self.space = space
        self.ref = ref
        self._answers: dict[object, Pending[Any]] = {}

    def siblings(self) -> Sequence[Handle]:
        """Return all handles of the same kind. When a fact of one handle is queried, the same exchange queries this
        fact for all of these handles.
        """
        return ()

    def answer(
        self,
        call: Callable[Concatenate[Batch, Any, _Arguments], Pending[_T]],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> Pending[_T]:
        """Return the library's answer to a call.

        :param call: a method of :class:`Batch`, whose first argument is the handle
        :param arguments: the method's other arguments
        :raises StaleHandle: if the process has run since
        """
        self.space.process.check_current()
        key = (call, arguments, *named.items())
        if key not in self._answers:
            batch = self.space.batch()
            for handle in (self, *self.siblings()):
                if key not in handle._answers:
                    handle._answers[key] = call(batch, handle.ref, *arguments, **named)
            batch.run()
        return self._answers[key]

    def fact(
        self,
        call: Callable[Concatenate[Batch, Any, _Arguments], Pending[_T]],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _T:
        """Return the result of a call. The parameters are those of :meth:`answer`.

        :raises Unavailable: if the library does not know the fact
        :raises LibraryError: if the library failed
        """
        return value(self.space.hosted_library, self.answer(call, *arguments, **named))

    def number(self, names: Sequence[str], scope: Scope) -> int:
        """Return the value of a control variable as a number. Depending on the variable, the number is a size, a level
        or a truth value.

        :param names: the variable's names in different releases of OpenMP
        """
        icv = self.space.icv_of(names, scope)
        return self.fact(Batch.get_icv_from_scope, scope, icv.number).value

    def tool_word(self, scope: Scope) -> int:
        """Return the word that a tool keeps with a thread, region or task."""
        return self.fact(Batch.get_tool_data, scope).value & _WORD


def value(library: HostedLibrary, pending: Pending[_T]) -> _T:
    """Return the library's answer.

    :raises Unavailable: if the fact is unknown to the library
    :raises LibraryError: if the library failed
    """
    error = pending.error()
    if error is not None:
        refuse(library, error)
    return pending.value()


def value_or_none(library: HostedLibrary, pending: Pending[_T]) -> _T | None:
    """Return the library's answer, None if the library reports no object. Raises like :func:`value`."""
    error = pending.error()
    if error is not None and error.rc in _NONE and not error.has_ended and not _lacks(library, error.call):
        return None
    return value(library, pending)


def refuse(library: HostedLibrary, error: LibraryError) -> NoReturn:
    """Raise the exception for the return code with which the library refused a call.

    :raises Unavailable: if the fact is unknown to the library
    :raises LibraryError: if the library failed
    """
    if error.has_ended or error.rc not in _UNKNOWN:
        raise error
    if _lacks(library, error.call):
        raise Unavailable(f"{error.name} has no {error.call}") from error
    if error.rc == Rc.NEEDS_STATE_TRACKING:
        raise Unavailable(f"{error.name}: {_TRACKING} ({error.call})", hint=error.hint) from error
    raise Unavailable(str(error), hint=error.hint) from error


def _lacks(library: HostedLibrary, function: str | None) -> bool:
    return function is not None and function not in library.functions


def no_call(fact: str) -> NoReturn:
    """Raise the exception for a fact that no call of the interface returns.

    :raises NoCall: always
    """
    raise NoCall(f"OMPD has no call that returns {fact}")


def placed(
    library: HostedLibrary, pending: Sequence[Pending[_Ref]], entities: Identities[_Ref, _Entity]
) -> list[_Entity | OmpdError | None]:
    """Return the region or task for each answer of the library. An answer without an object gives None, a failed one
    gives the error.
    """
    placed_entities: list[_Entity | OmpdError | None] = []
    refs: dict[int, _Ref] = {}
    for index, result in enumerate(pending):
        try:
            ref = value_or_none(library, result)
        except OmpdError as error:
            placed_entities.append(error)
            continue
        placed_entities.append(None)
        if ref is not None:
            refs[index] = ref
    try:
        for index, entity in zip(refs, entities.of(list(refs.values())), strict=True):
            placed_entities[index] = entity
    except OmpdError as error:
        for index in refs:
            placed_entities[index] = error
    return placed_entities


def given(answer: _T | OmpdError) -> _T:
    """Return an answer.

    :raises OmpdError: if it is an error
    """
    if isinstance(answer, OmpdError):
        raise answer
    return answer


def unique_name(names: dict[str, int], name: str) -> str:
    """Return *name*, with a number added if the name has been given before.

    :param names: the number of times that each name has been given
    """
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}#{names[name]}"
