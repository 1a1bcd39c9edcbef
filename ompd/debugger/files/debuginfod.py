"""Files by their build-id from debuginfod servers (elfutils, debuginfod(8), "WEBAPI"), only at the user's request.

Fetched files are kept in the cache of debuginfod's own client, after their build-id was verified.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import BinaryIO
from urllib import request
from urllib.error import HTTPError

from ompd.binary.elf.elf import ElfFile
from ompd.debugger.files.progress import Progress, format_size
from ompd.errors import BadFile, BadInput, MalformedFile
from ompd.safety.reading import open_paged
from ompd.safety.trust import others_fault
from ompd.safety.writing import make_folder

_PIECE = 1 << 16
# debuginfod's client gives up if a server takes this many seconds for 100 KB of a file.
_TIMEOUT = 90.0
_RATE = 100 << 10
_MAX_BYTES = 2 << 30
# Larger settings, such as "inf", mean these.
_MAX_TIMEOUT = 1e6
_MAX_LIMIT = 1e15


class Servers:
    """The servers in DEBUGINFOD_URLS, in their order. After a failed connection a server is not used again.

    :param environment: has DEBUGINFOD_URLS, DEBUGINFOD_TIMEOUT (seconds) and DEBUGINFOD_MAXSIZE (bytes)
    :param cache: the folder for fetched files
    :raises BadInput: if DEBUGINFOD_URLS names no server
    """

    def __init__(self, environment: Mapping[str, str], cache: str, progress: Progress | None = None) -> None:
        # Words that begin with "ima:" are about signatures, and are no servers.
        urls = [url for url in environment.get("DEBUGINFOD_URLS", "").split() if not url.startswith("ima:")]
        self._urls = [url.rstrip("/") for url in urls if url.startswith(("http://", "https://"))]
        if not self._urls:
            raise BadInput(
                "DEBUGINFOD_URLS names no server to ask for files",
                hint="set it to http:// or https:// addresses, as DEBUGINFOD_URLS=https://debuginfod.elfutils.org",
            )
        self._timeout = min(_number(environment, "DEBUGINFOD_TIMEOUT") or _TIMEOUT, _MAX_TIMEOUT)
        self._limit = int(min(_number(environment, "DEBUGINFOD_MAXSIZE") or _MAX_BYTES, _MAX_LIMIT))
        self._cache = cache
        self._progress = progress
        self._temporary: list[tempfile.TemporaryDirectory[str]] = []
        self._fetched: dict[tuple[bytes, str], str | None] = {}
        # Only http and https, even if a server redirects elsewhere.
        self._opener = request.OpenerDirector()
        for handler in (
            request.ProxyHandler(),
            request.UnknownHandler(),
            request.HTTPHandler(),
            request.HTTPSHandler(),
            request.HTTPDefaultErrorHandler(),
            request.HTTPRedirectHandler(),
            request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def fetch(self, build_id: bytes, kind: str) -> str | None:
        """Fetch a file, and return its path, None if no server has it.

        :param kind: ``executable`` or ``debuginfo``
        """
        key = build_id, kind
        if key not in self._fetched:
            self._fetched[key] = self._fetch(build_id, kind)
        return self._fetched[key]

    def _fetch(self, build_id: bytes, kind: str) -> str | None:
        folder = self._folder(build_id)
        for url in tuple(self._urls):
            try:
                descriptor, temporary = tempfile.mkstemp(prefix=f"{kind}.", dir=folder)
            except OSError:
                return None  # the folder is not writable, or the disk is full
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123
                    self._download(f"{url}/buildid/{build_id.hex()}/{kind}", file)
                elf = ElfFile(open_paged(temporary), temporary)
                if elf.build_id() == build_id:
                    os.replace(temporary, f"{folder}/{kind}")  # noqa: PTH105
                    return f"{folder}/{kind}"
            except (HTTPError, BadFile, MalformedFile):
                continue  # the server does not have it, or sent another file
            except (OSError, HTTPException, ValueError):  # URLError is an OSError
                self._urls.remove(url)  # the server is unreachable or too slow, or ended the connection
            finally:
                with suppress(OSError):
                    os.unlink(temporary)  # noqa: PTH108
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
        return None

    def _folder(self, build_id: bytes) -> str:
        folder = f"{self._cache}/{build_id.hex()}"
        with suppress(OSError, BadFile):
            make_folder(folder)
            # No other user may redirect the files, by a link or otherwise.
            if others_fault(folder, private_groups=True) is None and os.access(folder, os.W_OK | os.X_OK):
                return folder
        self._temporary.append(tempfile.TemporaryDirectory(prefix="ompd-debuginfod-"))
        return self._temporary[-1].name

    def _download(self, url: str, file: BinaryIO) -> None:
        start = time.monotonic()
        question = request.Request(url, headers={"User-Agent": "ompd"})
        size = 0
        with self._opener.open(question, timeout=self._timeout) as answer:
            while piece := answer.read1(_PIECE):
                size += len(piece)
                if size > self._limit:
                    raise BadFile(url, f"has more than {format_size(self._limit)}")
                if size // _RATE < (time.monotonic() - start) // self._timeout:
                    raise TimeoutError(f"{url} is too slow")
                file.write(piece)
                if self._progress is not None:
                    self._progress(f"fetching {url}: {format_size(size)}")
            announced = answer.headers.get("Content-Length", "")
            if announced.isdigit() and int(announced) != size:
                raise HTTPException(f"{url} ended after {size} of {announced} bytes")


def _number(environment: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(environment.get(name, ""))
    except ValueError:
        return None
    return number if number > 0 else None
