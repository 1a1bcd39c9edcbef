"""Completion in shells: click's own, with which a shell runs ``ompd`` at each TAB (:mod:`click.shell_completion`)."""

from __future__ import annotations

import glob

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

import ompd
from ompd.commands.completing import VARIABLE

MARK = "made by `ompd completion"
"""Text in the head of each file, the same in all releases."""

# The installed click generates the shell functions, because their protocol differs between releases of click.
_BASH = f"""\
eval "$({VARIABLE}=bash_source ompd)"
"""
_ZSH = f"""\
_ompd() {{
    if (( ! $+functions[_ompd_completion] )); then
        eval "$({VARIABLE}=zsh_source ompd)"
        compdef _ompd ompd
    fi
    # Of --option=value the value is completed: _path_files needs that.
    compset -P '--*='
    _ompd_completion "$@"
}}

# This file is found in fpath, or read by `source`.
if [[ $funcstack[1] == _ompd ]]; then
    _ompd "$@"
else
    compdef _ompd ompd
fi
"""
_FISH = f"""\
{VARIABLE}=fish_source ompd | source
"""
_FILES = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
SHELLS = tuple(_FILES)


def format_completion(shell: str) -> str:
    """Return the file for a shell."""
    first = "#compdef ompd\n" if shell == "zsh" else ""
    return f"{first}# Completion of ompd {ompd.__version__} in {shell}, {MARK} {shell}`.\n{_FILES[shell]}"


class _Bash(BashComplete):
    # bash splits --option=value into three words. click expects the value directly behind the option, so the word "="
    # is left out.

    def get_completion_args(self) -> tuple[list[str], str]:
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], incomplete


class _WithOption(ShellComplete):
    # zsh and fish replace the whole word --option=value by a completion, so each completion begins with the option.

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        completions = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("--"):
            for item in completions:
                item.value = f"{option}={item.value}"
        return completions


class _Zsh(_WithOption, ZshComplete):
    pass


class _Fish(_WithOption, FishComplete):
    # fish's function for files does not complete a file in --option=value.

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        completions = super().get_completions(args, incomplete)
        option, equals, start = incomplete.partition("=")
        kinds = {each.type for each in completions} - {"plain"}
        if not equals or not option.startswith("--") or not kinds:
            return completions
        pattern = f"{glob.escape(start)}*" + ("/" if kinds == {"dir"} else "")
        return [*completions, *(CompletionItem(f"{option}={path}") for path in glob.glob(pattern))]  # noqa: PTH207


def answer_shells() -> None:
    """Register completion classes with click that handle ``--option=value`` for each shell."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)
