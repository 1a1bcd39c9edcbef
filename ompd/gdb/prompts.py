"""Commands at gdb's prompt: what gdb calls of each, what belongs to one gdb, and the commands of the table."""

from __future__ import annotations

import locale
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.commands.options import OWN
from ompd.commands.prompt import (
    OMPD_LIBRARY,
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
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.gdb.files import file_options
from ompd.debugger.targets.gdb.inferior import Stops, check_stopped, core_of, thread_selected
from ompd.debugger.targets.gdb.target import GdbTarget, native_id
from ompd.debugger.targets.live.files import LiveFiles
from ompd.errors import OmpdError
from ompd.gdb.sessions import opened
from ompd.inspection import Inspection
from ompd.render.words import Indices
from ompd.session.stop import NAMES

PROMPT = "(gdb) "
_MAX_SESSIONS = 4  # inferiors that are debugged side by side, of which the last answers are kept
_DEBUG = "--debug"
LIBRARY_HELP = "      --ompd-library FILE|named   Let an OMPD library answer.\n"


class State:
    """What belongs to one gdb."""

    def __init__(self) -> None:
        self.stops = Stops()
        self.prefixes: tuple[str, ...] = ()
        self.auto = False  # whether each stop prints a line
        self.walks = False  # whether a command of ours runs the program, and prints where it has stopped
        self.events: set[int] = set()  # numbers of breakpoints at events
        self.arm: Callable[[], None] = lambda: None  # watches for runtimes that begin, if anything needs it
        self._sessions: dict[tuple[int, str | None], tuple[tuple[object, ...], Inspection]] = {}
        self._alone: tuple[tuple[int, int, int], Inspection] | None = None

    def session(self, ompd_library: str | None = None) -> Inspection:
        """Return the session of the selected inferior at this stop, the same one until something in it changes.

        :param ompd_library: as for :func:`ompd.open_core`
        """
        inferior = gdb.selected_inferior()
        check_stopped(inferior)
        core = core_of(inferior)
        options = file_options()
        moment = (*self.stops.of(inferior), core, options.sysroot, tuple(options.debug_dirs))
        key = inferior.num, ompd_library
        kept = self._sessions.pop(key, None)
        if kept is not None and kept[0] != moment:
            kept[1].close()
            kept = None
        session = kept[1] if kept is not None else opened(inferior, core, self.stops, ompd_library)
        self._sessions[key] = moment, session
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))[1].close()
        return session

    def thread_numbers(self) -> Sequence[str]:
        """Return the OpenMP numbers of the threads in the team of the selected one; none where they are unknown."""
        with suppress(OmpdError, gdb.error):
            thread = thread_selected()
            if thread is not None:
                return numbers_of_team(self.session(), native_id(thread))
        return ()

    def session_of_thread(self) -> Inspection:
        """Return a session that can be asked about the selected thread, also while others run, as where gdb evaluates
        the condition of a breakpoint. What its modules are is kept as long as gdb sees no others.
        """
        inferior = gdb.selected_inferior()
        thread = thread_selected()
        if not any(other.is_running() for other in inferior.threads()) or thread is None:
            return self.session()
        target = GdbTarget(inferior, self.stops, alone=thread)
        loaded = inferior.num, inferior.pid, self.stops.loaded
        known, session = self._alone or (None, None)
        if session is not None and known == loaded:
            earlier = session.process
            process = StoppedProcess(target, earlier.finder, names=NAMES, earlier=earlier)
            session.begin_stop(target, process)
            return session
        if session is not None:
            session.close()
        files = LiveFiles(inferior.pid, target.mappings(), target.auxiliary_vector(), file_options())
        session = Inspection(target, files)
        self._alone = loaded, session
        return session


def indices() -> Indices:
    """Return gdb's numbers of the selected inferior's threads."""
    return Indices("gdb", {native_id(thread): thread.num for thread in gdb.selected_inferior().threads()})


def _screen() -> Screen:
    terminal = os.isatty(1)
    return Screen(
        color=terminal and bool(gdb.parameter("style enabled")), width=gdb.parameter("width") if terminal else None
    )


def writable(text: str) -> str:
    """Return *text* without what the terminal's character set does not have: gdb raises an error of its own for it."""
    name = locale.nl_langinfo(locale.CODESET)
    return text.encode(name, "backslashreplace").decode(name, "replace")


class Prompt:
    """A command: its ``name``, a ``summary`` in a line that ends with a full stop, and what it does. No error of ours
    may reach gdb, which would print where it was raised.
    """

    name = ""
    summary = ""

    def __init__(self, state: State) -> None:
        self.state = state

    def run(self, words: Sequence[str]) -> str:
        """Return what the command prints."""
        raise NotImplementedError

    def help(self) -> str:
        """Return the help of the command."""
        return self.summary

    def options(self) -> Mapping[str, Sequence[str]]:
        """Return the words of the options, each with the values that it can have as far as they can be listed."""
        return {}

    def completions(self) -> Sequence[str]:
        """Return the values that the argument can have as far as they can be listed."""
        return ()

    def invoke(self, text: str) -> None:
        """Run the command, for gdb.

        :raises gdb.GdbError: which gdb prints as it is
        """
        words: list[str] = []
        try:
            words = split_words(text)
            told = self.help() if "--help" in words or "-h" in words else self.run(words)
        except OmpdError as error:
            self._fail(f"ompd: {error}" + (f"\nompd: {error.hint}" if error.hint else ""), words)
        except KeyboardInterrupt:
            self._fail("ompd: interrupted", words)
        except BaseException as error:  # noqa: BLE001  our faults are not the user's
            text = f"ompd: internal error: {type(error).__name__}: {error}"
            self._fail(f"{text}\nompd: --debug shows where; please report it", words)
        else:
            with suppress(KeyboardInterrupt):  # who ends gdb's pager has seen enough
                if told:
                    gdb.write(writable(told.rstrip("\n")) + "\n")

    def _fail(self, text: str, words: Sequence[str]) -> None:
        trace = traceback.format_exc() if _DEBUG in words else ""
        raise gdb.GdbError(writable(clean_lines(trace + text))) from None

    def complete(self, text: str, word: str | None) -> list[str]:
        """Return what the last word of *text* may become, without what stands before *word* in it.

        gdb takes ``-`` for the end of a word: of ``--js`` it asks to complete ``js``. At first it asks without a word.
        """
        if word is None:
            return []
        *before, last = text.split(" ")
        known = self.options()
        values = known.get(before[-1], ()) if before else ()
        choices = values or (known if last.startswith("-") else self.completions())
        skipped = len(last) - len(word)
        return [choice[skipped:] for choice in choices if choice.startswith(last)]


class Question(Prompt):
    """A command of the table."""

    def __init__(self, state: State, command: Command) -> None:
        super().__init__(state)
        self.name, self.summary = command.name, command.summary
        self._command = command

    def run(self, words: Sequence[str]) -> str:
        """Return the answer."""
        command = self._command
        given = parse_words(command, words)
        session = self.state.session(given.get(OMPD_LIBRARY, command.ompd_library))
        return format_reply(command, session, given, _screen(), indices())

    def help(self) -> str:
        """Return the help of the table."""
        return format_help(self._command, PROMPT)

    def options(self) -> Mapping[str, Sequence[str]]:
        """Return the options of the table."""
        choices: dict[str, Sequence[str]] = {OWN + option.name: option.choices for option in self._command.options}
        if f"{OWN}thread" in choices:
            choices[f"{OWN}thread"] = self.state.thread_numbers()
        return {f"--{flag.long}": choices.get(flag.name, ()) for flag in flags_of(self._command)} | {"--help": ()}
