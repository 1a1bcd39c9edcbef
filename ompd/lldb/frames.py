"""What LLDB leaves out of ``bt``, ``up`` and ``down``: the frames of OpenMP runtimes, and what belongs to them.

LLDB 20 and later ask a recogniser, which expressions choose by a frame's file and function, whether to hide a frame.
Ours hide frames of a runtime's file, those of a runtime that is linked into a module of the user's, the C library's
where the runtime called it or began a thread with it, and what clang puts around the body of a construct. ``bt -u``
shows them all. LLDB keeps the numbers, and shows the frame that is selected whatever we say. Frame 0 is never hidden:
where ``up`` begins in a hidden frame it passes none by.

Of a thread that the runtime began two frames stay, so that there is always something left to go out to: the outermost
of the runtime's, by which the thread is known, and the one that called the user's code, where ``finish`` ends as it
does without us. LLDB asks about a frame once and keeps the answer as long as the frame lives: what is hidden must not
depend on what the frame calls now and then.

The recognisers are made by LLDB, by name and without arguments; it has no way to add or list them but its commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN, USER
from ompd.contract.process import is_system_file
from ompd.records import record

_CODE_SYMBOL = 2  # lldb.eSymbolTypeCode; stubs of the procedure linkage table are of another type
# How far a thread's frames are followed for one of them. Stacks of the runtime's alone have some ten.
_MOST_FRAMES = 64

# Expressions that LLDB (POSIX) and Python both read, of names as LLDB shows them. What they let through is looked at.
_SYSTEM_NAME = (
    "^(__GI_)?_*(futex_[a-z0-9_]+|do_futex_wait|lll_[a-z_]*lock[a-z0-9_]*|(new_)?sem_[a-z0-9_]+"
    "|pthread_(create|cond|mutex|rwlock|barrier|spin|once|join|clockjoin|timedjoin)[a-z0-9_]*|create_thread"
    "|sched_yield|syscall|p?select|p?poll|(clock_)?nanosleep|usleep|start_thread|clone3?(_internal)?)([.@].*)?$"
)
_UNNAMED = "^___lldb_unnamed_symbol"

_SYSTEM = re.compile(_SYSTEM_NAME)


def side_of(frame: Any) -> str:
    """Return whose code an ``SBFrame`` is in, in the words of :mod:`ompd.contract.code_owners`."""
    module = frame.GetModule()
    name = module.GetFileSpec().GetFilename()
    if not name:
        return UNKNOWN
    if naming.is_runtime_file(name):
        return RUNTIME
    if is_system_file(name):
        return SYSTEM
    symbol = _symbol(frame)
    has_line = frame.GetLineEntry().IsValid()
    if naming.is_runtime_symbol(symbol) and _defines(module, *naming.FORKS):
        # A function of the user's may be called alike.
        return RUNTIME if naming.is_reserved(symbol) or not has_line else USER
    if has_line or naming.is_construct(symbol):
        return USER
    if not (_defines(module, *naming.FORKS) and _defines(module, "__libc_start_main")):
        return USER
    return SYSTEM if _SYSTEM.search(symbol) else UNKNOWN  # in a static program


def _symbol(frame: Any) -> str:
    symbol = frame.GetSymbol()
    return symbol.GetMangledName() or symbol.GetName() or ""


def _defines(module: Any, *names: str) -> bool:
    return any(module.FindSymbol(name, _CODE_SYMBOL).IsValid() for name in names)


def _sides(frame: Any, step: int) -> Iterator[str]:
    # Whose frames come after *frame*, outwards (1) or inwards (-1).
    thread, index = frame.GetThread(), frame.GetFrameID()
    for _ in range(_MOST_FRAMES):
        index += step
        found = thread.GetFrameAtIndex(index) if index >= 0 else None
        if found is None or not found.IsValid():
            return
        yield side_of(found)


def _next_side(frame: Any, step: int, *passed: str) -> str | None:
    # Whose the first frame after *frame* is that is none of *passed*, None if there is none.
    return next((side for side in _sides(frame, step) if side not in passed), None)


class _Recognizer:
    """What LLDB asks about each frame that fits the expressions. No error may reach it: then a frame is shown."""

    def get_recognized_arguments(self, frame: Any) -> list[Any]:
        """Return the arguments that LLDB is to show besides those it knows: none."""
        return []

    def should_hide(self, frame: Any) -> bool:
        """Tell LLDB whether to leave *frame* out."""
        with suppress(BaseException):
            return frame.GetFrameID() > 0 and self.hides(frame)
        return False

    def hides(self, frame: Any) -> bool:
        """Return whether *frame* is to be left out."""
        raise NotImplementedError


class OpenMPRuntimeFrames(_Recognizer):
    """The frames of a runtime, but for those of its own threads that stay."""

    def hides(self, frame: Any) -> bool:
        """Return whether *frame* is the runtime's, and not one that stays."""
        return side_of(frame) == RUNTIME and not self._stays(frame)

    def _stays(self, frame: Any) -> bool:
        is_between = _next_side(frame, -1) not in (USER, UNKNOWN) and _next_side(frame, 1) == RUNTIME
        return not is_between and _next_side(frame, 1, RUNTIME, SYSTEM) is None


