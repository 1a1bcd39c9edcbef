"""``profile``: where the time of a team goes. ``sampler`` takes moments, ``look`` is one of them, ``names`` finds the
names of what was seen, and ``query`` makes the answer.
"""

from __future__ import annotations

from ompd.questions.profile.query import RATE, SECONDS
from ompd.questions.profile.query import ask as ask

__all__ = ["RATE", "SECONDS", "ask"]
