"""Run cases by hand.

python -m tests.crafted                     lists all cases
python -m tests.crafted NAME [COMMAND ...]  writes the cases called NAME..., runs their commands or those given, and
                                            prints the cost of each
python -m tests.crafted failed [NAME]       does the same, but prints only failures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.crafted.cases import Folder, Server, check, run_case
from tests.crafted.formats import CASES


def main() -> int:
    """Run the cases of the command line. Return 1 if a check failed."""
    if len(sys.argv) < 2:
        for name, case in CASES.items():
            print(f"{name:70} {', '.join(case.asked)}")
        return 0
    failed = 0
    server = Server()
    quiet = sys.argv[1] == "failed"
    wanted = "".join(sys.argv[2:3]) if quiet else sys.argv[1]
    for name in [name for name in CASES if name.startswith(wanted)]:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(Path(path) / "case")
            folder.path.mkdir()
            case.make(folder)
            Path(path).chmod(0o755)
            folder.give_away()
            for command in (not quiet and sys.argv[2:]) or case.asked:
                ran = run_case(server, case, folder, command)
                said = (ran.err or ran.out).strip().splitlines()
                line = (
                    f"{name} {command}: {ran.code} {ran.cpu:.2f} s, {(ran.held or 0) >> 20} MB,"
                    f" read {ran.read >> 10} KB of {folder.on_disk() >> 10}: {said[0][:150] if said else ''}"
                )
                try:
                    check(case, folder, command, ran)
                except AssertionError as error:
                    failed += 1
                    print(f"{line}\n  FAILED {str(error)[:400]}", flush=True)
                    if quiet:
                        break
                else:
                    if not quiet:
                        print(line, flush=True)
    server.close()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
