"""Commands at LLDB's prompt: what LLDB calls of each, what belongs to one debugger, and the commands of the table."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.commands.prompt import (
    OMPD_LIBRARY,
    Flag,
    Screen,
    clean_lines,
    flags_of,
    format_help,
    format_reply,
    parse_words,
    split_words,
)
from ompd.commands.selecting import numbers_of_team
from ompd.commands.table import Command
from ompd.debugger.targets.lldb.files import LldbFiles
from ompd.debugger.targets.lldb.target import LldbTarget, check_stopped, stop_of
from ompd.errors import BadInput, OmpdError
from ompd.inspection import Inspection
from ompd.lldb.control import LldbInspection
from ompd.render.words import Indices

PROMPT = "(lldb) "
PARSES = find_spec("lldb.plugins.parsed_cmd") is not None
"""Whether LLDB parses options, as 19 and later do."""

FIRST_UNPRINTABLE = 2
"""Letters of options that have none begin here."""

NO_COMPLETION = getattr(lldb, "eNoCompletion", 0)
"""Has LLDB complete nothing where a value of its own would be completed. LLDB 14 has no such thing."""

_LIBRARY_TEXT = "Let an OMPD library answer."
LIBRARY_HELP = f"      --ompd-library FILE|named   {_LIBRARY_TEXT}\n"
LIBRARY_OPTION: Mapping[str, Mapping[str, object]] = {
    "ompd-library": {
        "short_option": chr(FIRST_UNPRINTABLE + 1),
        "required": False,
        "help": _LIBRARY_TEXT,
        "value_type": lldb.eArgTypeName,
        "completion_type": NO_COMPLETION,
        "dest": "ompd_library",
    }
}

_STATE = "__ompd__"
_MAX_WORD = 1 << 12
_MAX_SESSIONS = 4  # processes that are debugged side by side, of which the last answers are kept


class State:
    """What belongs to one debugger."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[int, str | None], tuple[tuple[int, ...], LldbInspection]] = {}
        self.auto = False
        self.hooked = False  # whether targets have our stop hook
        self.said: tuple[int, int] | None = None  # the stop that the line was printed at
        self.tagged: tuple[tuple[int, int], dict[int, str]] | None = None  # at which stop which thread is called what
        self._of_hits: tuple[tuple[int, int], LldbTarget, Inspection] | None = None
        self.hides = True  # whether LLDB is to leave the runtimes' frames out, if it can

    def session(self, process: Any, ompd_library: str | None = None) -> LldbInspection:
        """Return the session of this stop of *process*, the same one as long as it does not run or gets modules.

        The sessions of stops that are over are closed, and of those whose library runs all but this one: each has a
        process for it.

        :param ompd_library: as for :func:`ompd.from_lldb`
        """
        check_stopped(lldb, process)
        stop = (*stop_of(process), process.GetTarget().GetNumModules())
        own = stop[0], ompd_library
        for key, (then, session) in list(self.sessions.items()):
            is_other = key != own and ompd_library is not None and key[1] is not None
            if is_other or not session.target.is_current or (key == own and then != stop):
                del self.sessions[key]
                session.close()
        kept = self.sessions.pop(own, None)
        session = kept[1] if kept is not None else LldbInspection(process, ompd_library=ompd_library)
        self.sessions[own] = stop, session
        while len(self.sessions) > _MAX_SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))[1].close()
        return session

    def session_of_hit(self, process: Any) -> Inspection:
        """Return a session where a breakpoint is hit that may not stop. What files say is kept from one hit to the
        next, as long as LLDB sees no other modules.
        """
        loaded = process.GetUniqueID(), process.GetTarget().GetNumModules()
        known, target, session = self._of_hits or (None, None, None)
        if session is not None and target is not None and known == loaded:
            if not target.is_current:
                target = LldbTarget(process, lasting=True)
                session.begin_stop(target, session.process.at_another_stop(target))
                self._of_hits = loaded, target, session
            return session
        if session is not None:
            session.close()
        target = LldbTarget(process, lasting=True)
        session = Inspection(target, LldbFiles(process))
        self._of_hits = loaded, target, session
        return session


def state_of(internal_dict: dict[str, Any]) -> State:
    """Return what belongs to the debugger of which *internal_dict* is LLDB's."""
    return internal_dict.setdefault(_STATE, State())  # type: ignore[no-any-return]


def process_of(debugger: Any, exe_ctx: Any) -> Any:
    """Return the ``SBProcess`` that a command is about."""
    process = exe_ctx.GetProcess()
    return process if process.IsValid() else debugger.GetSelectedTarget().GetProcess()


def thread_of(process: Any, exe_ctx: Any) -> Any:
    """Return the ``SBThread`` that is selected."""
    thread = exe_ctx.GetThread()
    return thread if thread.IsValid() else process.GetSelectedThread()


def _screen(debugger: Any) -> Screen:
    terminal = os.isatty(1)
    return Screen(
        color=terminal and bool(debugger.GetUseColor()), width=debugger.GetTerminalWidth() if terminal else None
    )


