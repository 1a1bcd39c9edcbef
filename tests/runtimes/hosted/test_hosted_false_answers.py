"""False answers of a library for debuggers: terminals obey none of them, and no number costs time or memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import FULL, stopped
from tests.support.command import ompd
from tests.support.hosted import compiled

_COMMANDS = ("threads", "parallel", "tasks", "icvs", "stack", "why", "runtimes") if FULL else ("icvs", "why")
# Characters that terminals obey, except ends of lines: control characters, and changes of the direction of text.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNAVAILABLE, _OF_A_THREAD, _OF_A_TASK = 1, 3, 5


@pytest.mark.parametrize(
    "number, enclosing, scope",
    [
        ("0x7fffffffffffffff", 0, _OF_A_TASK),
        ("0x7fffffff", _UNAVAILABLE, _OF_A_THREAD),
        *((("-1", _UNAVAILABLE, _OF_A_THREAD), ("2", 0, _OF_A_THREAD)) if FULL else ()),
    ],
)
@pytest.mark.quick("0x7fffffff-1-3")
def test_false_answers_are_shown_as_data_or_not_at_all(tmp_path: Path, number: str, enclosing: int, scope: int) -> None:
    options = (f"-DNUMBER={number}L", f"-DENCLOSING={enclosing}", f"-DTHREAD_NUM_SCOPE={scope}")
    library = compiled(tmp_path, "false.c", *options)
    core = stopped("hang").core
    for command in _COMMANDS:
        ran = ompd(command, core, "--ompd-library", library)
        assert ran.code in (0, 3) and "libfalse.so" in ran.out + ran.err
        assert not _OBEYED.search(ran.out + ran.err)
        assert not re.search("^fake line", ran.out + ran.err, re.MULTILINE)
    answer = ompd("runtimes", core, "--json", "--ompd-library", library)
    assert isinstance(answer.json, dict) and not _OBEYED.search(answer.out)
