"""The commands at a debugger's prompt: commands of the shell's table, and commands that only debuggers have."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, TypeVar

import ompd
from ompd import naming
from ompd.commands.table import COMMANDS as TABLE
from ompd.commands.table import Command
from ompd.errors import BadInput, OmpdError
from ompd.frontends import printing as print_words
from ompd.frontends import walking as walk_words
from ompd.frontends.debugger import Debugger
from ompd.frontends.prompt import (
    OMPD_LIBRARY,
    Flag,
    clean_lines,
    flags_of,
    format_help,
    format_reply,
    format_runtimes,
    parse_words,
    split_words,
)
from ompd.frontends.selecting import (
    format_current,
    format_selected,
    innermost_of_users,
    member_of,
    native_of,
    parse_thread,
    region_of,
    without_library,
)
from ompd.frontends.walker import Runner, Walker
from ompd.questions import printing
from ompd.questions.printing import At
from ompd.records import record
from ompd.render.words import describe_snapshot, format_count

D = TypeVar("D", bound=Debugger, contravariant=True)

LIBRARY = Flag(OMPD_LIBRARY, "ompd-library", None, "Let an OMPD library answer.", "FILE|named")
"""The option of the commands that are not in the table."""

_LIBRARY_HELP = f"      --{LIBRARY.long} {LIBRARY.metavar}   {LIBRARY.help}\n"


class Refused(Exception):
    """A command has failed; the debugger prints the message as the error."""


@record
class Argument:
    """The argument of a command: its kind (``name``, ``number``, ``file`` or ``switch``) and its repetition.

    The repetition is in LLDB's terms: ``plain``, ``optional`` or ``plus``.
    """

    kind: str
    repeat: str = "plain"


class PromptCommand(ABC, Generic[D]):
    """A command at the prompt of a debugger."""

    name: str
    summary: str
    flags: Sequence[Flag] = ()
    argument: Argument | None = None
    completes_argument = False

    @abstractmethod
    def run(self, debugger: D, words: Sequence[str]) -> str:
        """Run the command, and return its output."""

    @abstractmethod
    def help(self, prompt: str) -> str:
        """Return the help of the command."""

    def option_values(self, debugger: D, option: str) -> Sequence[str]:
        """Return the possible values of *option*, a long name, empty if they cannot be listed."""
        if option == LIBRARY.long:
            return ("named",)
        return debugger.thread_numbers() if option == "thread" else ()

    def argument_values(self, debugger: D) -> Sequence[str]:
        """Return the possible values of the argument, empty if they cannot be listed."""
        return ()


def reply_to(command: PromptCommand[D], debugger: D, given: str | Sequence[str]) -> str:
    """Return the output of *command*, or its help if *given* has ``-h`` or ``--help``.

    :param given: the text after the command's name, or its words
    :raises Refused: if the command fails; no other exception is raised
    """
    words: list[str] = []
    try:
        words = split_words(given) if isinstance(given, str) else list(given)
        if "--help" in words or "-h" in words:
            return command.help(debugger.prompt)
        return command.run(debugger, words)
    except BaseException as error:  # noqa: BLE001  no fault may reach the debugger
        trace = traceback.format_exc() if "--debug" in words else ""
        raise Refused(clean_lines(trace + _describe_failure(error))) from None


def _describe_failure(error: BaseException) -> str:
    if isinstance(error, OmpdError):
        return f"ompd: {error}" + (f"\nompd: {error.hint}" if error.hint else "")
    if isinstance(error, KeyboardInterrupt):
        return "ompd: interrupted"
    return f"ompd: internal error: {type(error).__name__}: {error}\nompd: --debug shows where; please report it"


class TableCommand(PromptCommand[Debugger]):
    """A command of the shell's table."""

    def __init__(self, command: Command) -> None:
        self.name, self.summary = command.name, command.summary
        self.flags = flags_of(command)
        self.argument = Argument("name") if command.argument is not None else None
        self._command = command

    def run(self, debugger: Debugger, words: Sequence[str]) -> str:
        """Return the answer."""
        given = parse_words(self._command, words)
        session = debugger.session(given.get(OMPD_LIBRARY, self._command.ompd_library))
        return format_reply(self._command, session, given, debugger.screen(), debugger.indices())

    def help(self, prompt: str) -> str:
        """Return the help from the table."""
        return format_help(self._command, prompt)

    def option_values(self, debugger: Debugger, option: str) -> Sequence[str]:
        """Return the choices from the table, or the thread numbers."""
        choices = {own.word: own.choices for own in self._command.options}
        return choices.get(option) or super().option_values(debugger, option)


