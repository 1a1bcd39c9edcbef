"""``runtimes`` as blocks of lines."""

from __future__ import annotations

from collections.abc import Iterator

from ompd.model import Answer, RuntimeRecord
from ompd.render.words import clean, format_field, format_runtime_name

_NOT_ASKED_FOR = "no (OMP_DEBUG=enabled or a tool makes it)"
_NO_STATES = {
    "libgomp": "no (libgomp has no states)",
    "libomp": _NOT_ASKED_FOR,
    "libiomp5": _NOT_ASKED_FOR,
}


def runtime_lines(answer: Answer[RuntimeRecord]) -> Iterator[str]:
    """Yield a block of lines for each runtime."""
    for row in answer.rows:
        yield clean(format_runtime_name(row))
        yield f"  file           {clean(row.file)}"
        yield f"  build-id       {format_field(row, 'build_id')}"
        if row.plugin is not None:
            yield f"  plugin         {clean(row.plugin)}"
        yield f"  OpenMP         {format_field(row, 'omp_version')}"
        proof = f" ({clean(row.layout_proof)})" if row.layout_proof is not None else ""
        yield f"  layout         {format_field(row, 'layout')}{proof}"
        names = ", ".join(row.dll_locations) if row.dll_locations is not None else None
        yield f"  ompd_dll_locations  {format_field(row, 'dll_locations', names)}"
        for dll in row.dlls or ():
            use = "serves" if dll.chosen else "could serve" if dll.suitable else "cannot serve"
            yield f"    {clean(dll.name) or '(empty)'}  {use}: {clean(dll.reason)}"
        keeps = None if row.keeps_states is None else "yes" if row.keeps_states else _NO_STATES.get(row.kind, "no")
        yield f"  keeps states   {format_field(row, 'keeps_states', keeps)}"
        for reason in dict.fromkeys(row.unavailable.values()):
            yield f"  unknown        {clean(reason)}"
