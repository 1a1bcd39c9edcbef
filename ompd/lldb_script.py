"""OpenMP commands for LLDB: ``command script import`` of this file adds ``ompd`` with the commands of the shell's.

The commands come from the same table as the shell's. They read the process in LLDB and do not change it. LLDB's own
Python does not use virtual environments, so the packages that ompd needs are searched in the folder with the package
``ompd``.
"""

# `sys` is built in, so its import is safe. Others follow once sys.path has no folder of the user's.
import sys

if sys.version_info < (3, 10):  # noqa: UP036  LLDB has a Python of its own
    _HAVE = "{}.{}".format(*sys.version_info[:2])
    raise ImportError("ompd needs Python 3.10 or later, and this LLDB has " + _HAVE)

# LLDB's path ends in the current folder, and may begin with the folders of PYTHONPATH. Use only the folders of
# Python's library until ompd.safety.isolation sets the path.
_LIBRARY = (
    f"{sys.base_prefix}/{sys.platlibdir}/python3",
    (getattr(sys.modules.get("os"), "__file__", None) or "").rpartition("/")[0] or "?",
)
_USUAL_PATH, sys.path = sys.path, [folder for folder in sys.path if str(folder).startswith(_LIBRARY)]
try:
    import os

    _HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    _LOADED = getattr(sys.modules.get("ompd"), "__file__", None) or f"{_HERE}/__init__.py"
    if os.path.realpath(_LOADED) != f"{_HERE}/__init__.py":
        raise ImportError(f"another ompd is loaded already, from {_LOADED}: start LLDB anew")
    sys.path.append(os.path.dirname(_HERE))  # noqa: PTH120
    from ompd.safety.isolation import Isolation
finally:
    # LLDB adds the folder of a script to the path. Modules in it must not be found by their short names.
    _USUAL_PATH[:] = [folder for folder in _USUAL_PATH if os.path.realpath(folder) != _HERE or folder[:1] != "/"]
    sys.path = _USUAL_PATH

_ISOLATION = Isolation()
_ISOLATION.check_loaded()

with _ISOLATION:
    from collections.abc import Mapping
    from contextlib import suppress
    from importlib.util import find_spec
    from typing import Any

    _MISSING = [name for name in ("click", "rich") if find_spec(name) is None]
    if _MISSING:
        raise ImportError(
            f"ompd needs the Python packages {' and '.join(_MISSING)}, and they are not in"
            f" {', '.join(_ISOLATION.own)}: install ompd with pip, and import the file that `ompd lldb-init` names"
        )

    from ompd.errors import OmpdError
    from ompd.lldb import commands, names, stops, walking
    from ompd.lldb.debugger import Lldb, run_command, state_of
    from ompd.lldb.frames import RECOGNIZERS
    from ompd.lldb.hiding import Hiding
    from ompd.lldb.prompts import PARSES, CompletingPrompt, Prompt

_MODULE = __name__
# The methods of a command that LLDB calls and that have to be isolated. Methods that only return a word or two do not
# have to be.
_CALLED = (
    "__call__",
    "get_long_help",
    "get_options_definition",
    "handle_argument_completion",
    "handle_option_argument_completion",
)


def _isolated(base: type[Any], *called: str, **members: Any) -> type[Any]:
    # LLDB makes objects of the classes in this module, and calls their methods at any time.
    methods = {name: _ISOLATION(getattr(base, name)) for name in called if hasattr(base, name)}
    return type(base.__name__, (base,), {**methods, **members, "__module__": _MODULE})


_COMMANDS: Mapping[str, type[Prompt]] = {
    command.name: _isolated(CompletingPrompt if command.completes_argument else Prompt, *_CALLED, command=command)
    for command in commands.COMMANDS
}
_CLASS_NAMES: Mapping[str, str] = {name: f"{name.capitalize()}Command" for name in _COMMANDS}
globals().update({_CLASS_NAMES[name]: command for name, command in _COMMANDS.items()})
globals().update({recognizer.__name__: recognizer for recognizer in RECOGNIZERS})

StopHook = _isolated(stops.StopHook, "handle_stop")
Arming = _isolated(stops.Arming, "__callback__")
note_begin = _ISOLATION(stops.note_begin)
thread_name = _ISOLATION(names.thread_name)
stops_at = _ISOLATION(walking.stops_at)


@_ISOLATION
def __lldb_init_module(debugger: Any, internal_dict: dict[str, Any]) -> None:
    interpreter = debugger.GetCommandInterpreter()
    state = state_of(internal_dict)
    state.module = _MODULE
    parsed = "-p " if PARSES else ""
    run_command(debugger, 'command container add -o -h "What an OpenMP program is doing." ompd')
    for name, class_name in _CLASS_NAMES.items():
        run_command(debugger, f"command script add -o {parsed}-c {_MODULE}.{class_name} ompd {name}")
    if not interpreter.AliasExists("omp") and not interpreter.CommandExists("omp"):
        run_command(debugger, "command alias omp ompd")  # lldb-dap does not see a container
    if commands.CAN_HIDE and state.hides:
        with suppress(OmpdError):  # `ompd bt` shows the error
            Hiding(Lldb(debugger, state)).switch(True)
