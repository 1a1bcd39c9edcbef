"""Safe writing in shared folders: never through other users' links, and never into their files.

The path is followed part by part, and each part is opened once, so it cannot be swapped after the check. Links of root
and of the user are followed. The file is written under a temporary name, readable only by its owner, and then renamed
in the open folder: readers see the whole new file or the old one.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ompd.errors import BadFile
from ompd.safety.trust import is_ours, others_fault, user_name

_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)


class Destination:
    """A file to be written: its name, and its folder, which stays open. Use it in a ``with`` statement.

    :param path: the path as the user gave it
    :raises BadFile: if the folder is missing or the existing file must not be replaced
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._folder, self._name = self._open_folder()
        self.replaced: os.stat_result | None = None
        """The status of the existing file, None if there is none."""
        try:
            self.replaced = self._check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Destination:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """Yield a new file that takes the name if the ``with`` statement ends without an error.

        :raises BadFile: if it cannot be written
        """
        part = f".ompd.{os.getpid()}.{time.monotonic_ns():x}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(part, flags, 0o600, dir_fd=self._folder), "wb") as file:  # noqa: PTH123
                try:
                    yield file
                    file.flush()
                    self.replaced = self._check()
                    os.replace(part, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(part, dir_fd=self._folder)
                    raise
        except OSError as error:
            raise self._refusal(error) from error

    def read(self) -> bytes:
        """Return the contents of the existing file.

        :raises BadFile: if it is not regular or cannot be read
        """
        try:
            descriptor = os.open(
                self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder
            )
            with open(descriptor, "rb") as file:  # noqa: PTH123
                self._check_kind(os.fstat(descriptor))
                return file.read()
        except OSError as error:
            raise self._refusal(error) from error

    def opened(self) -> int:
        """Open the file for reading and appending, create it if missing, and return the descriptor.

        :raises BadFile: if another user owns it or may write to it, or it cannot be opened
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self._name, flags, 0o600, dir_fd=self._folder)
        except OSError as error:
            raise self._refusal(error) from error
        try:
            status = os.fstat(descriptor)
            self._check_kind(status)
            if not is_ours(status):
                is_owned = status.st_uid in (0, os.geteuid())
                fault = "others may write to it" if is_owned else f"it belongs to {user_name(status.st_uid)}"
                raise BadFile(self.path, f"is not believed: {fault}", hint="name a file that does not exist yet")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def new_folder(self) -> str:
        """Create a private folder at the path, and return the folder's path without links.

        :raises BadFile: if it cannot be made
        """
        try:
            os.mkdir(self._name, 0o700, dir_fd=self._folder)
            return f"{os.readlink(f'/proc/self/fd/{self._folder}').rstrip('/')}/{self._name}"  # noqa: PTH115
        except OSError as error:
            raise self._refusal(error) from error

    def remove(self) -> None:
        """Remove the existing file.

        :raises BadFile: if it cannot be removed
        """
        try:
            self.replaced = self._check()
            os.unlink(self._name, dir_fd=self._folder)
        except OSError as error:
            raise self._refusal(error) from error

    # Finding the folder

    def _open_folder(self) -> tuple[int, str]:
        # The open folder, and the last part of the path after all links, which need not exist.
        if not self.path or "\0" in self.path:
            raise BadFile(self.path, "is not a regular file", hint="name another file")
        try:
            folder = _open_part("/" if self.path.startswith("/") else ".")
            waiting, links = self.path.split("/")[::-1], 0
            while True:
                part = waiting.pop()
                if not part or (part == "." and waiting):
                    if not waiting:
                        os.close(folder)
                        raise BadFile(self.path, "is not a regular file", hint="name another file")
                    continue
                link = self._link(folder, part)
                if link is not None:
                    links += 1
                    if links > _MAX_LINKS:
                        os.close(folder)
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    if link.startswith("/"):
                        folder = _enter(folder, "/")
                    waiting += link.split("/")[::-1]
                elif waiting:
                    folder = _enter(folder, part)
                else:
                    return folder, part
        except OSError as error:
            raise self._refusal(error) from error

    def _link(self, folder: int, part: str) -> str | None:
        # The target of the link *part*, None if it is not a link.
        try:
            descriptor = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            os.close(folder)
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISLNK(status.st_mode):
                return None
            if status.st_uid not in (0, os.geteuid()):
                os.close(folder)
                raise BadFile(
                    self.path,
                    f"is not written: {part} on the way to it is a link of {user_name(status.st_uid)}",
                    hint="name the file by a path without that link, if this is where it belongs",
                )
            return os.readlink("", dir_fd=descriptor)
        finally:
            os.close(descriptor)

    def _check(self) -> os.stat_result | None:
        # The status of the existing file, None if there is none.
        try:
            status = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(error) from error
        self._check_kind(status)
        is_sticky = os.fstat(self._folder).st_mode & stat.S_ISVTX
        if is_sticky and status.st_uid != os.geteuid():
            raise BadFile(
                self.path,
                f"is not written: a file of that name belongs to {user_name(status.st_uid)}, in a folder where"
                " everybody keeps files of their own",
                hint="name another file",
            )
        return status

    def _check_kind(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise BadFile(self.path, "is not a regular file", hint="name another file")

    def _refusal(self, error: OSError) -> BadFile:
        return BadFile(self.path, f"cannot be written: {error.strerror or error}")


def _open_part(path: str, folder: int | None = None) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _enter(folder: int, part: str) -> int:
    try:
        return _open_part(part, folder)
    finally:
        os.close(folder)


def make_folder(path: str) -> None:
    """Create a folder that only this user may use, and its missing parents.

    :raises BadFile: if other users may write to the existing parent
    :raises OSError: if it cannot be created
    """
    above = path
    while not os.path.lexists(above) and above not in ("", "/"):
        above = os.path.dirname(above)  # noqa: PTH120
    if above == path:
        return
    if not os.path.isdir(above or "."):  # noqa: PTH112
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
    fault = others_fault(above or ".", private_groups=True)
    if fault is not None:
        raise BadFile(path, f"is not made: {fault}")
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
