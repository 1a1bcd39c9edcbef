"""Short forms of function names: C++ templates, Cython, Fortran and Rust make names that no line has room for.

Whole names are in JSON, and in text with ``--verbose``.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

LONGEST = 48
"""Characters of a short name, at most."""
_LONGEST_READ = 20_000  # longer names are cut in the middle
# Compiled at first use: most programs have no such names.
_compiled = cache(re.compile)
_RUST_HASH = r"::h[0-9a-f]{16}$"
_FORTRAN = r"__([a-z]\w*?)_MOD_(\w+)$"
_CYTHON = r"__pyx_(?:fuse_\d+)?[a-z]+_(\d.*)$"
_OPERATOR = r"operator(?:\s*(?:<=>|->\*?|<<=?|>>=?|<=?|>=?|\(\)))?"
_CLOSES = {"<": ">", "(": ")"}
_KEPT = ("(anonymous namespace)", "{lambda(")  # the parameters of a lambda follow


@lru_cache(maxsize=4096)
def short_name(name: str) -> str:
    """Return a short form of a function's name, the name itself if it is not long.

    Template arguments become ``<…>``, parameters ``(…)``, and outer namespaces ``…``: ``…::Evaluator<…>::run``. Names
    that Cython and gfortran make are written as in the source: ``sklearn…_binning._map_col_to_bins``, ``module::proc``.
    """
    if len(name) > _LONGEST_READ:
        return _cut(name)
    text = _compiled(_RUST_HASH).sub("", name) if "::h" in name else name
    if text.startswith("__"):
        text = _of_cython(text) or _compiled(_FORTRAN).sub(r"\1::\2", text)
    if len(text) <= LONGEST:
        return text
    parts = _parts(text)
    text = "::".join(parts)
    if len(text) > LONGEST and len(parts) > 2:
        text = "::".join(("…", *parts[-2:]))
    return text if len(text) <= LONGEST else _cut(text)


def _cut(text: str) -> str:
    return f"{text[: LONGEST // 2]}…{text[1 - LONGEST // 2 :]}"


def _parts(name: str) -> list[str]:
    # The components between ``::``, without what brackets enclose.
    parts, part, depth, at = [], "", 0, 0
    while at < len(name):
        kept = next((each for each in _KEPT if name.startswith(each, at)), None)
        found = _compiled(_OPERATOR).match(name, at) if name[at] == "o" else None
        if kept is not None or found is not None:
            word = kept or (found[0] if found is not None else "")
            is_lambda = word.endswith("(")
            part += "" if depth else f"{word}…)" if is_lambda else word
            depth += is_lambda
            at += len(word)
            continue
        sign = name[at]
        if sign in _CLOSES:
            part += f"{sign}…{_CLOSES[sign]}" if not depth else ""
            depth += 1
        elif sign in _CLOSES.values() and depth:
            depth -= 1
        elif not depth and name.startswith("::", at):
            parts.append(part)
            part, at = "", at + 1
        elif not depth:
            part += sign
        at += 1
    return [*parts, part]


def _of_cython(name: str) -> str | None:
    # Names of packages and modules, each behind its length, and the function, perhaps behind a number.
    found = _compiled(_CYTHON).match(name)
    if found is None:
        return None
    rest, packages = found[1], []
    while (length := re.match(r"\d+", rest)) is not None:
        end = length.end() + int(length[0])
        if end >= len(rest) or rest[end] != "_" or int(length[0]) > len(rest):
            break
        packages.append(rest[length.end() : end])
        rest = rest[end + 1 :]
    if not packages:
        return None
    function = rest.lstrip("0123456789") or rest
    modules = f"{packages[0]}…{packages[-1]}" if len(packages) > 2 else ".".join(packages)
    return f"{modules}.{function}"