class ThreadCommand(PromptCommand[Debugger]):
    """``ompd thread N``: select a thread by its OpenMP number, and its innermost user frame."""

    name = "thread"
    summary = "Select a thread of the team by its OpenMP number."
    flags = (Flag("level", "level", "l", "Take the team of the enclosing region at this level.", "N"), LIBRARY)
    argument = Argument("number", "optional")
    completes_argument = True

    def run(self, debugger: Debugger, words: Sequence[str]) -> str:
        """Select the thread, and return its place; without a number, describe the selected thread."""
        rest, library = without_library(words)
        number, level = parse_thread(rest)
        session = debugger.session(library)
        here = debugger.selected_thread()
        if number is None and level is None:
            return f"{format_current(session, here, debugger.thread_name(here))}\n{debugger.where()}"
        region = region_of(session, here, level)
        thread = member_of(region, here, number or 0)
        name = debugger.thread_name(thread)
        begins = any(row.native_thread_id == thread and row.about_to_begin for row in session.ask_threads().rows)
        frame = innermost_of_users(session, thread)
        debugger.select_thread(thread)
        has_frame = frame is not None and debugger.select_frame(frame, session.target.architecture.sp)
        return f"{format_selected(region, number or 0, name, begins, has_frame)}\n{debugger.where()}"

    def argument_values(self, debugger: Debugger) -> Sequence[str]:
        """Return the numbers of the team."""
        return debugger.thread_numbers()

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return (
            "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that"
            " of its innermost region, or with --level that of an enclosing one; and in it the innermost frame of your"
            " code. Without a number it says which thread is selected.\n\n"
            f"  {prompt}ompd thread 2\n  {prompt}ompd thread --level 1 0\n\n"
            f"Options:\n  -l, --level L    Take the team of the enclosing region at this level.\n{_LIBRARY_HELP}"
        )


class PrintCommand(PromptCommand[Debugger]):
    """``ompd print NAME``: a variable as the code of the selected thread sees it."""

    name = "print"
    summary = print_words.SUMMARY
    flags = (
        *(Flag(name, name, name[0], text, metavar) for name, metavar, text in print_words.OPTIONS),
        Flag("verbose", "verbose", "v", "Print its address, too."),
        LIBRARY,
    )
    argument = Argument("name", "plus")

    def run(self, debugger: Debugger, words: Sequence[str]) -> str:
        """Return the variable's line."""
        rest, library = without_library(words)
        request = print_words.parse_request(rest)
        session = debugger.session(library)
        here = debugger.selected_thread()
        native = native_of(session, here, request.thread)
        at = None
        if native == here and request.frame is None:
            frame = debugger.selected_frame(session.target.architecture.sp)
            at = At(frame[0], _source_function(frame[1])) if frame is not None else None
        printed = session.ask(lambda each: printing.ask(each, request.name, native, at, request.frame))
        return print_words.format_printed(printed, native, request.verbose)

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return print_words.format_help(prompt) + _LIBRARY_HELP


def _source_function(name: str) -> str | None:
    outlined = naming.parse_outlined(name)
    return outlined.parent if outlined is not None else name


class SnapshotCommand(PromptCommand[Debugger]):
    """``ompd snapshot FILE``: write a small core of the process."""

    name = "snapshot"
    summary = "Write a small core to send to somebody else."
    flags = (
        Flag("keep_env", "keep-env", None, "Keep the whole environment and the folders in arguments."),
        LIBRARY,
    )
    argument = Argument("file")

    def run(self, debugger: Debugger, words: Sequence[str]) -> str:
        """Write the file, and return a description of it."""
        words, library = without_library(words)
        rest = [word for word in words if word not in ("--keep-env", "--debug", "-o", "--output")]
        if len(rest) != 1 or rest[0].startswith("-"):
            raise BadInput("snapshot takes the name of the file to write", hint="ompd snapshot small.core")
        snapshot = debugger.session(library).snapshot(rest[0], keep_environment="--keep-env" in words)
        problems = [f"ompd: warning: {problem}" for problem in snapshot.problems]
        return "\n".join([describe_snapshot(snapshot), *problems])

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return (
            "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
            " command works on it, without those files.\n\n"
            f"  {prompt}ompd snapshot small.core\n\n"
            f"Options:\n      --keep-env   Keep the whole environment and the folders in arguments.\n{_LIBRARY_HELP}"
        )


class SwitchCommand(PromptCommand[D]):
    """A setting: ``on`` or ``off`` changes it; without a word the command prints it."""

    argument = Argument("switch", "optional")
    completes_argument = True

    def run(self, debugger: D, words: Sequence[str]) -> str:
        """Change the setting if there is a word, and return the setting."""
        given = [word for word in words if word != "--debug"]
        if given not in (["on"], ["off"], []):
            raise BadInput("expected on or off", hint=f"ompd {self.name} on")
        if given:
            self.switch(debugger, given == ["on"])
        return f"ompd {self.name} is {self.describe(debugger)}"

    @abstractmethod
    def switch(self, debugger: D, on: bool) -> None:
        """Change the setting."""

    @abstractmethod
    def describe(self, debugger: D) -> str:
        """Return the setting, on or off, with details."""

    def argument_values(self, debugger: D) -> Sequence[str]:
        """Return the two settings."""
        return ("on", "off")


