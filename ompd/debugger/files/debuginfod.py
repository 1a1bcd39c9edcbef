"""Files by their build-id from debuginfod servers (elfutils, debuginfod(8), "WEBAPI"), only at the user's request.

Fetched files are kept in the cache of debuginfod's own client. Before that, the build-id of modules and debug files is
verified, and source files are checked to be text.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from posixpath import normpath
from typing import BinaryIO, Protocol
from urllib import request
from urllib.error import HTTPError
from urllib.parse import quote

from ompd.binary.elf.elf import ElfFile
from ompd.debugger.files.progress import Progress, format_size
from ompd.debugger.files.sources import MAX_SOURCE, name_in_cache, read_source
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


class _Wanted(Protocol):
    """A file of a build that a server may have.

    ``request`` is its place below the build-id in URLs, ``name`` that in the cache, ``limit`` its largest size in
    bytes. A file that ``is_small`` must arrive within DEBUGINFOD_TIMEOUT, another may take that time for each 100 KB.
    """

    @property
    def request(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def limit(self) -> int: ...

    @property
    def is_small(self) -> bool: ...

    def is_at(self, path: str) -> bool:
        """Return whether the file at *path* is the wanted one.

        :raises OmpdError: if it is damaged
        """


class _WantedModule:
    """A module, or its debug file; *kind* is ``executable`` or ``debuginfo``."""

    limit, is_small = _MAX_BYTES, False

    def __init__(self, build_id: bytes, kind: str) -> None:
        self._build_id = build_id
        self.request = self.name = kind

    def is_at(self, path: str) -> bool:
        return ElfFile(open_paged(path), path).build_id() == self._build_id


class _WantedSource:
    """The source file *file* of a module."""

    limit, is_small = MAX_SOURCE, True

    def __init__(self, file: str) -> None:
        path = normpath(file).encode("utf-8", "replace")
        self.request = f"source/{quote(path.lstrip(b'/'))}"
        self.name = name_in_cache(file)

    def is_at(self, path: str) -> bool:
        read_source(path)
        return True


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
        return self._fetch(build_id, _WantedModule(build_id, kind))

    def fetch_source(self, build_id: bytes, file: str) -> str | None:
        """Fetch the source file that debug information of a module calls *file*, and return its path, None if no server
        has it.

        Only text of at most :data:`MAX_SOURCE` bytes is accepted.
        """
        return self._fetch(build_id, _WantedSource(file))

    def _fetch(self, build_id: bytes, wanted: _Wanted) -> str | None:
        key = build_id, wanted.request
        if key not in self._fetched:
            self._fetched[key] = self._fetch_new(build_id, wanted)
        return self._fetched[key]

    def _fetch_new(self, build_id: bytes, wanted: _Wanted) -> str | None:
        folder = self._folder(build_id)
        for url in tuple(self._urls):
            try:
                descriptor, temporary = tempfile.mkstemp(prefix="fetched.", dir=folder)
            except OSError:
                return None  # the folder is not writable, or the disk is full
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123
                    self._download(f"{url}/buildid/{build_id.hex()}/{wanted.request}", file, wanted)
                if wanted.is_at(temporary):
                    os.replace(temporary, f"{folder}/{wanted.name}")  # noqa: PTH105
                    return f"{folder}/{wanted.name}"
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

    def _download(self, url: str, file: BinaryIO, wanted: _Wanted) -> None:
        limit = min(wanted.limit, self._limit)
        start = time.monotonic()
        question = request.Request(url, headers={"User-Agent": "ompd"})
        size = 0
        with self._opener.open(question, timeout=self._timeout) as answer:
            while piece := answer.read1(_PIECE):
                size += len(piece)
                if size > limit:
                    raise BadFile(url, f"has more than {format_size(limit)}")
                periods = (time.monotonic() - start) // self._timeout
                if periods > (0 if wanted.is_small else size // _RATE):
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
