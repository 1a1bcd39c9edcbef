"""Frozen control groups, whose processes do not run: ``cgroup.freeze``, ``docker pause``."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")


def frozen_group(groups: str, cgroups: Path = _CGROUPS) -> Path | None:
    """Return the folder of the frozen control group around a process, None if no frozen group is visible.

    :param groups: the text of ``/proc/PID/cgroup``
    :param cgroups: where control groups are mounted
    """
    for line in groups.split("\n"):  # names of groups may have other line separators in them
        _, _, controllers_and_name = line.partition(":")
        controllers, _, name = controllers_and_name.partition(":")
        if ".." in PurePosixPath(name).parts:
            continue  # the group is in another namespace
        path = name.lstrip("/")
        if not controllers:  # version 2, whose folder is "unified" if version 1 is mounted, too
            for folder in (cgroups / path, cgroups / "unified" / path):
                if "frozen 1" in _lines(folder / "cgroup.events"):
                    return folder
        elif "freezer" in controllers.split(","):
            folder = cgroups / "freezer" / path
            if "FROZEN" in _lines(folder / "freezer.state"):
                return folder
    return None


def _lines(file: Path) -> list[str]:
    # The root group has no such file.
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
