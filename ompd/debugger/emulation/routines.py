"""Calls the target's routines: they are decoded, or run in an emulator that is made at the first call."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.binary.core.notes import AT_BASE
from ompd.contract.process import CallResult
from ompd.debugger.emulation.code_checks import TargetCode
from ompd.debugger.modules.loader import Loader
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.regions import Regions
from ompd.errors import Unavailable
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.debugger.emulation.decode import Decoder
    from ompd.debugger.emulation.emulate import Emulator
    from ompd.debugger.emulation.linking import Linkage
    from ompd.debugger.emulation.orbits import Orbits

# The file names of the dynamic loaders of glibc and other C libraries.
_LOADER = re.compile(r"ld(?:-linux[-\w]*|-\d[\d.]*|-musl[-\w]*)?\.so(?:\.\d+)*(?: \(deleted\))?")


class Routines:
    """The routines of one process at one stop."""

    def __init__(
        self,
        code: TargetCode,
        architecture: Architecture,
        modules: ModuleList,
        regions: Regions,
        loader: Loader,
    ) -> None:
        self.code, self._architecture, self._modules = code, architecture, modules
        self._regions, self._loader = regions, loader
        self._emulator: Emulator | Unavailable | None = None

    def call(self, routine: int, thread: int, arguments: Sequence[int] = ()) -> CallResult:
        """Run a routine in an emulator; see :meth:`Process.call`."""
        return self.emulator().call(routine, thread, arguments)

    def evaluate(self, routine: int, thread: int, nulls: Collection[int] = ()) -> CallResult:
        """Decode a routine, or run it in an emulator; see :meth:`Process.evaluate`."""
        try:
            return self.decoder.call(routine, thread, nulls)
        except Unavailable as undecoded:
            if nulls:
                raise  # the emulator reads the target's memory only
            try:
                return self.call(routine, thread)
            except Unavailable as error:
                raise Unavailable(f"{undecoded}; {error}", hint=error.hint or undecoded.hint) from error

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of routines that only load."""
        from ompd.debugger.emulation.decode import Decoder

        return Decoder(self.code, self._architecture)

    def emulator(self) -> Emulator:
        """Return the emulator, made at the first call.

        :raises Unavailable: if no emulator can be made; only the first call tries
        """
        if self._emulator is None:
            from ompd.debugger.emulation.emulate import Emulator

            try:
                self._emulator = Emulator(
                    self.code, self._architecture, self.linkage, self._regions.is_free, self.loader_code()
                )
            except Unavailable as error:
                self._emulator = error
        if isinstance(self._emulator, Unavailable):
            raise Unavailable(str(self._emulator), hint=self._emulator.hint) from self._emulator
        return self._emulator

    def orbits(self, kernel_words: tuple[int, int] | None) -> Orbits:
        """Return a new finder of closed orbits, to be closed by the caller; see :class:`Orbits` for the parameter.

        :raises Unavailable: if no emulator can be made
        """
        from ompd.debugger.emulation.orbits import Orbits

        start = self._regions.free_page()
        if start is None:
            raise Unavailable("loops are not examined: the target's memory leaves no room for the emulator")
        return Orbits(self.code, self._architecture, start, kernel_words)

    def close(self) -> None:
        """Free the emulator, which takes some megabytes. A later call makes a new one."""
        emulator, self._emulator = self._emulator, None
        if emulator is not None and not isinstance(emulator, Unavailable):
            emulator.close()

    def linkage(self, jump_slot: int) -> Linkage:
        """Return the finder of routines for linkage table entries that the program has not called yet.

        :param jump_slot: the type of the relocations of these entries
        """
        from ompd.debugger.emulation.linking import Linkage

        return Linkage(self.code.memory, self._loader, self._modules.at, jump_slot)

    def loader_code(self) -> Sequence[tuple[int, int]]:
        """Return the first and the end address of each dynamic loader in the process."""
        base = self._modules.auxiliary_vector.get(AT_BASE)
        return [
            (module.start, module.end)
            for module in self._modules
            if _LOADER.fullmatch(module.name.rpartition("/")[2]) or (base is not None and base == module.start)
        ]
