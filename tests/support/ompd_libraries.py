"""OMPD libraries of vendors: LLVM's in Debian's packages, and Intel's in the wheel of its runtime."""

from __future__ import annotations

from pathlib import Path

from tests.support.debs import deb_folder
from tests.support.machine import Missing, intel_runtime

LIBRARIES = ("intel-2026", "llvm-14", "llvm-19", "llvm-22")
"""Vendor and release. LLVM 16 is left out: its library needs another release's runtime, and is refused without it."""


def ompd_library(name: str) -> Path:
    """Return the library called *name* in :data:`LIBRARIES`.

    :raises Missing: if it was not fetched
    """
    vendor, _, release = name.partition("-")
    if vendor == "intel":
        file = intel_runtime() / "lib" / "libiomp5_db.so"
    else:
        file = deb_folder(f"libompd-{release}") / "usr" / "lib" / f"llvm-{release}" / "lib" / "libompd.so"
    if not file.exists():
        raise Missing(name, f"no {file}")
    return file
