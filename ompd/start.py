"""The installed command. It begins before anything slow is imported, so that Ctrl-C is quiet from then on."""

from __future__ import annotations

import sys
from typing import NoReturn

EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the ``ompd`` command with the arguments of the process, and end it."""
    try:
        from ompd.commands.main import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
