"""The main job, as `make demo` shows it: a real program hangs, and `ompd` gives the true reason from its core."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.support import clean_environment, require
from tests.support.demo import OMPD, SOURCE, build, line_with, show, take_core


def ask(command: str, core: Path) -> dict[str, object]:
    run = subprocess.run(
        [str(OMPD), command, "--json", str(core)], capture_output=True, check=True, env=clean_environment()
    )
    answer = json.loads(run.stdout)
    assert answer["complete"] and answer["warnings"] == []
    return answer


def test_a_hung_program_tells_why_it_hangs(tmp_path: Path) -> None:
    require("gcc")
    core = take_core(build(tmp_path), tmp_path)
    core = core.rename(tmp_path / "core.1234")
    print(f"\n{SOURCE.name} was built with gcc -g -fopenmp, hangs, and left a core.\n")
    print(show(f"threads {core.name}", tmp_path))
    print(
        "Look at WAITS FOR: three threads wait in a barrier for the fourth, which waits for a lock.\n"
        f"Nobody is left to release it: line {line_with('lock stays set')} returned without doing so.\n"
    )
    print(show(f"parallel {core.name}", tmp_path))
    print("Look at the region: it is where the four threads, by their native ids, were sent to work.\n")

    print(show(f"stack {core.name} --fold", tmp_path))
    print("Look at the thread that waits for the lock: its stack goes on in the one that sent it there, out to main.\n")

    print(show(f"why {core.name}", tmp_path))
    print("Look at the first line: it is the reason, and below are the proof and the line to look at.\n")

    threads = ask("threads", core)["threads"]
    assert isinstance(threads, list) and len(threads) == 4
    lock, barrier = line_with("omp_set_lock(&progress_lock)"), line_with("#pragma omp barrier")
    waiting_for_lock = [t for t in threads if t["where"]["function"] == "report_progress"]
    assert [(t["where"]["line"], t["state"], t["wait"]["kind"]) for t in waiting_for_lock] == [
        (lock, "wait_lock", "lock")
    ]
    others = [t for t in threads if t not in waiting_for_lock]
    assert {(t["where"]["function"], t["where"]["line"], t["wait"]["kind"]) for t in others} == {
        ("simulate", barrier, "barrier")
    }
    assert sorted(t["thread_num"] for t in threads) == [0, 1, 2, 3]

    (region,) = ask("parallel", core)["parallel"]  # type: ignore[misc]
    assert region["function"]["function"] == "simulate"
    assert region["function"]["line"] == line_with("#pragma omp parallel")
    assert (region["level"], region["team_size"], region["enclosing"]) == (1, 4, None)
    assert region["threads"] == [t["native_thread_id"] for t in sorted(threads, key=lambda t: t["thread_num"])]

    stacks = ask("stack", core)["stack"]
    assert isinstance(stacks, list) and len(stacks) == 4
    (stuck,) = (s for s in stacks if s["native_thread_id"] == waiting_for_lock[0]["native_thread_id"])
    written = [(f["function"], f["line"]) for f in stuck["frames"] if f["kind"] == "user"]
    parallel, call = line_with("#pragma omp parallel"), line_with("CALL(simulate())")
    assert written == [
        ("report_progress", lock),
        ("simulate", line_with("CALL(report_progress(change))")),
        ("simulate", parallel),
        ("main", call),
    ]

    verdict, *others = ask("why", core)["why"]  # type: ignore[misc]
    assert not others and (verdict["kind"], verdict["stuck"]) == ("lock_abandoned", "proven")
    assert verdict["roots"] == [waiting_for_lock[0]["native_thread_id"]]
    assert sorted(verdict["explains"]) == sorted(t["native_thread_id"] for t in threads)
    assert (verdict["place"]["function"], verdict["place"]["line"]) == ("report_progress", lock)
    assert [(link["where"]["line"], len(link["threads"])) for link in verdict["cycle"]] == [(barrier, 3), (lock, 1)]
    assert verdict["cycle"][-1]["object"] == "&progress_lock"
    shutil.rmtree(tmp_path)
