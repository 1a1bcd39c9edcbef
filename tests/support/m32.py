"""Build for 32-bit x86 with this machine's compilers and the C library of ``.cache/debs/gcc-m32``.

Debian's packages for 32-bit code exclude the packages of other processors' compilers, so they are unpacked but not
installed. The kernel of a 64-bit machine runs such programs. Each program names its loader and libraries by their full
paths in this folder.
"""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.cache import entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import Missing, clean_environment

TOOL = "gcc-m32"
# The folder of the headers for 64-bit programs; for 32 bits all but one are the same.
_HEADERS = "usr/include/x86_64-linux-gnu"


@dataclass(frozen=True)
class Flags:
    """The options of gcc and clang to compile for 32-bit x86, and the additional ones to link.

    ``link`` is for programs and libraries, ``link_static`` for programs with ``-static`` or ``-static-pie``;
    ``libraries`` are the folders with the C library and with the compiler's libraries.
    """

    compile: tuple[str, ...]
    link: tuple[str, ...]
    link_static: tuple[str, ...]
    libraries: tuple[Path, ...]


@cache
def m32_flags() -> Flags:
    """Return the flags for this machine. Linking also needs the flags for compiling.

    :raises Missing: if the packages were not fetched, or this machine does not run 32-bit programs
    """
    root = deb_folder(TOOL)
    if platform.machine() != "x86_64" or not Path("/proc/sys/abi/vsyscall32").exists():
        raise Missing(TOOL, "this machine does not run programs of 32 bits", forbidden=True)
    compilers = sorted(root.glob("usr/lib/gcc/x86_64-linux-gnu/*/32"))
    if not compilers:
        raise Missing(TOOL, f"no compiler's library in {root}")
    own, c_library, linked = compilers[-1], root / "lib32", root / "usr" / "lib32"
    static = (*(f"-B{folder}" for folder in (own, linked)), *(f"-L{folder}" for folder in (linked, own)))
    return Flags(
        compile=("-m32", "-idirafter", str(root / _HEADERS), "-idirafter", f"/{_HEADERS}"),
        link=(
            f"-L{_shared(root, linked)}",
            *static,
            f"-L{c_library}",
            f"-Wl,--dynamic-linker={c_library / 'ld-linux.so.2'}",
            f"-Wl,-rpath,{c_library}:{linked}",
        ),
        link_static=static,
        libraries=(c_library, linked),
    )


def _shared(root: Path, linked: Path) -> Path:
    # libc.so is a linker script that names files as if the packages were installed. Other libraries are links to such
    # files.
    text = (linked / "libc.so").read_text()
    script = re.sub(r"(?<= )(/(?:usr/)?lib32/\S+)", lambda name: f'"{root}{name[1]}"', text)
    # The loader's usual path is a link, too.
    script = script.replace(" /lib/ld-linux.so.2", f' "{root}/lib32/ld-linux.so.2"')
    links = {
        path.name: str(root / path.readlink().relative_to("/"))
        for path in sorted(linked.glob("*.so"))
        if path.is_symlink() and path.readlink().is_absolute()
    }

    def make(folder: Path) -> None:
        (folder / "libc.so").write_text(script)
        for name, target in links.items():
            (folder / name).symlink_to(target)

    return entry("m32-links", key_of(script, links), make)


@cache
def m32_version() -> str:
    """Return the first line that the C library prints, which differs between packages.

    :raises Missing: as :func:`m32_flags`
    """
    library = m32_flags().libraries[0] / "libc.so.6"
    loader = library.with_name("ld-linux.so.2")
    done = subprocess.run(
        [str(loader), str(library)], capture_output=True, text=True, env=clean_environment(), check=True
    )
    return done.stdout.splitlines()[0]
