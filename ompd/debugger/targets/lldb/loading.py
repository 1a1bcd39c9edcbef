"""LLDB's Python module: the one that Python finds, or that of an LLDB of this machine."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from ompd.debugger.targets.lldb.install import LldbInstall, find_installs
from ompd.errors import Unsupported
from ompd.safety.isolation import AwayFromHere

# Where Debian has the package six, which LLDB 14 imports and no virtual environment has.
_DISTRIBUTION = "/usr/lib/python3/dist-packages"
_INSTALL_HINT = (
    "install LLDB with its Python module (Debian: lldb) for Python {0}.{1}, or run this in LLDB itself:"
    " see `ompd lldb-init`"
)


def load_lldb() -> ModuleType:
    """Return LLDB's Python module: the one that is there, else that of the newest LLDB of this machine that fits.

    :raises Unsupported: if there is none
    """
    try:
        with AwayFromHere():  # a notebook looks for it in the current folder first
            import lldb  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        reason = error
    else:
        return lldb  # type: ignore[no-any-return, unused-ignore]
    for install in find_installs():
        for name in [name for name in sys.modules if name == "lldb" or name.startswith("lldb.")]:
            del sys.modules[name]  # what is left of an import that failed
        try:
            return _import_from(install)
        except ImportError as error:
            reason = error
    raise Unsupported(
        f"LLDB's Python module cannot be loaded: {reason}", hint=_INSTALL_HINT.format(*sys.version_info[:2])
    ) from reason


def _import_from(found: LldbInstall) -> ModuleType:
    if found.server is not None:
        # LLDB looks for its server beside the program that loaded it, which is Python.
        os.environ.setdefault("LLDB_DEBUGSERVER_PATH", found.server)
    sys.path += [found.folder, _DISTRIBUTION]
    try:
        if found.extension is not None and not _has_extension(Path(found.folder, "lldb")):
            _load_extension(found.extension)
        import lldb
    except ImportError:
        sys.path.remove(found.folder)
        raise
    finally:
        sys.path.remove(_DISTRIBUTION)
    return lldb  # type: ignore[no-any-return, unused-ignore]


def _has_extension(package: Path) -> bool:
    return any(path.exists() for path in package.rglob("_lldb*.so"))


def _load_extension(file: str) -> None:
    # The packages of Debian have a link to liblldb.so here, which only comes with LLDB's headers. The library is the
    # same as the extension module.
    loader = ExtensionFileLoader("_lldb", file)
    spec = spec_from_loader("_lldb", loader)
    if spec is not None:
        module = module_from_spec(spec)
        loader.exec_module(module)
        sys.modules["_lldb"] = module
