"""Plugins of other distributions (docs/plugins.md), which the entry point group ``ompd.runtimes`` lists.

They are searched for if none of ompd's own plugins fits, in two places: the environment in which ompd itself is
installed, and folders that the user names. Other folders that Python would search, such as the current folder or
PYTHONPATH, are not trusted. The files of a plugin must belong to root, to this user, or to the owner of ompd's own
files.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import ModuleType

from ompd.contract.plugin import Plugin
from ompd.errors import BadInput, OmpdError, PluginFault
from ompd.records import record
from ompd.safety.reading import open_regular
from ompd.safety.trust import others_fault

GROUP = "ompd.runtimes"
"""The group of entry points. The name of an entry point selects the plugin, and its object makes the plugin."""

_MAX_METADATA = 1 << 20
_HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
_SUFFIXES = (".dist-info", ".egg-info")


@record
class Distribution:
    """A distribution with plugins, installed in ``folder``.

    ``metadata`` is the folder with its metadata there. ``plugins`` has the objects of its entry points, by the entry
    points' names.
    """

    name: str
    version: str | None
    folder: str
    metadata: str
    plugins: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.version is not None else self.name


@record
class Selected:
    """The plugin of a distribution for a runtime.

    ``name`` is the name that selected it, ``origin`` is the distribution and its folder. ``plugin`` is None if it
    cannot be used because of ``fault``.
    """

    name: str
    origin: str
    plugin: Plugin | None
    fault: OmpdError | None


class Plugins:
    """The plugins of other distributions. Folders are searched on first use.

    :param folders: the user's folders, which are searched before the environment
    :raises BadInput: if one of *folders* is not a folder, or has no plugin
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._named = {os.path.abspath(folder): list(_distributions(folder)) for folder in folders}  # noqa: PTH100
        for folder, distributions in self._named.items():
            if not os.path.isdir(folder):  # noqa: PTH112
                raise BadInput(f"{folder}: there is no such folder to look for plugins in")
            if not distributions:
                raise BadInput(
                    f"{folder}: no plugin is in this folder",
                    hint=f"it has to hold what `pip install --target` of a distribution with entry points {GROUP} puts"
                    " into a folder",
                )
        self._selected: dict[str, Selected] = {}

    @cached_property
    def _by_name(self) -> Mapping[str, Distribution]:
        by_name: dict[str, Distribution] = {}
        for distributions in (*self._named.values(), *map(_distributions, environment())):
            for distribution in distributions:
                for name in distribution.plugins:
                    by_name.setdefault(name, distribution)
        return by_name

    @property
    def names(self) -> Sequence[str]:
        """The names that select one of these plugins: names in ``ompd_dll_locations``, or symbols."""
        return tuple(self._by_name)

    def get(self, name: str) -> Selected | None:
        """Return the plugin that *name* selects, None if there is none."""
        distribution = self._by_name.get(name)
        if distribution is None:
            return None
        if name not in self._selected:
            self._selected[name] = _select(distribution, name)
        return self._selected[name]


def environment() -> list[str]:
    """Return the folders with the distributions that were installed with ompd.

    This is the folder in which ompd itself was installed. For a checkout, including an editable installation (``pip
    install -e``), these are the folders of the checkout's environment (``.venv``) and of this Python that contain ompd.
    """
    root = os.path.dirname(_HERE)  # noqa: PTH120
    if not os.path.isdir(root):  # noqa: PTH112  an archive, with which nothing can be installed
        return []
    if _has_ompd(root):
        return [root]
    own = os.path.join(root, ".venv", "lib")  # noqa: PTH118
    versions = sorted(os.listdir(own)) if os.path.isdir(own) else []  # noqa: PTH112, PTH208
    folders = [os.path.join(own, version, "site-packages") for version in versions]  # noqa: PTH118
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    existing = list(dict.fromkeys(filter(os.path.isdir, folders)))
    return [folder for folder in existing if _has_ompd(folder)] or existing


def _has_ompd(folder: str) -> bool:
    try:
        return any(name.startswith("ompd-") and name.endswith(_SUFFIXES) for name in os.listdir(folder))  # noqa: PTH208
    except OSError:
        return False


# Metadata of distributions


def _distributions(folder: str) -> Iterator[Distribution]:
    # Yield the distributions in *folder*, sorted by name. So if two of them have the same entry point, the same one is
    # always first.
    folder = os.path.abspath(folder)  # noqa: PTH100
    try:
        entries = sorted(entry for entry in os.listdir(folder) if entry.endswith(_SUFFIXES))  # noqa: PTH208
    except OSError:
        return
    for entry in entries:
        metadata = os.path.join(folder, entry)  # noqa: PTH118
        text = _text(os.path.join(metadata, "entry_points.txt"))  # noqa: PTH118
        plugins = dict(_entry_points(text)) if GROUP in text else {}
        if plugins:
            name, _, version = entry.rpartition(".")[0].partition("-")
            yield Distribution(*_named(metadata, name, version or None), folder, metadata, plugins)


