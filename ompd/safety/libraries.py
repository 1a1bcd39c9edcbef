"""Safe opening of libraries that will be executed: only root and this user may be able to change them.

The path is followed part by part from the root folder. Each part is opened once and checked through its descriptor, so
no other user can swap it after the check. Folders and links count too, because their owners decide which file a path
names. The caller executes a sealed copy (:func:`sealed_copy`), which is immutable even for processes that had the file
open before.
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

NO_FILE = "there is no such file here"

MAX_LIBRARY = 64 << 20
"""The largest size of a library for debuggers, and of each library it needs, in bytes. Intel's has 0.8 MB, LLVM's 0.1
MB, libstdc++ 2 MB.
"""

_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)
_PIECE = 1 << 20
# Linux's numbers, equal on every processor. Python's os and fcntl lack some if built with an older C library.
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_NOEXEC_SEAL = 1, 2, 8
F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8


def open_trusted(path: str, *, most: int, runs: bool = True) -> tuple[int, os.stat_result]:
    """Open the regular file at *path* for reading, and return its descriptor and status.

    These are refused: relative paths; files, folders and links that belong to users other than root and this one;
    files and folders that others may write to, except sticky folders such as ``/tmp``; setuid files; other users' FUSE
    file systems; ``/proc``, and the files of containers reached through it.

    :param most: the largest size allowed, in bytes
    :param runs: whether the file will be executed, so that a ``noexec`` file system is refused
    :raises BadFile: if the file is missing, refused or unreadable; ``__cause__`` is a FileNotFoundError if it is
        missing
    """
    if not path.startswith("/"):
        raise BadFile(path, "is not an absolute path", hint="name the file by a path that begins with /")
    try:
        with _CheckedPath(path, runs=runs) as checked_path:
            descriptor, status = checked_path.open_all()
            _check_file(path, status, most)
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
            return os.open(f"/proc/self/fd/{descriptor}", flags), status
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
    """Return the descriptor of an immutable copy in memory: a memfd sealed against writes and truncation.

    :param descriptor: the open file
    :param status: its status when it was opened, which must not have changed after the copy
    :param path: the file's name in errors
    :raises BadFile: if the file changes meanwhile, or cannot be copied
    """
    copy = -1
    try:
        copy = memory_file(path.rpartition("/")[2])
        copied = 0
        while copied < status.st_size:
            piece = os.pread(descriptor, min(_PIECE, status.st_size - copied), copied)
            if not piece:
                break
            copied += os.write(copy, piece)
        now = os.fstat(descriptor)
        if copied != status.st_size or _state(now) != _state(status):
            raise BadFile(path, "changed while it was read", hint="try again when nobody writes to it")
        fcntl.fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
        # The result is a descriptor for reading only. The first descriptor permits writing.
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
    """Return the descriptor of a new, empty file in memory that can be sealed (fcntl(2), "File Sealing").

    :param name: the file's name in ``/proc``
    :raises OSError: if the file cannot be made
    """
    create: Callable[[bytes, int], int] | None = getattr(os, "memfd_create", None)
    if create is None:
        create = _memfd_create
    shown = os.fsencode(name)[:200]
    try:
        # The file is mapped and never executed as a program. So it gets the mode noexec, on which the kernel may insist
        # (vm.memfd_noexec).
        return create(shown, _MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return create(shown, _MFD_CLOEXEC | _MFD_ALLOW_SEALING)  # before Linux 6.3


def _memfd_create(name: bytes, flags: int) -> int:
    # For a Python that was built with a C library without memfd_create.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = int(library.memfd_create(name, flags))
    except AttributeError as error:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


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


class _CheckedPath:
    # Follows one path by descriptors. Each part is checked before it is searched for the next.

    def __init__(self, path: str, *, runs: bool) -> None:
        self._path = path
        self._runs = runs
        self._held: list[int] = []
        self._names: list[str] = []
        self._waiting = path.split("/")[::-1]
        self._links = 0
        self._mounts = _Mounts()

    def __enter__(self) -> _CheckedPath:
        return self

    def __exit__(self, *_exception: object) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def open_all(self) -> tuple[int, os.stat_result]:
        """Open and check every part of the path.

        :returns: ``O_PATH`` descriptor of the last part, closed with this object, and its status
        """
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
        descriptor = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        self._held.append(descriptor)
        self._names.append(part)
        # Check the file system first: another user's FUSE program may never answer.
        fault = self._mounts.fault(descriptor)
        if fault is not None:
            self._refuse(f"{self._here()} {fault}")
        status = os.fstat(descriptor)
        if status.st_uid not in (0, os.geteuid()):
            self._refuse(f"{self._here()} belongs to {user_name(status.st_uid)}")
        if not stat.S_ISLNK(status.st_mode) and self._is_writable_by_others(descriptor, status):
            self._refuse(f"others may write to {self._here()}")
        return status

    def _is_writable_by_others(self, descriptor: int, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
            return False  # sticky: only an entry's owner can replace it, and each entry is checked
        if others_may_write(status, private_groups=True):
            return True
        # With an access control list the group bits are the mask of all its entries.
        return bool(status.st_mode & stat.S_IWGRP) and _has_access_list(descriptor)

    def _follow(self) -> os.stat_result:
        # Replaces the link entered last by its target. The link belongs to root or this user.
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
    # The mounted file systems, by mount id.

    def __init__(self) -> None:
        self._table: dict[str, tuple[str, frozenset[str]]] | None = None
        self._sound: set[str] = set()

    def fault(self, descriptor: int) -> str | None:
        """Return why the file system of an open file is not trusted, None if it is."""
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
        """Return whether the file system of an open file is mounted with the option *name*."""
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
                before, _, behind = line.partition(" - ")
                mount, system = before.split(" "), behind.split(" ")
                if len(mount) > 5 and len(system) > 2:
                    self._table[mount[0]] = system[0], frozenset([*mount[5].split(","), *system[2].split(",")])
        return self._table


def _lines(path: str) -> list[str]:
    # The kernel escapes newlines in names, but no other line separators.
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read().decode("utf-8", "surrogateescape").split("\n")


def _has_access_list(descriptor: int) -> bool:
    try:
        os.getxattr(f"/proc/self/fd/{descriptor}", "system.posix_acl_access")
    except OSError:
        return False
    return True
