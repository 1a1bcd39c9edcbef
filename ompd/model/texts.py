"""The text of answers for ``str()``. Printing is a layer above the records, so the module of sessions provides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

formatter: Callable[[Any], str] | None = None
"""Returns the text of an answer that a session gave; None if no session was opened."""
