"""Core files: notes, the texts of ``/proc``, and writing a core file."""
