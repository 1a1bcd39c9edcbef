"""Adds and removes ompd's recognisers of frames, which LLDB does only by its commands."""

from __future__ import annotations

import re
from typing import Any

from ompd.lldb.debugger import Lldb, run_command, targets_of
from ompd.lldb.frames import RECOGNIZERS, RULES

_LISTED = re.compile(r"^(\d+): (\[disabled\] )?([^\s,]+), ", re.MULTILINE)


class Hiding:
    """ompd's recognisers in the targets of one debugger."""

    def __init__(self, debugger: Lldb) -> None:
        self._debugger, self._module = debugger.debugger, debugger.state.module

    def is_on(self) -> bool:
        """Return whether the selected target has all recognisers. Without a target: whether new targets get them."""
        target = self._debugger.GetSelectedTarget()
        return self._has_all(target if target.IsValid() else self._debugger.GetDummyTarget())

    def switch(self, on: bool) -> None:
        """Add ompd's recognisers to all targets, present and future, or remove them. Other recognisers stay."""
        for target in targets_of(self._debugger):
            if on and self._has_all(target):
                continue
            for number, _ in self._listed(target):
                run_command(self._debugger, f"frame recognizer delete {number}", target)
            for rule in RULES if on else ():
                name = f"{self._module}.{rule.recognizer.__name__}"
                options = f"-x -s '{rule.file}' -n '{rule.function}' -f false"
                run_command(self._debugger, f"frame recognizer add -l {name} {options}", target)

    def _has_all(self, target: Any) -> bool:
        listed = self._listed(target)
        return len(listed) == len(RULES) and all(is_enabled for _, is_enabled in listed)

    def _listed(self, target: Any) -> list[tuple[int, bool]]:
        # Return the number of each of ompd's recognisers, and whether it is enabled.
        names = {f"{self._module}.{recognizer.__name__}" for recognizer in RECOGNIZERS}
        rows = _LISTED.findall(run_command(self._debugger, "frame recognizer list", target))
        return [(int(number), not disabled) for number, disabled, name in rows if name in names]