class AutoCommand(SwitchCommand[Debugger]):
    """``ompd auto on|off``: a line at each stop."""

    name = "auto"
    summary = "Turn the OpenMP summary at each stop on or off."

    def switch(self, debugger: Debugger, on: bool) -> None:
        """Start or stop printing a line at each stop."""
        debugger.print_stops(on)

    def describe(self, debugger: Debugger) -> str:
        """Return the current setting."""
        return "on" if debugger.prints_stops else "off"

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return (
            "With `on`, each stop prints a line: how many threads are in how many regions, and what they do. A line"
            " also says when an OpenMP runtime begins; the program does not stop there.\n\n"
            f"  {prompt}ompd auto on\n"
        )


class StatusCommand(PromptCommand[D]):
    """``ompd status``: versions, process, runtimes and settings. Each debugger adds lines."""

    name = "status"

    def run(self, debugger: D, words: Sequence[str]) -> str:
        """Return a line for each fact."""
        script = Path(ompd.__file__).resolve().with_name(debugger.script)
        lines = [
            ("ompd", f"{ompd.__version__}, {script}"),
            (debugger.name.lower(), debugger.version()),
            *self.names(debugger).items(),
            ("process", _describe_process(debugger)),
            *(("runtime", text) for text in _describe_runtimes(debugger)),
            ("auto", "on" if debugger.prints_stops else "off"),
            *self.settings(debugger).items(),
        ]
        return clean_lines("\n".join(f"{key:<10}{text}" for key, text in lines))

    def names(self, debugger: D) -> Mapping[str, str]:
        """Return further lines for the debugger's part of the output: each line's text, by the word in front of it."""
        return {}

    def settings(self, debugger: D) -> Mapping[str, str]:
        """Return lines about settings that only this debugger has: each line's text, by the word in front of it."""
        return {}

    def help(self, prompt: str) -> str:
        """Return the summary, because there are no options."""
        return self.summary


def _describe_process(debugger: Debugger) -> str:
    try:
        process = debugger.process_state()
    except OmpdError as error:
        return str(error).removeprefix("process ")
    kind = "core file" if process.is_core else "stopped"
    return f"{process.process_id}, {kind}, {format_count(process.thread_count, 'thread')}"


def _describe_runtimes(debugger: Debugger) -> list[str]:
    try:
        return format_runtimes(debugger.session().ask_runtimes())
    except OmpdError:
        return []


class BreakCommand(PromptCommand[D]):
    """``ompd break LOCATION``: a breakpoint in a region's code, for threads by their OpenMP numbers."""

    name = walk_words.BREAK
    summary = walk_words.SUMMARIES[walk_words.BREAK]
    flags = (
        Flag("thread", "thread", None, "Only for the thread with this OpenMP number.", "N"),
        Flag("level", "level", "l", "In the team of the region at this level.", "N"),
    )
    argument = Argument("name")

    def run(self, debugger: D, words: Sequence[str]) -> str:
        """Set the breakpoints, and return a line for each."""
        request = walk_words.parse_break(words)
        debugger.check_runs(hint="the debugger's own sets one for a program that is run later")
        return "\n".join(line + walk_words.format_threads(request) for line in self.set(debugger, request))

    @abstractmethod
    def set(self, debugger: D, request: walk_words.BreakRequest) -> Sequence[str]:
        """Set the breakpoints, and return the debugger's description of each."""

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return walk_words.format_help(self.name, prompt)


class WalkCommand(PromptCommand[D]):
    """``ompd step``, ``next`` or ``finish``: through the code of regions and tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summary = walk_words.SUMMARIES[name]
        if name != walk_words.FINISH:
            self.flags = (Flag("only", "only", "o", "The other threads stand meanwhile."),)

    def run(self, debugger: D, words: Sequence[str]) -> str:
        """Run the program, and return the place where it stopped."""
        only = walk_words.parse_walk(self.name, words)
        debugger.check_runs()
        debugger.session()  # raises an error with the reason if the program cannot be inspected
        with self.runner(debugger) as runner:
            outcome = Walker(debugger, runner, debugger.selected_thread(), only=only).walk(self.name)
            return "\n".join(text for text in (outcome, *runner.report()) if text)

    @abstractmethod
    def runner(self, debugger: D) -> AbstractContextManager[Runner]:
        """Return the object that runs the program until the end of the ``with`` statement."""

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return walk_words.format_help(self.name, prompt)


WALKS = (walk_words.STEP, walk_words.NEXT, walk_words.FINISH)


SHARED: Sequence[PromptCommand[Debugger]] = (
    *(TableCommand(command) for command in TABLE),
    ThreadCommand(),
    PrintCommand(),
    SnapshotCommand(),
    AutoCommand(),
)
"""The commands that are the same in each debugger."""
