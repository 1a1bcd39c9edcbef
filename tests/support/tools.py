"""Command line of the tools that tests need.

``python -m tests.support.tools missing [--packages] [--optional]`` lists what this machine lacks of tools.toml,
``python -m tests.support.tools intel`` fetches Intel's OpenMP runtime,
``python -m tests.support.tools debs`` the Debian packages that exclude each other,
``python -m tests.support.tools wheels`` Python packages that are inspected and not installed,
``python -m tests.support.tools libomp`` builds LLVM's libomp with its own debug information.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.debs import fetch_debs
from tests.support.libomp_build import build_libomp
from tests.support.machine import Missing, fetch_intel, fetch_wheels, missing_tools, wanted_tools


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of this module; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.tools", description="tools that the tests need (tests/tools.toml)"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("missing", help="list what is missing here")
    listing.add_argument("--packages", action="store_true", help="only the names of Debian packages, on one line")
    listing.add_argument("--optional", action="store_true", help="also what tests can do without")
    commands.add_parser("intel", help="fetch Intel's OpenMP runtime into .cache/ if it is not there, print where it is")
    commands.add_parser("debs", help="fetch the packages that exclude each other into .cache/debs/")
    commands.add_parser("wheels", help="fetch the Python packages that are inspected into .cache/wheels/")
    commands.add_parser("libomp", help="build LLVM's libomp with debug information into .cache/libomp/")
    given = parser.parse_args(arguments)
    if given.command in ("intel", "libomp"):
        try:
            print(fetch_intel() if given.command == "intel" else build_libomp())
        except Missing as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    if given.command == "debs":
        return _fetch_all(fetch_debs, [tool.name for tool in wanted_tools() if tool.debs or tool.lone])
    if given.command == "wheels":
        return _fetch_all(fetch_wheels, [tool.name for tool in wanted_tools() if tool.wheels])
    lacking = [tool for tool in missing_tools() if tool.required or given.optional]
    if given.packages:
        print(" ".join(sorted({tool.package for tool in lacking if tool.package})))
        return 0
    for tool in lacking:
        source = f"Debian package {tool.package}" if tool.package else f"wheel {tool.wheel}=={tool.version}"
        debs = " ".join(tool.debs or tool.lone)
        source = f"Debian packages {debs}, unpacked" if debs else source
        source = f"wheels {' '.join(tool.wheels)}, unpacked" if tool.wheels else source
        print(f"{tool.name}: {source}; {'required' if tool.required else 'optional'}: {tool.tests}")
    return 0


def _fetch_all(fetch: Callable[[str], Path], names: Sequence[str]) -> int:
    # A failure is only reported: tests that need the tool fail or skip by themselves.
    for name in names:
        try:
            print(fetch(name))
        except Missing as error:
            print(f"not fetched: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
