"""Imports functions and commands on demand, which tables name by ``module:name``."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Return the object that *place*, a ``module:name``, names, and import its module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
