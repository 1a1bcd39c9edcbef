"""Functions and commands that tables name by ``module:name``: they are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Return what ``module:name`` names, after importing its module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
