"""The boundary to a plugin of another distribution: any failure of the plugin's code becomes a :class:`PluginFault`.

The plugin's handles are in wrappers, which have the members of the protocols in :mod:`ompd.contract.plugin`. A wrapper
calls the plugin in one ``try``, and checks the class of the result against the protocol. So a mistake in a plugin only
affects facts of its own runtime, and callers need not expect such mistakes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import lru_cache, partial
from inspect import getattr_static
from operator import eq
from typing import Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakValueDictionary

from ompd.contract import plugin as contract
from ompd.contract import waits
from ompd.contract.dmpl import NamedVariable, RtlNames
from ompd.contract.plugin import Plugin
from ompd.contract.process import Frame
from ompd.errors import OmpdError, PluginFault, Unavailable

_HANDLES: Sequence[type] = (
    contract.Plugin,
    contract.AddressSpace,
    contract.ThreadprivateCopies,
    contract.ThreadHandle,
    contract.ParallelHandle,
    contract.TaskHandle,
)
_RECORDS = (contract.__name__, waits.__name__)
_NAMES = ("address", "id")
_MAX_TEXT = 300
_NOTHING = object()


class Guarded:
    """A handle of a plugin, with the members of its *protocol* and no others."""

    __slots__ = ("__weakref__", "_guard", "_names", "_original", "_results")

    def __init__(self, guard: Guard, original: object, protocol: type) -> None:
        self._guard = guard
        self._original = original
        self._results = _results(protocol)
        # Callers identify handles by these members. A handle that fails to return them is useless.
        self._names: dict[str, Any] = {}
        self._names = {name: getattr(self, name) for name in _NAMES if name in self._results}

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        if name not in self._results:
            raise AttributeError(name)
        is_property, result = self._results[name]
        if is_property:
            self._guard.check_has(self._original, name)
            return self._guard.ask(name, partial(getattr, self._original, name), result)
        # A missing method fails only when it is called, because callers also pass methods on uncalled.
        return partial(self._call, name, result)

    def _call(self, name: str, result: Any, *arguments: object, **named: object) -> Any:
        self._guard.check_has(self._original, name)
        own = [original(argument) for argument in arguments]
        own_named = {key: original(argument) for key, argument in named.items()}
        return self._guard.ask(name, lambda: getattr(self._original, name)(*own, **own_named), result)

    def __eq__(self, other: object) -> bool:
        return bool(self._guard.ask("__eq__", partial(eq, self._original, original(other)), bool))

    def __hash__(self) -> int:
        return int(self._guard.ask("__hash__", partial(hash, self._original), int))

    def __repr__(self) -> str:
        return str(self._guard.ask("__repr__", partial(repr, self._original), str))


def original(handle: object) -> object:
    """Return the plugin's own object in a wrapper. Any other value is returned unchanged."""
    return handle._original if isinstance(handle, Guarded) else handle


class Guard:
    """Calls the code of one plugin.

    :param label: names the plugin in messages
    """

    def __init__(self, label: str) -> None:
        self.label = label
        # The wrappers in use. A handle has only one wrapper at a time.
        self._wrappers: WeakValueDictionary[tuple[int, type], Guarded] = WeakValueDictionary()

    def plugin(self, make: Callable[[], object]) -> Plugin:
        """Return the plugin that *make* returns.

        :raises PluginFault: if *make* fails, or the plugin lacks a required member
        """
        plugin: Plugin = self.ask("its maker", make, contract.Plugin)
        try:
            if not plugin.kind:
                raise PluginFault(self.label, "has no name for its kind of runtime")
            self.check_has(original(plugin), "process_initialize")
        except Unavailable as error:
            raise PluginFault(self.label, f"cannot be used: {error}") from error
        return plugin

    def check_has(self, handle: object, name: str) -> None:
        """Check that a handle has the member *name* of the contract.

        :raises Unavailable: if the handle does not have it
        """
        if getattr_static(handle, name, _NOTHING) is _NOTHING:
            raise Unavailable(f"the plugin {self.label} does not tell this: its {type(handle).__name__} has no {name}")

    def ask(self, what: str, call: Callable[[], object], hint: Any) -> Any:
        """Return the result of a *call* of the plugin's code, with handles in wrappers.

        :param what: the call's name in messages
        :param hint: the type that the contract declares
        :raises PluginFault: if the call fails with an error that is not ompd's, or the result is of another type
        """
        try:
            return self._checked(what, call(), hint)
        except OmpdError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginFault(self.label, f"failed in {what}: {type(error).__name__}{_text(error)}") from error

    def _checked(self, what: str, value: object, hint: Any) -> Any:
        options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for option in options:
            kind = get_origin(option) or option
            if option is Frame:  # frames need no check, because they come from the process, not from the plugin
                return value
            if option in _HANDLES:
                if type(value).__module__ != "builtins":
                    return self._wrapped(value, option)
            elif value is None and option in (None, type(None)):
                return None
            elif isinstance(value, kind) and not (kind is Sequence and isinstance(value, (str, bytes))):
                return self._guarded(what, value, option)
        text = f"it returned a value of type {type(value).__name__}, which the contract does not have there"
        raise PluginFault(self.label, f"failed in {what}: {text}")

    def _guarded(self, what: str, value: Any, hint: Any) -> Any:
        # Return *value* with the handles inside of it in wrappers.
        kind, inner = get_origin(hint), get_args(hint)
        if kind is Mapping:
            return {self._checked(what, key, inner[0]): self._checked(what, value[key], inner[1]) for key in value}
        if kind is Iterable:
            return self._iterated(what, iter(value), inner[0])
        if kind is Sequence or inner[1:] == (...,):
            return tuple(self._checked(what, item, inner[0]) for item in value)
        if kind is tuple:
            return tuple(self._checked(what, item, option) for item, option in zip(value, inner, strict=True))
        if getattr(hint, "__module__", "") not in _RECORDS:
            return value
        members = {name: self._checked(what, getattr(value, name), member) for name, member in _members(hint).items()}
        return replace(value, **members) if is_dataclass(hint) else hint(**members)

    def _iterated(self, what: str, items: Iterator[object], hint: Any) -> Iterator[Any]:
        while (item := self.ask(what, partial(next, items, _NOTHING), object)) is not _NOTHING:
            yield self._checked(what, item, hint)

    def _wrapped(self, value: object, protocol: type) -> Guarded:
        wrapper = self._wrappers.get((id(value), protocol))
        if wrapper is None:
            wrapper = self._wrappers[id(value), protocol] = Guarded(self, value, protocol)
        return wrapper


@lru_cache(maxsize=len(_HANDLES))
def _results(protocol: type) -> Mapping[str, tuple[bool, Any]]:
    # For each member of a protocol, whether it is a property, and the type of its result.
    results = {}
    for each in reversed(protocol.__mro__):
        for name, member in vars(each).items():
            function = member.fget if isinstance(member, property) else member
            if not name.startswith("_") and isinstance(function, types.FunctionType):
                hints = get_type_hints(function, localns={"NamedVariable": NamedVariable, "RtlNames": RtlNames})
                results[name] = (isinstance(member, property), hints["return"])
    return results


@lru_cache(maxsize=32)
def _members(record: type) -> Mapping[str, Any]:
    # The types of a record's members.
    return get_type_hints(record)


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  str() of a plugin's own exception may fail, too
        return ""
    return f": {text[:_MAX_TEXT]}" if text else ""
