"""OpenMP commands for gdb: ``source`` of this file adds ``omp``, with what the shell's ``ompd`` has, and ``ompd`` if
that is free.

The commands are made of the same table, ask what is being debugged, and change nothing in it. gdb has a Python of its
own, which does not see a virtual environment: what this file was installed with is looked for beside it. LLVM's plugin
for gdb is called ``ompd``, too, as a package and as a command: modules of ours are loaded under that name only while
they run.
"""

# gdb runs this as a part of its own module __main__, which it shares with its user: nothing but two names is left
# there. Nothing but `sys`, which is built in, is imported before it is settled where modules come from.
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
    # Where it was raised in Python is of no use to whoever starts gdb.
    sys.stderr.write(f"ompd: {_error}\n")
finally:
    del _load_ompd
