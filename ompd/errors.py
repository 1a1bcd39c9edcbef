"""The errors of this package, and OMPD's return codes.

Each class is one way to fail. Its attributes hold the facts (addresses, names, files), the OMPD return code for a C
caller, and, if the user can act, a ``hint``.
"""

from __future__ import annotations

import sys
from enum import IntEnum


class Rc(IntEnum):
    """``ompd_rc_t``: the return codes of the OMPD interface (OpenMP 5.2, 20.3.12; 6.0 added the last)."""

    OK = 0
    UNAVAILABLE = 1
    STALE_HANDLE = 2
    BAD_INPUT = 3
    ERROR = 4
    UNSUPPORTED = 5
    NEEDS_STATE_TRACKING = 6
    INCOMPATIBLE = 7
    DEVICE_READ_ERROR = 8
    DEVICE_WRITE_ERROR = 9
    NOMEM = 10
    INCOMPLETE = 11
    CALLBACK_ERROR = 12
    INCOMPATIBLE_HANDLE = 13


class OmpdError(Exception):
    """Base of every error that this package raises on purpose.

    ``hint`` is one or more sentences of advice for the user, or ``""``. From Python 3.11 on, a traceback ends with the
    hint.
    """

    rc: Rc = Rc.ERROR

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint and sys.version_info >= (3, 11):
            self.add_note(f"hint: {hint}")


# Arguments and plugins


class BadInput(OmpdError):
    """An argument is not valid."""

    rc = Rc.BAD_INPUT


class Unsupported(OmpdError):
    """The query makes sense, but is not implemented for this kind of target."""

    rc = Rc.UNSUPPORTED


class PluginFault(OmpdError):
    """A third-party plugin cannot be used, or has failed.

    ``plugin`` is the plugin's name and distribution, ``fault`` the problem.
    """

    def __init__(self, plugin: str, fault: str, *, hint: str = "") -> None:
        super().__init__(f"the plugin {plugin} {fault}", hint=hint)
        self.plugin = plugin
        self.fault = fault


class LibraryError(OmpdError):
    """A library for debuggers that the user named (``--ompd-library``) refused a call, or has failed.

    ``name`` is the name of the library's file, ``call`` the called function of its interface, or None. ``fault`` is the
    failure. ``reason`` is the reason why the debugger refused a request of the library. ``rc`` is the library's return
    code if the standard defines that code. ``has_ended`` is True if the library's process has ended and every later
    call fails.
    """

    def __init__(
        self,
        library: str,
        call: str | None,
        fault: str,
        *,
        rc: Rc = Rc.ERROR,
        reason: str = "",
        has_ended: bool = False,
        hint: str = "",
    ) -> None:
        text = f"{library}: {fault}" + (f" in {call}" if call else "")
        super().__init__(text + (f": {reason}" if reason else ""), hint=hint)
        self.name = library
        self.call = call
        self.fault = fault
        self.reason = reason
        self.rc = rc
        self.has_ended = has_ended


# The target


class TargetError(OmpdError):
    """The target could not be opened or read."""


class MemoryFault(TargetError):
    """Memory could not be read because the target does not hold it.

    The whole request had ``size`` bytes at ``address``.
    """

    rc = Rc.DEVICE_READ_ERROR

    def __init__(self, address: int, size: int, why: str = "", *, hint: str = "") -> None:
        super().__init__(f"cannot read {size} bytes at {address:#x}" + (f": {why}" if why else ""), hint=hint)
        self.address = address
        self.size = size


class TargetGone(TargetError):
    """The target ended or was closed."""


class TimeLimit(TargetError):
    """The program did not reach the requested place or event in time. The program can be queried nevertheless."""


class BadFile(TargetError):
    """A file is missing, unreadable or of the wrong kind.

    ``path`` is the file's name as the user or the target gave it.
    """

    def __init__(self, path: str, fault: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {fault}", hint=hint)
        self.path = path
        self.fault = fault


class BadProcess(TargetError):
    """A process cannot be inspected: it does not exist, may not be read, or is of an unsupported kind.

    ``process_id`` is the number that the user gave.
    """

    def __init__(self, process_id: int, fault: str, *, hint: str = "") -> None:
        super().__init__(f"process {process_id}: {fault}", hint=hint)
        self.process_id = process_id
        self.fault = fault


class MalformedFile(OmpdError):
    """Bytes do not follow the format they claim (ELF, notes, unwind tables).

    ``offset`` is the position in the file, section or note, in bytes, or None.
    """

    def __init__(self, what: str, *, offset: int | None = None) -> None:
        super().__init__(what + (f" (at offset {offset:#x})" if offset is not None else ""))
        self.offset = offset


# Handles and the runtime's structures


class StaleHandle(OmpdError):
    """A handle was used after the stop for which it was made."""

    rc = Rc.STALE_HANDLE


class Unavailable(OmpdError):
    """The fact exists, but is unknown; the message has the reason."""

    rc = Rc.UNAVAILABLE


class NoCall(Unavailable):
    """The runtime is read through a foreign interface, which has no call for the fact."""


class NotInitialised(Unavailable):
    """The OpenMP runtime is loaded, but no OpenMP routine or construct has run yet."""


class NotBegun(Unavailable):
    """A thread is a member of a team, but has not begun its work there."""


class NoStorage(Unavailable):
    """A thread has no copy of a variable yet, because its first use creates the copy."""


class CorruptState(OmpdError):
    """The runtime's structures contradict themselves.

    ``address`` is the address of the contradictory structure.
    """

    def __init__(self, address: int, reason: str) -> None:
        super().__init__(f"{reason} (structure at {address:#x})")
        self.address = address


class TooMuch(OmpdError):
    """One query read more than any real program needs, because structures are linked in a cycle or absurdly many.

    ``reads`` is the number of reads, ``size`` the total of their bytes.
    """

    def __init__(self, reads: int, size: int) -> None:
        super().__init__(f"given up after {reads} reads of {size} bytes in all: the target's structures do not end")
        self.reads = reads
        self.size = size


# Knowledge about the runtime


class SymbolNotFound(OmpdError):
    """A symbol is in none of the symbol tables that were searched."""

    rc = Rc.INCOMPATIBLE

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__(f"no symbol {name!r}" + (f" in {where}" if where else ""))
        self.name = name


class TypeNotFound(OmpdError):
    """A type is not in the debug information that was searched."""

    rc = Rc.INCOMPATIBLE

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__(f"no type {name!r}" + (f" in {where}" if where else ""))
        self.name = name


class FieldNotFound(OmpdError):
    """A structure's layout does not name this field."""

    rc = Rc.INCOMPATIBLE

    def __init__(self, struct: str, field: str) -> None:
        super().__init__(f"no field {field!r} in the layout of {struct!r}")
        self.struct = struct
        self.field = field


class LayoutUnavailable(OmpdError):
    """The layout of this build's structures is unknown."""

    rc = Rc.INCOMPATIBLE


class NoAnswer(OmpdError):
    """The query has no answer on this target, for example because no OpenMP runtime in it can be read."""
