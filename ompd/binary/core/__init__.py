"""Core files: notes, the records of ``/proc`` in them, and how one is written."""
