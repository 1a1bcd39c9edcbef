"""Check which builds of libgomp and libomp the layout tables fit.

``python -m tests.builds [--fetch] [--write] [NAME…]`` goes through the rows of ``tests/builds.toml`` whose names match,
or through all rows. It fetches each library and runs programs on it that write down their own state. It takes cores of
these programs and compares the answers of ``ompd`` with their state in two ways: as if no table named the build-id,
with the emulator and without it. ``--fetch`` only fetches. ``--write`` adds the build-id of each build that passed to
the shipped table that fits, and then also checks with this table.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from unittest import mock

from ompd.debugger.emulation.decode import Decoder
from ompd.errors import OmpdError, Unavailable
from ompd.runtimes.layout import generate, table
from ompd.runtimes.libgomp import proof
from ompd.runtimes.libgomp.runtime import Runtime as Libgomp
from ompd.runtimes.libomp.layout import layouts as libomp_layouts
from ompd.runtimes.libomp.plugin import Runtime as Libomp
from ompd.session import Session
from tests.support import Missing, NotReady, Stopped, clean_environment, require, stopped
from tests.support.build import SETTLED, BuildFailed
from tests.support.builds import Build, build_id_of, builds, fetch
from tests.support.cache import entry, key_of
from tests.support.runs import ENVIRONMENT, READY_SECONDS, cores_allowed, kernel_core_obstacle
from tests.truth import compare

ODD = Path(__file__).with_name("odd")
# libgomp executes new tasks at once when too many are queued, so the program makes fewer there.
SPECIAL = {"task_queued": {"TASKS": "200"}}
# Nested teams, tasks in all their states, and a team that has ended. Every build runs these.
PROGRAMS = ("nested", "task_tree", "between")
# Before a build-id is written, more programs run: with waits, queued tasks and ended teams.
THOROUGH = (
    *(*PROGRAMS, "lock", "critical", "closing_barrier", "serialized_three", "two_initial", "shrunk_pool"),
    *("task_queued", "task_stack", "nest_lock", "taskgroup", "taskloop", "for_barrier"),
)
WAYS = ("named", "emulated", "decoded")
"""With the table that names the build-id; and as if no table named it, with the emulator and without it."""


@dataclass(frozen=True)
class Verdict:
    """The result of checking one build in one way. *table* is the shipped table that fitted, None if none did. *said*
    is the proof of the layout, or the reason for the refusal. *differences* lists answers that differ from what the
    programs wrote.
    """

    table: str | None
    said: str
    differences: tuple[str, ...] = ()

    @property
    def is_true(self) -> bool:
        """Whether a table fitted and every answer equals what the programs wrote."""
        return self.table is not None and not self.differences


def taken(build: Build, program: str) -> Stopped:
    """Return the core of a program that ran on *build*.

    :raises Missing: if it was not fetched
    """
    special = SPECIAL.get(program, {}) if build.kind == "libgomp" else {}
    env = {**special, **build.env}
    return stopped(program, mode="neither", runtime=build.name, env=env, pie=not build.is_static)


def taken_by_old_entry_points(library: Path) -> Path:
    """Return the core of a program that needs only functions that the libgomp of GCC 4 exports."""
    source = ODD / "parallel_start.c"

    def make(folder: Path) -> None:
        program = folder / source.stem
        command = [str(require("gcc")), "-g", f"-I{SETTLED.parent}", str(source), "-o", str(program), str(library)]
        subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-lpthread"], check=True, env=clean_environment())
        with cores_allowed():
            subprocess.run([str(program)], cwd=folder, env=ENVIRONMENT, check=False, timeout=READY_SECONDS)
        (core,) = folder.glob("core*")
        core.rename(folder / "core.kernel")

    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    key = key_of(source.read_text(), str(library), sha256(library.read_bytes()).hexdigest())
    return entry("cores", key, make) / "core.kernel"


def undecoded(_self: Decoder, routine: int, _thread: int, _nulls: object) -> NoReturn:
    """Replace :meth:`Decoder.call`, as if every routine did more than load."""
    raise Unavailable(f"the routine at {routine:#x} cannot be decoded: it does more than load")


@contextmanager
def looked_at(way: str) -> Iterator[None]:
    """Have sessions in the context find layouts in *way*, one of :data:`WAYS`."""
    honest = table.tables

    def unnamed(runtime: str, architecture: str) -> Iterator[table.Table]:
        return (replace(known, build_ids={}) for known in honest(runtime, architecture))

    with ExitStack() as patches:
        if way != "named":
            patches.enter_context(mock.patch.object(table, "tables", unnamed))
            patches.enter_context(mock.patch.object(libomp_layouts, "tables", unnamed))
        if way == "decoded":
            patches.enter_context(mock.patch.dict(sys.modules, {"unicorn": None}))
        yield


def verdict(build: Build, way: str, programs: Sequence[str] = PROGRAMS) -> Verdict:
    """Return the result of checking *build* in *way*, one of :data:`WAYS`.

    :raises Missing: if it was not fetched
    """
    if build.refused:
        with looked_at(way):
            try:
                return Verdict(*_fitting(taken_by_old_entry_points(build.lib_file())))
            except OmpdError as error:
                return Verdict(None, str(error))
    fitted, said, differences = "", "", []
    for program in programs:
        if program in build.untold:
            continue
        core = taken(build, program)
        with looked_at(way):
            try:
                name, said = _fitting(core.core)
            except OmpdError as error:
                return Verdict(None, str(error))
            if fitted not in ("", name):
                differences.append(f"{program}: {name} fits, and {fitted} another program")
            fitted = name
            wrong = [text for text in compare(core).differences if not (build.is_static and "stack.idle" in text)]
            differences += [f"{program}: {text}" for text in wrong]
    return Verdict(fitted, said, tuple(differences))


def _fitting(core: Path) -> tuple[str, str]:
    # Return the names of the tables that fit, and the proof.
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        if runtime.space is None:
            raise runtime.fault or AssertionError("no reason")
        space = runtime.space
        if isinstance(space, Libomp):
            assert space.stripped is not None
            return space.stripped.table.name, space.layout_proof or ""
        assert isinstance(space, Libgomp)
        of = space.layouts.of.split(" or ")
        names = [known.name for known in table.shipped_tables("libgomp") if proof.releases_of(known) in of]
        return " or ".join(names), space.layout_proof or ""


# The command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of this module and return its exit status: 1 if a build differs from its row."""
    parser = argparse.ArgumentParser(prog="python -m tests.builds", description="builds by which tables are verified")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows of tests/builds.toml, as libomp-*")
    parser.add_argument("--fetch", action="store_true", help="only fetch them into .cache/builds/")
    parser.add_argument("--write", action="store_true", help="put the build-ids of those that pass into the tables")
    given = parser.parse_args(arguments)
    wanted = [row for name, row in builds().items() if not given.names or _matches(name, given.names)]
    is_right = True
    for build in wanted:
        try:
            fetch(build, every=given.write)
            if not given.fetch:
                is_right &= _look(build, THOROUGH if given.write else PROGRAMS, is_written=given.write)
        except (Missing, NotReady, BuildFailed) as error:
            is_right = False
            print(f"{build.name:24} {error}", flush=True)
    return 0 if is_right else 1


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _look(build: Build, programs: Sequence[str], *, is_written: bool) -> bool:
    found = {way: verdict(build, way, programs) for way in WAYS if way != "named"}
    tables = {each.table for each in found.values() if each.is_true}
    is_right = (not tables) if build.refused else len(tables) == 1 and all(each.is_true for each in found.values())
    note = ""
    if is_written and is_right and not build.refused and not build.is_static:
        note = write(build, tables.pop() or "")
        found["named"] = verdict(build, "named", programs)
        is_right &= found["named"].is_true
    print(f"{build.name:24} {build.what()}{note}")
    for way, each in found.items():
        fitting = f"{each.table}; {each.said}" if each.table is not None else f"refused: {each.said}"
        print(f"{'':24} {way:9} {'true ' if each.is_true else 'FALSE' if each.differences else '-    '} {fitting}")
        for text in each.differences:
            print(f"{'':24} {'':9} {text}")
    sys.stdout.flush()
    return is_right


def write(build: Build, name: str) -> str:
    """Add the build-id of *build* to the shipped table *name*. If *name* is ``ONE or OTHER``, choose the table of its
    release.

    :returns: a note for people on what was done
    """
    build_id = build_id_of(build.lib_file().read_bytes(), build.name)
    if build_id is None:
        return "; it has no build-id"
    known = [each for each in table.shipped_tables(build.kind) if each.name in name.split(" or ")]
    version = re.search(r" (?:\d+:)?(\d+)\.", build.what())
    ours = [each for each in known if version is not None and _is_of(each, version[1])] if len(known) > 1 else known
    if len(ours) != 1 or ours[0].path is None:
        return f"; which of {name} it is nothing tells"
    told = json.loads(ours[0].path.read_text())
    told["build_ids"][build_id] = generate.cut(build.what())
    told["build_ids"] = dict(sorted(told["build_ids"].items(), key=lambda item: item[1]))
    ours[0].path.write_text(generate.format_table(told))
    return f"; {build_id} is in {ours[0].name}"


def _is_of(known: table.Table, major: str) -> bool:
    return any(release.split()[-1].startswith(f"{major}.") for release in known.releases)


if __name__ == "__main__":
    sys.exit(main())
