"""A plugin that ompd does not bring, behind its contract: whatever goes wrong in it becomes a :class:`PluginFault`.

Its handles are handed out in wrappers. These have what the protocols of :mod:`ompd.contract.plugin` declare, catch
every exception, and check what a method returns against the protocol's annotation. What that says is a handle comes in
a wrapper, too. So a mistake in a plugin costs the facts of its own runtime, and no question has to expect it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from inspect import getattr_static
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from weakref import WeakValueDictionary

from ompd.contract import plugin as contract
from ompd.contract import waits
from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.plugin import Plugin
from ompd.contract.process import Frame
from ompd.errors import OmpdError, PluginFault, Unavailable

_T = TypeVar("_T")

_HANDLES: frozenset[type] = frozenset(
    (
        contract.Plugin,
        contract.AddressSpace,
        contract.ThreadprivateCopies,
        contract.ThreadHandle,
        contract.ParallelHandle,
        contract.TaskHandle,
    )
)
_NAMES = ("address", "id")
_MAX_TEXT = 300
_NOTHING = object()


class _Member(NamedTuple):
    # A method or property of a protocol, and what it returns.
    is_property: bool
    result: Any


@lru_cache(maxsize=len(_HANDLES))
def _members(protocol: type) -> Mapping[str, _Member]:
    found = {}
    # What it has of other protocols, too: a plugin may lack any of it.
    declared = {name: member for each in reversed(protocol.__mro__) for name, member in vars(each).items()}
    for name, member in declared.items():
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and isinstance(function, types.FunctionType):
            hints = get_type_hints(function, localns={each.__name__: each for each in (NamedVariable, RtlNames)})
            found[name] = _Member(isinstance(member, property), hints["return"])
    return found


class Guarded:
    """A handle of a plugin, with what its *protocol* declares and nothing else."""

    __slots__ = ("__weakref__", "_guard", "_kept", "_original", "_protocol")

    def __init__(self, guard: Guard, original: object, protocol: type) -> None:
        self._guard = guard
        self._original = original
        self._protocol = protocol
        # By these questions tell handles apart. What cannot say which it is is not handed out.
        self._kept: dict[str, Any] = {}
        self._kept = {name: getattr(self, name) for name in _members(protocol) if name in _NAMES}

    def __getattr__(self, name: str) -> Any:
        if name in self._kept:
            return self._kept[name]
        member = _members(self._protocol).get(name)
        if member is None:
            raise AttributeError(name)
        if member.is_property:
            self._guard.check_has(self._original, name)
            return self._guard.told(name, lambda: getattr(self._original, name), member.result)

        def method(*arguments: object, **named: object) -> Any:
            self._guard.check_has(self._original, name)
            plain = [original(argument) for argument in arguments]
            plain_named = {key: original(value) for key, value in named.items()}
            return self._guard.told(name, lambda: getattr(self._original, name)(*plain, **plain_named), member.result)

        return method

    def __eq__(self, other: object) -> bool:
        return self._guard.run("__eq__", lambda: bool(self._original == original(other)))

    def __hash__(self) -> int:
        return self._guard.run("__hash__", lambda: hash(self._original))

    def __repr__(self) -> str:
        return self._guard.run("__repr__", lambda: repr(self._original))


def original(handle: object) -> object:
    """Return the plugin's own object of a handle; what is no handle of another's plugin as it is."""
    return handle._original if isinstance(handle, Guarded) else handle


class Guard:
    """Stands between a plugin and those who ask it.

    :param label: what names the plugin in messages
    """

    def __init__(self, label: str) -> None:
        self.label = label
        # One handle has one wrapper, as long as somebody has it.
        self._wrappers: WeakValueDictionary[tuple[int, type], Guarded] = WeakValueDictionary()

    def plugin(self, make: Callable[[], object]) -> Plugin:
        """Return the plugin that *make* returns.

        :raises PluginFault: if that fails, or it lacks something
        """
        plugin: Plugin = self.told("its maker", make, contract.Plugin)
        try:
            if not plugin.kind:
                raise PluginFault(self.label, "has no name for its kind of runtime")
            self.check_has(original(plugin), "process_initialize")
        except Unavailable as error:
            raise PluginFault(self.label, f"cannot be used: {error}") from error
        return plugin

    def check_has(self, handle: object, name: str) -> None:
        """Make sure that a handle has what the contract calls *name*.

        :raises Unavailable: if not
        """
        if getattr_static(handle, name, _NOTHING) is _NOTHING:
            raise Unavailable(f"the plugin {self.label} does not tell this: its {type(handle).__name__} has no {name}")

    def run(self, what: str, call: Callable[[], _T]) -> _T:
        """Return what *call* returns, of the plugin's code.

        :raises PluginFault: if it ends in any other way than by an error of ours
        """
        try:
            return call()
        except OmpdError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginFault(self.label, f"failed in {what}: {type(error).__name__}{_text(error)}") from error

    def told(self, what: str, call: Callable[[], object], hint: Any) -> Any:
        """Return the same, as the contract has it.

        :param hint: the type that the contract declares
        :raises PluginFault: if it is of another one
        """
        value = self.run(what, call)
        try:
            return self.run(what, lambda: self._fitting(what, value, hint))
        except _Misfit as error:
            raise PluginFault(self.label, f"failed in {what}: {error}") from None

    def _fitting(self, what: str, value: object, hint: Any) -> Any:
        kind = get_origin(hint)
        arguments = get_args(hint)
        if hint in (object, Any, Frame):
            return value
        if hint is None or hint is type(None):
            return _instance(value, type(None))
        if kind in (Union, types.UnionType):
            return self._fitting_one(what, value, arguments)
        if kind is tuple:
            items = _instance(value, tuple)
            hints = arguments[:1] * len(items) if arguments[1:] == (...,) else arguments
            if len(items) != len(hints):
                raise _Misfit(f"it returned {len(items)} values, not {len(hints)}")
            return tuple(self._fitting(what, item, one) for item, one in zip(items, hints, strict=True))
        if kind is Sequence:
            if isinstance(value, (str, bytes)):
                raise _Misfit(_of(value))
            return tuple(self._fitting(what, item, arguments[0]) for item in _instance(value, Sequence))
        if kind is Mapping:
            return {
                self._fitting(what, key, arguments[0]): self._fitting(what, item, arguments[1])
                for key, item in _instance(value, Mapping).items()
            }
        if kind is Iterable:
            return self._iterated(what, iter(_instance(value, Iterable)), arguments[0])
        if hint in _HANDLES:
            return self._wrapped(value, hint)
        return self._record(what, _instance(value, hint), hint)

    def _fitting_one(self, what: str, value: object, hints: Sequence[Any]) -> Any:
        if value is None and type(None) in hints:
            return None
        for hint in hints:
            try:
                return self._fitting(what, value, hint)
            except _Misfit as error:
                misfit = error
        raise misfit

    def _iterated(self, what: str, items: Iterator[object], hint: Any) -> Iterator[Any]:
        end = object()
        while True:
            item = self.run(what, lambda: next(items, end))
            if item is end:
                return
            yield self.told(what, lambda item=item: item, hint)  # type: ignore[misc]

    def _wrapped(self, value: object, protocol: type) -> Guarded:
        if value is None or isinstance(value, (int, float, str, bytes, list, tuple, dict)):
            raise _Misfit(_of(value))
        found = self._wrappers.get((id(value), protocol))
        if found is None:
            found = self._wrappers[id(value), protocol] = Guarded(self, value, protocol)
        return found

    def _record(self, what: str, value: Any, hint: type) -> Any:
        # Records of the contract have handles among their members.
        if hint.__module__ not in (contract.__name__, waits.__name__):
            return value
        hints = _hints(hint)
        if is_dataclass(hint):
            names = [field.name for field in fields(hint)]
            return replace(value, **{name: self._fitting(what, getattr(value, name), hints[name]) for name in names})
        return hint(*(self._fitting(what, getattr(value, name), hints[name]) for name in hints))


class _Misfit(OmpdError):
    """What a plugin returned is not what the contract says."""


@lru_cache(maxsize=32)
def _hints(record: type) -> Mapping[str, Any]:
    return get_type_hints(record)


def _instance(value: object, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise _Misfit(_of(value))
    return value


def _of(value: object) -> str:
    return f"it returned a value of type {type(value).__name__}, which the contract does not have there"


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  a plugin's own exception may fail at this, too
        return ""
    return f": {text[:_MAX_TEXT]}" if text else ""
