"""``threads``: one row for each thread of the process. ``rows`` makes the rows, and ``waits`` finds their waits."""

from __future__ import annotations

from ompd.questions.threads.rows import ask as ask
