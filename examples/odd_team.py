"""Stop when a team of other than N threads forms, and show what every thread does then.

python examples/odd_team.py N PROGRAM [ARGUMENT ...]
"""

from __future__ import annotations

import sys

import ompd
from ompd.errors import OmpdError


def main() -> int:
    expected, program = int(sys.argv[1]), sys.argv[2:]
    with ompd.launch(program) as session:
        for event in session.events("parallel_begin"):
            # The runtime is about to begin the region. Its primary thread, which came here, knows it once it is inside.
            session.step_into_region()
            threads = {thread.native_thread_id: thread for thread in session.ask_threads().rows}
            primary = threads[event.native_thread_id]
            if primary.team_size == expected:
                continue
            print(f"a team of {primary.team_size} threads at level {primary.level} in {primary.where.function}")
            for thread in threads.values():
                print(f"  thread {thread.native_thread_id}: {thread.thread_num}/{thread.team_size} {thread.state}")
            return 1
    print(f"every team had {expected} threads")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OmpdError as error:
        sys.exit(f"{error}\n{error.hint}".rstrip())
