"""Compressed cores: gzip, xz, zstd, lz4."""

from __future__ import annotations

import gzip
import lzma
import struct
import zlib
from collections.abc import Callable

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.cores import NO_RUNTIME, small

COMMANDS = ("threads", "stack --raw", "snapshot")


def zstd(data: bytes, level: int = 3) -> bytes:
    """Return a zstd frame."""
    from tests.support.compression import CompressionParameter, zstd_frame

    return zstd_frame(data, {CompressionParameter.compression_level: level})


def lz4(data: bytes) -> bytes:
    """Return an lz4 frame."""
    import lz4.frame as frames

    return bytes(frames.compress(data))


def gz(data: bytes) -> bytes:
    """Return a gzip member."""
    return gzip.compress(data, mtime=0)


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gz, "xz": lzma.compress, "zstd": zstd, "lz4": lz4}


@crafted(asked=COMMANDS, each=PACKERS, says=NO_RUNTIME, reads=32 * MB)
def a_core_that_is_sound(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """The sound core from which the others are made."""
    at.write("core", how(small(at)[1]))


@crafted(asked=COMMANDS, each=PACKERS, says="core")
def members_without_bytes(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A core, then 4 MB of empty members."""
    empty = how(b"")
    at.write("core", how(small(at)[1]) + empty * (4 * MB // len(empty)))


@crafted(asked=COMMANDS, each=PACKERS, says="core")
def nothing_but_members_without_bytes(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """20 MB of empty members."""
    empty = how(b"")
    at.write("core", empty * (20 * MB // len(empty)))


@crafted(asked=COMMANDS, each={"zstd": b"\x50\x2a\x4d\x18", "lz4": b"\x51\x2a\x4d\x18"}, says="", cpu=10)
def frames_to_pass_over(at: Folder, how: bytes) -> None:
    """Half a million empty skippable frames, then one that claims 4 GB."""
    at.write("core", (how + bytes(4)) * 500_000 + how + b"\xff" * 4)


@crafted(asked=COMMANDS, each=PACKERS, says="core", cpu=30, reads=3 << 30)
def a_core_of_much_noise(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A few bytes that inflate to 50 MB without zeros."""
    pattern = b"\x7fELF\x02\x01\x01" + bytes(range(1, 256)) * 16
    at.write("core", how(pattern * (50 * MB // len(pattern))))


@crafted(asked=COMMANDS, each=PACKERS, says="core", cpu=20)
def a_core_of_zeros(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A few bytes that inflate to the header of a core and 100 MB of zeros."""
    at.write("core", how(small(at)[1] + bytes(100 * MB)))


@crafted(asked=COMMANDS, each=PACKERS, says="compressed|cut|core")
def a_file_that_ends_early(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A compressed core, cut in its middle."""
    raw = how(small(at)[1])
    at.write("core", raw[: len(raw) // 2])


@crafted(asked=COMMANDS, each=PACKERS, says="core|compressed")
def a_file_with_noise_in_it(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A compressed core with some bytes changed."""
    raw = bytearray(how(small(at)[1]))
    for place in range(len(raw) // 2, len(raw) // 2 + 16):
        raw[place] ^= 0x5A
    at.write("core", bytes(raw))


@crafted(asked=COMMANDS, each=PACKERS, says="core|compressed")
def a_file_inside_of_itself(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A core compressed five times."""
    raw = small(at)[1]
    for _ in range(5):
        raw = how(raw)
    at.write("core", raw)


@crafted(asked=COMMANDS, each=PACKERS, says="core|compressed")
def a_file_that_is_mostly_hole(at: Folder, how: Callable[[bytes], bytes]) -> None:
    """A compressed core before 60 GB of hole."""
    at.sparse("core", 60 << 30, {0: how(small(at)[1])})


_HEADERS = {
    "gzip-name": b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (4 * MB),
    "gzip-extra": b"\x1f\x8b\x08\x04" + bytes(6) + b"\xff\xff" + bytes(70_000),
    "gzip-flags": b"\x1f\x8b\x08\xff" + bytes(64),
    "xz-memory": b"\xfd7zXZ\0\0\4\xe6\xd6\xb4\x46\x02\0\x21\x01\x28\0\0\0\x8f\x98\x41\x9c" + bytes(64),
    "zstd-window": b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(64),
    "zstd-size": b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(64),
    "zstd-dictionary": b"\x28\xb5\x2f\xfd\x03" + b"\xff" * 16,
    "lz4-size": b"\x04\x22\x4d\x18\x68\x70" + b"\xff" * 8 + bytes(64),
    "lz4-block": b"\x04\x22\x4d\x18\x60\x70\x73" + b"\xff\xff\xff\x7f" + bytes(64),
    "lz4-old": b"\x02\x21\x4c\x18" + struct.pack("<I", 0x7FFF_FFFF) + bytes(64),
    "bzip2": b"BZh91AY&SY" + bytes(64),
    "zlib": zlib.compress(bytes(MB)),
    "pack": b"\x1f\x1e" + bytes(64),
    "lzma": lzma.compress(bytes(MB), lzma.FORMAT_ALONE),
}


@crafted(asked=COMMANDS, each=_HEADERS, says="core|ELF|compressed|hold")
def a_header_that_lies(at: Folder, how: bytes) -> None:
    """Headers of compressed files that claim names, windows and sizes."""
    at.write("core", how)
