"""Safe imports inside a debugger: only from folders that no other user can write to.

A debugger's ``sys.path`` may include the current folder (LLDB appends ``.``). A missing optional package would then be
imported from that folder and run with the user's rights. While our code runs, ``sys.path`` is therefore replaced by
Python's library, the folder of this package, and those previous folders that no other user can write to.
``importlib.metadata`` searches the same list.

Imports by the debugger and its user are not changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ompd.safety.trust import others_fault

_NAME = "ompd"
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Our direct and indirect imports, which may be loaded already from elsewhere.
PACKAGES = (
    "click",
    "rich",
    "markdown_it",
    "mdurl",
    "pygments",
    "backports",
    "backports.zstd",
    "lz4",
    "itanium_demangler",
    "unicorn",
)


class Isolation:
    """Replaces ``sys.path`` inside a ``with`` statement or a decorated function."""

    def __init__(self) -> None:
        root = Path(os.path.realpath(__file__)).parents[2]
        # A checkout has its dependencies in its own virtual environment.
        environments = sorted(root.glob(".venv/lib/python3.*/site-packages"))
        self.own = tuple(str(folder.resolve()) for folder in (root, *environments))
        self.path = self._made_of(sys.path)
        self._depth = 0
        self._usual: list[str] = []

    def _made_of(self, path: Sequence[str]) -> list[str]:
        library = [folder for folder in path if folder in _library_folders()]
        safe = [os.path.realpath(folder) for folder in path if _is_safe(folder)]
        return list(dict.fromkeys((*library, *self.own, *safe)))

    def __enter__(self) -> Isolation:
        # Isolations may nest or overlap: commands call commands, and debuggers call from several threads. So the first
        # entry isolates the path, and the last exit restores it.
        if self._depth == 0:
            self._usual, sys.path = sys.path, list(self.path)
        self._depth += 1
        return self

    def __exit__(self, *_exception: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            sys.path = self._usual

    def __call__(self, function: _Function) -> _Function:
        """Return *function*, isolated."""

        @wraps(function)
        def isolated(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return isolated  # type: ignore[return-value]

    def check_loaded(self, names: Sequence[str] = PACKAGES) -> None:
        """Check that each loaded package came from a folder of the isolated path.

        :raises ImportError: if a package came from elsewhere; the message names the package and its folder
        """
        for name in names:
            module = sys.modules.get(name)
            if module is None:
                continue
            file = getattr(module, "__file__", None)
            # A package without a file has folders: "backports", to which several distributions add packages.
            places = [file] if file is not None else list(getattr(module, "__path__", ()))
            if places and all(map(self._holds, places)):
                continue
            raise ImportError(
                f"the Python package {name} is loaded already, from {' and '.join(places) or 'an unknown place'}, where"
                " others may have put it: start the debugger in another folder, without what loads it"
            )

    def _holds(self, file: str) -> bool:
        real = os.path.realpath(file)
        return os.path.isabs(file) and any(real.startswith(f"{folder}/") for folder in self.path)  # noqa: PTH117


class AwayFromHere(Isolation):
    """Isolation for scripts that use the library in a debugger: they may import from any absolute folder.

    Only the current folder is excluded. The folders of ompd come last.
    """

    def _made_of(self, path: Sequence[str]) -> list[str]:
        return [*(folder for folder in path if os.path.isabs(folder)), *self.own]  # noqa: PTH117

    def __enter__(self) -> Isolation:
        if self._depth == 0:
            self.path = self._made_of(sys.path)
        return super().__enter__()


class Apart(Isolation):
    """Isolation from another package called ``ompd``, such as LLVM's plugin for gdb.

    The modules of each package are in ``sys.modules`` only while its code runs. Ours are those loaded when this object
    is created.

    :param theirs: the modules of the other package, removed before ours were imported
    """

    def __init__(self, theirs: Mapping[str, ModuleType]) -> None:
        super().__init__()
        self._theirs: dict[str, ModuleType] = {}
        self._ours = _taken()
        sys.modules.update(theirs)

    def __enter__(self) -> Apart:
        if self._depth == 0:
            self._theirs = _taken()
            sys.modules.update(self._ours)
        super().__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self._depth == 0:
            self._ours = _taken()
            sys.modules.update(self._theirs)


def _taken() -> dict[str, ModuleType]:
    # Removes all modules of packages called ompd from sys.modules, and returns them.
    names = [name for name in list(sys.modules) if name == _NAME or name.startswith(f"{_NAME}.")]
    return {name: sys.modules.pop(name) for name in names}


def _library_folders() -> set[str]:
    # The folders of Python's standard library.
    version = "python{}.{}".format(*sys.version_info)
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    return {library, f"{library}/lib-dynload"} | {
        f"{prefix}/{folder}/{name}"
        for prefix in (sys.base_prefix, sys.base_exec_prefix)
        for folder in (sys.platlibdir, "lib")
        for name in (version, f"{version}/lib-dynload", version.replace(".", "") + ".zip")
    }


def _is_safe(folder: str) -> bool:
    try:
        return folder.startswith("/") and others_fault(folder) is None
    except (OSError, ValueError, AttributeError):  # missing, or not a string
        return False
