"""Layouts from the debug information of the same build: in the runtime's own file or its proven debug file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ompd.contract.memory import StructLayout
from ompd.contract.process import Module, Process

SOURCE = "dwarf"


def load(process: Process, module: Module, wanted: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, StructLayout]:
    """Return the layouts of the structures *wanted*, each given as the name of a type and its members.

    A member that the type does not have is absent.

    :raises LayoutUnavailable: if *module* has no debug information
    :raises TypeNotFound: if the debug information does not have a type
    """
    return {
        name: replace(process.struct_layout(module, type_name, list(members)), name=name)
        for name, (type_name, members) in wanted.items()
    }
