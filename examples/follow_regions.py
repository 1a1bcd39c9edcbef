"""Print the threads of every region as the program runs.

python examples/follow_regions.py PROGRAM [ARGUMENT ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import ompd
from ompd.errors import OmpdError


def main() -> None:
    with ompd.launch(sys.argv[1:]) as session:
        for event in session.events("parallel_begin", seconds=600):
            session.step_into_region()
            threads = {thread.native_thread_id: thread for thread in session.ask_threads().rows}
            regions = {region.id: region for region in session.ask_parallel().rows}
            region = regions[threads[event.native_thread_id].parallel]
            function = region.function
            where = f"{Path(function.file).name}:{function.line} " if function.file is not None else ""
            members = " ".join(str(thread) for thread in region.threads)
            print(f"{'   ' * (region.level - 1)}{where}{function.function}: {region.team_size} threads [{members}]")


if __name__ == "__main__":
    try:
        main()
    except OmpdError as error:
        sys.exit(f"{error}\n{error.hint}".rstrip())
