"""The page of ``ompd triage -o``: it is complete, safe and readable for all targets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ompd.model.triage import FailedTarget, RankSet, TreeNode, TriageAnswer
from ompd.render.answers.triage import describe_triage, folded
from ompd.report.triage.jobs import draw_job
from ompd.report.triage.page import make_triage_page
from ompd.report.triage.ranks import draw_ranks, letter
from ompd.report.triage.sections import Names
from ompd.report.triage.tree import draw_tree
from ompd.triage.groups import Groups
from tests.support.command import ompd as command
from tests.support.html_page import Page
from tests.support.report_pages import core_of
from tests.support.triage_pages import JOB, of_job, result

WORST = "<script>alert(1)</script>\"'&<!--]]>\x00\x1b[31m\u202e\u2066\r\n</style></svg>"


def page_of(answer: TriageAnswer) -> Page:
    page = Page(make_triage_page(answer, ["ompd", "triage", "cores"], "2026-11-23"))
    assert page.faults == []
    return page


def nodes(*parents: int | None, threads: int = 1, targets: int = 1) -> list[TreeNode]:
    """Return a tree whose nodes have these callers; nodes are numbered from 1."""
    return [
        TreeNode(number, parent, f"f{number}", "a.c", number, None, targets, (), {"worker": threads}, {})
        for number, parent in enumerate(parents, 1)
    ]


def boxes(drawn: str | None) -> list[tuple[float, ...]]:
    assert drawn is not None
    found = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)
    return [tuple(map(float, each)) for each in found]


# Contents


def test_all_that_is_known_of_a_job_is_on_its_page() -> None:
    answer = of_job(40, failed=5, baseline=True)
    page = page_of(answer)
    assert "44 targets, 2 groups, 5 failed" in page.words and "2 NEW, 1 GONE" in page.words
    for row in answer.rows:
        assert row.summary in page.words and row.verdict in page.words and row.id in page.words
    # The page has all words of the text, in another layout.
    for line in describe_triage(answer, verbose=True):
        if "scratch" not in line and not line.startswith(("STACKS", "FAILED", "GONE")):
            assert all(word in page.words for word in re.findall(r"\w{4,}", line)), line
    assert "38 ranks [0-19,21-38] in MPI_Allreduce, for 2: [20,39]" in page.words
    titles = {picture["title"]: picture["desc"] for picture in page.pictures}
    assert titles[f"ranks of job {JOB}"] == "A: [20]; B: [0-19,21-38]; 1 rank not inspected"
    assert "in the end wait for ranks [20]: 7 threads wait" in titles[f"who waits for whom in job {JOB}"]
    assert titles["tree of all stacks, outermost function on top"] == "39 targets, 6 functions by their callers"
    assert "rank 20: A: 1 rank; what others wait for in the end: [20]" in page.text
    assert "rank 39: not inspected" in page.text


def test_without_ranks_and_without_an_answer_there_is_a_page() -> None:
    groups = Groups()
    groups.add(result(None, None, target="core.1"))
    page = page_of(groups.answer())
    assert "Ranks" not in page.words and "Failed" not in page.words and "1 target, 1 group" in page.words
    nothing = Groups()
    nothing.add({"target": "core.1", "failed": "core.1: is no core", "identity": None})
    assert "No group: no target has an answer." in (words := page_of(nothing.answer()).words) and "is no core" in words


def test_targets_have_their_names_without_the_folder_that_all_share() -> None:
    def short(*names: str) -> list[str]:
        answer = Groups().answer()
        shown = Names(replace(answer, failed=tuple(FailedTarget(name, "x") for name in names)))
        return [*map(shown.short, names)]

    assert short("/home/me/a/core.1", "/home/me/b/core.1") == ["a/core.1", "b/core.1"]
    assert short("/home/me/ab/core.1", "/home/me/ac/core.1") == ["ab/core.1", "ac/core.1"]
    assert short("/home/me/core.1", "/home/me/more/core.1") == ["core.1", "more/core.1"]
    assert short("farm/core.1") == ["core.1"] and short("core.1", "a/core.1") == ["core.1", "core.1"]
    assert short("n1:/tmp/core.1", "n2:/tmp/core.1") == ["n1:core.1", "n2:core.1"]
    assert short("4711", "coredumpctl:solver", "/x/core") == ["4711", "coredumpctl:solver", "core"]
    text = page_of(of_job(3, failed=2)).text
    assert "host0/core.1" in text and "/scratch" not in text and "/home" not in text


def test_whatever_a_name_is_it_is_text() -> None:
    groups = Groups()
    stack = {"frames": [[WORST, 0, 3, None, 2, WORST]], "threads": {WORST: 2}}
    call = {"routine": WORST, "link": "members", "rank": None, "world": True}
    for rank in range(3):
        groups.add(
            result(
                rank, 4, target=f"/{WORST}/core.{rank}{WORST}", verdict=WORST, summary=WORST, job=WORST, files=[WORST],
                stacks=[stack], mpi=[call] if rank else [],
            )
        )  # fmt: skip
    groups.add({"target": WORST, "failed": f"{WORST}: {WORST}", "identity": None})
    page = page_of(groups.answer([WORST]))
    assert page.elements["script"] == 1 and "alert(1)" in page.text and "\\x1b[31m\\u202e\\u2066" in page.text


# Large and small


@pytest.mark.parametrize("count", [1, 2, 39, 41, 1200, 1201, 9_999])
def test_a_map_has_a_cell_for_each_rank_or_for_as_many_as_have_room(count: int) -> None:
    answer = of_job(count + 1)
    drawn = draw_ranks(JOB, answer.rows, answer.jobs, "m")
    cells = boxes(drawn)
    assert drawn is not None and len(cells) == len(set(cells)) and len(cells) <= 1200
    assert len(cells) == count + 1 or count + 1 > 1200
    wide, high = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups())  # type: ignore[union-attr]
    assert all(x >= 0 and x + width <= wide and y + tall <= high for x, y, width, tall in cells)
    # The late rank is visible among any number of ranks.
    assert count == 1 or drawn.count(f">{letter(0)}<") == 1
    assert drawn.count(' root"') == sum(len(end.ranks) for end in answer.jobs[0].ends)


def test_a_rank_that_somebody_made_up_costs_no_more_than_another_one() -> None:
    groups = Groups()
    for rank in (0, 999_999_999):
        groups.add(result(rank, 999_999_999))
    # A job with every other rank; the missing half was not inspected.
    call = {"routine": "MPI_Send", "link": "peer", "rank": 3, "world": True}
    for rank in range(0, 2_000, 2):
        groups.add(result(rank, 500_000, job="a", mpi=[{**call, "rank": rank + 1}]))
    answer = groups.answer()
    assert len(answer.jobs[0].waits) > 900 and len(answer.jobs[0].ends) > 50
    drawn = draw_ranks(JOB, answer.rows, answer.jobs, "m")
    assert len(boxes(drawn)) <= 1200 and len(make_triage_page(answer, ["ompd"], "now")) < 500_000


def test_rare_boxes_of_the_tree_are_wide_enough_and_none_leaves_its_caller() -> None:
    rare, common = nodes(None, None, 1, 2, 2)[:1], nodes(None)
    rare = [replace(rare[0], threads={"worker": 1}), replace(common[0], id=2, threads={"worker": 100_000})]
    first, second = sorted(boxes(draw_tree(rare, 5000, "t")))
    assert first[2] > 80 and second[2] > 500 and first[0] + first[2] <= second[0]
    tree = nodes(None, 1, 1, 2, 2, 3, None, 7)
    drawn = boxes(draw_tree(tree, 8, "t"))
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, width, _ in drawn:
        rows.setdefault(y, []).append((x, x + width))
    (top, *others) = [sorted(rows[y]) for y in sorted(rows)]
    assert len(drawn) == len(tree) and len(top) == 2
    for upper, lower in zip([top, *others], others, strict=False):
        assert all(any(x >= left - 0.2 and end <= right + 0.2 for left, right in upper) for x, end in lower)
    assert draw_tree([], 0, "t") is None


def test_deep_and_wide_trees_have_bounds() -> None:
    deep = nodes(None, *range(1, 5000))
    wide = nodes(*[None] * 20_000)
    for tree in (deep, wide):
        drawn = draw_tree(tree, 20_000, "t")
        assert drawn is not None and len(drawn) < 1_500_000 and "not drawn" in drawn


def test_pages_of_very_many_targets_are_small() -> None:
    answer = of_job(5_000, failed=500)
    source = make_triage_page(answer, ["ompd"], "now")
    assert len(source.encode()) < 2_000_000 and "and 2998 more" in source
    page = Page(source)
    assert page.faults == [] and "host39/core.2500" in page.words and "[2500]" in page.words
    # With one group per target.
    groups = Groups()
    for rank in range(900):
        groups.add(result(rank, 900, verdict=f"laggard{rank}"))
    source = make_triage_page(groups.answer(), ["ompd"], "now")
    assert len(source.encode()) < 1_500_000 and "500 more groups of 500 targets" in source
    assert Page(source).faults == []


def test_boxes_of_ranks_are_those_of_the_job() -> None:
    (job,) = of_job(40).jobs
    drawn = draw_job(job, "j")
    assert drawn is not None and drawn.count('class="box root"') == len(job.ends) == 2
    assert f"ranks [{folded(job.ends[0].waiting)}]" in drawn and "in MPI_Allreduce" in drawn
    many = replace(job, ends=job.ends * 9, waits=job.waits * 30)
    drawn = draw_job(many, "j")
    assert drawn is not None and "12 more not drawn" in drawn and "25 more calls" in drawn
    assert draw_job(replace(job, ends=()), "j") is None
    circle = replace(job, ends=(replace(job.ends[0], kind="cycle", waiting=(), summary=None),))
    drawn = draw_job(circle, "j")
    assert drawn is not None and "wait for each other" in drawn and "marker-end" not in drawn


def test_letters_are_those_of_groups_and_each_once() -> None:
    found = [letter(number) for number in range(100)]
    assert (found[0], found[25], found[26]) == ("A", "Z", "A1") and len(set(found)) == 100
    rows = of_job(40).rows
    sets = (RankSet(None, (1, 2)), RankSet("b", (3,)))
    drawn = draw_ranks(None, [replace(rows[0], ranks=sets)], (), "m")
    assert len(boxes(drawn)) == 3 and draw_ranks("c", [replace(rows[0], ranks=sets)], (), "m") is None


# Command


def test_the_command_writes_a_page_beside_its_answer(tmp_path: Path) -> None:
    cores = [str(core_of(name)) for name in ("lock_cycle-two", "self_lock-lock")]
    file = tmp_path / "night.html"
    done = command("triage", "--json", *cores, tmp_path / "no such", "-o", file)
    assert done.code == 3 and "night.html: " in done.err
    answer: dict[str, Any] = json.loads(done.out)
    page = Page(file.read_text())
    assert page.faults == [] and "3 targets, 2 groups, 1 failed" in page.words
    assert all(row["summary"] in page.words and row["id"] in page.words for row in answer["triage"])
    earlier = tmp_path / "earlier.json"
    earlier.write_text(done.out)
    piped = command("triage", cores[0], "--baseline", earlier, "-o", "-")
    shown = Page(piped.out)
    assert piped.code == 0 and shown.faults == [] and "1 SAME, 1 GONE" in shown.words
    assert "--baseline earlier.json" in shown.words and str(tmp_path) not in shown.text
    (tmp_path / "-v").symlink_to(cores[0])
    named = command("triage", "-o", "-", "--", "-v", cwd=tmp_path)
    assert "ompd triage ./-v -o -" in Page(named.out).words


def test_what_a_page_may_not_replace_is_known_before_anything_is_inspected(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.write_text("")
    for words in (["-o", results, "--results", results], ["-o", results, results], ["-o", tmp_path / "no" / "x"]):
        done = command("triage", core_of("lock_cycle-two"), *words)
        assert done.code == 1 and done.out == "" and results.read_text() == ""
