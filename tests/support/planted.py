"""Shared libraries for tests of the rules for loading. A library's constructor writes a file to show that it ran."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import CHECKOUT

# The folder in which each library that runs writes a file with its name.
RAN = "TEST_RAN"
_SOURCE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
__attribute__((constructor)) static void ran(void) {
    const char *folder = getenv("TEST_RAN");
    char path[4096];
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%s", folder, TEXT(NAME));
    int file = open(path, O_CREAT | O_WRONLY, 0644);
    if (file >= 0) close(file);
}
int NAME(void) { return 1; }
"""
_ENTRIES = """
int ompd_get_api_version(long *version) { *version = VERSION; return 0; }
int ompd_initialize(long version, const void *callbacks) { (void)callbacks; return version == VERSION ? 0 : 5; }
"""
# The steps of a worker: confine itself if requested, load the library, and report the newly mapped files.
_WORKER = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from ompd.runtimes.hosted.loading import loader, sandbox
def mapped():
    with open("/proc/self/maps") as file:
        rows = [line.split(None, 5) for line in file]
    return {row[5].strip() for row in rows if len(row) > 5 and "x" in row[1]}
steps = json.loads(sys.argv[2])
report = sandbox.confine(1 << 30) if sys.argv[3] else None
before = mapped()
library = loader.load(steps)
new = sorted(mapped() - before)
version = ctypes.c_int64()
library.ompd_get_api_version(ctypes.byref(version))
print(json.dumps({"version": version.value, "new": new, "report": report}))
"""


def build_library(
    folder: Path,
    name: str,
    *,
    needs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    soname: str | None = "",
    entries: bool = True,
    version: int = 201811,
) -> Path:
    """Return a new library ``libNAME.so`` in *folder*.

    :param needs: libraries to link with; the new library calls the function NAME of each
    :param soname: its soname; ``""`` for the name of its file, None for no soname
    :param entries: whether it has functions of OMPD
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"lib{name}.so"
    called = [need.name.removeprefix("lib").removesuffix(".so") for need in needs]
    text = _SOURCE + (_ENTRIES if entries else "")
    text += "".join(f"int {each}(void);\nint of_{each}(void) {{ return {each}(); }}\n" for each in called)
    command = [str(compiler("gcc").path), "-shared", "-fPIC", "-w", "-x", "c", "-", f"-DNAME={name}"]
    command += [f"-DVERSION={version}", "-o", str(path), "-Wl,--no-as-needed"]
    if soname is not None:
        command.append(f"-Wl,-soname,{soname or path.name}")
    for need in needs:
        command += [f"-L{need.parent}", f"-l:{need.name}"]
    subprocess.run([*command, "-Wl,--allow-shlib-undefined", *flags], input=text, text=True, check=True)
    path.chmod(0o644)
    return path


def load_in_worker(
    steps: Sequence[tuple[str, int, bool]],
    ran: Path,
    *,
    confined: bool = False,
    prefix: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Load libraries in a new process; return the ended process, whose output is a line of JSON."""
    return subprocess.run(
        [*prefix, sys.executable, "-I", "-c", _WORKER, str(CHECKOUT), json.dumps(steps), "yes" if confined else ""],
        pass_fds=[descriptor for _, descriptor, _ in steps if descriptor >= 0],
        env={**(environment or {}), RAN: str(ran)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def have_run(folder: Path) -> set[str]:
    """Return the names of the libraries whose constructors have run."""
    return {path.name for path in folder.iterdir()}