class SystemFramesOfOpenMP(_Recognizer):
    """The frames of the C library that the runtime called, or that began a thread of the runtime's."""

    def hides(self, frame: Any) -> bool:
        """Return whether the runtime is around *frame*: outwards, else inwards if nothing but the library is
        outwards."""
        if side_of(frame) != SYSTEM:
            return False
        outer = _next_side(frame, 1, SYSTEM)
        return (outer or _next_side(frame, -1, SYSTEM)) == RUNTIME


class ClangWrapperFrames(_Recognizer):
    """What clang puts around the body of a construct: an outlined function that calls another, the entry of a task."""

    def hides(self, frame: Any) -> bool:
        """Return whether *frame* does nothing but call the body, which is the next frame inwards."""
        index = frame.GetFrameID()
        if index == 0 or frame.IsInlined():
            return False
        inner = frame.GetThread().GetFrameAtIndex(index - 1)
        # The symbol of an inlined function's frame is that of what it was inlined in.
        names = [inner.GetFunctionName() or "", *([] if inner.IsInlined() else [_symbol(inner)])]
        wrapper = _symbol(frame)
        if naming.is_task_entry(wrapper):
            return any(_is_outlined(name) and not naming.is_body(_plain(name)) for name in names)
        return (
            _is_outlined(wrapper)
            and not naming.is_body(_plain(wrapper))
            and any(_is_outlined(name) and naming.is_body(_plain(name)) for name in names)
        )


def _plain(name: str) -> str:
    # LLDB shows some names with the function's parameters.
    return name.partition("(")[0]


def _is_outlined(name: str) -> bool:
    known = naming.parse_outlined(_plain(name))
    return known is not None and known.construct != "task" and not naming.is_by_gcc(name)


RECOGNIZERS = (OpenMPRuntimeFrames, SystemFramesOfOpenMP, ClangWrapperFrames)


@record
class _Rule:
    """A recogniser, and the names of files and functions that it is asked about."""

    recognizer: type[_Recognizer]
    file: str
    function: str


_LISTED = re.compile(r"^(\d+): (\[disabled\] )?([^\s,]+), ", re.MULTILINE)


def runtime_file_expression() -> str:
    """Return the expression for files of OpenMP runtimes as LLDB reads them, which is as POSIX has them."""
    return naming.RUNTIME_FILE.pattern.replace("(?:", "(").replace(r"\d", "[0-9]")


# LLDB takes the first that fits, beginning with the last that was added.
_RULES = (
    _Rule(OpenMPRuntimeFrames, ".*", naming.RUNTIME_EXPRESSION),
    _Rule(SystemFramesOfOpenMP, ".*", f"{_SYSTEM_NAME}|{_UNNAMED}"),
    _Rule(ClangWrapperFrames, ".*", naming.CLANG_EXPRESSION),
    _Rule(OpenMPRuntimeFrames, runtime_file_expression(), ".*"),
)


class Frames:
    """Our recognisers in the targets of one debugger.

    :param run: runs one of LLDB's commands for a target, and returns what it prints
    :param module: the name by which LLDB has the module that has the classes
    """

    def __init__(self, debugger: Any, run: Callable[[str, Any], str], module: str) -> None:
        self._debugger = debugger
        self._run = run
        self._module = module

    def are_on(self) -> bool:
        """Return whether the target that is selected has them; without one, whether those to come will."""
        target = self._debugger.GetSelectedTarget()
        return self._has_all(target if target.IsValid() else self._debugger.GetDummyTarget())

    def switch(self, on: bool) -> None:
        """Add ours to every target, also to those that are made later, or remove them. Those of others stay."""
        # The dummy is what every target is copied from that is made later.
        targets = (self._debugger.GetTargetAtIndex(number) for number in range(self._debugger.GetNumTargets()))
        for target in (self._debugger.GetDummyTarget(), *targets):
            if on and self._has_all(target):
                continue
            for number, _ in self._ours(target):
                self._run(f"frame recognizer delete {number}", target)
            for rule in _RULES if on else ():
                name = f"{self._module}.{rule.recognizer.__name__}"
                chosen = f"-x -s '{rule.file}' -n '{rule.function}' -f false"
                self._run(f"frame recognizer add -l {name} {chosen}", target)

    def _has_all(self, target: Any) -> bool:
        ours = self._ours(target)
        return len(ours) == len(_RULES) and all(enabled for _, enabled in ours)

    def _ours(self, target: Any) -> list[tuple[int, bool]]:
        # By number, and whether they are enabled.
        names = {f"{self._module}.{recognizer.__name__}" for recognizer in RECOGNIZERS}
        listed = _LISTED.findall(self._run("frame recognizer list", target))
        return [(int(number), not disabled) for number, disabled, name in listed if name in names]
