"""Frames that LLDB hides in ``bt``, ``up`` and ``down``: those of OpenMP runtimes and the frames around them.

LLDB 20 and later ask a recogniser whether to hide a frame. Expressions on file and function choose the recogniser. Our
recognisers hide three kinds of frames: frames of a runtime, in its own file or linked into a module of the user; frames
of the C library that the runtime called, or that began its thread; and clang's frames around the body of a construct.
``bt -u`` shows all frames. LLDB keeps the numbers of frames, and always shows the selected frame. Frame 0 is never
hidden: ``up`` from a hidden frame would skip no frames.

If the runtime began a thread, two frames of the runtime stay visible in it, so that ``up`` always has a frame to go to.
One is the runtime's outermost frame, which identifies the thread. The other is the frame that called the user's code,
in which ``finish`` ends with or without these recognisers. LLDB asks once per frame, and keeps the answer while the
frame exists. So the answer must not depend on the function that the frame currently calls.

LLDB makes the recognisers by name and without arguments. It adds and lists them only by its commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN, USER
from ompd.contract.process import is_system_file
from ompd.frontends.wrappers import is_wrapper
from ompd.records import record

_CODE_SYMBOL = 2  # lldb.eSymbolTypeCode; stubs of the procedure linkage table are of another type
# The most frames to examine for one frame of a thread. Stacks of runtime frames only have some ten.
_MOST_FRAMES = 64

# Expressions on names as LLDB shows them. They are valid for LLDB (POSIX) and for Python. Matching frames are examined
# further.
_SYSTEM_NAME = (
    "^(__GI_)?_*(futex_[a-z0-9_]+|do_futex_wait|lll_[a-z_]*lock[a-z0-9_]*|(new_)?sem_[a-z0-9_]+"
    "|pthread_(create|cond|mutex|rwlock|barrier|spin|once|join|clockjoin|timedjoin)[a-z0-9_]*|create_thread"
    "|sched_yield|syscall|p?select|p?poll|(clock_)?nanosleep|usleep|start_thread|clone3?(_internal)?)([.@].*)?$"
)
_UNNAMED = "^___lldb_unnamed_symbol"

_SYSTEM = re.compile(_SYSTEM_NAME)


def side_of(frame: Any) -> str:
    """Return the owner of the code of an ``SBFrame``, a constant of :mod:`ompd.contract.code_owners`."""
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
        # A function of the user may have such a name, too.
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
    # Yield the owners of the frames around *frame*, going outwards (1) or inwards (-1).
    thread, index = frame.GetThread(), frame.GetFrameID()
    for _ in range(_MOST_FRAMES):
        index += step
        neighbour = thread.GetFrameAtIndex(index) if index >= 0 else None
        if neighbour is None or not neighbour.IsValid():
            return
        yield side_of(neighbour)


def _next_side(frame: Any, step: int, *passed: str) -> str | None:
    # Return the first owner on the way from *frame* that is not in *passed*, None if there is none.
    return next((side for side in _sides(frame, step) if side not in passed), None)


class _Recognizer:
    """A recogniser, which LLDB asks about frames that match the expressions. After an error the frame is shown."""

    def get_recognized_arguments(self, frame: Any) -> list[Any]:
        """Return an empty list: LLDB shows no further arguments."""
        return []

    def should_hide(self, frame: Any) -> bool:
        """Return whether LLDB hides *frame*, False after an error."""
        with suppress(BaseException):
            return frame.GetFrameID() > 0 and self.hides(frame)
        return False

    def hides(self, frame: Any) -> bool:
        """Return whether this recogniser hides *frame*."""
        raise NotImplementedError


class OpenMPRuntimeFrames(_Recognizer):
    """The frames of a runtime. In a thread that the runtime began, two of the runtime's frames stay visible."""

    def hides(self, frame: Any) -> bool:
        """Return whether *frame* is a frame of the runtime that does not have to stay visible."""
        return side_of(frame) == RUNTIME and not self._stays(frame)

    def _stays(self, frame: Any) -> bool:
        is_between = _next_side(frame, -1) not in (USER, UNKNOWN) and _next_side(frame, 1) == RUNTIME
        return not is_between and _next_side(frame, 1, RUNTIME, SYSTEM) is None


class SystemFramesOfOpenMP(_Recognizer):
    """The frames of the C library that the runtime called, or that began a thread of the runtime."""

    def hides(self, frame: Any) -> bool:
        """Return whether *frame* is the C library's, and the next outer frame with another owner is the runtime's. If
        all outer frames are the C library's, the next inner frame with another owner decides.
        """
        if side_of(frame) != SYSTEM:
            return False
        outer = _next_side(frame, 1, SYSTEM)
        return (outer or _next_side(frame, -1, SYSTEM)) == RUNTIME


class ClangWrapperFrames(_Recognizer):
    """Clang's frames around the body of a construct: outlined functions that call another one, and entries of tasks."""

    def hides(self, frame: Any) -> bool:
        """Return whether the function of *frame* only calls the body of a construct, which is the next inner frame."""
        index = frame.GetFrameID()
        if index == 0 or frame.IsInlined():
            return False
        inner = frame.GetThread().GetFrameAtIndex(index - 1)
        # LLDB adds parameters to some names. The frame of an inlined function has the symbol of the enclosing function.
        names = [(inner.GetFunctionName() or "").partition("(")[0]]
        return is_wrapper(_symbol(frame), names if inner.IsInlined() else [*names, _symbol(inner)])


RECOGNIZERS = (OpenMPRuntimeFrames, SystemFramesOfOpenMP, ClangWrapperFrames)


@record
class Rule:
    """A recogniser, and the frames for which LLDB asks it: expressions that match the file and the function."""

    recognizer: type[_Recognizer]
    file: str
    function: str


def runtime_file_expression() -> str:
    """Return the expression for files of OpenMP runtimes in the syntax of LLDB, which is POSIX's."""
    return naming.RUNTIME_FILE.pattern.replace("(?:", "(").replace(r"\d", "[0-9]")


# LLDB uses the first matching rule, and tries the rule that was added last first.
RULES = (
    Rule(OpenMPRuntimeFrames, ".*", naming.RUNTIME_EXPRESSION),
    Rule(SystemFramesOfOpenMP, ".*", f"{_SYSTEM_NAME}|{_UNNAMED}"),
    Rule(ClangWrapperFrames, ".*", naming.CLANG_EXPRESSION),
    Rule(OpenMPRuntimeFrames, runtime_file_expression(), ".*"),
)
