"""OpenMP commands for LLDB: ``command script import`` of this file adds ``ompd``, with what the shell's ``ompd`` has.

The commands are made of the same table, ask the process that is being debugged, and change nothing in it. LLDB has a
Python of its own, which does not see a virtual environment: what this file was installed with is looked for beside it.
"""

# Nothing but `sys`, which is built in, is imported before it is settled where modules come from.
import sys

if sys.version_info < (3, 10):  # noqa: UP036  LLDB has a Python of its own
    _HAVE = "{}.{}".format(*sys.version_info[:2])
    raise ImportError("ompd needs Python 3.10 or later, and this LLDB has " + _HAVE)

# LLDB's path ends in the current folder, and may begin with what PYTHONPATH says. At first it is Python's own library
# alone, then what ompd.safety.isolation makes of it.
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
    # LLDB adds the folder of a script; its modules are found by their whole names only.
    _USUAL_PATH[:] = [folder for folder in _USUAL_PATH if os.path.realpath(folder) != _HERE or folder[:1] != "/"]
    sys.path = _USUAL_PATH

_ISOLATION = Isolation()
_ISOLATION.check_loaded()

with _ISOLATION:
    import shlex
    import traceback
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import suppress
    from importlib.util import find_spec
    from pathlib import Path
    from typing import Any

    import lldb  # type: ignore[import-not-found, unused-ignore]

    _MISSING = [name for name in ("click", "rich") if find_spec(name) is None]
    if _MISSING:
        raise ImportError(
            f"ompd needs the Python packages {' and '.join(_MISSING)}, and they are not in"
            f" {', '.join(_ISOLATION.own)}: install ompd with pip, and import the file that `ompd lldb-init` names"
        )

    import ompd
    from ompd.commands.prompt import Screen, flags_of, format_help, format_reply, parse_words
    from ompd.commands.table import COMMANDS, Command
    from ompd.contract.ompd import DLL_LOCATIONS_VALID
    from ompd.debugger.targets.lldb.target import check_stopped, stop_of
    from ompd.errors import BadInput, NoAnswer, OmpdError, TargetGone, Unsupported
    from ompd.lldb.control import LldbInspection
    from ompd.lldb.frames import RECOGNIZERS, Frames
    from ompd.model import ParallelRecord, ThreadRecord
    from ompd.render.summary import format_summary
    from ompd.render.words import clean, describe_snapshot, format_count

_PROMPT = "(lldb) "
_MODULE = __name__
_STATE = "__ompd__"
_PARSES = find_spec("lldb.plugins.parsed_cmd") is not None  # whether LLDB parses options, as 19 and later
_FIRST_UNPRINTABLE = 2
_MAX_WORD = 1 << 12
_MAX_SESSIONS = 4  # processes that are debugged side by side, of which the last answers are kept


class _State:
    """What belongs to one debugger."""

    def __init__(self) -> None:
        self.sessions: dict[int, tuple[tuple[int, ...], LldbInspection]] = {}
        self.auto = False
        self.hooked = False  # whether targets have our stop hook
        self.said: tuple[int, int] | None = None  # the stop that the line was printed at
        self.hides = True  # whether LLDB is to leave the runtimes' frames out, if it can

    def session(self, process: Any) -> LldbInspection:
        """Return the session of this stop of *process*, the same one as long as it does not run or gets modules."""
        check_stopped(lldb, process)
        stop = (*stop_of(process), process.GetTarget().GetNumModules())
        kept = self.sessions.pop(stop[0], None)
        if kept is not None and kept[0] != stop:
            kept[1].close()
            kept = None
        session = kept[1] if kept is not None else LldbInspection(process)
        self.sessions[stop[0]] = stop, session
        while len(self.sessions) > _MAX_SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))[1].close()
        return session


def _state(internal_dict: dict[str, Any]) -> _State:
    return internal_dict.setdefault(_STATE, _State())  # type: ignore[no-any-return]


def _process(debugger: Any, exe_ctx: Any) -> Any:
    process = exe_ctx.GetProcess()
    return process if process.IsValid() else debugger.GetSelectedTarget().GetProcess()


