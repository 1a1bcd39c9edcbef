"""The commands at a debugger's prompt: commands of the shell's table, and commands that only debuggers have."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

import ompd
from ompd import naming
from ompd.commands.options import OWN
from ompd.commands.table import COMMANDS as TABLE
from ompd.commands.table import Command
from ompd.errors import BadInput, OmpdError
from ompd.frontends.debugger import Debugger
from ompd.frontends.printing import format_printed
from ompd.frontends.prompt import (
    OMPD_LIBRARY,
    Flag,
    clean_lines,
    flags_of,
    format_help,
    format_reply,
    format_runtimes,
    split_options,
    split_words,
)
from ompd.frontends.selecting import (
    format_current,
    format_selected,
    innermost_of_users,
    member_of,
    native_of,
    region_of,
)
from ompd.frontends.walker import Runner, Walker
from ompd.frontends.walking import FINISH, WALKS, BreakRequest, format_threads
from ompd.questions import printing
from ompd.questions.printing import At
from ompd.records import record
from ompd.render.words import describe_snapshot, format_count

D = TypeVar("D", bound=Debugger, contravariant=True)

LIBRARY = Flag(OMPD_LIBRARY, "ompd-library", None, "Let an OMPD library answer.", "FILE|named")
"""The option of the commands that are not in the table."""


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
    """A command at the prompt of a debugger. ``examples`` are words after ``ompd``, each with what is printed."""

    name: str
    summary: str
    explanation: str
    examples: Sequence[tuple[str, str]] = ()
    flags: Sequence[Flag] = ()
    argument: Argument | None = None
    completes_argument = False

    @abstractmethod
    def run(self, debugger: D, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Run the command, and return its output.

        :param words: the words that are no options
        :param options: the values of options by parameter name, True for an option without a value
        """

    def help(self, prompt: str) -> str:
        """Return the help of the command."""
        return format_help(prompt, self.explanation, self.examples, self.flags)

    def option_values(self, debugger: D, option: str) -> Sequence[str]:
        """Return the possible values of *option*, a long name, empty if they cannot be listed."""
        if option == LIBRARY.long:
            return ("named",)
        choices = next((flag.choices for flag in self.flags if flag.long == option), ())
        return choices or (debugger.thread_numbers() if option == "thread" else ())

    def argument_values(self, debugger: D) -> Sequence[str]:
        """Return the possible values of the argument, empty if they cannot be listed."""
        return ()


