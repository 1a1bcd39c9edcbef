"""Files by which shells complete what is typed after ``ompd``. No shell starts Python for that: the words are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import ompd
from ompd.commands.setup.words import FILE, FOLDER, NOTHING, TARGET, Leaf, Switch, Value
from ompd.commands.table import DEFAULT

MARK = "made by `ompd completion"
"""What the head of each file contains, whichever release made it."""


def format_completion(shell: str, commands: Sequence[Leaf], own: Sequence[Switch]) -> str:
    """Return the file for a shell.

    :param own: the options of ``ompd`` itself
    """
    head = f"# Completion of ompd {ompd.__version__} in {shell}, {MARK} {shell}`.\n"
    return "".join(f"{line}\n" for line in SHELLS[shell](head.rstrip(), commands, own))


def _groups(commands: Sequence[Leaf]) -> dict[str, list[Leaf]]:
    # Commands that have commands of their own.
    found: dict[str, list[Leaf]] = {}
    for leaf in commands:
        if len(leaf.words) > 1:
            found.setdefault(leaf.words[0], []).append(leaf)
    return found


def _first_words(commands: Sequence[Leaf]) -> dict[str, str]:
    # What can be typed first, with what it does.
    groups = _groups(commands)
    return {
        leaf.words[0]: leaf.summary if leaf.words[0] not in groups else "Commands: " + ", ".join(
            each.words[1] for each in groups[leaf.words[0]]
        )
        for leaf in commands
    }  # fmt: skip


# bash


def _bash(head: str, commands: Sequence[Leaf], own: Sequence[Switch]) -> Iterator[str]:
    groups = _groups(commands)
    valued = sorted({word for leaf in commands for switch in leaf.switches if switch.value for word in switch.words})
    yield head
    yield ""
    yield "_ompd() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}"
    yield "    local command= kind= words= place=0 i"
    yield "    COMPREPLY=()"
    yield "    # bash takes --option=value apart."
    yield "    if [[ $word == '=' ]]; then"
    yield "        word="
    yield "    elif [[ $before == '=' ]]; then"
    yield "        before=${COMP_WORDS[COMP_CWORD - 2]}"
    yield "    fi"
    yield "    for ((i = 1; i < COMP_CWORD; i++)); do"
    yield "        case $command:${COMP_WORDS[i]} in"
    yield f"            {_alternatives(f'*:{word}' for word in valued)})"
    yield "                ((i++))"
    yield "                [[ ${COMP_WORDS[i]} == '=' ]] && ((i++)) ;;"
    yield "            *:-*) ;;"
    plain = list(_first_words(commands))
    yield f"            {_alternatives(f':{word}' for word in plain)})"
    yield "                command=${COMP_WORDS[i]} ;;"
    for name, inner in groups.items():
        yield f"            {_alternatives(f'{name}:{leaf.words[1]}' for leaf in inner)})"
        yield f'                command="{name} ${{COMP_WORDS[i]}}" ;;'
    yield "            :*)"
    yield f"                command={DEFAULT} place=1 ;;"
    yield "            *)"
    yield "                ((place++)) ;;"
    yield "        esac"
    yield "    done"
    yield "    case $command:$before in"
    for pattern, value in _values(commands):
        yield f"        {pattern})"
        yield f"            {_bash_value(value)} ;;"
    yield "    esac"
    yield "    if [[ -z $kind && $word == -* ]]; then"
    yield "        kind=words"
    yield "        case $command in"
    yield f"            '') words='{_joined(own)}' ;;"
    for name in groups:
        yield f"            {name}) words='{_joined(own[-1:])}' ;;"
    for leaf in commands:
        yield f"            {_quoted(leaf.name)}) words='{_joined(leaf.switches)}' ;;"
    yield "        esac"
    yield "    elif [[ -z $kind ]]; then"
    yield "        kind=nothing"
    yield "        case $command:$place in"
    yield f"            :*) kind=target words='{' '.join(plain)}' ;;"
    for name, inner in groups.items():
        yield f"            {name}:*) kind=words words='{' '.join(leaf.words[1] for leaf in inner)}' ;;"
    for leaf in commands:
        for number, (_, value) in enumerate(leaf.arguments):
            if value.kind != NOTHING or value.choices:
                yield f"            {_quoted(f'{leaf.name}:{number}')}) {_bash_value(value)} ;;"
    yield "        esac"
    yield "    fi"
    yield "    # Names of files are left to bash, which knows how they are quoted: `complete -o default`."
    yield "    case $kind in"
    yield f"        {TARGET})"
    yield "            if [[ $word == [0-9]* ]]; then"
    yield "                words+=\" $(cd /proc && printf '%s ' [0-9]*)\""
    yield "            fi ;;"
    yield f"        {FOLDER})"
    yield "            compopt -o filenames 2>/dev/null"
    yield '            mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;'
    yield f"        {NOTHING} | words)"
    yield "            compopt +o default 2>/dev/null ;;"
    yield "    esac"
    yield "    if [[ -n $words ]]; then"
    yield '        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
    yield "    fi"
    yield "}"
    yield ""
    yield "complete -o default -F _ompd ompd"


def _alternatives(patterns: Iterable[str]) -> str:
    return " | ".join(map(_quoted, patterns))


def _quoted(pattern: str) -> str:
    return f"'{pattern}'" if " " in pattern else pattern


def _joined(own: Iterable[Switch]) -> str:
    return " ".join(word for switch in own for word in switch.words)


def _bash_value(value: Value) -> str:
    kind = value.kind if value.kind != NOTHING or not value.choices else "words"
    return f"kind={kind}" + (f" words='{' '.join(value.choices)}'" if value.choices else "")


def _values(commands: Sequence[Leaf]) -> Iterator[tuple[str, Value]]:
    # The options with values: what they can be, and for which commands if these do not agree.
    found: dict[tuple[str, ...], dict[Value, list[str]]] = {}
    for leaf in commands:
        for switch in leaf.switches:
            if switch.value is not None:
                found.setdefault(switch.words, {}).setdefault(switch.value, []).append(leaf.name)
    for words, values in found.items():
        for value, names in values.items():
            places = ["*"] if len(values) == 1 else names
            yield _alternatives(f"{place}:{word}" for place in places for word in words), value


# zsh


def _zsh(head: str, commands: Sequence[Leaf], own: Sequence[Switch]) -> Iterator[str]:
    groups = _groups(commands)
    yield "#compdef ompd"
    yield head
    yield ""
    yield "_ompd_target() {"
    yield "    if [[ $PREFIX == <-> ]]; then"
    yield "        local -a processes=(/proc/<->(N:t))"
    yield "        compadd -a processes"
    yield "    fi"
    yield "    _files"
    yield "}"
    yield ""
    yield "_ompd_first() {"
    yield "    local -a commands=("
    for name, summary in _first_words(commands).items():
        yield f"        '{_zsh_text(name)}:{_zsh_text(summary)}'"
    yield "    )"
    yield "    _describe -t commands command commands"
    yield "    _ompd_target"
    yield "}"
    yield ""
    yield "_ompd() {"
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    yield "    _arguments -C \\"
    for switch in own:
        yield f"        {_zsh_switch(switch)} \\"
    yield "        '1: :_ompd_first' '*:: :->rest'"
    yield "    [[ $state == rest ]] || return"
    yield "    case $words[1] in"
    for leaf in commands:
        if len(leaf.words) == 1:
            yield f"        {leaf.name}) {_zsh_arguments(leaf)} ;;"
    for name, inner in groups.items():
        yield f"        {name})"
        names = " ".join(leaf.words[1] for leaf in inner)
        yield f"            if ((CURRENT == 2)); then compadd {names}; return; fi"
        yield "            shift words"
        yield "            ((CURRENT--))"
        yield "            case $words[1] in"
        for leaf in inner:
            yield f"                {leaf.words[1]}) {_zsh_arguments(leaf)} ;;"
        yield "            esac ;;"
    yield f"        *) {_zsh_arguments(next(leaf for leaf in commands if leaf.name == DEFAULT), given=1)} ;;"
    yield "    esac"
    yield "}"
    yield ""
    yield "# This file is found in fpath, or read by `source`."
    yield "if [[ $funcstack[1] == _ompd ]]; then"
    yield '    _ompd "$@"'
    yield "else"
    yield "    compdef _ompd ompd"
    yield "fi"


def _zsh_text(text: str) -> str:
    # Within single quotes, and within the brackets and between the colons of _arguments.
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("'", "'\\''").replace("`", "\\`")


def _zsh_switch(switch: Switch) -> str:
    value = f":{_zsh_text(switch.metavar)}:{_zsh_action(switch.value)}" if switch.value is not None else ""
    text = f"'[{_zsh_text(switch.help)}]{value}'"
    mark = "*" if "may be repeated" in switch.help else ""
    end = "=" if switch.value is not None else ""
    words = [f"{word}{end}" if word.startswith("--") else f"{word}{'+' if end else ''}" for word in switch.words]
    if len(words) == 1:
        return f"'{mark}'{words[0]}{text}"
    return f"'({' '.join(switch.words)})'{{{','.join(words)}}}{text}"


def _zsh_action(value: Value) -> str:
    choices = f"({' '.join(value.choices)})" if value.choices else ""
    if value.kind == NOTHING:
        return choices or " "
    action = {FILE: "_files", FOLDER: "_files -/", TARGET: "_ompd_target"}[value.kind]
    return f"{{ compadd {' '.join(value.choices)}; {action} }}" if value.choices else action


def _zsh_arguments(leaf: Leaf, given: int = 0) -> str:
    # The word in front stands for the command; where there is none it is the first argument.
    found = [_zsh_switch(switch) for switch in leaf.switches]
    found += [f"':{_zsh_text(name)}:{_zsh_action(value)}'" for name, value in leaf.arguments[given:]]
    return f"_arguments {' '.join(found)}"


# fish


def _fish(head: str, commands: Sequence[Leaf], own: Sequence[Switch]) -> Iterator[str]:
    groups = _groups(commands)
    yield head
    yield ""
    yield "# The command that is typed, with a second word where it has commands of its own."
    yield "function __ompd_command"
    yield "    set -l words (commandline -opc)"
    yield "    for word in $words[2..-1]"
    yield "        switch $word"
    yield "            case '-*'"
    yield "                continue"
    yield f"            case {' '.join(word for word in _first_words(commands) if word not in groups)}"
    yield "                echo $word"
    yield "                return"
    for name in groups:
        yield f"            case {name}"
        yield "                set -l rest (string match -v -- '-*' $words[2..-1])"
        yield f"                echo {name} $rest[2]"
        yield "                return"
    yield "            case '*'"
    yield f"                echo {DEFAULT}"
    yield "                return"
    yield "        end"
    yield "    end"
    yield "    echo first"
    yield "end"
    yield ""
    yield "function __ompd_is"
    yield '    contains -- (string trim -- "$(__ompd_command)") $argv'
    yield "end"
    yield ""
    for name, summary in _first_words(commands).items():
        yield f"complete -c ompd -n '__ompd_is first' -a {name} -d {_fish_text(summary)}"
    for name, inner in groups.items():
        for leaf in inner:
            yield f"complete -c ompd -f -n '__ompd_is {name}' -a {leaf.words[1]} -d {_fish_text(leaf.summary)}"
    for switch in own:
        yield f"complete -c ompd -n '__ompd_is first' {_fish_switch(switch)}"
    shared: dict[Switch, list[str]] = {}
    for leaf in commands:
        for switch in leaf.switches:
            shared.setdefault(switch, []).append(leaf.name)
    for switch, names in shared.items():
        yield f"complete -c ompd -n '__ompd_is {_fish_names(names)}' {_fish_switch(switch)}"
    for leaf in commands:
        kinds = {value.kind for _, value in leaf.arguments}
        choices = [choice for _, value in leaf.arguments for choice in value.choices]
        if not kinds & {TARGET, FILE}:
            words = f" -a {_fish_text(' '.join(choices))}" if choices else ""
            yield f"complete -c ompd -f -n '__ompd_is {_fish_names([leaf.name])}'{words}"
    targets = [leaf.name for leaf in commands if any(value.kind == TARGET for _, value in leaf.arguments)]
    yield (
        f'complete -c ompd -n \'__ompd_is first {_fish_names(targets)}; and string match -qr "^[0-9]"'
        " -- (commandline -ct)' -a '(__fish_complete_pids)'"
    )


def _fish_names(names: Iterable[str]) -> str:
    return " ".join(f'"{name}"' if " " in name else name for name in names)


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_switch(switch: Switch) -> str:
    words = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in switch.words]
    if switch.value is not None:
        words.append("-r" if switch.value.kind in (FILE, FOLDER) else "-x")
        if switch.value.kind == FOLDER:
            words.append("-a '(__fish_complete_directories)'")
        if switch.value.choices:
            words.append(f"-a {_fish_text(' '.join(switch.value.choices))}")
    return f"{' '.join(words)} -d {_fish_text(switch.help)}"


SHELLS: dict[str, Callable[[str, Sequence[Leaf], Sequence[Switch]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""What makes the lines of each shell's file."""
