"""Demangled names of C++, compared with c++filt, and names that would take much time and memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ompd.binary.demangle import demangle
from tests.support import clean_environment
from tests.support.debug_programs import built, tool
from tests.support.samples import run

# c++filt (libiberty) writes these names out. We leave them as in the source, as LLVM does.
_WRITTEN_OUT = {
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >": "std::string",
    **{f"std::basic_{kind}stream<char, std::char_traits<char> >": f"std::{kind}stream" for kind in ("i", "o", "io")},
}


def plain(name: str) -> str:
    """Return a name of c++filt in our spelling: without numbers of lambdas and without parameters of enclosing
    functions.
    """
    for written_out, name_of_it in _WRITTEN_OUT.items():
        name = name.replace(written_out, name_of_it)
    name = re.sub(r"(?<=::)(~?)basic_(string|(?:[io]|io)stream)(?=$|<|\()", r"\1\2", name)  # constructors
    name = re.sub(r"\{lambda\((?:[^(){}]|\([^()]*\))*\)#\d+\}", "{lambda}", name)
    name = re.sub(r"\{unnamed type#\d+\}", "{unnamed}", name)
    return name.partition(" [clone")[0].replace("decltype(nullptr)", "std::nullptr_t").replace(" ", "")


def symbols_of(path: Path, *options: str) -> list[str]:
    rows = (row.split() for row in run(tool("nm"), "--defined-only", *options, path).splitlines())
    names = (row[2].partition("@")[0] for row in rows if len(row) == 3 and row[1] in "tTwWi")
    return sorted({name for name in names if name.startswith("_Z") and "omp" not in name})


def standard_library() -> Path:
    return Path(run("g++", "-print-file-name=libstdc++.so.6").strip()).resolve()


@pytest.mark.parametrize("which", ["libstdc++", "gcc", "clang"])
@pytest.mark.quick("clang", "libstdc++")
def test_names_are_those_of_cxxfilt(which: str) -> None:
    if which == "libstdc++":
        names = symbols_of(standard_library(), "-D")
        assert len(names) > 3000
    else:
        names = symbols_of(built("c++", "-O0", clang=which == "clang"))
        assert len(names) > 50
    filtered = subprocess.run(
        [tool("c++filt"), "-p"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    ).stdout.splitlines()
    read = 0
    for name, expected in zip(names, filtered, strict=True):
        found = demangle(name)
        if found is None:
            continue
        read += 1
        if "thunk to" in expected:
            assert plain(expected).startswith(plain(found)), name
        elif "::{lambda" in expected or re.search(r"\)(?: const)?::", expected):
            assert plain(found).rpartition("::")[2] == plain(expected).rpartition("::")[2], name
        else:
            assert plain(found) == plain(expected), name
    # The demangler reads no expressions.
    assert read > len(names) * 0.97, (read, len(names))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z4mainv", "main"),
        ("_ZN4deep2er7genericIdEEvT_PK2at", "deep::er::generic<double>"),
        ("_ZZN4deep2er7genericIdEEvT_PK2atENKUlvE_clEv", "deep::er::generic<double>::{lambda}::operator()"),
        ("_ZZ4mainENK3$_1clEi", "main::$_1::operator()"),
        ("_ZN12_GLOBAL__N_13hidEi", "(anonymous namespace)::hid"),
        ("_ZZ4cfunEN2In1fEi", "cfun::In::f"),
        ("_ZNK3BoxIdEcviEv", "Box<double>::operator int"),
        ("_ZN3BoxIiED2Ev", "Box<int>::~Box"),
        ("_ZN2ns4packILNS_1EE1EJicSt4pairIidEEEEiDpT0_", "ns::pack<(ns::E)1, int, char, std::pair<int, double> >"),
        ("_Z1fIXadL_Z1gvEEEvv", None),
        ("_Z4workIlEvT_.part.0", "work<long> [clone .part.0]"),
        ("_Z4workv.isra.0.cold", "work [clone .isra.0] [clone .cold]"),
        ("_ZThn16_N4Base1vEv", "non-virtual thunk to Base::v"),
        ("main", None),
        ("_Z", None),
        ("", None),
        ("_Zé", None),
    ],
)
def test_names_in_particular(symbol: str, name: str | None) -> None:
    assert demangle(symbol) == name


def chain(length: int) -> str:
    """Return a name in which each type contains the previous one twice. Written out, it has 2 ** length of the first
    type.
    """
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def substitution(number: int) -> str:
        text = ""
        while number >= 0:
            number, digit = divmod(number, 36)
            text = digits[digit] + text
            number -= 1 if number == 0 else 0
            if number <= 0:
                break
        return f"S{text}_"

    return "_Z1fI1aIiiE" + "".join(f"S0_I{substitution(n) * 2}E" for n in range(1, length)) + "Ev"


HOSTILE = {
    "doubling": chain(200),
    "pointers": "_Z1fI" + "P" * 2000 + "iE",
    "nested": "_ZN" + "1a" * 1000 + "E",
    "local": "_Z" * 1 + "Z" * 2000 + "1fE",
    "arguments": "_Z" + "1aI" * 500 + "i" + "E" * 500,
    "functions": "_Z1fI" + "PF" * 600 + "v" + "E" * 600 + "E",
    "digits": "_Z" + "9" * 2000 + "a",
    "substitution": "_Z1fIS" + "Z" * 2000 + "_E",
    "long": "_Z1f" + "i" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_take_neither_time_nor_memory(name: str) -> None:
    # Run in another process, whose limit of memory is little more than it needs to start.
    program = (
        "import resource, sys; from ompd.binary.demangle import demangle\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "found = demangle(sys.stdin.read()); assert found is None or len(found) < 1 << 15; print('answered')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=HOSTILE[name],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.stdout == "answered\n", done.stderr[-500:]


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.text(alphabet="_ZNEIS0tKPFMUlALiva12abcDTJpX.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = demangle("_Z" + text)
    assert found is None or isinstance(found, str)
