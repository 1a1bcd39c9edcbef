"""Functions that left the stack by a tail call, found by the calls that debug information describes.

Suppose that a caller called one function, but the next inner frame belongs to another. Then the called function ended
with a jump to the other one, or with a chain of such jumps. Like gdb (``call_site_find_chain``), this module follows
all ways between the two. Jumps that all ways share are certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ompd.binary.dwarf.calls import Call
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.symbols import Symbols
from ompd.errors import OmpdError

_MAX_STEPS = 4096
_MAX_CHAIN = 256


class ChainLink(NamedTuple):
    """A function that left the stack: its entry ``start``, and an address in the ``jump`` at its end.

    ``jump`` is None if it is uncertain by which jump the function left.
    """

    start: int
    jump: int | None


class Chain(NamedTuple):
    """The functions that left the stack between a call and the running function, innermost first.

    Unless the chain ``is_whole``, it has a gap after the first ``inner`` functions, because several ways are possible,
    or because no way is described.
    """

    links: tuple[ChainLink, ...]
    inner: int
    is_whole: bool


class DescribedCalls:
    """The calls that debug information of one process describes, at the target's addresses."""

    def __init__(self, modules: ModuleList, symbols: Symbols) -> None:
        self._modules, self._symbols = modules, symbols
        self._starts: dict[tuple[int, str], int | None] = {}
        self._chains: dict[tuple[int, int], Chain] = {}

    def calls_of(self, address: int) -> Sequence[Call] | None:
        """Return the calls and tail calls of the function that contains *address*.

        ``start`` of each is None if the called function is unknown. Return None if debug information does not describe
        the calls.
        """
        loaded = self._modules.at(address)
        if loaded is None or loaded.lines is None:
            return None
        if loaded.record.is_system_library:
            return ()  # functions of system libraries do not end with jumps to other files' code
        link_address = address - loaded.bias
        try:
            if loaded.lines.function_entry(link_address) is None:
                return None
            calls = loaded.lines.calls(link_address)
        except OmpdError:
            return None  # damaged debug information counts as missing
        bias = loaded.bias
        return [
            call._replace(
                inside=call.inside + bias,
                behind=call.behind + bias if call.behind is not None else None,
                start=call.start + bias if call.start is not None else self._start_of(loaded, call.name),
            )
            for call in calls
        ]

    def _start_of(self, loaded: LoadedModule, name: str | None) -> int | None:
        # Return the start of the function with a linker's name that the module's code calls, in this module or another
        # one. None if it is unknown, or if the module has several functions of that name.
        key = loaded.start, name or ""
        if name is not None and key not in self._starts:
            symbols = loaded.symbols.find_prefix(name) if loaded.symbols is not None else []
            addresses = {symbol.address for symbol in symbols if symbol.name == name}
            start = next(iter(addresses)) + loaded.bias if len(addresses) == 1 else None
            if not addresses:
                with suppress(OmpdError):
                    start = self._symbols.find_symbol(name)
            self._starts[key] = start
        return self._starts.get(key)

    def chain(self, called: int, runs: int) -> Chain:
        """Return the chain of functions that left the stack by tail calls.

        :param called: the entry of the function that was called, the outermost one of the chain
        :param runs: the entry of the function that runs instead, which is no part of the chain
        """
        key = called, runs
        if key not in self._chains:
            self._chains[key] = find_chain(self, called, runs)
        return self._chains[key]


def find_chain(calls: DescribedCalls, called: int, runs: int) -> Chain:
    """Return the chain of functions that left the stack; see :meth:`DescribedCalls.chain`."""
    try:
        chains = _ways(calls, called, runs)
    except OmpdError:
        chains = None  # damaged debug information counts as missing
    if not chains:
        return Chain((ChainLink(called, None),), 0, False)
    first_chain, other_chains = chains[0], chains[1:]
    if not other_chains:
        return Chain(first_chain[::-1], len(first_chain), True)
    outer = min(_count_common(first_chain, chain) for chain in other_chains)
    inner = min(_count_common(first_chain[::-1], chain[::-1]) for chain in other_chains)
    inner = min(inner, min(map(len, chains)) - outer)
    links = first_chain[::-1][:inner]
    if outer:
        return Chain((*links, *first_chain[:outer][::-1]), inner, False)
    # The called function certainly belongs to the chain, even if it is uncertain by which jump it left.
    has_outermost = bool(links) and links[-1].start == called
    return Chain(links if has_outermost else (*links, ChainLink(called, None)), inner, False)


def _ways(calls: DescribedCalls, called: int, runs: int) -> list[tuple[ChainLink, ...]] | None:
    # Return all ways from *called* to *runs* by tail calls, each with the outermost link first. No way has the same
    # jump twice. None if there may be more ways: a jump's target or a function's jumps are unknown, or there are too
    # many.
    chains: list[tuple[ChainLink, ...]] = []
    chain: list[ChainLink] = []
    jumps = _jumps(calls, called)
    if jumps is None:
        return None
    untried, functions = [jumps], [called]
    steps = 0
    while untried:
        if not untried[-1]:
            untried.pop()
            functions.pop()
            if chain:
                chain.pop()
            continue
        steps += 1
        if steps > _MAX_STEPS or len(chain) > _MAX_CHAIN:
            return None
        jump = untried[-1].pop()
        link = ChainLink(functions[-1], jump.inside)
        if jump.start is None:
            return None  # a jump by a pointer may lead anywhere
        if link in chain:
            continue
        if jump.start == runs:
            chains.append((*chain, link))
            continue
        jumps = _jumps(calls, jump.start)
        if jumps is None:
            return None
        chain.append(link)
        functions.append(jump.start)
        untried.append(jumps)
    return chains


def _jumps(calls: DescribedCalls, function: int) -> list[Call] | None:
    # Return the tail calls of a function, None if debug information does not describe them.
    described = calls.calls_of(function)
    return None if described is None else [call for call in described if call.is_tail]


def _count_common(chain: Sequence[ChainLink], other: Sequence[ChainLink]) -> int:
    count = 0
    for link, other_link in zip(chain, other, strict=False):
        if link != other_link:
            break
        count += 1
    return count
