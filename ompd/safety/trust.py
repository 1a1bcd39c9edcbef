"""Owners and permissions of files: who else could change a file or folder.

Only root and the user of this process are trusted (docs/security.md).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection

_MAX_LINKS = 40  # as Linux (MAXSYMLINKS)
_GROUP_0 = 0
# Debian assigns the group ids below this number. Its group `staff`, which owns /usr/local, counts as root unless it has
# members.
_FIRST_FREE_GROUP = 100


def is_ours(status: os.stat_result) -> bool:
    """Return whether only root and this user may write to the file or folder with that status.

    The user's private group (same name, no other members) counts as the user.
    """
    return status.st_uid in (0, os.geteuid()) and not others_may_write(status, private_groups=True)


def others_fault(path: str, *, private_groups: bool = False, trusted: Collection[int] = ()) -> str | None:
    """Return a sentence on who else could change the file at *path*, None if only root and this user could.

    Every folder and link on the way counts, because a user who can write there can replace the file. In a sticky folder
    such as ``/tmp``, only an entry's owner can replace the entry.

    :param private_groups: whether a group that has no member but this user may write
    :param trusted: ids of other users who may own files
    :raises OSError: if there is nothing at *path*
    """
    waiting = os.path.join(os.getcwd(), path).split("/")[::-1]  # noqa: PTH109, PTH118
    folder = ""
    links = 0
    while waiting:
        part = waiting.pop()
        if part in (".", "..") or (not part and folder):
            folder = os.path.dirname(folder).rstrip("/") if part == ".." else folder  # noqa: PTH120
            continue
        path_so_far = f"{folder}/{part}" if part else "/"
        status = os.lstat(path_so_far)
        if status.st_uid not in (0, os.geteuid(), *trusted):
            return f"{path_so_far} belongs to {user_name(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(path_so_far)  # noqa: PTH115
            folder = "" if target.startswith("/") else folder
            waiting += target.split("/")[::-1]
            continue
        is_sticky = waiting and status.st_mode & stat.S_ISVTX
        if not is_sticky and others_may_write(status, private_groups=private_groups):
            return f"others may write to {path_so_far}"
        folder = path_so_far.rstrip("/")
    return None


def others_may_write(status: os.stat_result, *, private_groups: bool = False) -> bool:
    """Return whether users other than root and the owner may write, by the mode in *status* only.

    :param private_groups: whether a group that has no member but this user may write
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP or status.st_gid == _GROUP_0:
        return False
    return not (private_groups and _is_private(status.st_gid))


def user_name(number: int) -> str:
    """Return a user's name and number, as in ``alice (user 1000)``."""
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _is_private(number: int) -> bool:
    # Returns whether the group is this user's private group, or a system group without members.
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    members = set(group.gr_mem) - {user.pw_name, "root"}
    if members or any(row.pw_gid == number and row.pw_uid not in (0, user.pw_uid) for row in pwd.getpwall()):
        return False
    return group.gr_name == user.pw_name or number < _FIRST_FREE_GROUP