def run_command(debugger: Any, text: str, target: Any = None) -> str:
    """Run one of LLDB's commands, for *target* if it is one, or for a thread, and return what it prints.

    :raises OmpdError: if LLDB refuses it
    """
    result = lldb.SBCommandReturnObject()
    context = lldb.SBExecutionContext(target) if target is not None else lldb.SBExecutionContext()
    debugger.GetCommandInterpreter().HandleCommand(text, context, result)
    if not result.Succeeded():
        raise OmpdError(f"LLDB refused {text!r}: {result.GetError()}")
    return result.GetOutput() or ""


_OPTIONS_OF_ALL: Mapping[str, Mapping[str, object]] = {
    "help": {"short_option": "h", "required": False, "help": "Show what the command does."},
    "debug": {"short_option": chr(1), "required": False, "help": "Show the traceback of an error."},
}


def _strings(given: Any) -> list[str]:
    # LLDB 19 gives a structure of its own, later ones a list.
    if hasattr(given, "GetItemAtIndex"):
        return [given.GetItemAtIndex(n).GetStringValue(_MAX_WORD) for n in range(given.GetSize())]
    return list(given)


class Prompt:
    """An LLDB command. LLDB makes one for each debugger and calls its methods.

    LLDB 19 and later parse and complete options by ``get_options_definition``; older ones pass the words as they
    were typed. Both end in :meth:`run`, whose errors end here: none may reach LLDB. The script, which LLDB
    knows by the name ``script``, makes a class of each that is isolated from the folder LLDB runs in.
    """

    summary = ""
    script = ""

    def __init__(self, debugger: Any, internal_dict: dict[str, Any]) -> None:
        self._state = state_of(internal_dict)
        self._debugger = debugger
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

    def __call__(self, debugger: Any, given: str | Sequence[str], exe_ctx: Any, result: Any) -> None:
        """Run the command, for LLDB."""
        words: list[str] = []
        try:
            words = split_words(given) if isinstance(given, str) else [*self._words, *_strings(given)]
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
        result.SetError(clean_lines(trace + text))

    # What LLDB asks

    def values_of(self, option: str) -> Sequence[str]:
        """Return the values that an option can have as far as they can be listed."""
        return self.thread_numbers() if option == "thread" else ()

    def handle_option_argument_completion(self, option: str, cursor: int) -> dict[str, list[str]]:
        """Complete the value of an option, for LLDB 20 and later, which has noted what was typed of it."""
        typed = self._words[-1][:cursor] if self._words and not self._words[-1].startswith("--") else ""
        return {"values": [value for value in self.values_of(option) if value.startswith(typed)]}

    def thread_numbers(self) -> Sequence[str]:
        """Return the OpenMP numbers of the threads in the team of the selected one; none where they are unknown."""
        with suppress(OmpdError):
            process = self._debugger.GetSelectedTarget().GetProcess()
            thread = process.GetSelectedThread()
            return numbers_of_team(self._state.session(process), thread.GetThreadID())
        return ()

    def get_short_help(self) -> str:
        """Return the command's line in the list of commands."""
        return self.summary

    def get_long_help(self) -> str:
        """Return the help of the command; LLDB 19 and later add the options themselves."""
        text = self.help()
        return text.partition("\n\nOptions:\n")[0] if PARSES else text

    def get_flags(self) -> int:
        """Return what LLDB checks before it calls: nothing, since our messages say more."""
        return 0

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


def _valued(flag: Flag) -> Mapping[str, object]:
    # Unless LLDB is told otherwise, it completes names of any kind with those of types. Of a value that is the name of
    # a number it says so in the help.
    kind = lldb.eArgTypeUnsignedInteger if flag.metavar == "N" else lldb.eArgTypeName
    return {"value_type": kind, "completion_type": NO_COMPLETION, "dest": flag.long}


class Question(Prompt):
    """A command of the table."""

    command: Command

    def run(self, debugger: Any, words: Sequence[str], exe_ctx: Any) -> str:
        """Return the answer."""
        given = parse_words(self.command, words)
        process = process_of(debugger, exe_ctx)
        session = self._state.session(process, given.get(OMPD_LIBRARY, self.command.ompd_library))
        indices = {thread.GetThreadID(): thread.GetIndexID() for thread in process}
        return format_reply(self.command, session, given, _screen(debugger), Indices("LLDB", indices))

    def options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options of the table."""
        return {
            flag.long: {
                # LLDB numbers those without a letter itself, from 0, and then takes the first for not given.
                "short_option": flag.short or chr(FIRST_UNPRINTABLE + number),
                "required": False,
                "help": flag.help,
                # LLDB takes what has no type for a flag.
                **(_valued(flag) if flag.metavar is not None else {}),
            }
            for number, flag in enumerate(flags_of(self.command))
        }

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the argument, if there is one."""
        return [[{"arg_type": lldb.eArgTypeName, "repeat": "plain"}]] if self.command.argument is not None else []

    def values_of(self, option: str) -> Sequence[str]:
        """Return the values that an option can have as far as they can be listed."""
        choices = {own.word: own.choices for own in self.command.options}
        return choices.get(option) or super().values_of(option)

    def help(self) -> str:
        """Return the help of the table."""
        return format_help(self.command, PROMPT)


class Switch(Prompt):
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

    def handle_argument_completion(self, words: Sequence[str], position: int, cursor: int) -> dict[str, list[str]]:
        """Complete ``on`` and ``off``."""
        return {"values": [value for value in ("on", "off") if value.startswith(words[position][:cursor])]}