def reply_to(command: PromptCommand[D], debugger: D, typed: str | Sequence[str]) -> str:
    """Return the output of *command*, or its help if *typed* has ``-h`` or ``--help``.

    :param typed: the text after the command's name, or its words
    :raises Refused: if the command fails; no other exception is raised
    """
    words: list[str] = []
    try:
        words = split_words(typed) if isinstance(typed, str) else list(typed)
        if "--help" in words or "-h" in words:
            return command.help(debugger.prompt)
        arguments, options = split_options(command.name, command.flags, words)
        if arguments and command.argument is None:
            raise BadInput(f"{command.name} takes no {arguments[0]!r}", hint=f"ompd {command.name}")
        return command.run(debugger, arguments, options)
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
        self.name, self.summary, self.explanation = command.name, command.summary, command.help
        self.flags = flags_of(command)
        self.argument = Argument("name") if command.argument is not None else None
        example_argument = command.argument.example if command.argument is not None else ""
        self.examples = [(f"{command.name} {command.example_words or example_argument}".rstrip(), command.example)]
        self._command = command

    def run(self, debugger: Debugger, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Return the answer."""
        values, argument = dict(options), self._command.argument
        if argument is not None:
            if not words:
                raise BadInput(
                    f"{self.name} needs {argument.metavar}: {argument.help}",
                    hint=f"ompd {self.name} {argument.example}",
                )
            if len(words) > 1:
                raise BadInput(f"{self.name} takes no {words[1]!r}", hint=f"ompd {self.name} {argument.example}")
            values[OWN + argument.name] = words[0]
        session = debugger.session(options.get(OMPD_LIBRARY, self._command.ompd_library))
        return format_reply(self._command, session, values, debugger.screen(), debugger.indices())


class ThreadCommand(PromptCommand[Debugger]):
    """``ompd thread N``: select a thread by its OpenMP number, and its innermost user frame."""

    name = "thread"
    summary = "Select a thread of the team by its OpenMP number."
    explanation = (
        "Selects the thread that has an OpenMP thread number, in the team of the thread that is selected now: that of"
        " its innermost region, or with --level that of an enclosing one; and in it the innermost frame of your code."
        " Without a number it says which thread is selected."
    )
    examples = (("thread 2", ""), ("thread --level 1 0", ""))
    flags = (Flag("level", "level", "l", "Take the team of the enclosing region at this level.", "N"), LIBRARY)
    argument = Argument("number", "optional")
    completes_argument = True

    def run(self, debugger: Debugger, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Select the thread, and return its place; without a number, describe the selected thread."""
        if len(words) > 1:
            raise BadInput("thread takes the OpenMP number of a thread", hint="ompd thread 2; ompd threads shows them")
        if words and not words[0].isdecimal():
            raise BadInput(f"{words[0]!r} is not an OpenMP thread number")
        session = debugger.session(options.get(OMPD_LIBRARY))
        selected = debugger.selected_thread()
        if not words and "level" not in options:
            return f"{format_current(session, selected, debugger.thread_name(selected))}\n{debugger.where()}"
        number = int(words[0]) if words else 0
        region = region_of(session, selected, options.get("level"))
        thread = member_of(region, selected, number)
        name = debugger.thread_name(thread)
        begins = any(row.native_thread_id == thread and row.about_to_begin for row in session.ask_threads().rows)
        frame = innermost_of_users(session, thread)
        debugger.select_thread(thread)
        has_frame = frame is not None and debugger.select_frame(frame, session.target.architecture.sp)
        return f"{format_selected(region, number, name, begins, has_frame)}\n{debugger.where()}"

    def argument_values(self, debugger: Debugger) -> Sequence[str]:
        """Return the numbers of the team."""
        return debugger.thread_numbers()


class PrintCommand(PromptCommand[Debugger]):
    """``ompd print NAME``: a variable as the code of the selected thread sees it."""

    name = "print"
    summary = "Print a variable as the code of the selected thread sees it."
    explanation = (
        "Prints a variable that the code of the selected frame sees, in the selected thread: one of its function, of"
        " the function around its region's code, on whichever thread's stack that is, or a static one, of which a"
        " thread may have its own copy. NAME may select a part (x.member[2], *p). Nothing is called in the program."
    )
    examples = (("print total", "total = 12   (int, shared)"), ("print --thread 1 grid.cells[2]", ""))
    flags = (
        Flag(
            "thread",
            "thread",
            "t",
            "In the thread with this native id or, if there is none, with this OpenMP number in the team.",
            "N",
        ),
        Flag("frame", "frame", "f", "In the frame with this number of ompd stack, in place of the selected one.", "N"),
        Flag("verbose", "verbose", "v", "Print its address, too."),
        LIBRARY,
    )
    argument = Argument("name", "plus")

    def run(self, debugger: Debugger, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Return the variable's line."""
        if not words:
            raise BadInput("print needs NAME: the variable's name in the source", hint="ompd print counter")
        variable = " ".join(words)  # a debugger splits `* p` and `x [2]` at spaces
        session = debugger.session(options.get(OMPD_LIBRARY))
        selected = debugger.selected_thread()
        thread, frame_number, place = native_of(session, selected, options.get("thread")), options.get("frame"), None
        if thread == selected and frame_number is None:
            frame = debugger.selected_frame(session.target.architecture.sp)
            place = At(frame[0], _source_function(frame[1])) if frame is not None else None
        printed = session.ask(lambda asked: printing.ask(asked, variable, thread, place, frame_number))
        return format_printed(printed, thread, "verbose" in options)


def _source_function(name: str) -> str | None:
    outlined = naming.parse_outlined(name)
    return outlined.parent if outlined is not None else name


class SnapshotCommand(PromptCommand[Debugger]):
    """``ompd snapshot FILE``: write a small core of the process."""

    name = "snapshot"
    summary = "Write a small core to send to somebody else."
    explanation = (
        "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
        " command works on it, without those files."
    )
    examples = (("snapshot small.core", ""),)
    flags = (
        Flag("output", "output", "o", "The file to write, as in the shell.", "FILE"),
        Flag("keep_env", "keep-env", None, "Keep the whole environment and the folders in arguments."),
        Flag("with_source", "with-source", None, "Keep a few lines of source around the places of threads."),
        LIBRARY,
    )
    argument = Argument("file")

    def run(self, debugger: Debugger, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Write the file, and return a description of it."""
        files = [*words, *([options["output"]] if "output" in options else [])]
        if len(files) != 1:
            raise BadInput("snapshot takes the name of the file to write", hint="ompd snapshot small.core")
        session = debugger.session(options.get(OMPD_LIBRARY))
        snapshot = session.snapshot(
            files[0], keep_environment="keep_env" in options, keep_source="with_source" in options
        )
        problems = [f"ompd: warning: {problem}" for problem in snapshot.problems]
        return "\n".join([describe_snapshot(snapshot), *problems])


class SwitchCommand(PromptCommand[D]):
    """A setting: ``on`` or ``off`` changes it; without a word the command prints it."""

    argument = Argument("switch", "optional")
    completes_argument = True

    def run(self, debugger: D, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Change the setting if there is a word, and return the setting."""
        if list(words) not in (["on"], ["off"], []):
            raise BadInput("expected on or off", hint=f"ompd {self.name} on")
        if words:
            self.switch(debugger, words[0] == "on")
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
    explanation = (
        "With `on`, each stop prints a line: how many threads are in how many regions, and what they do. A line also"
        " says when an OpenMP runtime begins; the program does not stop there."
    )
    examples = (("auto on", ""),)

    def switch(self, debugger: Debugger, on: bool) -> None:
        """Start or stop printing a line at each stop."""
        debugger.print_stops(on)

    def describe(self, debugger: Debugger) -> str:
        """Return the current setting."""
        return "on" if debugger.prints_stops else "off"


class StatusCommand(PromptCommand[D]):
    """``ompd status``: versions, process, runtimes and settings. Each debugger adds lines."""

    name = "status"

    def run(self, debugger: D, words: Sequence[str], options: Mapping[str, Any]) -> str:
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

    name = "break"
    summary = "Stop at a line or function, once in a region's code, by OpenMP number if wanted."
    explanation = (
        "Sets a breakpoint. LOCATION is what the debugger takes, as prog.c:12 or a function. At a line of a region or"
        " task the breakpoint is in the code that the threads execute, not in the code that begins the region. With"
        " --thread the program stops for the thread with that number in the team of its innermost region, with --level"
        " as well in that of the region at that level; --level alone is for regions of that level."
    )
    examples: Sequence[tuple[str, str]] = (("break prog.c:12 --thread 1", ""),)
    flags = (
        Flag("thread", "thread", None, "Only for the thread with this OpenMP number.", "N", former="omp-thread"),
        Flag("level", "level", "l", "In the team of the region at this level.", "N"),
    )
    argument = Argument("name")

    def run(self, debugger: D, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Set the breakpoints, and return a line for each."""
        if not words:
            raise BadInput("break needs LOCATION: a line or function", hint="ompd break prog.c:12 --thread 1")
        debugger.check_runs(hint="the debugger's own sets one for a program that is run later")
        request = BreakRequest(" ".join(words), options.get("thread"), options.get("level"))
        return "\n".join(description + format_threads(request) for description in self.set(debugger, request))

    @abstractmethod
    def set(self, debugger: D, request: BreakRequest) -> Sequence[str]:
        """Set the breakpoints, and return the debugger's description of each."""


class WalkCommand(PromptCommand[D]):
    """``ompd step``, ``next`` or ``finish``: through the code of regions and tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summary, self.explanation = WALKS[name]
        self.examples = ((name, ""),)
        if name != FINISH:
            self.flags = (Flag("only", "only", "o", "The other threads stand meanwhile, unless a region begins."),)

    def run(self, debugger: D, words: Sequence[str], options: Mapping[str, Any]) -> str:
        """Run the program, and return the place where it stopped."""
        debugger.check_runs()
        debugger.session()  # raises an error with the reason if the program cannot be inspected
        with self.runner(debugger) as runner:
            outcome = Walker(debugger, runner, debugger.selected_thread(), only="only" in options).walk(self.name)
            return "\n".join(text for text in (outcome, *runner.report()) if text)

    @abstractmethod
    def runner(self, debugger: D) -> AbstractContextManager[Runner]:
        """Return the object that runs the program until the end of the ``with`` statement."""


SHARED: Sequence[PromptCommand[Debugger]] = (
    *(TableCommand(command) for command in TABLE),
    ThreadCommand(),
    PrintCommand(),
    SnapshotCommand(),
    AutoCommand(),
)
"""The commands that are the same in each debugger."""
