"""The distribution's package of a file, and the command that installs its debug information.

Only dpkg's lists are read (``/var/lib/dpkg/info/*.list``), without running a program. On other distributions the
command names the file in place of a package.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ompd.errors import BadFile
from ompd.safety.reading import open_paged

_ROOT = Path("/")
_EVERYWHERE = "https://debuginfod.elfutils.org"
_SERVERS = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "centos": "https://debuginfod.centos.org",
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
}
_INSTALLERS = {"debian": "apt install", "fedora": "dnf install", "arch": "pacman -S", "opensuse": "zypper install"}
_FAMILIES = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "almalinux": "fedora", "suse": "opensuse"}
_PACKAGED = ("/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/srv/", "/etc/")
_MAX_LISTS, _MAX_LIST = 1 << 14, 32 << 20
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*")


class Distribution(NamedTuple):
    """The Linux distribution here: ``family`` is ``debian``, ``fedora``, ``arch``, ``opensuse`` or None if unknown."""

    family: str | None
    debuginfod: str

    def install(self, package: str) -> str | None:
        """Return the command that installs *package*, None if that is unknown here."""
        command = _INSTALLERS.get(self.family or "")
        return f"sudo {command} {package}" if command is not None else None


def distribution_of(root: Path = _ROOT) -> Distribution:
    """Return the distribution that ``os-release`` names."""
    names: list[str] = []
    for file in ("etc/os-release", "usr/lib/os-release"):
        with suppress(OSError):
            settings = _settings((root / file).read_text(errors="replace"))
            names = [settings.get("ID", ""), *settings.get("ID_LIKE", "").split()]
            break
    server = next((_SERVERS[key] for name in names for key in _SERVERS if name.startswith(key)), _EVERYWHERE)
    for name in names:
        family = next((key for key in _INSTALLERS if name.startswith(key)), _FAMILIES.get(name))
        if family is not None:
            return Distribution(family, server)
    return Distribution(None, server)


def _settings(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, _, value in lines}


def owners(paths: Collection[str], root: Path = _ROOT) -> Mapping[str, str]:
    """Return the Debian package of each file that a package has installed."""
    path_of_name: dict[bytes, str] = {}
    for path in paths:
        if not path.startswith(_PACKAGED):
            continue  # no package installs there, and reading hundreds of lists takes time
        path_of_name.update((name.encode("utf-8", "surrogateescape"), path) for name in _names_of(path))
    if not path_of_name:
        return {}
    package_of: dict[str, str] = {}
    try:
        lists = sorted((root / "var/lib/dpkg/info").glob("*.list"))[:_MAX_LISTS]
    except OSError:
        return {}
    for file in lists:
        package = file.name.removesuffix(".list").partition(":")[0]
        if _PACKAGE.fullmatch(package) is None:
            continue
        with suppress(OSError, BadFile), open_paged(str(file)) as text:
            if len(text) > _MAX_LIST:
                continue
            lines = set(bytes(text[:]).split(b"\n"))
            for name in path_of_name.keys() & lines:
                package_of[path_of_name[name]] = package
    return package_of


def _names_of(path: str) -> list[str]:
    # dpkg may list a file under the name that it had before /lib became a link to /usr/lib.
    names = dict.fromkeys((path, os.path.realpath(path)))
    for name in list(names):
        if name.startswith("/usr/lib"):
            names[name.removeprefix("/usr")] = None
        elif name.startswith("/lib"):
            names["/usr" + name] = None
    return [name for name in names if "\n" not in name]


def debug_command(distribution: Distribution, package: str | None, path: str) -> str | None:
    """Return the command that installs the debug information of the file *path*, None if that is unknown here.

    :param package: the package that installed the file, None if it is unknown
    """
    if distribution.family == "debian" and package is not None:
        return f"sudo apt install {package}-dbgsym"
    if distribution.family == "fedora" and path.startswith("/usr/"):
        return f"sudo dnf debuginfo-install {shlex.quote(path)}"
    return None
