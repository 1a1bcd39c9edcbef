"""The public interface stays: the JSON Schemas in ``docs/schemas/`` are the code's, and the public names of
``docs/api.md`` exist and have docstrings.

``python -m tests.house.test_public`` writes the schemas anew, but never removes anything from a version of a schema.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from itertools import chain
from typing import Any

import pytest

import ompd
from ompd import errors, model
from ompd.inspection import Inspection
from ompd.lldb.control import LldbInspection
from ompd.render.schema import ROWS, format_schema
from tests.support.cache import CHECKOUT

DOCS = CHECKOUT / "docs"
SCHEMAS = DOCS / "schemas"
PAGE = (DOCS / "api.md").read_text()


def published(command: str) -> tuple[str, dict[str, Any]]:
    """Return the file name and the schema of a command's answers, without descriptions."""
    schema = json.loads(format_schema(command), object_hook=_without_words)
    version = schema["properties"]["schema"]["const"].rpartition("/")[2]
    return f"{command}-{version}.json", schema


def _without_words(value: dict[str, Any]) -> dict[str, Any]:
    # A member may also be called "description": its schema is an object, not a text.
    return {key: item for key, item in value.items() if key != "description" or not isinstance(item, str)}


def text_of(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def taken_away(old: Any, new: Any, where: str = "") -> list[str]:
    """Return the changes from schema *old* to *new* that break readers of *old*. Keys may be added."""
    if isinstance(old, dict) and isinstance(new, dict):
        is_open = where.endswith(("/properties", "/$defs"))
        missing = [f"{where}/{key}" for key in old if key not in new]
        added = [f"{where}/{key}" for key in new if key not in old and not is_open]
        common = (key for key in old if key in new)
        inside = (taken_away(old[key], new[key], f"{where}/{key}") for key in common)
        return [*missing, *added, *chain.from_iterable(inside)]
    if isinstance(old, list) and where.endswith("/required"):
        return [f"{where}: {name}" for name in old if name not in new]
    return [] if old == new else [where]


@pytest.mark.parametrize("command", ROWS)
def test_the_published_schema_is_that_of_the_code(command: str) -> None:
    name, schema = published(command)
    assert (SCHEMAS / name).read_text() == text_of(schema), "python -m tests.house.test_public"


def test_no_other_schema_is_published() -> None:
    # The file of an old version is removed when its answers need no longer be read.
    assert {path.name for path in SCHEMAS.iterdir()} == {published(command)[0] for command in ROWS}


def test_what_breaks_readers_is_noticed() -> None:
    _, old = published("threads")

    def changed(*path: str, value: Any = None) -> list[str]:
        new = json.loads(text_of(old))
        inner = new
        for key in path[:-1]:
            inner = inner[key]
        if value is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        return taken_away(old, new)

    row = ("$defs", "ThreadRecord")
    assert taken_away(old, old) == []
    assert changed(*row, "properties", "more", value={"type": "string"}) == []
    assert changed(*row, "required", value=[*old["$defs"]["ThreadRecord"]["required"], "more"]) == []
    assert changed(*row, "properties", "state") == ["/$defs/ThreadRecord/properties/state"]
    assert changed(*row, "required", value=[]) != []
    assert changed(*row, "properties", "failed", value={"type": "string"}) != []
    assert changed("properties", "complete") != []
    assert changed("$defs", "Place") == ["/$defs/Place"]


# Python


def test_public_functions_and_their_arguments_are_on_the_page() -> None:
    assert {"attach", "open_core"} <= set(ompd.__all__)
    for name in ompd.__all__:
        found = getattr(ompd, name)
        assert f"ompd.{name}" in PAGE
        if callable(found):
            assert inspect.getdoc(found)
            for parameter in list(inspect.signature(found).parameters)[1:]:
                assert f"{parameter}=" in PAGE, f"{name}({parameter})"


def test_public_methods_are_on_the_page() -> None:
    inherited = {"attach", "open_core"}  # also functions of the package
    queries = {name for name in dir(Inspection) if name.startswith("ask")} | {"snapshot", "close", "wait_until"}
    control = {name for name in vars(LldbInspection) if not name.startswith("_")} - set(dir(Inspection))
    assert len(queries) == 17 and control == {"continue_to", "events", "step_into_region"}
    for name in queries | control:
        assert f"{name}(" in PAGE, name
        assert inspect.getdoc(getattr(LldbInspection, name)), name
    assert inherited < set(dir(Inspection))


def test_names_that_the_page_calls_public_exist() -> None:
    section = PAGE.partition("## What is public")[2].partition("\n## ")[0]
    modules = re.findall(r"^\| `(ompd[.\w]*)` \|", section, re.MULTILINE)
    assert {"ompd", "ompd.errors", "ompd.model", "ompd.contract"} <= set(modules)
    for name in modules:
        assert importlib.import_module(name).__doc__, name
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.partition("\n## Errors")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(listed) > 5
    for name in listed:
        assert issubclass(getattr(errors, name), errors.OmpdError) and inspect.getdoc(getattr(errors, name)), name
    records = re.findall(r"`((?!NoAnswer)\w*(?:Record|Answer|Stats|Frame|Wait|Place))`", PAGE)
    assert all(inspect.getdoc(getattr(model, name)) for name in records) and len(set(records)) > 6


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for command in ROWS:
        name, schema = published(command)
        file = SCHEMAS / name
        faults = taken_away(json.loads(file.read_text()), schema) if file.exists() else []
        if faults:
            raise SystemExit(f"{name}: raise its version in ompd/render, because this changed: {', '.join(faults)}")
        file.write_text(text_of(schema))
