"""Loads LLDB's Python module: the one that Python finds, or the module of an LLDB of this machine."""

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

# Debian's folder of the package six, which LLDB 14 imports, and virtual environments lack.
_DISTRIBUTION = "/usr/lib/python3/dist-packages"
_INSTALL_HINT = (
    "install LLDB with its Python module (Debian: lldb) for Python {0}.{1}, or run this in LLDB itself:"
    " see `ompd lldb-init`"
)


def load_lldb() -> ModuleType:
    """Return LLDB's Python module: the installed one, otherwise from the newest LLDB of this machine that fits.

    :raises Unsupported: if there is none
    """
    try:
        with AwayFromHere():  # a notebook would search the current folder first
            import lldb  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        reason = error
    else:
        return lldb  # type: ignore[no-any-return, unused-ignore]
    for install in find_installs():
        for name in [name for name in sys.modules if name == "lldb" or name.startswith("lldb.")]:
            del sys.modules[name]  # the remains of a failed import
        try:
            return _import_from(install)
        except ImportError as error:
            reason = error
    raise Unsupported(
        f"LLDB's Python module cannot be loaded: {reason}", hint=_INSTALL_HINT.format(*sys.version_info[:2])
    ) from reason


def _import_from(install: LldbInstall) -> ModuleType:
    if install.server is not None:
        # LLDB searches its server beside the program that loaded LLDB. Here this program is Python.
        os.environ.setdefault("LLDB_DEBUGSERVER_PATH", install.server)
    sys.path += [install.folder, _DISTRIBUTION]
    try:
        has_extension = any(path.exists() for path in Path(install.folder, "lldb").rglob("_lldb*.so"))
        if install.extension is not None and not has_extension:
            _load_extension(install.extension)
        import lldb
    except ImportError:
        sys.path.remove(install.folder)
        raise
    finally:
        sys.path.remove(_DISTRIBUTION)
    return lldb  # type: ignore[no-any-return, unused-ignore]


def _load_extension(file: str) -> None:
    # In Debian's packages the extension is a link to liblldb.so, which is missing without LLDB's headers. The library
    # itself is the extension.
    loader = ExtensionFileLoader("_lldb", file)
    spec = spec_from_loader("_lldb", loader)
    if spec is not None:
        module = module_from_spec(spec)
        loader.exec_module(module)
        sys.modules["_lldb"] = module
