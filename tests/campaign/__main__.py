"""``make real``: ask ``ompd`` about third-party programs at random moments, and judge its answers by laws.

    python -m tests.campaign [--programs FOLDER] [--samples N | --time SECONDS] [--seed SEED] [--runtimes NAME,NAME]

FOLDER holds the unpacked projects that ``tests/campaign/programs.py`` names. Without it, programs of registries are
run; if there are none, the project's own. Each broken law is kept in ``.cache/real/finds-SEED``, with the command that
shows it again.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.campaign import page
from tests.campaign.campaign import Campaign
from tests.campaign.finds import Finds
from tests.campaign.kinds import MOMENTS
from tests.campaign.programs import KINDS, Built, built
from tests.support.live import build_live
from tests.support.machine import Missing

EXIT_INTERRUPTED = 130
CACHE = Path(__file__).parents[2] / ".cache" / "real"


def own_programs(runtimes: Sequence[str]) -> Iterator[Built]:
    """Yield one of the project's own programs on each of *runtimes*. Each runs until it is ended."""
    for runtime in runtimes:
        try:
            file = build_live("busy", runtime=runtime)
        except Missing as missing:
            print(f"not here: {missing}", file=sys.stderr)
            continue
        words = (str(file), "4", "2000")
        yield Built("busy", runtime, "gcc", "O1g", words, {}, lambda status, _: f"{status}" if status else None, file)


def programs(
    folder: Path | None, into: Path, names: Sequence[str] | None, runtimes: Sequence[str], most: int | None = None
) -> list[Built]:
    """Return the programs to run: third-party ones if available, else the project's own.

    :param most: the maximum number of programs to build
    """
    found: list[Built] = []
    try:
        for program in built(folder, into, names, runtimes):
            found.append(program)
            if len(found) == most:
                break
    except Missing as missing:
        print(f"not here: {missing}", file=sys.stderr)
    return found or list(own_programs(runtimes))


def run(
    campaign: Campaign,
    there: list[Built],
    samples: int,
    seconds: float | None,
    chance: random.Random,
    seen: Callable[[], None],
) -> None:
    """Take *samples* samples of each kind from each program, or sample for *seconds*.

    :param seen: called after each program, to save its results in case the campaign is ended
    """
    end = time.monotonic() + seconds if seconds is not None else None
    while there:
        chance.shuffle(there)
        for program in there:
            campaign.sample(program, samples, end)
            seen()
            if end is not None and time.monotonic() > end:
                return
        if end is None:
            return


def main() -> int:
    """Run a campaign. Return 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", type=Path, help="the folder that holds some, unpacked")
    parser.add_argument("--names", help="only programs of these names, with commas between them")
    parser.add_argument("--runtimes", default=",".join(KINDS))
    parser.add_argument("--moments", default=",".join(MOMENTS), help="what is done to a program at a moment")
    parser.add_argument("--samples", type=int, default=4, help="moments of each kind of each program")
    parser.add_argument("--time", type=float, help="go on for so many seconds, and begin no sample after them")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--into", type=Path, default=CACHE, help="where programs and finds are kept")
    parser.add_argument("--write", action="store_true", help="write what was seen into docs/dev/campaign.md")
    given = parser.parse_args()
    # Programs run in folders of their own.
    given.into, given.programs = given.into.resolve(), given.programs and given.programs.resolve()
    print(f"seed {given.seed}", flush=True)
    chance = random.Random(given.seed)
    names = given.names.split(",") if given.names is not None else None
    there = programs(given.programs, given.into, names, given.runtimes.split(","))
    campaign = Campaign(
        Finds(given.into / f"finds-{given.seed}", given.seed), given.into, chance, given.moments.split(",")
    )

    def keep() -> None:
        page.keep(campaign.results(given.seed), given.into / f"seen-{given.seed}.json")

    # When the campaign is terminated, end its programs and save and report its results.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_INTERRUPTED))
    try:
        run(campaign, there, given.samples, given.time, chance, keep)
    finally:
        keep()
        seen = campaign.results(given.seed)
        page.report(seen)
        if given.write:
            page.write([seen])
    return 1 if campaign.is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
