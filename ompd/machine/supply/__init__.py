"""What a live process gets from its machine, by files of ``/proc`` and of control groups. Nothing is stopped."""

from __future__ import annotations
