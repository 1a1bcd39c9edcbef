"""Opening a file whose code is about to run: one that nobody but root and this user could have put there or changed.

The path is followed part by part from the root folder, each part opened as it is found, so that what was checked is
what is used. Every folder and link on the way counts: who can write to one of them decides which file is found. The
caller copies the file (:func:`sealed_copy`) and runs the copy, which nobody can write to, not even who has had the file
open since before it was checked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from typing import NoReturn

from ompd.errors import BadFile
from ompd.safety import limits
from ompd.safety.trust import others_may_write, user_name

MAX_LIBRARY = 64 << 20
"""Bytes of a library for debuggers, or one that it needs. Intel's has 0.8 MB, LLVM's 0.1 MB; libstdc++ has 2 MB."""

_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)
_PIECE = 1 << 20
# Linux's numbers, the same on every processor. Python's os and fcntl lack some that its C library was older than.
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_NOEXEC_SEAL = 1, 2, 8
F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8


def open_trusted(path: str, *, most: int, runs: bool = True) -> tuple[int, os.stat_result]:
    """Open the regular file at *path* for reading, and return its descriptor and status.

    Refused are: a path that is not absolute; folders and links on the way, and a file, that belong to other users than
    root and this one; folders and files that others may write to, but a sticky folder, as ``/tmp`` is one, where nobody
    but an entry's owner can replace it; files that run as their owner (setuid); what a stranger's program (FUSE) shows
    as a file system; files of the kernel's (``/proc``), and with them those of containers.

    :param most: how many bytes it may have
    :param runs: whether its code is to run, so that a file system that is mounted ``noexec`` is refused
    :raises BadFile: if there is none, it is refused, or may not be read; ``__cause__`` is a FileNotFoundError where
        there is none
    """
    if not path.startswith("/"):
        raise BadFile(path, "is not an absolute path", hint="name the file by a path that begins with /")
    try:
        with _Walk(path, runs=runs) as walk:
            found, status = walk.to_the_end()
            _check_file(path, status, most)
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
            return os.open(f"/proc/self/fd/{found}", flags), status
    except FileNotFoundError as error:
        if str(error.filename).startswith("/proc/self/"):
            raise BadFile(path, "cannot be opened safely: /proc is not mounted") from error
        raise BadFile(path, "no such file") from error
    except PermissionError as error:
        raise BadFile(path, "no permission to read it") from error
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise BadFile(path, f"cannot be opened: {reason}") from error


def sealed_copy(descriptor: int, status: os.stat_result, path: str) -> int:
    """Return the descriptor of a copy in memory that can be neither written to nor cut any more, by anybody.

    :param descriptor: the open file
    :param status: what it was when it was opened; it must be so after it was copied
    :param path: what to call it in errors
    :raises BadFile: if it changes meanwhile, or cannot be copied
    """
    copy = -1
    try:
        copy = memory_file(path.rpartition("/")[2])
        at = 0
        while at < status.st_size:
            piece = os.pread(descriptor, min(_PIECE, status.st_size - at), at)
            if not piece:
                break
            at += os.write(copy, piece)
        now = os.fstat(descriptor)
        if at != status.st_size or _state(now) != _state(status):
            raise BadFile(path, "changed while it was read", hint="try again when nobody writes to it")
        fcntl.fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
        # A new descriptor that can only read: the first one could be made to write by whoever it is passed to.
        reading = os.open(f"/proc/self/fd/{copy}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise BadFile(path, f"cannot be copied into memory: {error.strerror or error}") from error
    finally:
        if copy >= 0:
            os.close(copy)
    return reading


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def memory_file(name: str) -> int:
    """Return the descriptor of a new file in memory, empty, that can be sealed (fcntl(2), "File Sealing").

    :param name: what the kernel calls it
    :raises OSError: if it cannot be made
    """
    create: Callable[[bytes, int], int] | None = getattr(os, "memfd_create", None)
    if create is None:
        create = _memfd_create
    shown = os.fsencode(name)[:200]
    try:
        # It is mapped and never executed as a program. Kernels may be told to allow nothing else (vm.memfd_noexec).
        return create(shown, _MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return create(shown, _MFD_CLOEXEC | _MFD_ALLOW_SEALING)  # before Linux 6.3


def _memfd_create(name: bytes, flags: int) -> int:
    # Of a Python that was built with an older C library than it runs with.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    try:
        made = int(library.memfd_create(name, flags))
    except AttributeError as error:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if made < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return made


def _check_file(path: str, status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadFile(path, "is not a regular file")
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BadFile(path, "is refused: it runs with the rights of its owner or group (setuid)")
    if status.st_size == 0:
        raise BadFile(path, "is empty")
    if status.st_size > most:
        raise BadFile(path, f"is refused: it has {status.st_size} bytes, and no such file has more than {most}")
    if not limits.may_copy(status.st_size, 512 * status.st_blocks):
        raise BadFile(path, "is refused: it is almost nothing but holes")


class _Walk:
    # Follows one path by descriptors. Each part is checked before anything is looked for in it.

    def __init__(self, path: str, *, runs: bool) -> None:
        self._path = path
        self._runs = runs
        self._held: list[int] = []
        self._names: list[str] = []
        self._waiting = path.split("/")[::-1]
        self._links = 0
        self._mounts = _Mounts()

    def __enter__(self) -> _Walk:
        return self

    def __exit__(self, *_exception: object) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def to_the_end(self) -> tuple[int, os.stat_result]:
        """Return a descriptor (``O_PATH``) and status of what the path names. It is closed with the walk."""
        status = self._enter("/", None)
        while self._waiting:
            part = self._waiting.pop()
            if part in ("", "."):
                continue
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)
            if part == "..":
                self._leave()
                status = os.fstat(self._held[-1])
                continue
            status = self._enter(part, self._held[-1])
            if stat.S_ISLNK(status.st_mode):
                status = self._follow()
        if self._runs and self._mounts.option(self._held[-1], "noexec"):
            self._refuse(f"{self._here()} is on a file system that is mounted noexec")
        return self._held[-1], status

    def _enter(self, part: str, folder: int | None) -> os.stat_result:
        found = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        self._held.append(found)
        self._names.append(part)
        # Before anything else is asked of it: a stranger's file system may never answer.
        fault = self._mounts.fault(found)
        if fault is not None:
            self._refuse(f"{self._here()} {fault}")
        status = os.fstat(found)
        if status.st_uid not in (0, os.geteuid()):
            self._refuse(f"{self._here()} belongs to {user_name(status.st_uid)}")
        if not stat.S_ISLNK(status.st_mode) and self._is_open(found, status):
            self._refuse(f"others may write to {self._here()}")
        return status

    def _is_open(self, descriptor: int, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
            return False  # there nobody but its owner replaces an entry, and each entry is checked
        if others_may_write(status, private_groups=True):
            return True
        # With an access control list the group's bits are the most that anybody named in it may do.
        return bool(status.st_mode & stat.S_IWGRP) and _has_access_list(descriptor)

    def _follow(self) -> os.stat_result:
        # Where the link leads that was entered last. It is root's or the user's own.
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        target = os.readlink("", dir_fd=self._held[-1])
        self._leave()
        while target.startswith("/") and len(self._held) > 1:
            self._leave()
        self._waiting += target.split("/")[::-1]
        return os.fstat(self._held[-1])

    def _leave(self) -> None:
        if len(self._held) > 1:
            os.close(self._held.pop())
            self._names.pop()

    def _here(self) -> str:
        return "/" + "/".join(self._names[1:])

    def _refuse(self, why: str) -> NoReturn:
        raise BadFile(self._path, f"is refused: {why}", hint="only root and you may be able to change code that is run")


class _Mounts:
    # What is mounted where: by the numbers that the kernel gives mounts.

    def __init__(self) -> None:
        self._table: dict[str, tuple[str, frozenset[str]]] | None = None
        self._sound: set[str] = set()

    def fault(self, descriptor: int) -> str | None:
        """Return why nothing is run from the file system that an open file is on, None if it may be."""
        number = self._number(descriptor)
        if number in self._sound:
            return None
        kind, options = self._mounts().get(number, ("", frozenset()))
        if kind == "proc":
            return "is a link of the kernel's, as into a container"
        if kind.partition(".")[0] in ("fuse", "fuseblk"):
            users = [option.removeprefix("user_id=") for option in options if option.startswith("user_id=")]
            if users != ["0"] and users != [str(os.geteuid())]:
                return "is on a file system that a program of somebody else makes up (FUSE)"
        self._sound.add(number)
        return None

    def option(self, descriptor: int, name: str) -> bool:
        """Return whether the file system that an open file is on is mounted with the option *name*."""
        return name in self._mounts().get(self._number(descriptor), ("", frozenset()))[1]

    def _number(self, descriptor: int) -> str:
        for line in _lines(f"/proc/self/fdinfo/{descriptor}"):
            if line.startswith("mnt_id:"):
                return line.removeprefix("mnt_id:").strip()
        return ""

    def _mounts(self) -> dict[str, tuple[str, frozenset[str]]]:
        # proc(5), "mountinfo": number, …, options (field 6), any tags, "-", kind, source, the file system's options
        if self._table is None:
            self._table = {}
            for line in _lines("/proc/self/mountinfo"):
                fields, _, rest = line.partition(" - ")
                words, others = fields.split(" "), rest.split(" ")
                if len(words) > 5 and len(others) > 2:
                    self._table[words[0]] = others[0], frozenset([*words[5].split(","), *others[2].split(",")])
        return self._table


def _lines(path: str) -> list[str]:
    # The kernel escapes newlines in names, but no other line separator.
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read().decode("utf-8", "surrogateescape").split("\n")


def _has_access_list(descriptor: int) -> bool:
    try:
        os.getxattr(f"/proc/self/fd/{descriptor}", "system.posix_acl_access")
    except OSError:
        return False
    return True
