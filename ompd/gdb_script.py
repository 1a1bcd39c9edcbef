"""OpenMP commands for gdb: ``source`` of this file adds ``omp`` with the commands of the shell's ``ompd``, and also
``ompd`` if that name is free.

The commands come from the same table as the shell's. They read the program or core file in gdb and do not change it.
gdb's own Python does not use virtual environments, so the packages that ompd needs are searched in the folder with the
package ``ompd``. LLVM's plugin for gdb also uses the name ``ompd``, for its package and its command. So our package is
in ``sys.modules`` under this name only while code of it runs.
"""

# gdb runs this file in its module __main__, which it shares with the user, so as few names as possible are left there.
# `sys` is built in, so its import is safe. Others follow once sys.path has no folder of the user's.
import sys


def _load_ompd(file: str) -> None:
    import os

    import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

    name, here = "ompd_in_gdb", os.path.dirname(os.path.realpath(file))  # noqa: PTH120
    loaded = sys.modules.get(name)
    if loaded is not None:
        if loaded.__file__ != f"{here}/__init__.py":
            raise ImportError(f"another ompd is loaded already, from {loaded.__file__}: start gdb anew")
        return
    version = gdb.VERSION.partition(".")[0]
    if version.isdecimal() and int(version) < 12:
        raise ImportError(f"ompd needs gdb 12 or later, and this is gdb {gdb.VERSION}")
    theirs = {key: sys.modules.pop(key) for key in list(sys.modules) if key.partition(".")[0] == "ompd"}
    library = (f"{sys.base_prefix}/{sys.platlibdir}/python3", os.path.dirname(os.__file__))  # noqa: PTH120
    usual = sys.path
    sys.path = [*(folder for folder in usual if str(folder).startswith(library)), os.path.dirname(here)]  # noqa: PTH120
    try:
        from ompd.safety.isolation import Apart
    except BaseException:
        sys.modules.update(theirs)
        raise
    finally:
        sys.path = usual
    isolation = Apart(theirs)
    isolation.check_loaded()
    with isolation:
        from importlib.util import find_spec

        missing = [package for package in ("click", "rich") if find_spec(package) is None]
        if missing:
            raise ImportError(
                f"ompd needs the Python packages {' and '.join(missing)}, and they are not in"
                f" {', '.join(isolation.own)}: install ompd with pip, and source the file that `ompd gdb-init` names"
            )
        from ompd.gdb.commands import add_commands

        add_commands(isolation)
        sys.modules[name] = sys.modules["ompd"]


try:
    if sys.version_info < (3, 10):  # noqa: UP036  gdb has a Python of its own
        raise ImportError("ompd needs Python 3.10 or later, and this gdb has {}.{}".format(*sys.version_info[:2]))
    _load_ompd(__file__)
except ImportError as _error:
    # gdb would print a traceback, which does not help the user.
    sys.stderr.write(f"ompd: {_error}\n")
finally:
    del _load_ompd
