"""Hooks for all tests. A missing tool skips the test; with ``OMPD_REQUIRE=all`` a required one fails it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from subprocess import CalledProcessError

import pytest

from ompd.debugger.targets.live import live
from tests.support import FULL, Missing, derived
from tests.support.machine import table
from tests.support.order import VARIABLE, chosen_seed, in_random_order
from tests.support.quick import is_run_of_named_tests, names_of_no_case, without_slow_cases
from tests.support.stub import plugin_folder

# No test reads cache entries that another test wrote.
os.environ["OMPD_CACHE"] = "off"
# No test reads the user's layout tables: this folder cannot exist.
os.environ["XDG_DATA_HOME"] = "/proc/no-such-folder"
# The stub's plugin is always this checkout's.
os.environ["OMPD_PLUGINS"] = str(plugin_folder())
# Without bytecode each debugger would compile its Python library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# On a busy machine threads get a processor late and stop late. tests/debugger/targets/test_stop_time_limits.py tests
# the length of stops.
USUAL_STOP_NS = live.DEFAULT_STOP_NS
live.DEFAULT_STOP_NS = 60_000_000_000
# A shell without job control makes its background processes ignore Ctrl-C. The programs that tests run would inherit
# this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ORDER = chosen_seed()
NAMES_OF_NO_CASE = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not FULL and not is_run_of_named_tests(config):
        config.stash[NAMES_OF_NO_CASE] = names_of_no_case(items)
        quick = without_slow_cases(items)
        config.hook.pytest_deselected(items=list(set(items).difference(quick)))
        items[:] = quick
    if ORDER:
        items[:] = in_random_order(items, ORDER)


def pytest_collection_finish() -> None:
    # Exempt the imported modules from garbage collection: the collector would spend a fifth of the tests' time on them.
    gc.collect()
    gc.freeze()
    if os.environ.get("PYTEST_XDIST_WORKER") and not FULL:
        # Ignore a missing core or a failed command: the tests themselves report it.
        with suppress(Missing, CalledProcessError):
            derived.use()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ORDER:
        terminalreporter.write_line(f"in random order; again with {VARIABLE}={ORDER}")


@contextmanager
def _missing_tools_skip() -> Iterator[None]:
    try:
        yield
    except Missing as missing:
        row = table().get(missing.tool)
        if os.environ.get("OMPD_REQUIRE") == "all" and row is not None and row.required and not missing.forbidden:
            pytest.fail(f"required and missing: {missing}", pytrace=False)
        pytest.skip(f"forbidden here: {missing}" if missing.forbidden else f"missing: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _missing_tools_skip():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _missing_tools_skip():
        result: object = yield
        # Sessions contain reference cycles: without collection a worker would keep all of them.
        assert gc.isenabled(), "the test left garbage collection disabled"
        return result


@pytest.fixture
def names_of_no_quick_case(request: pytest.FixtureRequest) -> set[str]:
    """The names in ``quick`` marks that match no case of the test."""
    names = request.config.stash.get(NAMES_OF_NO_CASE, None)
    if names is None:
        pytest.skip("all cases run, whatever the marks name")
    return names
