"""Prints the processor time, in seconds, of one analysis without the start of Python: open a core, ask for its threads,
make JSON of the answer.
"""

from __future__ import annotations

import sys
import time

from ompd.inspection import Inspection
from ompd.render.json import format_answer


def main(core: str) -> None:
    """Analyse *core* once, in this fresh process, and print the seconds."""
    start = time.process_time()
    with Inspection.open_core(core) as session:
        format_answer("threads", session.ask_threads())
    print(time.process_time() - start)


if __name__ == "__main__":
    main(sys.argv[1])
