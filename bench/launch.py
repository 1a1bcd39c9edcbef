"""Runs one command and prints what it cost: seconds, seconds of processor time, peak memory in KiB, blocks read from
disk, and its exit status.

A program of its own, run without ``site``, because the kernel counts the memory of the process that starts a command in
the command's peak: this one is smaller than anything that is measured.
"""

import os
import sys
import time


def main(words: list[str]) -> None:
    """Run the command *words*, its output thrown away, and print these numbers."""
    no_output = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    start = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=no_output)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss, used.ru_inblock, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
