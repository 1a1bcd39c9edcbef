"""Cores of systemd-coredump, which ``coredumpctl`` finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from ompd.debugger.files.compressed import SparseFile, Unpacked
from ompd.debugger.files.progress import Progress, format_size
from ompd.errors import BadFile

_SECONDS = 60
_PIECE = 1 << 20
_HOW_TO_FIND = "`coredumpctl list` shows what there is"
_TRUNCATED = (
    "systemd-coredump kept only the beginning of the core (ProcessSizeMax= and ExternalSizeMax= in coredump.conf)"
)


class Coredump:
    """One core of systemd-coredump.

    :param match: the selection for ``coredumpctl``: a process id, a program's name or path, ``FIELD=VALUE``; empty for
        the newest core
    :param name: the user's name for it, for errors
    :raises BadFile: if there is no ``coredumpctl``, or no such core
    """

    def __init__(self, match: str, name: str) -> None:
        self._name = name
        # Skip empty and relative folders of PATH: they depend on the current folder, which may be a stranger's.
        folders = [folder for folder in os.get_exec_path() if folder.startswith("/")]
        program = shutil.which("coredumpctl", path=os.pathsep.join(folders)) if folders else None
        if program is None:
            raise BadFile(
                name,
                "coredumpctl is not installed on this machine",
                hint="give the core file itself; the kernel's core_pattern says where cores go:"
                " /proc/sys/kernel/core_pattern",
            )
        if match.startswith("-") or not match.isprintable() or (match and not match.strip()):
            raise BadFile(name, "is nothing that coredumpctl could look for", hint="give coredumpctl:PID or :PROGRAM")
        self._program = program
        self._match = [match] if match else []
        self._refusal: BadFile | None = None
        entry = self._entry()
        state = entry.get("corefile")
        if state in ("missing", "none", "error", "inaccessible"):
            raise BadFile(name, f"coredumpctl knows it, but its core file is {state}", hint=_STATE_HINTS[state])
        self.fault = _TRUNCATED if state == "truncated" else None

    def _ask(self, *options: str) -> str:
        command = [self._program, "--no-pager", "--quiet", "-1", *options, "list", "--", *self._match]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env=_environment(),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadFile(self._name, f"coredumpctl did not answer: {error}", hint=_HOW_TO_FIND) from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = lines[-1] if lines else f"it ended with status {done.returncode}"
            raise BadFile(self._name, f"coredumpctl finds no such core: {why}", hint=_HOW_TO_FIND)
        return done.stdout.decode("utf-8", "surrogateescape")

    def _entry(self) -> dict[str, Any]:
        # The core's row in the list, empty in releases before 248, which have no JSON.
        try:
            rows = json.loads(self._ask("--json=short"))
        except BadFile as error:
            self._refusal = error if "json" not in error.fault else None
            return {}
        except ValueError:
            return {}
        return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}

    def stored_file(self) -> str | None:
        """Return the path of the file, usually a compressed one, None if the core is in the journal.

        :raises BadFile: if there is no such core, or its file is gone
        """
        path = self._ask("--field=COREDUMP_FILENAME").strip("\n").rpartition("\n")[2]
        if not path and self._refusal is not None:
            raise self._refusal  # the error of the list, because with --field there is no message
        if not path:
            return None
        if not Path(path).exists():
            raise BadFile(self._name, f"coredumpctl knows it, but {path} is not there", hint=_STATE_HINTS["missing"])
        return path

    def dump(self, limit: int, progress: Progress | None = None) -> Unpacked:
        """Return the core from ``coredumpctl dump``.

        :raises BadFile: if that fails, or the core has more than *limit* bytes
        """
        command = [self._program, "--no-pager", "--quiet", "dump", "--", *self._match]
        with closing(SparseFile(self._name, limit)) as out, tempfile.TemporaryFile() as errors:
            reader, writer = os.pipe()
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=writer, stderr=errors, env=_environment()
                )
            finally:
                os.close(writer)
            try:
                while piece := os.read(reader, _PIECE):
                    out.write(piece)
                    if progress is not None:
                        progress(f"reading {self._name}: {format_size(out.size)}")
                status = process.wait(_SECONDS)
            finally:
                os.close(reader)
                if process.poll() is None:
                    process.kill()
                    process.wait()
            if status or not out.size:
                errors.seek(0)
                lines = errors.read(1 << 16).decode("utf-8", "replace").strip().splitlines() or [f"status {status}"]
                raise BadFile(self._name, f"coredumpctl does not give it: {lines[-1]}", hint=_HOW_TO_FIND)
            return Unpacked(out.finish(), self.fault, None)


_STATE_HINTS = {
    "missing": "systemd removes old cores (systemd-tmpfiles, MaxUse= in coredump.conf); let the program fail once more",
    "none": "systemd-coredump is configured not to keep cores (Storage= in coredump.conf)",
    "error": "see `coredumpctl info`",
    "inaccessible": "become root or the owner of the core",
}


def _environment() -> dict[str, str]:
    # The environment in which coredumpctl runs: without colours and a pager, and with English messages, which users can
    # search for.
    return {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_LOG_LEVEL": "err"}
