"""The layouts that the stub publishes, read by callbacks of OMPD or DMPL.

They are in ``omp_stub_layout`` (``runtime_stub/src/structures.h``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from ompd.contract.callbacks import Callbacks
from ompd.contract.memory import Field, StructLayout
from ompd.errors import CorruptState, LayoutUnavailable, SymbolNotFound

SOURCE = "published"

TABLE = "omp_stub_layout"
_MAGIC = b"omp_stub_layout\0"
_VERSION = 1
# A record has two names and two numbers. The header has the table's name, a version and a count in their places.
_NAME, _NUMBER = 32, 4
_RECORD = 2 * _NAME + 2 * _NUMBER
_MAX_RECORDS, _MAX_SIZE = 4096, 1 << 16

# Members that every query needs.
NEEDED: Mapping[str, Sequence[str]] = {
    "stub_process": ("initialized", "debug_enabled", "threads", "thread_count"),
    "stub_thread": ("next", "type", "pthread", "team", "task"),
    "stub_team": ("parent", "size", "level", "active_level", "threads", "implicit", "barrier"),
    "stub_task": ("type", "status", "generating", "team", "thread", "function"),
}


def load(callbacks: Callbacks) -> dict[str, StructLayout]:
    """Return the layouts that the stub publishes, by structure.

    :raises LayoutUnavailable: if it has no table, or a table of another version, or one without a member of ``NEEDED``
    :raises CorruptState: if the table is impossible
    """
    try:
        address = callbacks.find_symbol(TABLE)
    except SymbolNotFound as error:
        raise LayoutUnavailable(f"the stub runtime publishes no layout: {error}") from error
    layouts = read_table(
        address, callbacks.read, lambda raw: int.from_bytes(callbacks.to_host(raw, len(raw)), sys.byteorder)
    )
    for struct, members in NEEDED.items():
        layout = layouts.get(struct)
        missing = [member for member in members if layout is None or member not in layout.fields]
        if layout is None or layout.size is None or missing:
            raise LayoutUnavailable(f"{TABLE} does not say where {struct} has {', '.join(missing) or 'its end'}")
    return layouts


def read_table(
    address: int, read: Callable[[int, int], bytes], number: Callable[[bytes], int]
) -> dict[str, StructLayout]:
    """Return the layouts of the table at *address*, by structure.

    :param read: returns the bytes at an address of the target; its second argument is their number
    :param number: decodes an unsigned integer from bytes of the target
    :raises LayoutUnavailable: if the table is of another version
    :raises CorruptState: if the table is impossible
    """
    header = read(address, _RECORD)
    version, count = _numbers(header, number)
    if not header.startswith(_MAGIC):
        raise CorruptState(address, f"{TABLE} does not begin with its own name")
    if version != _VERSION:
        raise LayoutUnavailable(f"{TABLE} is of version {version}, and only {_VERSION} is known")
    if not 0 < count <= _MAX_RECORDS:
        raise CorruptState(address, f"{TABLE} says that it has {count} records")
    raw = read(address + _RECORD, count * _RECORD)
    fields: dict[str, dict[str, Field]] = {}
    sizes: dict[str, int] = {}
    for at in range(0, len(raw), _RECORD):
        record = raw[at : at + _RECORD]
        struct, member = _text(record[:_NAME]), _text(record[_NAME : 2 * _NAME])
        offset, size = _numbers(record, number)
        if not 0 < size <= _MAX_SIZE or offset + size > _MAX_SIZE:
            where = address + _RECORD + at
            raise CorruptState(where, f"{struct}.{member} is said to be {size} bytes at offset {offset}")
        members = fields.setdefault(struct, {})
        if member:
            members[member] = Field(offset, size)
        else:
            sizes[struct] = size
    _check(address, fields, sizes)
    return {struct: StructLayout(struct, sizes.get(struct), members, SOURCE) for struct, members in fields.items()}


def _numbers(record: bytes, number: Callable[[bytes], int]) -> tuple[int, int]:
    return number(record[2 * _NAME : 2 * _NAME + _NUMBER]), number(record[2 * _NAME + _NUMBER :])


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("ascii", "replace")


def _check(address: int, fields: Mapping[str, Mapping[str, Field]], sizes: Mapping[str, int]) -> None:
    # No member may reach into the next one, or out of its structure.
    for struct, members in fields.items():
        ends = sorted((where.offset, where.offset + where.size, name) for name, where in members.items())
        following = [*((start, name) for start, _, name in ends[1:]), (sizes.get(struct, _MAX_SIZE), "what follows")]
        for (_, end, name), (limit, other) in zip(ends, following, strict=bool(ends)):
            if end > limit:
                raise CorruptState(address, f"{struct}.{name} is said to reach into {other}")
