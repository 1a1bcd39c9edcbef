"""Notes of ELF files (gABI, "Note Section"), and the build-id among them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ompd.binary.cursor import Buffer, ByteOrder, order_mark
from ompd.errors import MalformedFile
from ompd.safety import limits

NT_GNU_BUILD_ID = 3  # owner "GNU"
_NOTE = "III"


class NotePlace(NamedTuple):
    """Where a note is in a buffer: its descriptor has *size* bytes from *start*, and the next note begins at
    *following*. ``owner`` is cut where no owner's name is so long.
    """

    owner: str
    n_type: int
    start: int
    size: int
    following: int


def iter_note_places(data: Buffer, byte_order: ByteOrder, start: int, end: int, align: int = 4) -> Iterator[NotePlace]:
    """Yield the notes from *start* to *end* of *data*, what a PT_NOTE segment or SHT_NOTE section holds. Nothing but
    their headers and owners' names is touched.

    *align* is the segment's ``p_align`` where that is 8; all else, core files included, pads to 4 (gABI, "Note
    Section", asks for 8 in 64-bit files, but Linux and GNU never did that).

    :raises MalformedFile: when the walk reaches a note that does not end before *end*
    """
    layout = struct.Struct(order_mark(byte_order) + _NOTE)
    header_size, unpack = layout.size, layout.unpack
    padding = align - 1 if align in (4, 8) else 3
    offset, room = start, end - header_size
    while offset <= room:
        n_namesz, n_descsz, n_type = unpack(data[offset : offset + header_size])
        name_start = offset + header_size
        desc_start = name_start + n_namesz + (-(header_size + n_namesz) & padding)
        if n_descsz == 0:  # nothing follows the name, so its padding may be cut off too
            desc_start = min(desc_start, max(end, name_start + n_namesz))
        desc_end = desc_start + n_descsz
        if desc_end > end:
            raise MalformedFile(f"a note of {n_namesz} + {n_descsz} bytes does not fit", offset=offset - start)
        owner = bytes(data[name_start : name_start + min(n_namesz, limits.MAX_NOTE_OWNER)]).split(b"\0", 1)[0]
        offset = desc_end + (-(desc_end - desc_start) & padding)
        yield NotePlace(owner.decode("utf-8", "replace"), n_type, desc_start, n_descsz, offset)
    if any(data[offset:end]):
        raise MalformedFile("a note's header is cut off", offset=offset - start)


def iter_notes(data: bytes, byte_order: ByteOrder, align: int = 4) -> Iterator[tuple[str, int, memoryview]]:
    """Yield owner name, type and descriptor of each note in *data*; see :func:`iter_note_places`.

    Descriptors are views into *data*, not copies.

    :raises MalformedFile: when the walk reaches a note that does not end inside *data*
    """
    view = memoryview(data)
    for note in iter_note_places(view, byte_order, 0, len(view), align):
        yield note.owner, note.n_type, view[note.start : note.start + note.size]


def find_build_id(notes: bytes, byte_order: ByteOrder, align: int = 4) -> bytes | None:
    """Return the build-id (``NT_GNU_BUILD_ID`` of owner GNU) among *notes*, or None if there is none.

    :raises MalformedFile: if the notes before it are malformed
    """
    for owner, n_type, descriptor in iter_notes(notes, byte_order, align):
        if n_type == NT_GNU_BUILD_ID and owner == "GNU":
            return bytes(descriptor)
    return None
