"""``ompd report``: its page is complete, safe and readable for every target."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.model import (
    Answer,
    ChildRecord,
    Link,
    OtherRanksRecord,
    ParallelRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    StackFrame,
    StackRecord,
    TargetRecord,
    TaskRecord,
    ThreadRecord,
    VariableAnswer,
    VariableRecord,
    VerdictRecord,
    Wait,
    WhyAnswer,
)
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.render.answers.why import headline, sentence
from ompd.report import histogram, icicle, svg, teams
from ompd.report.folders import Folders
from ompd.report.gather import PageAnswers, gather
from ompd.report.page import make_page
from ompd.report.states import WORDS, states_of
from ompd.report.waits import draw_waits
from ompd.session import Session
from tests.support import stopped
from tests.support.command import ompd as command
from tests.support.html_page import Page
from tests.support.live import build_live, working
from tests.support.picture import CORE, PICTURE, make_picture
from tests.support.report_pages import OF_KIND, core_of, large, source_of
from tests.support.why import WHYS, hung

WORST = "<script>alert(1)</script>\"'&<!--]]>\x00\x1b[31m\u202e\u2066\r\n</style></svg>"


def page_of(found: PageAnswers) -> Page:
    return Page(source_of(found))


def found_of(core: Path, *names: str, **options: Any) -> PageAnswers:
    with Session.open_core(core) as session:
        return gather(session, names, **options)


# Contents of the page


@pytest.mark.parametrize("name", OF_KIND.values())
@pytest.mark.quick(
    "duplicate_runtimes-mutex",
    "lost_wakeup-lock",
    "runtime_reentry-section",
    "taskwait_starved-semaphore",
    "laggard-barrier",
    "event_unfulfilled-taskwait",
)
def test_each_verdict_has_its_page(name: str) -> None:
    found = found_of(core_of(name))
    page = page_of(found)
    assert page.faults == []
    assert found.why is not None
    for verdict in found.why.rows[:3]:
        assert " ".join(sentence(headline(verdict)).split()) in page.words
        assert all(" ".join(sentence(text).split()) in page.words for text in verdict.advice)
    drawn = [picture for picture in page.pictures if "wait-for graph" in picture["title"]]
    assert len(drawn) == sum(bool(verdict.cycle) for verdict in found.why.rows[:12])
    for row in found.threads.rows if found.threads is not None else ():
        assert str(row.native_thread_id) in page.words


def test_the_page_has_what_the_commands_say() -> None:
    core = stopped("nested").core
    page = page_of(found_of(core))
    assert page.faults == []
    for words in ("nested.c:9 innermost", "3 x parallel nested.c:31 main", "implicit task nested.c:27 main"):
        assert words in page.words, words
    (strips,) = [picture["desc"] for picture in page.pictures if picture["title"].startswith("teams")]
    assert "level 1: 3 threads, parallel nested.c:27 main" in strips
    assert "level 3: 2 threads, parallel nested.c:9 innermost" in strips


def test_missing_threads_are_told_apart_from_those_that_arrived() -> None:
    core = stopped("hang")
    page = page_of(found_of(core.core))
    (strips,) = [picture["desc"] for picture in page.pictures if picture["title"].startswith("teams")]
    assert f"3 {WORDS['arrived']}, 1 {WORDS['waits']}" in strips
    assert "hang.c:39 report_progress" in page.words


def test_child_processes_and_other_ranks_are_named() -> None:
    found = large(20)
    assert found.why is not None
    child = ChildRecord(77, "solve", VerdictKind.SELF_LOCK, Confidence.PROVEN, f"thread 1 waits {WORST}")
    ranks = OtherRanksRecord(1, 1, (replace(child, process_id=78, rank=5),))
    page = page_of(replace(found, why=replace(found.why, children=(child,), other_ranks=ranks)))
    assert page.faults == []
    assert "Child process 77 (solve): thread 1 waits" in page.words and "Rank 5, process 78" in page.words


def test_variables_and_environment_are_there_on_request_alone() -> None:
    core = stopped("hang", env={"SECRET_OF_MINE": "hunter2"}).core
    without, with_both = found_of(core), found_of(core, "last_change", "no_such", has_environment=True)
    text = page_of(without).text
    assert "hunter2" not in text and "last_change   double" not in text
    page = page_of(with_both)
    assert "hunter2" in page.text and "last_change   double" in page.text and page.faults == []
    assert "no_such" in with_both.faults and "no_such" in page.text


def test_lines_of_source_are_left_out_on_request(tmp_path: Path) -> None:
    core = stopped("hang").core
    for words, is_there in (((), True), (("--no-source",), False)):
        assert command("report", core, "-o", tmp_path / "a.html", *words).code == 0
        assert ("#pragma omp barrier" in Page((tmp_path / "a.html").read_text()).text) is is_there


def test_values_that_decide_a_branch_are_left_out() -> None:
    core = hung(WHYS["barrier_mismatch-branch"], "gcc", "libgomp").core
    found = found_of(Path(str(core)))
    assert found.why is not None
    variables = [variable for verdict in found.why.rows for variable in verdict.variables if variable.is_read]
    assert variables and "whose values are left out here" in page_of(found).words


def test_several_verdicts_are_told_apart_and_the_heading_says_no_more_than_they_do() -> None:
    found = large(20)
    assert found.why is not None
    (verdict,) = found.why.rows
    rows = (verdict, replace(verdict, stuck=Confidence.LIKELY), verdict)
    several = page_of(replace(found, why=replace(found.why, rows=rows)))
    assert several.faults == [] and "Why it does not go on" in several.words
    assert (
        several.elements["article"] == 3 and 'aria-label="picture of verdict 3: who waits for whom"' in several.source
    )
    # If a program may go on, the page does not claim that it hangs.
    assert verdict.stuck == "unknown" and "Whether it hangs" in page_of(found).words


def test_folders_are_no_part_of_the_page(tmp_path: Path) -> None:
    core = stopped("hang").core
    cut = tmp_path / "a folder (mine)" / "core.cut"
    cut.parent.mkdir()
    cut.write_bytes(core.read_bytes()[: core.stat().st_size * 7 // 10])
    for each in (core, cut):
        text = Page(make_page(found_of(each), ["ompd", "report", each.name], "now")).text
        # Messages on damage name the file without its folder, too.
        assert each.name in text and ("cut off" in text) == (each is cut)
        assert str(each.parent) not in text and "folder (mine)" not in text and str(Path.home()) not in text
        assert re.findall(r"(?<![\w./-])/[\w.-]+/[^\s]*", text) == []


def test_files_have_their_names_alone() -> None:
    known = Folders(["/home/me/my project, 2/core", "/home/me/x", None, "core", "/"])
    for text, expected in (
        ("/home/me/my project, 2/core: cut off", "core: cut off"),
        (
            "cannot read /usr/lib/x86_64/libgomp.so.1 (no build-id), /etc/a b",
            "cannot read libgomp.so.1 (no build-id), a b",
        ),
        ("1/4 arrived, 7/8", "1/4 arrived, 7/8"),
        ("at https://example.org/a/b", "at https://example.org/a/b"),
        ("a - / b /", "a - / b /"),
    ):
        assert known.without(text) == expected


@pytest.mark.parametrize("keep", [0.35, 0.7, 0.95])
@pytest.mark.quick("0.7")
def test_a_core_that_is_cut_off_has_a_page_that_says_so(keep: float, tmp_path: Path) -> None:
    whole = stopped("hang").core.read_bytes()
    core = tmp_path / "core.cut"
    core.write_bytes(whole[: int(len(whole) * keep)])
    done = command("report", core, "-o", tmp_path / "cut.html")
    assert done.code == 3, done.err
    page = Page((tmp_path / "cut.html").read_text())
    assert page.faults == [] and "Parts could not be read" in page.words and "cut off" in page.words


# Names are data


def hostile() -> PageAnswers:
    place = Place(0x10, WORST, WORST, 3, unproven=WORST)
    function = RegionFunction(0x10, WORST, WORST, 4, WORST)
    target = TargetRecord("core", f"/x/{WORST}", WORST, 1, WORST, 6, WORST, WORST, 2, WORST)
    runtime = RuntimeRecord(WORST, "libgomp", WORST, WORST, None, WORST, (WORST,), None, unavailable={"keeps": WORST})
    wait = Wait(Kind.LOCK, 1, WORST)
    threads = [
        ThreadRecord(
            runtime=WORST, thread_num=n, team_size=2, level=1, native_thread_id=n + 7, thread_type=WORST, state=WORST,
            wait=wait, where=place, parallel=WORST, unavailable={WORST: WORST},
        )
        for n in range(2)
    ]  # fmt: skip
    region = ParallelRecord(WORST, WORST, 1, 1, 2, None, function, (7, 8))
    task = TaskRecord(WORST, WORST, WORST, 7, None, None, WORST, function, None, None, WORST)
    frame = StackFrame(WORST, WORST, 5, 0x10, None, "user", None, 7, module=WORST)
    stack = StackRecord(7, WORST, 0, 2, 1, WORST, False, WORST, WORST, (frame,), (7,), (0,))
    links = tuple(Link(n + 7, (n + 7,), WORST, Kind.LOCK, place, WORST, n) for n in range(3))
    verdict = VerdictRecord(
        kind=VerdictKind.LAGGARD, stuck=Confidence.LIKELY, confidence=Confidence.LIKELY, summary=WORST,
        cycle=links, unknowns=(WORST,), what_if=WORST,
        next_step=WORST, place=place, branch=place, branch_calls=(WORST,), stacks=(stack,),
    )  # fmt: skip
    variable = VariableRecord(native_thread_id=7, name=WORST, module=WORST, type=WORST, value=WORST, text=WORST)

    def answer(*rows: Any) -> Answer[Any]:
        return Answer(target, (runtime,), rows, False, (WORST,))

    return PageAnswers(
        runtimes=answer(runtime),
        threads=answer(*threads),
        regions=answer(region),
        tasks=answer(task),
        icvs=answer(),
        stacks=answer(stack),
        why=WhyAnswer(target, (runtime,), (verdict,), False, (WORST,)),
        variables={WORST: ompd_variables(target, runtime, variable)},
        environment={WORST: WORST},
        modules=[(WORST, WORST)],
        faults={WORST: WORST},
    )


def ompd_variables(target: TargetRecord, runtime: RuntimeRecord, row: VariableRecord) -> Any:
    return VariableAnswer(target, (runtime,), (row,), True, ())


def test_whatever_a_name_is_it_is_text() -> None:
    page = page_of(hostile())
    assert page.faults == []
    assert page.elements["script"] == 1 and "alert(1)" in page.text
    shown = "<script>alert(1)</script>\"'&<!--]]>\\x00\\x1b[31m\\u202e\\u2066\\r\\n"
    assert page.text.count(shown) > 20
    # The page with harmless names has the same elements: no part of a name has become one.
    assert "\x00" not in page.source and "\u202e" not in page.source


def test_the_check_of_pages_finds_what_is_wrong() -> None:
    good = make_page(found_of(stopped("hang").core), ["ompd"], "now")
    assert Page(good).faults == []
    for old, new in (
        ("</main>", ""),
        ("<main>", '<main onclick="x">'),
        ("<main>", "<main><img src='http://x/y.png'>"),
        ("<main>", "<main><script>1</script>"),
        ("<main>", "<main>\u202e"),
        ("<main>", '<main id="why">'),
        ('role="img"', ""),
        ("default-src &#39;none&#39;", "default-src *"),
        ('href="#made"', 'href="#mode"'),
    ):
        assert old in good and Page(good.replace(old, new, 1)).faults, (old, new)


# Large and small


@pytest.mark.parametrize("count", [2, 200, 10_000])
@pytest.mark.quick("200", "10000")
def test_the_page_of_many_threads_is_small_and_still_shows_the_one(count: int) -> None:
    count = max(count, 18)
    source = make_page(large(count), ["ompd"], "now")
    assert len(source.encode()) < 5_000_000 / 10
    page = Page(source)
    assert page.faults == [] and f"{svg.TIMES}{count - 1} threads" in page.words
    assert f"thread 17: {WORDS['missing']}" in page.text
    assert page.elements["rect"] < 6000


def test_deep_and_wide_ones_have_bounds() -> None:
    frames = tuple(StackFrame("f", "a.c", 1, 1, None, "user", None, 1) for _ in range(20_000))
    one = StackRecord(1, "libgomp", 0, 1, 1, "0x1", False, "derived", None, frames, (1,), (0,))
    several = [replace(one, frames=(replace(frames[0], function=f"f{n}"),), threads=(n,)) for n in range(9000)]
    for rows in ([one], several):
        drawn = icicle.draw_icicle(rows, {}, "x")
        assert drawn is not None and len(drawn) < 1_500_000 and "drawn" in drawn
    regions = [
        ParallelRecord(f"{n}", "libgomp", n + 1, 1, 1, str(n - 1) if n else None, None, (n,)) for n in range(3000)
    ]
    drawn = teams.draw_teams(
        regions, [ThreadRecord(native_thread_id=n, thread_type=None) for n in range(3000)], {}, "x"
    )
    assert drawn is not None and "more teams not drawn" in drawn
    # Drawing ends even for regions that enclose each other in a damaged core.
    circle = [replace(regions[0], id="a", enclosing="b"), replace(regions[0], id="b", enclosing="a")]
    assert teams.draw_teams(circle, [], {}, "x") is None


TELEPHONE = 300
"""The room for a picture in a verdict, on a page that is 360 pixels wide."""


def test_waits_go_from_top_to_bottom_in_the_width_of_a_telephone() -> None:
    names = "std::map<std::string, std::vector<std::pair<int, double>>>::" * 40
    place = Place(0x10, f"{names}find", "/src/solver/a_file_with_a_long_name.cc", 1234)
    for count in (1, 2, 3, 7, 12, 13, 40):
        links = tuple(Link(n, (n,), f"&lock_{n} {names}", Kind.LOCK, place, "held_by", n) for n in range(count))
        verdict = VerdictRecord(
            kind=VerdictKind.LOCK_CYCLE, stuck=Confidence.PROVEN, confidence=Confidence.PROVEN, summary="", cycle=links
        )
        for last in (links[-1], replace(links[-1], holder=None)):
            # All depend on the thread of the last link.
            drawn = draw_waits(replace(verdict, cycle=(*links[:-1], last), roots=(count - 1,)), "x")
            assert drawn is not None
            boxes = re.findall(r'<rect x="8" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)
            assert len(boxes) == min(count, 12) and drawn.count('class="box root"') == 1
            assert f">thread {count - 1} ({count - 1})<" in drawn
            wide, high = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)', drawn)[0])
            assert wide <= TELEPHONE
            edges = [(float(y), float(y) + float(tall)) for y, _, tall in boxes]
            assert all(below > lower for (_, lower), (below, _) in pairwise(edges)) and edges[-1][1] < high
            assert all(8 + float(width) <= wide for _, width, _ in boxes)
            assert drawn.count('class="arrow"') == len(boxes) - (last.holder is None)
            assert ("28 more links" in drawn) is (count == 40)
    assert draw_waits(replace(verdict, cycle=()), "x") is None


def test_a_histogram_is_of_numbers_and_marks_outliers() -> None:
    def rows(*values: Any) -> list[VariableRecord]:
        return [
            VariableRecord(native_thread_id=n, name="x", module="m", value=value, outlier=value == 1000)
            for n, value in enumerate(values)
        ]

    drawn = histogram.draw_histogram(rows(*[7] * 9, 8, 1000), "x", "h")
    assert drawn is not None and "outlier" in drawn and "*" in drawn and "histogram of x" in drawn
    assert histogram.draw_histogram(rows(2**60, str(2**70), -5), "x", "h") is not None
    for values in ((), (7, 7), ("a", None), (True, False), ("NaN", "Infinity"), (1.0, float("inf"))):
        assert histogram.draw_histogram(rows(*values), "x", "h") is None, values
    assert histogram.draw_histogram(rows(-1.7e308, 1.7e308, "9" * 400), "x", "h") is None


def test_states_are_those_of_the_picture() -> None:
    rows = [
        ThreadRecord(
            native_thread_id=1, thread_type=None, state="wait_barrier", wait=Wait(Kind.BARRIER, missing=(2, 4))
        ),
        ThreadRecord(native_thread_id=2, thread_type=None, state="wait_lock", wait=Wait(Kind.LOCK)),
        ThreadRecord(native_thread_id=3, thread_type=None, state="wait_lock", wait=Wait(Kind.LOCK)),
        ThreadRecord(native_thread_id=4, thread_type=None, state="work_parallel"),
        ThreadRecord(native_thread_id=5, thread_type=None, state="idle"),
        ThreadRecord(native_thread_id=6, thread_type=None),
    ]
    assert list(states_of(rows).values()) == ["arrived", "waits", "waits", "missing", "idle", "unknown"]


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted([_luminance(one), _luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_texts_can_be_read_on_what_is_behind_them() -> None:
    # WCAG 2 demands 4.5 to 1 for texts of this size. The browser's own check is in test_report_browser.py.
    style = (files("ompd.report") / "page" / "style.css").read_text(encoding="utf-8")
    given = [dict(re.findall(r"--(\w+): (#\w+)", rules)) for rules in re.findall(r":root \{(.*?)\}", style, re.DOTALL)]
    light, *others = given
    assert len(others) == 2 and all(light.keys() >= other.keys() for other in others)
    for colours in (light, *({**light, **other} for other in others)):
        for text in ("ink", "soft", "link", "bad"):
            for ground in ("page", "box"):
                assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for state in ("mixed", *WORDS):
            assert _contrast(colours["on"], colours[state]) >= 4.5, state


# Command


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    core = stopped("hang").core
    file = tmp_path / "hang.html"
    done = command("report", core, "-o", file, "--var", "last_change")
    assert done.code == 0 and done.out == "" and "5 threads" in done.err
    page = Page(file.read_text())
    assert page.faults == [] and "--var last_change" in page.words and ompd.__version__ in page.words
    piped = command("report", core, "-o", "-", "--date", "today")
    assert piped.code == 0 and "today" in Page(piped.out).words
    assert command("report", core).code == 2
    (tmp_path / "-v").symlink_to(core)
    named = command("report", "-o", "-", "--", "-v", cwd=tmp_path)
    assert named.code == 0 and "ompd report ./-v -o -" in Page(named.out).words
    copy = tmp_path / "core.copy"
    copy.write_bytes(core.read_bytes())
    itself = command("report", copy, "-o", copy)
    assert itself.code == 1 and "would be about" in itself.err and copy.read_bytes() == core.read_bytes()
    refused = command("report", core, "-o", tmp_path / "no" / "x.html")
    assert refused.code == 1 and "x.html" in refused.err


def test_a_live_process_has_a_page_and_is_let_go(tmp_path: Path) -> None:
    build_live("busy")
    with working("busy", "4") as worker:
        done = command("report", str(worker.pid), "-o", tmp_path / "a.html", "--max-stop", "5000")
        assert done.code == 0, done.err
        worker.finish()
    page = Page((tmp_path / "a.html").read_text())
    assert page.faults == [] and "stopped for" in page.words


def test_the_picture_of_readme_is_what_the_report_draws_of_the_kept_snapshot() -> None:
    drawn = make_picture()
    assert drawn == PICTURE.read_text(encoding="utf-8"), "make picture"
    assert all(words in drawn for words in ("waits for &amp;progress_lock", "hang.c:59 simulate", "level 1: 4 threads"))
    assert CORE.stat().st_size < 300_000