def _text(path: str) -> str:
    # The text of a file, empty if the file is not a regular file or is too large.
    try:
        descriptor, _ = open_regular(path)
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
            return stream.read(_MAX_METADATA)
    except (OSError, ValueError, OmpdError):
        return ""


def _entry_points(text: str) -> Iterator[tuple[str, str]]:
    # Names and objects in the group `ompd.runtimes`: lines of `name = package.module:object [extra]`.
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()


def _named(metadata: str, name: str, version: str | None) -> tuple[str, str | None]:
    text = _text(os.path.join(metadata, "METADATA")) or _text(os.path.join(metadata, "PKG-INFO"))  # noqa: PTH118
    fields: dict[str, str] = {}
    for line in text.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip().lower(), value.strip())
    return fields.get("name") or name, fields.get("version") or version


# Loading a plugin


def _select(distribution: Distribution, name: str) -> Selected:
    # The label has the name of the distribution's plugin object, because *name* may come from a damaged target.
    short = f"{distribution.plugins[name]} of {distribution}"
    label = f"{short} in {distribution.folder}"
    origin = f"{distribution} in {distribution.folder}"
    try:
        from ompd.runtimes.guarded import Guard

        make = _load(distribution, distribution.plugins[name], label)
        return Selected(name, origin, Guard(short).plugin(make), None)
    except OmpdError as error:
        return Selected(name, origin, None, error)


def _load(distribution: Distribution, reference: str, label: str) -> Callable[[], object]:
    # The package is loaded from its distribution, even if Python's path has another package of the same name.
    from importlib import import_module
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    module_name, _, attribute = reference.partition(":")
    package = module_name.partition(".")[0]
    if not attribute or not all(part.isidentifier() for part in f"{module_name}.{attribute}".split(".")):
        raise PluginFault(label, f"is said to be {reference!r}, which is no `package.module:object`")
    _check(label, distribution.metadata, *_files_below(distribution.metadata))
    spec = PathFinder.find_spec(package, [distribution.folder, *_editable_folders(distribution, label)])
    if spec is None or spec.loader is None or spec.origin is None:
        raise PluginFault(label, f"has no package {package} there", hint=_HINT)
    before = set(sys.modules)
    loaded = sys.modules.get(package)
    try:
        if loaded is None:
            folders = spec.submodule_search_locations
            cached = [spec.cached] if spec.cached is not None and os.path.lexists(spec.cached) else []
            _check(label, spec.origin, *cached, *(file for folder in folders or () for file in _files_below(folder)))
            loaded = sys.modules[package] = module_from_spec(spec)
            spec.loader.exec_module(loaded)
        elif not _is_from(loaded, spec.origin):
            raise PluginFault(label, f"cannot be loaded: {_origin(loaded)} is loaded already under the name {package}")
        make: object = import_module(module_name)
        for part in attribute.split("."):
            make = getattr(make, part)
    except OmpdError:
        raise
    except (Exception, SystemExit) as error:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == package:
                del sys.modules[name]
        raise PluginFault(label, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(make):
        raise PluginFault(label, f"cannot be used: {reference} is nothing that can be called")
    return make


_HINT = (
    "of what is installed with `pip install -e`, the folder is known if a .pth file names it (for setuptools: "
    "--config-settings editable_mode=compat)"
)


def _origin(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "what is built in"


def _is_from(module: ModuleType, origin: str) -> bool:
    return os.path.realpath(_origin(module)) == os.path.realpath(origin)


def _editable_folders(distribution: Distribution, label: str) -> Iterator[str]:
    # `pip install -e` makes a .pth file. Each line in it is a folder or code.
    for line in _text(os.path.join(distribution.metadata, "RECORD")).splitlines():  # noqa: PTH118
        name = line.partition(",")[0]
        if name.endswith(".pth") and "/" not in name:
            file = os.path.join(distribution.folder, name)  # noqa: PTH118
            _check(label, file)
            yield from (path for path in _text(file).splitlines() if os.path.isabs(path))  # noqa: PTH117


def _files_below(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        yield here
        yield from (os.path.join(here, name) for name in (*folders, *files))  # noqa: PTH118


def _check(label: str, *paths: str) -> None:
    # The owner of ompd's own files is trusted, because that user could change ompd itself.
    try:
        trusted = {os.stat(_HERE).st_uid}  # noqa: PTH116
        for path in paths:
            fault = others_fault(path, private_groups=True, trusted=trusted)
            if fault is not None:
                raise PluginFault(label, f"is not used: {fault}", hint="install it where only you and root may write")
    except OSError as error:
        raise PluginFault(label, f"is not used: {error.filename}: {error.strerror}") from error
