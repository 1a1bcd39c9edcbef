"""``threads``: one row for each thread of the process. ``rows`` makes it; ``waits`` is what the thread waits for."""

from __future__ import annotations

from ompd.questions.threads.rows import ask as ask
