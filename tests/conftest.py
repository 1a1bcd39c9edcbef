"""For all tests: what a machine lacks skips a test by the tool's name, or fails it where everything must be there."""

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

# What one test left on disk must not answer another, and the user's own cache is no test's matter.
os.environ["OMPD_CACHE"] = "off"
# Nor are the user's own tables of layouts: there are none in a folder that is not there, nor can anyone make it.
os.environ["XDG_DATA_HOME"] = "/proc/no-such-folder"
# The stub's plugin is that of this checkout, whatever is installed.
os.environ["OMPD_PLUGINS"] = str(plugin_folder())
# Bytecode is kept: where the environment forbids it, each debugger that starts would compile its Python's library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A machine that is busy with other tests may give a program too late the processors that its threads need to stop on.
# How long a stop may last by itself is for tests/debugger/targets/test_stop_time_limits.py.
USUAL_STOP_NS = live.DEFAULT_STOP_NS
live.DEFAULT_STOP_NS = 60_000_000_000
# A shell without jobs has what it starts in the background ignore Ctrl-C, and every program of a test would, too.
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
    # What is there when tests begin stays. To look through it for cycles again and again takes a fifth of their time.
    gc.collect()
    gc.freeze()
    if os.environ.get("PYTEST_XDIST_WORKER") and not FULL:
        # Where no core can be made, or what is derived is wrong, tests derive all themselves, and say so.
        with suppress(Missing, CalledProcessError):
            derived.use(derived.derived())


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
        # Sessions are cycles: without collection a worker would keep all of them.
        assert gc.isenabled(), "the test left garbage collection disabled"
        return result


@pytest.fixture
def names_of_no_quick_case(request: pytest.FixtureRequest) -> set[str]:
    """What marks named ``quick`` name that no case of their test is called."""
    names = request.config.stash.get(NAMES_OF_NO_CASE, None)
    if names is None:
        pytest.skip("all cases run, whatever the marks name")
    return names