def _thread(process: Any, exe_ctx: Any) -> Any:
    thread = exe_ctx.GetThread()
    return thread if thread.IsValid() else process.GetSelectedThread()


def _screen(debugger: Any) -> Screen:
    terminal = os.isatty(1)
    return Screen(
        color=terminal and bool(debugger.GetUseColor()), width=debugger.GetTerminalWidth() if terminal else None
    )


def _indices(process: Any) -> dict[int, int]:
    return {thread.GetThreadID(): thread.GetIndexID() for thread in process}


def _cleaned(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


_OPTIONS_OF_ALL: Mapping[str, Mapping[str, object]] = {
    "help": {"short_option": "h", "required": False, "help": "Show what the command does."},
    "debug": {"short_option": chr(1), "required": False, "help": "Show the traceback of an error."},
}


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInput(str(error).lower()) from error


def _strings(given: Any) -> list[str]:
    # LLDB 19 gives a structure of its own, later ones a list.
    if hasattr(given, "GetItemAtIndex"):
        return [given.GetItemAtIndex(n).GetStringValue(_MAX_WORD) for n in range(given.GetSize())]
    return list(given)


class _Prompt:
    """An LLDB command. LLDB makes one for each debugger and calls its methods.

    LLDB 19 and later parse and complete options by ``get_options_definition``; older ones pass the words as they
    were typed. Both end in :meth:`run`, whose errors end here: none may reach LLDB.
    """

    summary = ""

    def __init__(self, debugger: Any, internal_dict: dict[str, Any]) -> None:
        self._state = _state(internal_dict)
        self._words: list[str] = []

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return what the command prints."""
        raise NotImplementedError

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return LLDB's description of the options, by long name."""
        return {}

    def help(self) -> str:
        """Return the help of the command."""
        return self.summary

    @_ISOLATION
    def __call__(self, debugger: Any, given: str | Sequence[str], exe_ctx: Any, result: Any) -> None:
        """Run the command, for LLDB."""
        words: list[str] = []
        try:
            words = _split(given) if isinstance(given, str) else [*self._words, *_strings(given)]
            if "--help" in words or "-h" in words:
                result.AppendMessage(self.help())
                return
            result.AppendMessage(self.run(debugger, words, exe_ctx))
        except OmpdError as error:
            self._fail(result, f"ompd: {error}" + (f"\nompd: {error.hint}" if error.hint else ""), words)
        except KeyboardInterrupt:
            self._fail(result, "ompd: interrupted", words)
        except BaseException as error:  # noqa: BLE001  our faults must not end the debugger
            text = f"ompd: internal error: {type(error).__name__}: {error}"
            self._fail(result, f"{text}\nompd: --debug shows where; please report it", words)
        finally:
            self._words = []

    def _fail(self, result: Any, text: str, words: Sequence[str]) -> None:
        trace = traceback.format_exc() if "--debug" in words else ""
        result.SetError(_cleaned(trace + text))

    # What LLDB asks

    def get_short_help(self) -> str:
        """Return the command's line in the list of commands."""
        return self.summary

    @_ISOLATION
    def get_long_help(self) -> str:
        """Return the help of the command; LLDB 19 and later add the options themselves."""
        text = self.help()
        return text.partition("\n\nOptions:\n")[0] if _PARSES else text

    def get_flags(self) -> int:
        """Return what LLDB checks before it calls: nothing, since our messages say more."""
        return 0

    @_ISOLATION
    def get_options_definition(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options, for LLDB 19 and later."""
        return {**_OPTIONS_OF_ALL, **self.options()}

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the arguments, for LLDB 19 and later."""
        return []

    def option_parsing_started(self) -> None:
        """Forget the options of the last call."""
        self._words = []

    def set_option_value(self, exe_ctx: Any, option: str, value: str | None) -> bool:
        """Note an option that was given."""
        self._words += [f"--{option}", value] if value else [f"--{option}"]
        return True


class _Question(_Prompt):
    """A command of the table."""

    command: Command

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return the answer."""
        given = parse_words(self.command, words)
        process = _process(debugger, exe_ctx)
        session = self._state.session(process)
        return format_reply(self.command, session, given, _screen(debugger), _indices(process))

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options of the table."""
        return {
            flag.long: {
                # LLDB numbers those without a letter itself, from 0, and then takes the first for not given.
                "short_option": flag.short or chr(_FIRST_UNPRINTABLE + number),
                "required": False,
                "help": flag.help,
                # LLDB takes what has no type for a flag.
                **({"value_type": lldb.eArgTypeName, "dest": flag.long} if flag.metavar is not None else {}),
            }
            for number, flag in enumerate(flags_of(self.command))
        }

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the argument, if there is one."""
        return [[{"arg_type": lldb.eArgTypeName, "repeat": "plain"}]] if self.command.argument is not None else []

    def help(self) -> str:
        """Return the help of the table."""
        return format_help(self.command, _PROMPT)


class ThreadCommand(_Prompt):
    """``ompd thread N``: select a thread by its OpenMP number."""

    summary = "Select a thread of the team by its OpenMP number."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Select the thread, and return where it is."""
        number, level = _parse_thread(words)
        process = _process(debugger, exe_ctx)
        session = self._state.session(process)
        here = _thread(process, exe_ctx)
        region = _region(session, here.GetThreadID(), level)
        native = _member(session, region, here.GetThreadID(), number)
        thread = process.GetThreadByID(native)
        if not thread.IsValid() or not process.SetSelectedThread(thread):
            raise TargetGone(f"LLDB has no thread {native}")
        size = region.team_size if region is not None else 1
        at = region.level if region is not None else 0
        begins = any(row.native_thread_id == native and row.about_to_begin for row in session.ask_threads().rows)
        note = ", which is about to begin the region" if begins else ""
        where = lldb.SBStream()
        thread.GetStatus(where)
        known = f"OpenMP thread {number}/{size} at level {at} is LLDB's thread #{thread.GetIndexID()}{note}"
        return f"{known}\n{where.GetData()}"

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the only option."""
        return {
            "level": {
                "short_option": "l",
                "required": False,
                "help": "Take the team of the enclosing region at this level.",
                "value_type": lldb.eArgTypeUnsignedInteger,
                "completion_type": lldb.eNoCompletion,
                "dest": "level",
                "default": 0,
            }
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that"
            " of its innermost region, or with --level that of an enclosing one.\n\n"
            f"  {_PROMPT}ompd thread 2\n  {_PROMPT}ompd thread --level 1 0\n\n"
            "Options:\n  -l, --level L    Take the team of the enclosing region at this level.\n"
        )

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeUnsignedInteger, "repeat": "plain"}]]


class SnapshotCommand(_Prompt):
    """``ompd snapshot FILE``: write a small core of the process."""

    summary = "Write a small core to send to somebody else."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Write the file, and say what is in it."""
        keep = "--keep-env" in words
        rest = [word for word in words if word not in ("--keep-env", "--debug", "-o", "--output")]
        if len(rest) != 1 or rest[0].startswith("-"):
            raise BadInput("snapshot takes the name of the file to write", hint="ompd snapshot small.core")
        session = self._state.session(_process(debugger, exe_ctx))
        taken = session.snapshot(rest[0], keep_environment=keep)
        problems = [f"ompd: warning: {problem}" for problem in taken.problems]
        return "\n".join([describe_snapshot(taken), *problems])

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the only option."""
        return {
            "keep-env": {
                "short_option": chr(_FIRST_UNPRINTABLE),
                "required": False,
                "help": "Keep the whole environment and the folders in arguments.",
            }
        }

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
            " command works on it, without those files.\n\n"
            f"  {_PROMPT}ompd snapshot small.core\n\n"
            "Options:\n      --keep-env   Keep the whole environment and the folders in arguments.\n"
        )

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeFilename, "repeat": "plain"}]]


def _parse_thread(words: Sequence[str]) -> tuple[int, int | None]:
    rest, level = list(words), None
    for word in ("--level", "-l"):
        if word in rest:
            at = rest.index(word)
            level = _number(rest[at + 1] if at + 1 < len(rest) else "", "a level")
            del rest[at : at + 2]
    rest = [word for word in rest if word != "--debug"]
    if len(rest) != 1:
        raise BadInput("thread takes the OpenMP number of a thread", hint="ompd thread 2; ompd threads shows them")
    return _number(rest[0], "an OpenMP thread number"), level


def _number(word: str, what: str) -> int:
    if not word.isdecimal():
        raise BadInput(f"{word!r} is not {what}")
    return int(word)


def _region(session: LldbInspection, native: int, level: int | None) -> ParallelRecord | None:
    # The innermost region of the thread *native*, None outside of all, or the one at *level* around it. From a thread
    # that is in no team there is no other way to go than to the only one.
    regions = {(region.runtime, region.id): region for region in session.ask_parallel().rows}
    row = _row(session, native)
    if row is None and len(regions) != 1:
        raise BadInput(
            f"the selected thread, {native}, is in no team", hint="select one that is: ompd threads shows them"
        )
    if row is None:
        (only,) = regions.values()
        if level not in (None, only.level):
            raise BadInput(f"thread {native} is in no region of level {level}")
        return only
    region = regions.get((row.runtime or "", row.parallel or ""))
    if level == 0:
        raise BadInput("regions have levels from 1 on")
    while level is not None and region is not None and region.level != level:
        region = regions.get((region.runtime, region.enclosing or ""))
    if level is not None and region is None:
        raise BadInput(f"thread {native} is in no region of level {level}")
    return region


def _row(session: LldbInspection, native: int) -> ThreadRecord | None:
    # That of a thread of a team.
    rows = session.ask_threads().rows
    return next((row for row in rows if row.native_thread_id == native and row.thread_num is not None), None)


def _member(session: LldbInspection, region: ParallelRecord | None, native: int, number: int) -> int:
    members = region.threads if region is not None else (native,)
    if number >= len(members):
        size = format_count(len(members), "thread")
        raise BadInput(f"the team has {size}, 0 to {len(members) - 1}, and no {number}")
    found = members[number]
    if found is None:
        raise NoAnswer(f"which thread has number {number} could not be read")
    return found


class _Switch(_Prompt):
    """A setting: ``on`` or ``off`` changes it; without a word the command prints it."""

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Change the setting if a word says so, and return it."""
        given = [word for word in words if word != "--debug"]
        if given not in (["on"], ["off"], []):
            raise BadInput("expected on or off", hint=f"ompd {self.name} on")
        if given:
            self.switch(debugger, given == ["on"])
        return f"ompd {self.name} is {self.tell(debugger)}"

    name = ""

    def switch(self, debugger: Any, on: bool) -> None:
        """Switch it."""
        raise NotImplementedError

    def tell(self, debugger: Any) -> str:
        """Return what it is: on or off, and more if there is more to say."""
        raise NotImplementedError

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the only argument."""
        return [[{"arg_type": lldb.eArgTypeNone, "repeat": "optional"}]]

    @_ISOLATION
    def handle_argument_completion(self, words: Sequence[str], position: int, cursor: int) -> dict[str, list[str]]:
        """Complete ``on`` and ``off``."""
        return {"values": [value for value in ("on", "off") if value.startswith(words[position][:cursor])]}


class AutoCommand(_Switch):
    """``ompd auto on|off``: a line at each stop."""

    name = "auto"
    summary = "Turn the OpenMP summary at each stop on or off."

    def switch(self, debugger: Any, on: bool) -> None:
        """Print them from now on, or no more."""
        self._state.auto = on
        if on:
            _hook(debugger, self._state)

    def tell(self, debugger: Any) -> str:
        """Return the current setting."""
        return "on" if self._state.auto else "off"

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "With `on`, each stop prints a line: how many threads are in how many regions, and what they do. A line"
            " also says when an OpenMP runtime begins; the program does not stop there.\n\n"
            f"  {_PROMPT}ompd auto on\n"
        )


class FramesCommand(_Switch):
    """``ompd bt on|off``: whether LLDB's own commands leave out the frames of OpenMP runtimes."""

    name = "bt"
    summary = "Hide OpenMP runtimes' frames in bt, up and down, or show them."

    def switch(self, debugger: Any, on: bool) -> None:
        """Leave them out from now on, or no more.

        :raises Unsupported: if this LLDB cannot
        """
        if on and not _CAN_HIDE:
            raise Unsupported(_cannot_hide(debugger), hint=_SINCE_WHEN)
        self._state.hides = on
        if _CAN_HIDE:
            _frames(debugger).switch(on)

    def tell(self, debugger: Any) -> str:
        """Return the current setting, and what it means or why it cannot be changed."""
        return _tell_frames(debugger)

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "With `on`, the default if this LLDB can do it, LLDB's own `bt`, `up` and `down` leave out the frames of"
            " OpenMP runtimes, and an editor shows them as subtle. `bt -u` shows all frames. Without on or off, prints"
            f" the current setting.\n\n  {_PROMPT}ompd bt off\n"
        )


# Before LLDB had this attribute, it accepted recognisers that hide frames and never called them.
_CAN_HIDE = hasattr(lldb.SBFrame, "IsHidden")
_SINCE_WHEN = "LLDB 20 and later can; ompd stack leaves them out in every version"


def _cannot_hide(debugger: Any) -> str:
    return f"LLDB {_version(debugger).partition('.')[0]} cannot leave frames out"


def _tell_frames(debugger: Any) -> str:
    if not _CAN_HIDE:
        return f"off: {_cannot_hide(debugger)}, {_SINCE_WHEN}"
    if not _frames(debugger).are_on():
        return "off: bt, up and down show the frames of OpenMP runtimes"
    return "on: bt, up and down leave out the frames of OpenMP runtimes; bt -u shows them"


def _frames(debugger: Any) -> Frames:
    return Frames(debugger, lambda text, target: _command(debugger, text, target), _MODULE)


def _version(debugger: Any) -> str:
    return str(debugger.GetVersionString()).splitlines()[0].removeprefix("lldb version ")


def _hook(debugger: Any, state: _State) -> None:
    # LLDB has no way to make a stop hook but the command, and gives nobody its number: it stays, and may be silent. The
    # dummy is what every target is copied from that is made later.
    if state.hooked:
        return
    state.hooked = True
    targets = (debugger.GetTargetAtIndex(number) for number in range(debugger.GetNumTargets()))
    for target in (debugger.GetDummyTarget(), *targets):
        _command(debugger, f"target stop-hook add -P {_MODULE}.StopHook", target)
        _arm(target)


class StopHook:
    """Prints the line of ``ompd auto``. LLDB makes one for each target."""

    def __init__(self, target: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._state = _state(internal_dict)

    @_ISOLATION
    def handle_stop(self, exe_ctx: Any, stream: Any) -> bool:
        """Print, once a stop; True lets the program stop."""
        with suppress(BaseException):
            process = exe_ctx.GetProcess()
            if self._state.auto and self._state.said != stop_of(process):
                self._state.said = stop_of(process)
                line = _line(self._state, process, exe_ctx.GetThread().GetThreadID())
                if line is not None:
                    stream.Print(line + "\n")
        return True


def _line(state: _State, process: Any, thread: int | None) -> str | None:
    try:
        return format_summary(state.session(process).ask_threads(), thread)
    except NoAnswer as error:
        if process.GetStopID() <= 1:
            return None  # the program has not even loaded its libraries
        return _cleaned(f"OpenMP: {str(error).removeprefix(f'process {process.GetProcessID()}: ')}")
    except OmpdError as error:
        return _cleaned(f"OpenMP: {error}")


class StatusCommand(_Prompt):
    """``ompd status``: what these commands see."""

    summary = "Versions of ompd and LLDB, the process, its runtimes, settings."

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return a line for each of it."""
        process = _process(debugger, exe_ctx)
        lines = [
            f"ompd      {ompd.__version__}, {Path(__file__).resolve()}",
            f"lldb      {_version(debugger)}",
            f"process   {self._of_process(process)}",
            *(f"runtime   {text}" for text in self._of_runtimes(process)),
            f"auto      {'on' if self._state.auto else 'off'}",
            f"bt        {_tell_frames(debugger).partition(':')[0]}",
        ]
        return _cleaned("\n".join(lines))

    def _of_process(self, process: Any) -> str:
        try:
            check_stopped(lldb, process)
        except OmpdError as error:
            return str(error).removeprefix("process ")
        kind = "core file" if process.GetPluginName().endswith("-core") else "stopped"
        return f"{process.GetProcessID()}, {kind}, {format_count(process.GetNumThreads(), 'thread')}"

    def _of_runtimes(self, process: Any) -> list[str]:
        try:
            answer = self._state.session(process).ask_runtimes()
        except OmpdError:
            return []
        states = {True: "keeps states", False: "keeps no states", None: "not initialised yet, or unreadable"}
        told = [f"{row.id} {row.version or ''}".rstrip() + f", {states[row.keeps_states]}" for row in answer.rows]
        return told or ["none is loaded"]


# A runtime passes this place once it is initialised. By name LLDB would skip what it takes for the beginning of a
# function, and this may be a label: so the breakpoint is at its address, in each module that is loaded. Only `ompd
# auto` needs it.


class Arming:
    """Finds the place of a breakpoint in each module that is loaded. LLDB makes one for each breakpoint."""

    def __init__(self, breakpoint: Any, extra_args: Any, internal_dict: dict[str, Any]) -> None:
        self._breakpoint = breakpoint

    @_ISOLATION
    def __callback__(self, context: Any) -> bool:
        """Add the place in the module of *context*, if it has it; True to go on."""
        with suppress(BaseException):
            symbol = context.GetModule().FindSymbol(DLL_LOCATIONS_VALID)
            if symbol.IsValid():
                self._breakpoint.AddLocation(symbol.GetStartAddress())
        return True

    def __get_depth__(self) -> int:
        return int(lldb.eSearchDepthModule)

    def get_short_help(self) -> str:
        """Return what ``breakpoint list`` shows."""
        return "ompd: an OpenMP runtime begins"


@_ISOLATION
def note_begin(frame: Any, location: Any, internal_dict: dict[str, Any]) -> bool:
    """Print that a runtime has begun; False lets the program go on."""
    with suppress(BaseException):
        if _state(internal_dict).auto:
            print(clean(f"OpenMP: {frame.GetModule().GetFileSpec().GetFilename()} has begun"))
    return False


def _arm(target: Any) -> None:
    armed = target.BreakpointCreateFromScript(
        f"{_MODULE}.Arming", lldb.SBStructuredData(), lldb.SBFileSpecList(), lldb.SBFileSpecList()
    )
    armed.AddName("ompd")
    armed.SetAutoContinue(True)
    armed.SetScriptCallbackFunction(f"{_MODULE}.note_begin")


# Loading


def _command(debugger: Any, text: str, target: Any = None) -> str:
    result = lldb.SBCommandReturnObject()
    context = lldb.SBExecutionContext(target) if target is not None else lldb.SBExecutionContext()
    debugger.GetCommandInterpreter().HandleCommand(text, context, result)
    if not result.Succeeded():
        raise OmpdError(f"LLDB refused {text!r}: {result.GetError()}")
    return result.GetOutput() or ""


def _class_of(command: Command) -> type[_Question]:
    name = f"{command.name.capitalize()}Question"
    return type(name, (_Question,), {"command": command, "summary": command.summary, "__module__": _MODULE})


_CLASSES: Mapping[str, Callable[..., _Prompt]] = {
    **{command.name: _class_of(command) for command in COMMANDS},
    "thread": ThreadCommand,
    "snapshot": SnapshotCommand,
    "auto": AutoCommand,
    "bt": FramesCommand,
    "status": StatusCommand,
}
globals().update({made.__name__: made for made in _CLASSES.values()})
globals().update({made.__name__: made for made in RECOGNIZERS})


@_ISOLATION
def __lldb_init_module(debugger: Any, internal_dict: dict[str, Any]) -> None:
    interpreter = debugger.GetCommandInterpreter()
    parsed = "-p " if _PARSES else ""
    _command(debugger, 'command container add -o -h "What an OpenMP program is doing." ompd')
    for name, made in _CLASSES.items():
        _command(debugger, f"command script add -o {parsed}-c {_MODULE}.{made.__name__} ompd {name}")
    if not interpreter.AliasExists("omp") and not interpreter.CommandExists("omp"):
        _command(debugger, "command alias omp ompd")  # lldb-dap does not see a container
    if _CAN_HIDE and _state(internal_dict).hides:
        with suppress(OmpdError):  # `ompd bt` says what it is
            _frames(debugger).switch(True)
