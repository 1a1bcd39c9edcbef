"""Of dear tests ``make test`` runs some cases: those of the table, each value first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.cache import CHECKOUT
from tests.support.thinning import chosen, counts, proposed

pytest_plugins = ("pytester",)


def test_what_the_table_names_is_there() -> None:
    for name in counts():
        file, _, function = name.partition("::")
        tree = ast.parse((CHECKOUT / "tests" / file).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_each_value_comes_first() -> None:
    cases = [(f"{one}-{other}", [("one", one), ("other", other)]) for one in "abc" for other in "xyz"]
    stay = [cases[at] for at in chosen(cases, 3)]
    assert {value for _, values in stay for value in values} == {value for _, values in cases for value in values}
    assert set(chosen(cases, 3)) < set(chosen(cases, 5)) and chosen(cases, 20) == list(range(9))


def test_which_stay_does_not_depend_on_the_order() -> None:
    cases = [(f"case-{number}", [("number", str(number))]) for number in range(50)]
    assert {cases[at][0] for at in chosen(cases, 7)} == {cases[::-1][at][0] for at in chosen(cases[::-1], 7)}


def test_a_named_test_is_run_whole(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from tests.support.thinning import is_chosen_by_name, thinned
        def pytest_collection_modifyitems(config, items):
            if not is_chosen_by_name(config):
                items[:], left = thinned(items, {"test_dear.py::test_it": 2})
                config.hook.pytest_deselected(items=left)
    """)
    pytester.makepyfile(
        test_dear="""
        import pytest
        @pytest.mark.parametrize("number", range(5))
        def test_it(number):
            assert number < 5
        def test_other():
            assert True
    """
    )
    ways = ((), ("test_dear.py::test_it",), ("-k", "test_it"))
    runs = [pytester.runpytest_inprocess("-p", "no:cacheprovider", *words).parseoutcomes() for words in ways]
    assert [(run["passed"], run.get("deselected", 0)) for run in runs] == [(3, 3), (5, 0), (5, 1)]


def test_rows_are_proposed_for_what_takes_long(tmp_path: Path) -> None:
    case = '<testcase classname="tests.unit.test_a" name="{}" time="{}"/>'
    cases = [case.format(f"test_dear[{number}]", 0.75) for number in range(8)]
    cases += [case.format("test_alone", 9), *[case.format(f"test_cheap[{number}]", 0.1) for number in range(9)]]
    (tmp_path / "report.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    assert proposed(tmp_path / "report.xml") == {"unit/test_a": {"test_dear": 2}}
