"""Writing a file where others may write, too: never through their links, and never into their files.

A path is followed part by part, each opened as it is found, so that what was looked at is what is used. Links of root's
and the user's own are followed, as ever. The file is written beside its name, readable by its owner alone, and renamed
in the folder that was opened: who looks finds all of it or what was there before.
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


class Place:
    """A name in a folder that is held open: where a file is to be written. Use it in a ``with`` statement.

    :param path: what the user called it
    :raises BadFile: if there is no such folder, or what stands there must not be replaced; it says whose it is
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._folder, self._name = self._found()
        self.replaced: os.stat_result | None = None
        """The status of the file that is replaced, None if there is none."""
        try:
            self.replaced = self._check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @contextmanager
    def written(self) -> Iterator[BinaryIO]:
        """Yield a new file that takes the name once the ``with`` statement ends without an error.

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
        """Return what the file that is to be replaced holds.

        :raises BadFile: if it is no regular file, or cannot be read
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
        """Open the file to read it and to write to its end, and return the descriptor. It is made if there is none.

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
        """Make a private folder in place of the file, and return its path without links.

        :raises BadFile: if it cannot be made
        """
        try:
            os.mkdir(self._name, 0o700, dir_fd=self._folder)
            return f"{os.readlink(f'/proc/self/fd/{self._folder}').rstrip('/')}/{self._name}"  # noqa: PTH115
        except OSError as error:
            raise self._refusal(error) from error

    def remove(self) -> None:
        """Remove the file that has the name.

        :raises BadFile: if it cannot be removed
        """
        try:
            self.replaced = self._check()
            os.unlink(self._name, dir_fd=self._folder)
        except OSError as error:
            raise self._refusal(error) from error

    # Finding it

    def _found(self) -> tuple[int, str]:
        # The folder, opened, and the last part of the path behind all links, which need not be there.
        if not self.path or "\0" in self.path:
            raise BadFile(self.path, "is not a regular file", hint="name another file")
        try:
            folder = _opened("/" if self.path.startswith("/") else ".")
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
                        folder = _moved(folder, "/")
                    waiting += link.split("/")[::-1]
                elif waiting:
                    folder = _moved(folder, part)
                else:
                    return folder, part
        except OSError as error:
            raise self._refusal(error) from error

    def _link(self, folder: int, part: str) -> str | None:
        # Where the link *part* leads, None if it is none.
        try:
            found = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            os.close(folder)
            raise
        try:
            status = os.fstat(found)
            if not stat.S_ISLNK(status.st_mode):
                return None
            if status.st_uid not in (0, os.geteuid()):
                os.close(folder)
                raise BadFile(
                    self.path,
                    f"is not written: {part} on the way to it is a link of {user_name(status.st_uid)}",
                    hint="name the file by a path without that link, if this is where it belongs",
                )
            return os.readlink("", dir_fd=found)
        finally:
            os.close(found)

    def _check(self) -> os.stat_result | None:
        # The status of what has the name now, None if there is nothing.
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


def _opened(path: str, folder: int | None = None) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _moved(folder: int, part: str) -> int:
    try:
        return _opened(part, folder)
    finally:
        os.close(folder)


def make_folder(path: str) -> None:
    """Make a folder that only this user may use, and those above it that are missing.

    :raises BadFile: if it would come to be in a folder where others decide what is there
    :raises OSError: if it cannot be made
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
