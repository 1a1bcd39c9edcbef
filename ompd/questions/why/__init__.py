"""``why``: why threads do not go on. Collects the records of one stop; what follows from them is in ``analysis``."""

from __future__ import annotations

from ompd.questions.why.collect import collect as collect
from ompd.questions.why.looks import look_before as look_before
from ompd.questions.why.query import ask as ask
