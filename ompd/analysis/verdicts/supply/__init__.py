"""Verdicts on what a process gets from its machine: processors, time on them, and room for threads.

They say why a program is slow, not why it hangs: threads that these verdicts explain go on.
"""

from __future__ import annotations
